"""ZeroMQ's own: keys, several proxies, foreign frames, wrong settings."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import zmq
from tests.integration.bus.rigs import connected, hear, until

from headgate.agent.bus.envelope import Envelope
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.zeromq import curve as bus_curve
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy
from headgate.agent.errors import BusUnavailable
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headgate.agent.bus.port import Bus
    from headgate.agent.json_place import Json

SERVER_KEY, _ = (key.decode() for key in zmq.curve_keypair())
OWN_KEY = {"curve_secretkey": zmq.curve_keypair()[1].decode()}


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
        # Each knows one of the two for certain, and maybe not the same.
        until(_carries(first_bus, second_bus, b"both are there"), "a message")
        second.close()
        until(
            _carries(first_bus, second_bus, b"one is left"),
            "a message over the proxy that is left",
        )
    finally:
        first_bus.close()
        second_bus.close()
        second.close()


def test_a_listener_to_one_agent_that_leaves_silences_nobody(
    proxy: ZeroMQProxy,
) -> None:
    with closing(connected(settings_of(proxy))) as bus, ExitStack() as stack:
        notices = stack.enter_context(zmq.Context[zmq.Socket[bytes]]()).socket(zmq.XPUB)
        stack.enter_context(notices)
        notices.connect(proxy.publish_address)
        assert notices.recv() == b"\x01"
        with zmq.Context[zmq.Socket[bytes]]() as context:
            listener = context.socket(zmq.SUB)
            listener.setsockopt(zmq.SUBSCRIBE, b"origin")
            listener.connect(proxy.subscribe_address)
            assert notices.recv() == b"\x01origin"
            listener.close()
        assert notices.recv() == b"\x00origin"  # every agent is told the same
        bus.publish(b"still here")
        hear(bus, b"still here")


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


def test_who_is_turned_away_says_so_once_and_is_let_in_by_other_keys(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bus_curve, "RETRY_S", 0.1)
    server_public, server_secret = (key.decode() for key in zmq.curve_keypair())
    known, stranger = zmq.curve_keypair(), zmq.curve_keypair()
    door: dict[str, Json] = {"curve_server": 1, "curve_secretkey": server_secret}
    first = ZeroMQProxy(options={**door, "curve_clients": [known[0].decode()]})
    settings = settings_of(first)

    def own(secret: bytes) -> BusSettings:
        options = {"curve_serverkey": server_public, "curve_secretkey": secret.decode()}
        return replace(settings, options=options)

    agent, other = connected(own(known[1])), open_bus(own(stranger[1]))

    def often_refused() -> bool:
        other.publish(b"forged")
        agent.publish(b"secret")
        assert other.receive(0.05) == []
        assert b"forged" not in [m.payload for m in agent.receive(0.05)]
        return other.counters["refused"] >= 6  # three times at either door

    until(often_refused, "the stranger to be refused")
    said = [r.getMessage() for r in caplog.records if "rejects this" in r.getMessage()]
    assert len(said) == 1
    assert f"does not know this agent's CURVE key {stranger[0].decode()}" in said[0]
    agent.publish(b"the last")
    hear(agent, b"the last")  # nothing of before is on its way
    first.close()
    with ZeroMQProxy(
        publish=first.publish_address,
        subscribe=first.subscribe_address,
        options={**door, "curve_clients": [stranger[0].decode()]},
    ):

        def let_in() -> bool:
            other.publish(b"at last")
            return any(m.payload == b"at last" for m in other.receive(0.05))

        until(let_in, "the other key to be let in")
        assert b"at last" not in [m.payload for m in agent.receive(0.0)]
        agent.close()
        other.close()


def test_a_file_of_clients_is_read_anew_when_it_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bus_curve, "RETRY_S", 0.1)
    server_public, server_secret = (key.decode() for key in zmq.curve_keypair())
    first, second = zmq.curve_keypair(), zmq.curve_keypair()
    path = tmp_path / "curve-proxy.json"
    door: dict[str, Json] = {"curve_server": 1, "curve_secretkey": server_secret}

    def let_in(*keys: tuple[bytes, bytes]) -> None:
        told = {**door, "curve_clients": [public.decode() for public, _ in keys]}
        path.write_text(json.dumps(told), encoding="utf-8")

    let_in(first)
    with ZeroMQProxy(options={**door, "curve_clients": {"file": str(path)}}) as proxy:

        def own(secret: bytes) -> BusSettings:
            told = {
                "curve_serverkey": server_public,
                "curve_secretkey": secret.decode(),
            }
            return replace(settings_of(proxy), options=told)

        agent, other = connected(own(first[1])), open_bus(own(second[1]))
        with closing(agent), closing(other):

            def hears_itself() -> bool:
                other.publish(b"at last")
                return any(m.payload == b"at last" for m in other.receive(0.05))

            def refused() -> bool:
                return not hears_itself() and other.counters["refused"] > 0

            until(refused, "the other to be refused")
            path.write_text("half of a fi", encoding="utf-8")
            until(
                lambda: refused() and "keeping the previous keys" in caplog.text,
                "what is no list to be told",
            )
            let_in(first, second)
            until(hears_itself, "the other to be let in")
            let_in(second)
            with closing(open_bus(own(first[1]))) as late:
                until(
                    lambda: late.receive(0.05) == [] and late.counters["refused"] > 0,
                    "who was taken out to be refused",
                )


@pytest.mark.parametrize("proxy_has_keys", [True, False])
def test_keys_on_one_side_only_are_told(
    proxy_has_keys: bool, caplog: pytest.LogCaptureFixture
) -> None:
    secret = zmq.curve_keypair()[1].decode()
    door: dict[str, Json] = {"curve_server": 1, "curve_secretkey": secret}
    own: dict[str, Json] = {"curve_serverkey": SERVER_KEY, **OWN_KEY}
    with ZeroMQProxy(options=door if proxy_has_keys else {}) as proxy:
        options = {} if proxy_has_keys else own
        bus = open_bus(replace(settings_of(proxy), options=options))
        until(
            lambda: bus.receive(0.05) == [] and bus.counters["refused"] > 0,
            "the refusal",
        )
        bus.close()
    # Which of the two, depends on who hangs up first.
    none_there = "it has no CURVE keys|curve_serverkey does not seem to be its public"
    none_here = "require a CURVE key, but this agent has none"
    said = [r.getMessage() for r in caplog.records if "rejects this" in r.getMessage()]
    assert len(said) == 1
    assert re.search(none_here if proxy_has_keys else none_there, said[0])


def test_an_agent_asks_for_the_key_of_the_proxy_that_it_was_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = zmq.curve_keypair()[1].decode()
    door: dict[str, Json] = {"curve_server": 1, "curve_secretkey": secret}
    with ZeroMQProxy(options=door) as proxy:
        wrong = {"curve_serverkey": SERVER_KEY, **OWN_KEY}
        bus = open_bus(replace(settings_of(proxy), options=wrong))
        until(
            lambda: bus.receive(0.05) == [] and bus.counters["refused"] > 0,
            "the refusal",
        )
        bus.close()
    assert "curve_serverkey does not seem to be its public key" in caplog.text


@pytest.mark.parametrize("clients", ["all", ["short"], [1], {"web": SERVER_KEY}])
def test_clients_of_a_proxy_are_a_list_of_keys(clients: Json) -> None:
    secret = zmq.curve_keypair()[1].decode()
    door: dict[str, Json] = {"curve_server": 1, "curve_secretkey": secret}
    with pytest.raises(BusUnavailable, match="curve_clients: expected a list of keys"):
        ZeroMQProxy(options={**door, "curve_clients": clients})
    with pytest.raises(BusUnavailable, match="expected curve_server"):
        ZeroMQProxy(options={"curve_clients": [SERVER_KEY]})


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


def _carries(sender: Bus, reader: Bus, payload: bytes) -> Callable[[], bool]:
    """Return what sends, and tells whether it arrives soon."""

    def heard() -> bool:
        sender.publish(payload)
        return any(m.payload == payload for m in reader.receive(0.1))

    return heard


def _arrives(writer: zmq.Socket[bytes], envelope: bytes, bus: Bus) -> bool:
    """Send, and return whether it arrives soon."""
    writer.send_multipart([envelope, b"small"])
    return any(message.payload == b"small" for message in bus.receive(0.1))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rcvhwn": 5}, "there is no socket option 'rcvhwn'"),
        ({"rcvhwm": "many"}, "rcvhwm"),
        ({"rcvhwm": None}, "rcvhwm: expected a string or an integer"),
        ({"rcvhwm": 1 << 40}, "rcvhwm: value too large"),
        ({"plain_username": "\udc80"}, "plain_username: .*surrogates not allowed"),
        ({"curve_serverkey": "short", **OWN_KEY}, "curve_serverkey"),
        ({"curve_serverkey": SERVER_KEY}, "expected the option curve_secretkey"),
        ({"curve_serverkey": SERVER_KEY, "curve_secretkey": "s"}, "curve_secretkey"),
        (
            {"curve_serverkey": SERVER_KEY, **OWN_KEY, "curve_publickey": SERVER_KEY},
            "curve_publickey: expected the public key that belongs to curve_secretkey",
        ),
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
