"""Kafka with passwords, encryption and rights: an agent gets what it needs, no more."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import pytest
from tests.integration.bus.rigs import PATIENCE_S, connected, hear, until
from tools.kafka_broker import PASSWORDS

from headgate.agent.bus.kafka.acls import allow, revoke
from headgate.agent.bus.kafka.topic import ensure_topic
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import BusSettings
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.kafka_broker import Broker

    from headgate.agent.bus.port import Bus


def settings_of(
    broker: Broker, user: str, *, password: str | None = None
) -> BusSettings:
    """Return the settings of one user, all of it kafka-python's own options."""
    return BusSettings(
        kind="kafka",
        bootstrap=broker.bootstrap,
        topic="headgate-usage",
        options={
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(broker.certificate),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": user,
            "sasl_plain_password": password or PASSWORDS[user],
        },
    )


@pytest.fixture
def admin(guarded: Broker) -> Iterator[BusSettings]:
    """Settings of the administrator; the topic is there, the agent may use it."""
    admin = settings_of(guarded, "admin")
    ensure_topic(admin)
    allow(admin, "agent", ("read", "write"))
    yield admin
    revoke(admin, "agent", ("read", "write"))


def flows(writer: Bus, reader: Bus) -> bool:
    """Publish, and return whether anything comes soon."""
    writer.publish(b"report")
    return bool(reader.receive(0.3))


def test_an_agent_with_its_two_rights_writes_and_reads(
    guarded: Broker, admin: BusSettings
) -> None:
    bus = connected(settings_of(guarded, "agent"))
    bus.publish(b"over TLS, with a password")
    hear(bus, b"over TLS, with a password")
    bus.close()


def test_an_agent_may_do_nothing_else(guarded: Broker, admin: BusSettings) -> None:
    other = replace(settings_of(guarded, "agent"), topic="another")
    with pytest.raises(BusUnavailable, match=r"topic another .*Authorization"):
        ensure_topic(other)
    with pytest.raises(BusUnavailable, match=r"Authorization"):
        allow(settings_of(guarded, "agent"), "intruder", ("read", "write"))


@pytest.mark.parametrize("password", [None, "wrong"])
def test_who_has_no_right_is_neither_heard_nor_told_anything_and_blocks_nobody(
    guarded: Broker,
    admin: BusSettings,
    password: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = connected(settings_of(guarded, "agent"))
    intruder = open_bus(settings_of(guarded, "intruder", password=password))
    heard = 0
    took_s: list[float] = []
    for _ in range(15):
        agent.publish(b"secret")
        began_s = time.monotonic()
        intruder.publish(b"forged")
        heard += len(intruder.receive(0.0))
        took_s.append(time.monotonic() - began_s)
        assert all(message.payload != b"forged" for message in agent.receive(0.2))
    assert heard == 0
    assert median(took_s) < 0.05
    until(lambda: intruder.counters["dropped_down"] > 0, "the loss to be counted")
    until(lambda: "kafka headgate-usage:" in caplog.text, "it to be said why")
    intruder.close()
    agent.close()


def test_a_right_that_is_taken_silences_an_agent_until_it_is_given_back(
    guarded: Broker, admin: BusSettings
) -> None:
    agent = connected(settings_of(guarded, "agent"))
    watcher = connected(admin)
    revoke(admin, "agent", ("write",))
    deadline_s = time.monotonic() + PATIENCE_S
    while flows(agent, watcher):
        assert time.monotonic() < deadline_s, "still heard"
    allow(admin, "agent", ("write",))
    until(lambda: flows(agent, watcher), "to be heard again")
    revoke(admin, "agent", ("read",))
    deadline_s = time.monotonic() + PATIENCE_S
    while flows(watcher, agent):
        assert time.monotonic() < deadline_s, "still told"
    allow(admin, "agent", ("read",))
    until(lambda: flows(watcher, agent), "to be told again")
    agent.close()
    watcher.close()
