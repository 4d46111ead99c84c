"""The throttle tracker: exactly one pause and one resume, whatever the causes."""

from __future__ import annotations

import threading

import pytest

from headgate.agent.limiter.throttle import (
    PendingRequests,
    PublishMemory,
    ThrottleTracker,
)


class Connection:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.tracker = ThrottleTracker(
            pause=lambda: self.said.append("pause"),
            resume=lambda: self.said.append("resume"),
        )


def test_pip322_the_first_of_five_causes_pauses_and_the_last_resumes() -> None:
    connection = Connection()
    memory = PublishMemory(most_bytes=100)
    pending = PendingRequests(connection.tracker, most=2)
    memory.watch(connection.tracker)
    for cause in ("broker", "group", "topic"):
        connection.tracker.throttle(cause)
    memory.take(100)
    pending.begin()
    pending.begin()
    assert connection.tracker.count == 5
    assert connection.said == ["pause"]
    for cause in ("broker", "group", "topic"):
        connection.tracker.lift(cause)
    memory.free(50)
    assert connection.said == ["pause"]
    assert connection.tracker.causes == ("pending requests",)
    pending.end()
    assert connection.said == ["pause", "resume"]


def test_the_same_cause_twice_is_one_cause() -> None:
    connection = Connection()
    connection.tracker.throttle("topic")
    connection.tracker.throttle("topic")
    connection.tracker.lift("topic")
    connection.tracker.lift("topic")
    assert connection.said == ["pause", "resume"]


def test_a_cause_with_an_end_is_lifted_when_its_time_comes() -> None:
    connection = Connection()
    connection.tracker.throttle("topic", until_s=12.0)
    connection.tracker.throttle("group", until_s=15.0)
    assert connection.tracker.lift_due(11.9) == 12.0
    assert connection.tracker.lift_due(12.0) == 15.0
    assert connection.said == ["pause"]
    assert connection.tracker.lift_due(15.0) is None
    assert connection.said == ["pause", "resume"]


def test_a_connection_resumes_when_half_of_its_requests_are_answered() -> None:
    connection = Connection()
    pending = PendingRequests(connection.tracker, most=4)
    for _ in range(4):
        pending.begin()
    pending.end()
    assert connection.said == ["pause"]
    pending.end()
    assert connection.said == ["pause", "resume"]
    with pytest.raises(ValueError, match="no request is pending"):
        PendingRequests(connection.tracker, most=1).end()


def test_memory_pauses_all_connections_and_those_that_come_later() -> None:
    memory = PublishMemory(most_bytes=100)
    one, two = Connection(), Connection()
    memory.watch(one.tracker)
    memory.take(150)
    memory.watch(two.tracker)
    memory.forget(two.tracker)
    memory.free(110)
    memory.take(59)
    assert one.said == ["pause", "resume"]
    assert two.said == ["pause", "resume"]


def test_pauses_and_resumes_alternate_under_threads() -> None:
    connection = Connection()

    def work(name: str) -> None:
        for _ in range(2_000):
            connection.tracker.throttle(name)
            connection.tracker.lift(name)

    threads = [threading.Thread(target=work, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connection.said == ["pause", "resume"] * (len(connection.said) // 2)
    assert connection.tracker.count == 0
