"""Buckets against an exact model in integers, over random lives."""

from __future__ import annotations

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.agent.bucket.bucket import Bucket

TICKS = 1 << 20
"""Ticks per second of the model: a power of two, so that times are exact floats."""

STEP = st.tuples(
    st.one_of(
        st.integers(0, 50),  # within a lull
        st.integers(0, TICKS // 100),
        st.integers(0, 20 * TICKS),
    ),
    st.integers(1, 400),
)
LIFE = st.lists(STEP, min_size=1, max_size=80)


class Exact:
    """A token bucket in integers: level and rate in units per tick."""

    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate  # units/s = sub-units per tick
        self.level = self.burst = burst * TICKS
        self.at = 0

    def refill(self, at: int) -> None:
        self.level = min(self.burst, self.level + (at - self.at) * self.rate)
        self.at = at

    def try_acquire(self, at: int, cost: int, *, may_owe: bool) -> bool:
        self.refill(at)
        if self.level < (0 if may_owe else cost * TICKS):
            return False
        self.level -= cost * TICKS
        return True


@settings(deadline=None)
@given(rate=st.integers(1, 10_000), burst=st.integers(1, 2_000), life=LIFE)
def test_a_strict_bucket_decides_as_the_exact_one_does(
    rate: int, burst: int, life: list[tuple[int, int]]
) -> None:
    bucket = Bucket(0.0, rate=rate, capacity=burst, may_owe=False)
    exact = Exact(rate, burst)
    at = 0
    for step, cost in life:
        at += step
        exact.refill(at)
        # Within a rounding error of the boundary either answer is right.
        near = abs(exact.level - cost * TICKS) < TICKS * 1e-6
        if near:
            continue
        wanted = exact.try_acquire(at, cost, may_owe=False)
        assert (bucket.try_acquire_at(at / TICKS, cost) == 0.0) == wanted


@settings(deadline=None)
@given(rate=st.integers(1, 10_000), burst=st.integers(1, 2_000), life=LIFE)
def test_a_bucket_that_may_owe_loses_nothing_and_wins_nothing(
    rate: int, burst: int, life: list[tuple[int, int]]
) -> None:
    bucket = Bucket(0.0, rate=rate, capacity=burst)
    exact = Exact(rate, burst)
    at = 0
    for step, cost in life:
        at += step
        admitted = bucket.try_acquire_at(at / TICKS, cost) == 0.0
        # The exact one is charged what the bucket admitted: levels are compared.
        exact.refill(at)
        if admitted:
            assert exact.level > -TICKS * 1e-6
            exact.level -= cost * TICKS
        level = bucket.level_at(at / TICKS)
        assert level <= exact.level / TICKS + 1e-6
        assert level >= exact.level / TICKS - 1e-6


@settings(deadline=None)
@given(rate=st.integers(1, 10_000), burst=st.integers(1, 2_000), life=LIFE)
def test_admitted_never_exceeds_burst_and_refill_by_more_than_one_cost(
    rate: int, burst: int, life: list[tuple[int, int]]
) -> None:
    bucket = Bucket(0.0, rate=rate, capacity=burst)
    now = 0.0
    attempted = 0
    for step, cost in life:
        now += step / TICKS
        attempted += cost
        bucket.try_acquire_at(now, cost)
        dearest = max(cost for _, cost in life)
        assert bucket.admitted <= burst + rate * now + dearest + 1e-6
        assert bucket.admitted + bucket.refused == attempted


Event = tuple[int, tuple[int | None, int] | None, int]
"""When, (ceiling, capacity) or None, and the cost of an attempt."""

CHANGE = st.tuples(
    st.integers(0, 5 * TICKS),
    st.sampled_from([0, 1, 10, 1_000, None]),
    st.integers(0, 500),
)


@settings(deadline=None)
@given(changes=st.lists(CHANGE, max_size=20), life=LIFE)
def test_no_change_of_the_ceiling_admits_more_than_the_rates_in_force_allow(
    changes: list[tuple[int, int | None, int]], life: list[tuple[int, int]]
) -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=100.0)
    events: list[Event] = [(at, None, cost) for at, cost in _absolute(life)]
    events += [(at, (rate, capacity), 0) for at, rate, capacity in _times(changes)]
    allowed, unlimited, last, rate, dearest = 100.0, False, 0.0, 10.0, 0
    for at, change, cost in sorted(events, key=lambda event: event[0]):
        now = at / TICKS
        allowed += (now - last) * rate
        last = now
        if change is None:
            dearest = max(dearest, cost)
            bucket.try_acquire_at(now, cost)
            assert unlimited or bucket.admitted <= allowed + dearest + 1e-6
        else:
            unlimited |= change[0] is None
            ceiling = inf if change[0] is None else float(change[0])
            rate = 0.0 if unlimited else ceiling
            bucket.set_rate_at(now, rate=ceiling, capacity=change[1] + 1.0)
            assert bucket.level_at(now) <= (inf if ceiling == inf else change[1] + 1.0)


@settings(deadline=None)
@given(
    deadline=st.integers(0, 3 * TICKS),
    reserve=st.integers(0, 100),
    at=st.integers(0, 10 * TICKS),
)
def test_past_the_deadline_only_the_reserve_is_earned(
    deadline: int, reserve: int, at: int
) -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1e9, level=0.0)
    bucket.set_rate_at(
        0.0,
        rate=1_000.0,
        capacity=1e9,
        deadline_s=deadline / TICKS,
        reserve=float(reserve),
    )
    until = min(at, deadline)
    wanted = (until * 1_000 + (at - until) * reserve) / TICKS
    assert abs(bucket.level_at(at / TICKS) - wanted) < 1e-6
    bucket.charge_at(at / TICKS, 0.0)
    assert abs(bucket.level_at(at / TICKS) - wanted) < 1e-6


def _absolute(life: list[tuple[int, int]]) -> list[tuple[int, int]]:
    at = 0
    events: list[tuple[int, int]] = []
    for step, cost in life:
        at += step
        events.append((at, cost))
    return events


def _times(
    changes: list[tuple[int, int | None, int]],
) -> list[tuple[int, int | None, int]]:
    at = 0
    events: list[tuple[int, int | None, int]] = []
    for step, rate, capacity in changes:
        at += step
        events.append((at, rate, capacity))
    return events
