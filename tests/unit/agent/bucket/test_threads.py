"""Conservation while threads are switched every microsecond, to the unit."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.unit.agent.making import NODE, TOKENS, configuration, group, make

from headgate.agent.bucket.bucket import Bucket
from headgate.agent.bucket.chain import charge_chain_at, give_back_before
from headgate.agent.bucket.level import LULL_S
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.coordinator.config.configuration import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 4
ATTEMPTS = 600_000
"""Of each thread: 2.4 million attempts on one bucket."""


@pytest.fixture(autouse=True)
def _switch_every_microsecond() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  # pytest calls it
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _trace(*_: object) -> None:
    """Trace nothing; that there is a tracer is what matters."""


def run(work: Callable[[int], int]) -> int:
    """Run `work` in threads and return the sum of what it returns."""
    sums = [0] * THREADS

    def one(index: int) -> None:
        sums[index] = work(index)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(sums)


@pytest.mark.long
def test_a_bucket_at_rest_admits_its_burst_and_one_cost_exactly() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=100_000.0)
    admitted = run(
        lambda _: sum(bucket.try_acquire_at(0.0, 1) == 0.0 for _ in range(ATTEMPTS))
    )
    assert admitted == bucket.admitted == 100_001
    assert bucket.refused == THREADS * ATTEMPTS - 100_001


@pytest.mark.long
def test_a_strict_bucket_at_rest_admits_its_burst_exactly() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=20_000.0, may_owe=False)
    admitted = run(
        lambda _: sum(
            bucket.try_acquire_at(0.0, 1) == 0.0 for _ in range(ATTEMPTS // 4)
        )
    )
    assert admitted == bucket.admitted == 20_000


@pytest.mark.long
def test_a_bucket_that_refills_admits_burst_and_refill_and_one_cost() -> None:
    bucket = Bucket(0.0, rate=1e6, capacity=1_000.0)
    step = 0.5e-6  # half a unit is earned for each that is attempted
    ticks = count()

    def work(_: int) -> int:
        return sum(
            bucket.try_acquire_at(next(ticks) * step, 1) == 0.0 for _ in range(ATTEMPTS)
        )

    admitted = run(work)
    earned = 1_000 + (next(ticks) - 1) * step * 1e6
    assert admitted == bucket.admitted
    # Only while it was full, at the start, may the refill of a lull be lost.
    assert earned - LULL_S * 1e6 - 2 <= admitted <= earned + 1


@pytest.mark.long
def test_a_chain_that_gives_back_neither_mints_nor_loses_units() -> None:
    wide = Bucket(0.0, rate=1.0, capacity=1e6)
    narrow = Bucket(0.0, rate=1.0, capacity=5_000.0)
    chain = (wide, narrow)

    def work(_: int) -> int:
        admitted = 0
        for _ in range(ATTEMPTS // 4):
            stopped = charge_chain_at(chain, 0.0, 1)
            if stopped is None:
                admitted += 1
            else:
                give_back_before(chain, stopped, 1)
        return admitted

    assert run(work) == 5_001
    assert (wide.admitted, narrow.admitted) == (5_001.0, 5_001.0)
    assert wide.level_at(0.0) == 1e6 - 5_001


def test_live_changes_of_the_rate_lose_no_charge() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1e9)

    def work(index: int) -> int:
        if index == 0:
            for turn in range(ATTEMPTS // 20):
                bucket.set_rate_at(0.0, rate=float(turn), capacity=1e9)
            return 0
        return sum(bucket.try_acquire_at(0.0, 1) == 0.0 for _ in range(ATTEMPTS))

    admitted = run(work)
    assert admitted == bucket.admitted == 3 * ATTEMPTS
    assert bucket.level_at(0.0) == 1e9 - admitted


def test_a_limiter_conserves_over_dimensions_while_the_configuration_changes() -> None:
    gold = group(replace(NODE, rate=1e-9, burst=30_000))
    both = replace(gold, limits=(*gold.limits, replace(TOKENS, rate=1e-9, burst=1e9)))
    enforcer, clock = make(both, acme=1)
    limiter = enforcer.limiter(tenant="acme")

    def work(index: int) -> int:
        if index == 0:
            for revision in range(200):
                enforcer.configure(
                    configuration(both, revision=revision, acme=1), clock.now
                )
                enforcer.counts(clock.now)
            return 0
        return sum(
            bool(limiter.try_acquire(requests=1, tokens=3)) for _ in range(15_000)
        )

    assert run(work) == 30_001
    counted = {u.dimension: u.admitted for u in enforcer.usage(clock.now)}
    assert counted == {"requests": 30_001.0, "tokens": 90_003.0}


def test_with_a_tracer_attempts_take_a_lock_and_conserve_just_the_same() -> None:
    sys.settrace(_trace)
    try:
        enforcer = Enforcer(clock=lambda: 0.0)
    finally:
        sys.settrace(None)
    limits = (replace(NODE, rate=1e-9, burst=1_000),)
    enforcer.configure(configuration(Group(id=1, name="g", limits=limits), acme=1), 0.0)
    limiter = enforcer.limiter(tenant="acme")
    gate = limiter.handle()
    admitted = run(
        lambda index: sum(
            bool(limiter.try_acquire(requests=1) if index % 2 else gate.try_acquire())
            for _ in range(2_000)
        )
    )
    assert admitted == 1_001
