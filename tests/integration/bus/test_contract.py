"""What every bus promises: the same tests for memory, ZeroMQ and Kafka."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import pytest
from tests.integration.bus.rigs import (
    PATIENCE_S,
    Rig,
    acquainted,
    collect,
    connected,
    hear,
    until,
)

from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import MAX_WAITING_BYTES, Bus
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def join(rig: Rig) -> Iterator[Callable[[], Bus]]:
    """Open a bus that is connected; it is closed after the test."""
    opened: list[Bus] = []

    def join() -> Bus:
        opened.append(connected(rig.settings))
        return opened[-1]

    yield join
    for bus in opened:
        bus.close()


def test_everyone_hears_everyone_and_himself(join: Callable[[], Bus]) -> None:
    first, second = join(), join()
    assert first.publish(b"from the first")
    for bus in (first, second):
        hear(bus, b"from the first")
    assert second.publish(b"from the second")
    for bus in (first, second):
        hear(bus, b"from the second")


def test_messages_of_one_sender_keep_their_order(join: Callable[[], Bus]) -> None:
    sender, reader = join(), join()
    sent = [f"message {number}".encode() for number in range(50)]
    for payload in sent:
        sender.publish(payload)
        time.sleep(0.002)  # the pace of a fast agent: no queue has to drop
    assert collect(reader, len(sent)) == sent


@pytest.mark.parametrize("size", [1, 100, 50_000, 1_500_000])
def test_a_payload_arrives_as_it_was_sent(join: Callable[[], Bus], size: int) -> None:
    bus = join()
    payload = random.Random(size).randbytes(size)
    assert bus.publish(payload)
    assert hear(bus, payload).payload == payload


def test_a_payload_that_is_empty_or_too_large_is_refused_and_counted(
    join: Callable[[], Bus],
) -> None:
    bus = join()
    assert not bus.publish(b"")
    assert not bus.publish(bytes(MAX_PAYLOAD_BYTES + 1))
    assert bus.counters["dropped_too_large"] == 2
    assert bus.publish(b"still alive")
    hear(bus, b"still alive")


def test_receive_returns_when_nothing_comes(join: Callable[[], Bus]) -> None:
    bus = join()
    began_s = time.monotonic()
    assert bus.receive(0.3) == []
    assert 0.1 < time.monotonic() - began_s < PATIENCE_S
    assert bus.receive(0.0) == []


def test_receive_returns_early_when_something_comes(join: Callable[[], Bus]) -> None:
    other, bus = join(), join()
    timer = threading.Timer(0.2, other.publish, [b"early"])
    timer.start()
    began_s = time.monotonic()
    messages = bus.receive(2 * PATIENCE_S)
    assert time.monotonic() - began_s < PATIENCE_S
    assert messages[0].payload == b"early"
    timer.join()


def test_a_newcomer_hears_nothing_of_the_past(join: Callable[[], Bus]) -> None:
    sender = join()
    sender.publish(b"before")
    hear(sender, b"before")
    newcomer = join()
    sender.publish(b"after")
    assert collect(newcomer, 1) == [b"after"]


def test_the_lag_is_measured_on_the_own_messages(join: Callable[[], Bus]) -> None:
    bus = join()
    bus.publish(b"there and back")
    hear(bus, b"there and back")
    assert 0.0 < bus.lag() < PATIENCE_S


def test_the_lag_grows_while_nothing_comes_back(
    rig: Rig, join: Callable[[], Bus]
) -> None:
    bus = join()
    rig.down()
    bus.publish(b"lost")
    until(lambda: bus.lag() > 1.0, "the lag to grow")


def test_a_message_tells_when_it_came_and_that_it_is_fresh(
    join: Callable[[], Bus],
) -> None:
    bus = join()
    before_s = time.time()
    bus.publish(b"now")
    message = hear(bus, b"now")
    assert before_s <= message.received_wall_s <= time.time()
    assert 0.0 <= message.age_s < bus.lag() + PATIENCE_S


def test_reports_flow_again_by_themselves_after_a_restart(
    rig: Rig, join: Callable[[], Bus]
) -> None:
    first, second = join(), join()
    rig.down()
    first.publish(b"into the void")
    time.sleep(1.0)
    rig.up()
    deadline_s = time.monotonic() + PATIENCE_S
    heard = False
    while not heard and time.monotonic() < deadline_s:
        first.publish(b"again")
        heard = any(m.payload == b"again" for m in second.receive(0.1))
    assert heard


def test_a_bus_that_is_down_blocks_nobody(rig: Rig, join: Callable[[], Bus]) -> None:
    bus = join()
    rig.down()
    took_s: list[float] = []
    for _ in range(300):
        began_s = time.monotonic()
        bus.publish(b"into the void")
        bus.receive(0.0)
        took_s.append(time.monotonic() - began_s)
    # Without an I/O thread Kafka's client blocks for 200 ms each time.
    assert median(took_s) < 0.05
    assert bus.receive(0.1) == []


def test_a_bus_opens_while_it_is_down_and_works_when_it_comes(rig: Rig) -> None:
    rig.down()
    began_s = time.monotonic()
    bus = open_bus(rig.settings)
    try:
        bus.publish(b"first")
        assert bus.receive(0.1) == []
        assert time.monotonic() - began_s < 5.0
        rig.up()
        deadline_s = time.monotonic() + PATIENCE_S
        heard = False
        while not heard and time.monotonic() < deadline_s:
            bus.publish(b"at last")
            heard = any(m.payload == b"at last" for m in bus.receive(0.1))
        assert heard
    finally:
        bus.close()


def test_a_reader_that_sleeps_harms_nobody_and_fills_no_memory(
    join: Callable[[], Bus],
) -> None:
    sender, sleeper, reader = join(), join(), join()
    size = 20_000
    heard = 0
    for _ in range(2 * MAX_WAITING_BYTES // size // 32):
        for _ in range(32):
            sender.publish(bytes(size))
        heard += len(reader.receive(0.05))
        sender.receive(0.0)
    while more := len(reader.receive(0.5)):
        heard += more
    assert heard > 100, "the awake reader goes on"
    waited = 0
    while more := sum(len(message.payload) for message in sleeper.receive(0.5)):
        waited += more
    assert waited <= MAX_WAITING_BYTES
    sender.publish(b"awake")
    hear(sleeper, b"awake")


def test_pip82_late_messages_are_dropped_by_their_age_and_counted(rig: Rig) -> None:
    settings = replace(rig.settings, max_age_s=0.5)
    sender, sleeper = connected(settings), connected(settings)
    try:
        acquainted(sender, sleeper)
        dropped = sleeper.counters["dropped_old"]
        sender.publish(b"old")
        time.sleep(2.5)  # nothing to wait for: only time makes it old
        heard: list[bytes] = []

        def fresh() -> bool:
            sender.publish(b"new")  # one that a busy machine holds up is old too
            heard.extend(message.payload for message in sleeper.receive(0.2))
            return b"new" in heard

        until(fresh, "what is new")
        assert b"old" not in heard
        assert sleeper.counters["dropped_old"] > dropped
    finally:
        sender.close()
        sleeper.close()


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_is_set_makes_no_message_old(
    rig: Rig, step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, reader = connected(rig.settings), connected(rig.settings)
    try:
        acquainted(sender, reader)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + step_s)
        sender.publish(b"after the step")
        hear(reader, b"after the step")
        monkeypatch.undo()
        sender.publish(b"and back")
        hear(reader, b"and back")
        assert reader.counters["dropped_old"] == 0
    finally:
        sender.close()
        reader.close()


def test_what_is_published_right_before_closing_arrives(
    join: Callable[[], Bus], rig: Rig
) -> None:
    reader = join()
    leaving = connected(rig.settings)
    leaving.publish(b"farewell")
    leaving.close()
    hear(reader, b"farewell")


def test_no_thread_is_left_behind(rig: Rig) -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        connected(rig.settings).close()
    until(
        lambda: len(set(threading.enumerate()) - before) <= 1,
        "the threads of closed buses to end",
    )
