"""Fetches are few where reports are many, and at once where they are few."""

from __future__ import annotations

import pytest

from headgate.agent.bus.kafka.bus import FETCHES_PER_S, Pace
from headgate.agent.bus.kafka.client import FETCH_BYTES, fetch_bytes
from headgate.agent.bus.port import BusSettings


def fetches(seconds: float, gap_s: float, size: int = 100) -> tuple[int, float]:
    """Read what arrives every `gap_s`; return the fetches and the longest wait."""
    now, pace, count, longest_s = 0.0, Pace(0.0), 0, 0.0
    while now < seconds:
        wait_s = pace.wait_s(now)
        longest_s = max(longest_s, wait_s)
        now += max(wait_s, gap_s)
        pace.brought(size)
        count += 1
    return count, longest_s


@pytest.mark.parametrize("agents", [30, 99, 300])
def test_many_reports_come_with_few_fetches(agents: int) -> None:
    count, longest_s = fetches(60.0, 1.0 / agents)
    assert count / 60.0 <= FETCHES_PER_S + 0.1
    assert longest_s == pytest.approx(1.0 / FETCHES_PER_S)


def test_where_reports_are_rare_none_waits() -> None:
    assert fetches(60.0, 0.06) == (1000, 0.0)


def test_what_waits_at_the_broker_in_bulk_is_fetched_at_once() -> None:
    assert fetches(10.0, 0.01, FETCH_BYTES)[1] == 0.0


def test_five_reports_of_ninety_kilobytes_are_no_bulk() -> None:
    assert fetches(60.0, 0.01, 5 * 90_000)[0] / 60.0 <= FETCHES_PER_S + 0.1


def test_bulk_is_what_the_operator_lets_a_fetch_bring() -> None:
    options = {"max_partition_fetch_bytes": 65_536}
    bus = BusSettings(kind="kafka", bootstrap="broker:9092", topic="t", options=options)
    pace = Pace(0.0, fetch_bytes(bus))
    waits: list[float] = []
    for _ in range(20):
        waits.append(pace.wait_s(0.0))
        pace.brought(65_536)
    assert waits == [0.0] * 20
