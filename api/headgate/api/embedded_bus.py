"""The bus inside the API's process: a ZeroMQ proxy on the usual or on free ports."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.zeromq.curve import CurveKeys
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy
from headgate.agent.errors import BusUnavailable
from headgate.agent.json_place import Json
from headgate.api.settings import USUAL_BUS_PORTS

_NO_KEYS = CurveKeys(proxy={}, agents={})


@contextmanager
def embedded_bus(
    *, host: str, ports: tuple[int, int] | None, keys: Path | None = None
) -> Generator[BusSettings]:
    """Carry reports between agents until the end of the block.

    Args:
        host: Address to bind to.
        ports: Ports for reports in and for reports out (0: a free one); None for
            the usual ones or, if one of them is taken, free ones.
        keys: Folder of CURVE keys; None for a bus without keys.

    Raises:
        BusUnavailable: A given port is taken, or the keys can't be read.
    """
    known = _NO_KEYS if keys is None else CurveKeys.read(keys)
    with _proxy(host, ports, known.proxy) as proxy:
        yield BusSettings(
            kind="zeromq",
            publish=(proxy.publish_address,),
            subscribe=(proxy.subscribe_address,),
            options=known.agents,
        )


def _proxy(
    host: str, ports: tuple[int, int] | None, options: Mapping[str, Json]
) -> ZeroMQProxy:
    try:
        return _bound(host, ports or USUAL_BUS_PORTS, options)
    except BusUnavailable:
        if ports is not None:
            raise
        return _bound(host, (0, 0), options)


def _bound(
    host: str, ports: tuple[int, int], options: Mapping[str, Json]
) -> ZeroMQProxy:
    address = f"[{host}]" if ":" in host else host
    publish, subscribe = (f"tcp://{address}:{port or '*'}" for port in ports)
    return ZeroMQProxy(publish=publish, subscribe=subscribe, options=options)
