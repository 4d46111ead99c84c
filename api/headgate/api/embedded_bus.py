"""The bus inside the API's process: a ZeroMQ proxy on the usual or on free ports."""

from collections.abc import Generator
from contextlib import contextmanager

from headgate.agent.bus import BusSettings
from headgate.agent.bus_proxy import ZeroMQProxy
from headgate.agent.errors import BusUnavailable
from headgate.api.settings import USUAL_BUS_PORTS


@contextmanager
def embedded_bus(*, host: str, ports: tuple[int, int] | None) -> Generator[BusSettings]:
    """Carry reports between agents until the end of the block.

    Args:
        host: Address to bind to.
        ports: Where to take and where to hand out (0: a free one); None for the
            usual ones or, when one of them is taken, free ones.

    Raises:
        BusUnavailable: A given port is taken.
    """
    with _proxy(host, ports) as proxy:
        yield BusSettings(
            kind="zeromq",
            publish=(proxy.publish_address,),
            subscribe=(proxy.subscribe_address,),
        )


def _proxy(host: str, ports: tuple[int, int] | None) -> ZeroMQProxy:
    try:
        return _bound(host, *(ports or USUAL_BUS_PORTS))
    except BusUnavailable:
        if ports is not None:
            raise
        return _bound(host, 0, 0)


def _bound(host: str, publish: int, subscribe: int) -> ZeroMQProxy:
    address = f"[{host}]" if ":" in host else host
    return ZeroMQProxy(
        publish=f"tcp://{address}:{publish or '*'}",
        subscribe=f"tcp://{address}:{subscribe or '*'}",
    )
