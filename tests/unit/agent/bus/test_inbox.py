"""The queue between two threads is bounded in number and in bytes."""

from __future__ import annotations

from collections import Counter

from headgate.agent.bus.envelope import Returns
from headgate.agent.bus.inbox import Arrival, Inbox, Receiver
from headgate.agent.bus.port import MAX_BATCH, MAX_WAITING, MAX_WAITING_BYTES, Message


def arrival(number: int, size: int = 1) -> Arrival:
    return Arrival(float(number), None, Message(bytes(size), float(number)))


def test_arrivals_come_out_in_their_order_a_batch_at_a_time() -> None:
    inbox = Inbox()
    for number in range(MAX_BATCH + 5):
        assert inbox.put(arrival(number)) == 0
    first, second = inbox.take(0.0), inbox.take(0.0)
    assert [a.arrived_s for a in first + second] == list(range(MAX_BATCH + 5))
    assert len(first) == MAX_BATCH
    assert inbox.take(0.0) == []


def test_the_oldest_give_way_when_there_are_too_many() -> None:
    inbox = Inbox()
    dropped = sum(inbox.put(arrival(number)) for number in range(MAX_WAITING + 7))
    assert dropped == 7
    assert inbox.take(0.0)[0].arrived_s == 7


def test_the_oldest_give_way_when_they_are_too_large() -> None:
    inbox = Inbox()
    size = MAX_WAITING_BYTES // 4
    assert [inbox.put(arrival(number, size)) for number in range(6)] == [
        0,
        0,
        0,
        0,
        1,
        1,
    ]
    assert [a.arrived_s for a in inbox.take(0.0)] == [2, 3, 4, 5]
    assert inbox.put(arrival(6, size)) == 0, "what was taken counts no more"


def test_a_message_is_dropped_when_it_is_too_old_with_the_time_it_waited() -> None:
    counters, now = Counter[str](), [0.0]
    receiver = Receiver(Returns(), counters, 10.0, clock=lambda: now[0])
    for age_s in (9.0, 1.0):
        receiver.put(Arrival(0.0, None, Message(b"report", 0.0, age_s)))
    now[0] = 2.0
    assert [message.age_s for message in receiver.receive(0.0)] == [1.0]
    assert counters["received"] == counters["dropped_old"] == 1


def test_the_lag_is_measured_at_arrival_and_not_when_the_reader_comes() -> None:
    returns, now = Returns(), [0.0]
    receiver = Receiver(returns, Counter(), 10.0, clock=lambda: now[0])
    own = returns.number(0.0)
    receiver.put(Arrival(0.25, own, Message(b"report", 0.0)))
    now[0] = 3.0
    assert len(receiver.receive(0.0)) == 1
    assert returns.lag(3.0) == 0.25
