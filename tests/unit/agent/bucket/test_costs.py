"""Costs: what is none is one clear error, and a huge one locks nobody out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.agent.making import NODE, TOKENS, group, make

from headgate.agent.errors import InvalidCost
from headgate.agent.limiter.keyed import KeyedLimiter
from headgate.coordinator.config.configuration import Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.agent.limiter.limiter import Limiter

CLUSTER = Limit(dimension="requests", rate=1_000, burst=1_000)

KEYED = KeyedLimiter(rate=1.0, burst=1.0, clock=lambda: 0.0)
KEYED.try_acquire("a key", 1.0)

WAYS: dict[str, Callable[[Limiter, Any], object]] = {
    "try_acquire": lambda limiter, cost: limiter.try_acquire(requests=cost),
    "second": lambda limiter, cost: limiter.try_acquire(tokens=1, requests=cost),
    "at": lambda limiter, cost: limiter.try_acquire_at(100.0, requests=cost),
    "some": lambda limiter, cost: limiter.try_acquire_some(requests=cost),
    "each": lambda limiter, cost: limiter.try_acquire_some(each=cost, requests=1),
    "validate": lambda limiter, cost: limiter.validate(requests=cost),
    "charge": lambda limiter, cost: limiter.charge(requests=cost),
    "count_refused": lambda limiter, cost: limiter.count_refused(requests=cost),
    "reserve": lambda limiter, cost: limiter.reserve(requests=cost),
    "wait": lambda limiter, cost: limiter.wait(requests=cost),
    "gate": lambda limiter, cost: limiter.handle().try_acquire(cost),
    "keyed": lambda _, cost: KEYED.try_acquire("a key", cost),
    "new key": lambda _, cost: KEYED.try_acquire(object(), cost),
}
"""All that take a cost."""

NO_COSTS = [
    -1,
    nan,
    inf,
    2.0**53 + 2,
    1e308,
    10**400,
    10**5_000,
    Decimal("NaN"),
    Decimal(5),
    "1",
    None,
    [1],
    1j,
    np.zeros(2),
    True,
    False,
]
NUMBERED = [str(number) for number in range(len(NO_COSTS))]


@pytest.mark.parametrize("cost", [1e6, 1e15, 2.0**53])
def test_one_refused_cost_however_huge_counts_as_two_bursts_at_most(
    cost: float,
) -> None:
    enforcer, clock = make(group(CLUSTER), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=1)
    before = enforcer.counts(clock.now)
    assert not limiter.try_acquire(requests=cost)  # the long way
    assert not limiter.try_acquire(requests=cost)  # and the short one
    assert not limiter.handle().try_acquire(cost)
    assert not limiter.try_acquire(requests=cost, tokens=1)
    after = enforcer.counts(clock.now)
    assert after.refused[0] - before.refused[0] == 4 * 2_000
    assert after.admitted[0] == before.admitted[0]
    assert after.cost[0] <= 2_000
    limiter.charge(requests=cost)
    assert enforcer.counts(clock.now).cost[0] <= 2_000


def test_a_refused_cost_that_is_admitted_after_all_is_uncounted_to_the_unit() -> None:
    enforcer, clock = make(group(NODE, "delay"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=6)
    assert limiter.try_acquire(requests=1_000)  # muted, and so admitted
    (use,) = enforcer.usage(clock.now)
    assert (use.refused, use.admitted) == (0.0, 1_006.0)


def test_one_huge_refused_cost_does_not_end_a_group_that_suppresses() -> None:
    enforcer, clock = make(group(replace(NODE, rate=100), "suppress"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.try_acquire(requests=2.0**53)
    clock.now += 1.0
    admitted = 0
    for _ in range(1_000):
        clock.now += 0.01
        admitted += bool(limiter.try_acquire(requests=1))
    assert admitted > 600


@pytest.mark.parametrize("cost", NO_COSTS, ids=NUMBERED)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_no_cost_is_one_clear_error_everywhere_and_charges_nothing(
    cost: object, way: Callable[[Limiter, Any], object]
) -> None:
    enforcer, clock = make(group(limits=(NODE, TOKENS)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.try_acquire(requests=1, tokens=1)  # from now on the short ways apply
    limiter.handle()
    for _ in range(2):
        before = [(use.tokens, use.admitted) for use in enforcer.usage(clock.now)]
        with pytest.raises(InvalidCost, match="expected a finite cost >= 0"):
            way(limiter, cost)
        after = [(use.tokens, use.admitted) for use in enforcer.usage(clock.now)]
        assert after == before
        limiter.charge(requests=100)  # and once more while the bucket is in debt
        limiter.try_acquire(requests=1)


@pytest.mark.parametrize("cost", NO_COSTS, ids=NUMBERED)
def test_a_reservation_can_not_be_settled_for_what_is_no_cost(cost: Any) -> None:
    enforcer, _ = make(group(), acme=1)
    reservation = enforcer.limiter(tenant="acme").reserve(requests=1)
    with pytest.raises(InvalidCost, match="expected a finite cost >= 0"):
        reservation.settle(requests=cost)
    reservation.settle(requests=2)


def test_whole_numbers_and_those_of_numpy_are_costs() -> None:
    enforcer, clock = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    costs: tuple[Any, ...] = (1, 1.0, np.float64(1), np.int64(1))
    for cost in costs:
        assert limiter.try_acquire(requests=cost)
    assert enforcer.usage(clock.now)[0].admitted == 4.0


SHORT: dict[str, Callable[[Limiter, Any], object]] = {
    **{name: way for name, way in WAYS.items() if "key" not in name},
    "settle": lambda limiter, cost: limiter.reserve(requests=1).settle(cost + cost),
}


@pytest.mark.parametrize("way", SHORT.values(), ids=SHORT)
def test_a_cost_of_fewer_bits_does_not_shorten_what_is_counted(
    way: Callable[[Limiter, Any], object],
) -> None:
    """A float32 of 16,777,216 plus 1 is 16,777,216 again."""
    enforcer, clock = make(group(replace(NODE, rate=1e9, burst=1e9)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(requests=2**24)
    way(limiter, np.float32(1))
    before = int(enforcer.usage(clock.now)[0].admitted)
    for _ in range(4):
        clock.now += 0.01  # past the lull, what was spent is added to the counter
        assert limiter.try_acquire(requests=1)
    assert int(enforcer.usage(clock.now)[0].admitted) == before + 4


def test_a_cost_of_fewer_bits_does_not_shorten_the_level_of_a_key() -> None:
    keyed = KeyedLimiter(rate=1.0, burst=2.0**25, clock=lambda: 0.0)
    short: Any = np.float32(1)
    keyed.try_acquire("tried", short)
    keyed.charge("charged", short)
    for key in ("tried", "charged"):
        for _ in range(2):
            keyed.try_acquire(key, 1)
        assert keyed.level(key) == 2.0**25 - 3.0
