"""ZeroMQ's own: keys, several proxies, foreign frames, wrong settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import zmq
from tests.integration.bus.rigs import connected, hear, until

from headgate.agent.bus import MAX_PAYLOAD_BYTES, BusSettings, open_bus
from headgate.agent.bus_envelope import Envelope
from headgate.agent.bus_proxy import ZeroMQProxy
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.agent.bus import Bus
    from headgate.agent.json_place import Json


def settings_of(*proxies: ZeroMQProxy) -> BusSettings:
    """Return settings that use all of these proxies."""
    return BusSettings(
        kind="zeromq",
        publish=tuple(proxy.publish_address for proxy in proxies),
        subscribe=tuple(proxy.subscribe_address for proxy in proxies),
    )


@pytest.fixture
def proxy() -> Iterator[ZeroMQProxy]:
    """A proxy without keys."""
    with ZeroMQProxy() as proxy:
        yield proxy


def test_with_two_proxies_either_may_go(proxy: ZeroMQProxy) -> None:
    second = ZeroMQProxy()
    settings = settings_of(proxy, second)
    first_bus, second_bus = connected(settings), connected(settings)
    try:
        first_bus.publish(b"both are there")
        hear(second_bus, b"both are there")
        second.close()

        def heard() -> bool:
            first_bus.publish(b"one is left")
            return any(m.payload == b"one is left" for m in second_bus.receive(0.1))

        until(heard, "a message over the proxy that is left")
    finally:
        first_bus.close()
        second_bus.close()
        second.close()


def test_only_who_has_the_keys_hears_and_is_heard() -> None:
    server_public, server_secret = (key.decode() for key in zmq.curve_keypair())
    public, secret = (key.decode() for key in zmq.curve_keypair())
    options: dict[str, Json] = {"curve_server": 1, "curve_secretkey": server_secret}
    with ZeroMQProxy(options=options) as guarded:
        plain = settings_of(guarded)
        keys = {"curve_publickey": public, "curve_secretkey": secret}
        known = replace(plain, options={**keys, "curve_serverkey": server_public})
        agent, stranger = connected(known), open_bus(plain)
        try:
            for _ in range(10):
                stranger.publish(b"forged")
                agent.publish(b"secret")
                assert stranger.receive(0.05) == []
                assert all(m.payload == b"secret" for m in agent.receive(0.05))
            agent.publish(b"known")
            hear(agent, b"known")
        finally:
            agent.close()
            stranger.close()


def test_frames_that_are_no_message_are_dropped_and_counted(
    proxy: ZeroMQProxy,
) -> None:
    bus = connected(settings_of(proxy))
    context = zmq.Context[zmq.Socket[bytes]]()
    writer = context.socket(zmq.PUB)
    writer.connect(proxy.publish_address)
    envelope = Envelope(b"12345678", 1, 0.0).pack()

    def counted() -> bool:
        for frames in ([b"one frame"], [b"no envelope", b"x"], [envelope, b"x", b"y"]):
            writer.send_multipart(frames)
        assert bus.receive(0.05) == []
        return bus.counters["dropped_malformed"] >= 3

    try:
        until(counted, "three frames to be counted")
        bus.publish(b"still alive")
        hear(bus, b"still alive")
    finally:
        bus.close()
        context.destroy(linger=0)


def test_an_oversized_message_costs_only_its_sender_the_connection(
    proxy: ZeroMQProxy,
) -> None:
    bus = connected(settings_of(proxy))
    context = zmq.Context[zmq.Socket[bytes]]()
    writer = context.socket(zmq.PUB)
    writer.connect(proxy.publish_address)
    envelope = Envelope(b"12345678", 1, 0.0).pack()
    try:
        until(lambda: _arrives(writer, envelope, bus), "a small one")
        writer.send_multipart([envelope, bytes(MAX_PAYLOAD_BYTES + 1)])
        bus.publish(b"undisturbed")
        assert hear(bus, b"undisturbed").payload == b"undisturbed"
        assert bus.counters["dropped_malformed"] == 0
    finally:
        bus.close()
        context.destroy(linger=0)


def _arrives(writer: zmq.Socket[bytes], envelope: bytes, bus: Bus) -> bool:
    """Send, and return whether it arrives soon."""
    writer.send_multipart([envelope, b"small"])
    return any(message.payload == b"small" for message in bus.receive(0.1))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rcvhwn": 5}, "there is no socket option 'rcvhwn'"),
        ({"rcvhwm": "many"}, "rcvhwm"),
        ({"rcvhwm": None}, "rcvhwm: expected a text or a number"),
        ({"curve_serverkey": "short"}, "curve_serverkey"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    proxy: ZeroMQProxy, options: dict[str, str | int | None], says: str
) -> None:
    settings = replace(settings_of(proxy), options=options)
    with pytest.raises(BusUnavailable, match=says):
        open_bus(settings)


def test_a_wrong_address_is_refused(proxy: ZeroMQProxy) -> None:
    with pytest.raises(BusUnavailable, match="zeromq: nonsense"):
        open_bus(replace(settings_of(proxy), publish=("nonsense",)))
    with pytest.raises(BusUnavailable, match=r"zeromq: .*Address already in use"):
        ZeroMQProxy(publish=proxy.publish_address)
