"""A debt that one agent made binds the others until it is paid, over a real bus."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import explained, until
from tests.integration.limiter.making import agents_of_acme

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from headgate.agent import Agent, Dispatcher, Limiter

TOPIC = "acme/orders/new"


def second_of(dimension: str, rate: float) -> dict[str, object]:
    """Return a limit with a burst of a second."""
    return {"dimension": dimension, "rate": rate, "burst": rate}


def shared(limiter: Limiter, dimension: str) -> bool:
    """Whether a limiter's agent knows that others use the group as well."""
    return any(
        link.bucket.window < float("inf") for link in limiter.links({dimension: 1.0})
    )


def test_one_agent_takes_five_seconds_of_quota_and_the_other_waits_for_it(
    tmp_path: Path,
) -> None:
    with agents_of_acme(tmp_path, "xy", second_of("requests", 100.0)) as agents:
        x, y = (agent.limiter(tenant="acme") for agent in agents)
        until(
            lambda: shared(x, "requests") and shared(y, "requests"),
            "both agents share the bucket",
        )
        taken_at = time.monotonic()
        assert x.try_acquire(requests=500)
        until(lambda: y.try_acquire(requests=1.0).delay_s > 1.0, "y hears of it")
        until(lambda: bool(y.try_acquire(requests=1.0)), "y gets its part again")
        waited_s = time.monotonic() - taken_at
    # One second of the five was in the bucket; clocks and rounding get the rest.
    assert waited_s >= (500 - 100) / 100 - 0.1


@pytest.mark.parametrize("messages", [11, 30, 300])
def test_dispatch_over_delivery_by_one_agent_is_owed_by_both_however_large(
    tmp_path: Path, messages: int
) -> None:
    with reading_ten(tmp_path) as (agents, (x, y)):
        read_at, total = time.monotonic(), messages
        x.delivered(1, messages=messages, size=1)

        def owed() -> bool:
            # What may be read is read, so no full bucket hides what was forgotten.
            nonlocal total
            total += read_one(x) + read_one(y)
            levels = [explained(each, "dispatch_messages").level for each in agents]
            earned = 10.0 * (time.monotonic() - read_at)
            return all(-total <= level - 10.0 <= earned - total for level in levels)

        until(owed, "both to owe what was too much, and no more")
        if messages == 300:
            until(lambda: min(x.delay_s(), y.delay_s()) > 20.0, "both to be told")
            for reader in (x, y):
                before_s = time.monotonic() - read_at
                delay_s = reader.delay_s()
                after_s = time.monotonic() - read_at
                # Until a message is there; of the bucket half stands for the other.
                # Each agent may run a message ahead.
                assert after_s + delay_s > (total - 10 - 2) / 10
                assert before_s + delay_s < (total - 10) / 10 + 0.7
            while time.monotonic() - read_at < 3.0:
                assert not read_one(x)
                assert not read_one(y)
                time.sleep(0.02)
            return
        while total < messages + 9:
            until(lambda: read_one(x) or read_one(y), "a message to be read")
            total += 1
        waited_s = time.monotonic() - read_at
    # The bucket held 10 and earned the rest: 11 are followed by 9 in the next second,
    # and 30 by two periods in which nothing is read.  Each agent may run a message
    # ahead.
    assert waited_s >= (total - 10 - 2) / 10


@contextmanager
def reading_ten(tmp_path: Path) -> Generator[tuple[list[Agent], list[Dispatcher]]]:
    """Two agents, which share 10/s, and a reader of each."""
    with agents_of_acme(tmp_path, "xy", second_of("dispatch_messages", 10.0)) as agents:
        readers = [agent.dispatcher(topic=TOPIC) for agent in agents]
        until(
            lambda: all(shared(each.limiter, "dispatch_messages") for each in readers),
            "both agents share the bucket",
        )
        yield agents, readers


def read_one(reader: Dispatcher) -> bool:
    """Read a message if any may be read."""
    if reader.entries_to_read(100) == 0:
        return False
    reader.delivered(1, messages=1, size=1)
    return True
