"""Keyed limiters: bounded, and never forgetful of a debt."""

from __future__ import annotations

import threading
from math import inf, nan

import pytest
from tests.unit.agent.making import Clock

from headgate.agent.errors import InvalidCost
from headgate.agent.limiter.keyed import IDLE_S, KeyedLimiter


def test_each_key_has_the_whole_limit() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1, burst=2, clock=clock)
    for key in ("a", "b"):
        outcomes = [bool(keyed.try_acquire(key)) for _ in range(4)]
        assert outcomes == [True, True, True, False]
    assert keyed.try_acquire("a").delay_s == 1.0


def test_keys_that_come_once_do_not_stay_for_ever() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1, burst=1, clock=clock, most_keys=100)
    for key in range(10_000):
        assert keyed.try_acquire(key)
        clock.now += 0.1
    assert len(keyed) <= 100
    assert keyed.overflowed == 0
    assert keyed.evicted >= 9_900


def test_idle_keys_go_long_before_there_is_no_room() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1, burst=1, clock=clock)
    for key in range(10_000):
        keyed.try_acquire(key)
        clock.now += 0.1
    assert len(keyed) <= 2 * IDLE_S / 0.1


def test_eviction_never_forgets_a_debt() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1, burst=10, clock=clock, most_keys=50)
    keyed.try_acquire("debtor", 10_010)
    for key in range(5_000):
        keyed.try_acquire(key, 0.5)
        clock.now += 1.0
    assert keyed.try_acquire("debtor").delay_s == pytest.approx(5_000.0)


def test_a_table_full_of_debts_refuses_newcomers_rather_than_forget() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1, burst=1, clock=clock, most_keys=10)
    for key in range(10):
        keyed.try_acquire(key, 100)
    outcomes = [bool(keyed.try_acquire(key)) for key in range(10, 20)]
    assert outcomes == [True, True] + [False] * 8
    assert len(keyed) == 10
    assert keyed.overflowed == 10


def test_what_was_handed_over_is_owed_no_more() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1, burst=10, clock=clock, may_owe=False)
    assert keyed.hand_over("a") == 0.0
    assert keyed.try_acquire("a", 7)
    clock.now += 2.0
    assert keyed.hand_over("a") == pytest.approx(5.0)
    assert keyed.hand_over("a") == 0.0
    assert keyed.level("a") == 10.0


def test_a_cost_above_the_burst_is_never_where_debt_is_not_allowed() -> None:
    keyed = KeyedLimiter(rate=1, burst=5, clock=Clock(), may_owe=False)
    assert keyed.try_acquire("a", 6).never
    assert keyed.try_acquire("a", 5)
    assert keyed.try_acquire("a", 0)


@pytest.mark.parametrize("cost", [-1, nan, inf])
def test_a_cost_that_is_no_quantity_is_one_clear_error(cost: float) -> None:
    keyed = KeyedLimiter(rate=1, burst=5, clock=Clock())
    with pytest.raises(InvalidCost, match="expected a finite cost"):
        keyed.try_acquire("a", cost)


@pytest.mark.parametrize("rate", [0, -1, nan, inf])
def test_a_limit_that_is_none_is_one_clear_error(rate: float) -> None:
    with pytest.raises(InvalidCost, match="finite and > 0"):
        KeyedLimiter(rate=rate, burst=5, clock=Clock())


def test_no_charge_is_lost_while_keys_come_and_go_under_threads() -> None:
    clock = Clock()
    keyed = KeyedLimiter(rate=1e-9, burst=1_000, clock=clock, most_keys=8)
    admitted = [0] * 4

    def work(index: int) -> None:
        for step in range(3_000):
            admitted[index] += bool(keyed.try_acquire("shared"))
            keyed.try_acquire((index, step), 1e-12)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 1_001
