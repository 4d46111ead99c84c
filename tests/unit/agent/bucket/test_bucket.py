"""One bucket: levels, debt, ceilings with a deadline, chances, counters."""

from __future__ import annotations

from math import inf

import pytest

from headgate.agent.bucket.bucket import Bucket
from headgate.agent.bucket.chain import charge_chain_at, give_back_before
from headgate.agent.bucket.level import LULL_S

YEAR_S = 365.25 * 86_400


def test_kip599_a_burst_of_560_at_5_per_second_owes_60_and_waits_12_seconds() -> None:
    bucket = Bucket(0.0, rate=5.0, capacity=500.0)
    assert bucket.try_acquire_at(0.0, 560.0) == 0.0
    assert bucket.held_at(0.0) == -60.0
    assert bucket.try_acquire_at(0.0, 1.0) == 12.0
    assert bucket.try_acquire_at(11.9, 1.0) == pytest.approx(0.1)
    assert bucket.try_acquire_at(12.0, 1.0) == 0.0


def test_a_strict_bucket_never_owes_and_waits_for_the_whole_cost() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=100.0, may_owe=False)
    assert bucket.try_acquire_at(0.0, 60.0) == 0.0
    assert bucket.try_acquire_at(0.0, 60.0) == 2.0
    assert bucket.try_acquire_at(0.0, 101.0) == inf
    assert bucket.try_acquire_at(2.0, 60.0) == 0.0
    assert bucket.held_at(2.0) == 0.0


def test_a_cost_above_the_maximum_is_refused_for_ever_even_when_it_may_owe() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=1.0, maximum_cost=50.0)
    assert bucket.try_acquire_at(0.0, 51.0) == inf
    assert bucket.try_acquire_at(0.0, 50.0) == 0.0


def test_what_was_attempted_is_what_was_admitted_and_refused() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=2.0)
    for _ in range(7):
        bucket.try_acquire_at(0.0, 1.0)
    assert (bucket.admitted, bucket.refused) == (3.0, 4.0)


def test_a_lowered_limit_is_not_followed_by_a_burst_of_old_tokens() -> None:
    bucket = Bucket(0.0, rate=1_000.0, capacity=1_000.0)
    bucket.set_ceiling_at(100.0, ceiling=10.0, capacity=10.0)
    assert bucket.held_at(100.0) == 10.0


def test_time_before_a_raise_earns_at_the_old_rate_and_capacity() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=5.0, level=0.0)
    bucket.set_ceiling_at(100.0, ceiling=1_000.0, capacity=1_000.0)
    assert bucket.held_at(100.0) == 5.0


def test_after_the_deadline_a_bucket_refills_at_the_reserve_only() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1_000.0, level=0.0)
    bucket.set_ceiling_at(
        0.0, ceiling=100.0, capacity=1_000.0, deadline_s=2.0, reserve=5.0
    )
    assert bucket.held_at(2.0) == 200.0
    assert bucket.held_at(4.0) == 210.0
    assert bucket.try_acquire_at(4.0, 1.0) == 0.0
    assert bucket.held_at(4.0) == 209.0
    assert bucket.held_at(5.0) == 214.0


def test_a_new_ceiling_settles_what_was_earned_across_the_old_deadline() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1_000.0, level=0.0)
    bucket.set_ceiling_at(
        0.0, ceiling=100.0, capacity=1_000.0, deadline_s=1.0, reserve=1.0
    )
    bucket.set_ceiling_at(3.0, ceiling=0.0, capacity=1_000.0)
    assert bucket.held_at(9.0) == 102.0


def test_a_rate_of_zero_lets_nothing_through() -> None:
    bucket = Bucket(0.0, rate=0.0, capacity=100.0)
    assert bucket.try_acquire_at(0.0, 1.0) == inf
    assert bucket.try_acquire_at(YEAR_S, 1.0) == inf
    bucket.set_ceiling_at(YEAR_S, ceiling=1.0, capacity=1.0)
    assert bucket.try_acquire_at(YEAR_S, 1.0) == 0.0
    bucket.close_at(YEAR_S)
    assert bucket.try_acquire_at(YEAR_S + 9.0, 1.0) == inf


def test_unlimited_admits_any_cost_and_can_be_limited_again() -> None:
    bucket = Bucket(0.0, rate=inf, capacity=1.0)
    assert all(bucket.try_acquire_at(0.0, 1e12) == 0.0 for _ in range(10))
    assert bucket.held_at(1.0) == 0.0
    bucket.set_ceiling_at(1.0, ceiling=1.0, capacity=1.0)
    assert bucket.try_acquire_at(1.0, 1.0) == 0.0
    assert bucket.try_acquire_at(1.0, 1.0) == 1.0


def test_a_bucket_without_tokens_admits_its_part_of_the_attempts() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0, seed=7)
    bucket.set_ceiling_at(0.0, ceiling=2.0, capacity=0.0, probability=0.2)
    outcomes = [bucket.try_acquire_at(0.0, 1.0) for _ in range(20_000)]
    admitted = outcomes.count(0.0)
    assert 3_800 < admitted < 4_200
    assert set(outcomes) == {0.0, 0.5}
    assert bucket.held_at(0.0) == 0.0
    assert (bucket.admitted, bucket.refused) == (admitted, 20_000 - admitted)


def test_the_same_seed_draws_the_same_chances() -> None:
    def draws(seed: int) -> list[float]:
        bucket = Bucket(0.0, rate=1.0, capacity=1.0, seed=seed)
        bucket.set_ceiling_at(0.0, ceiling=1.0, capacity=0.0, probability=0.5)
        return [bucket.try_acquire_at(0.0, 1.0) for _ in range(100)]

    assert draws(3) == draws(3) != draws(4)


def test_a_chance_past_its_deadline_becomes_a_rate_of_the_reserve() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    bucket.set_ceiling_at(
        0.0, ceiling=9.0, capacity=0.0, probability=0.9, deadline_s=1.0, reserve=0.5
    )
    times = [1.0 + step / 10 for step in range(1, 1_001)]
    admitted = sum(bucket.try_acquire_at(now, 1.0) == 0.0 for now in times)
    assert 49 <= admitted <= 52


def test_a_chance_past_its_deadline_without_a_reserve_admits_nothing() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    bucket.set_ceiling_at(
        0.0, ceiling=9.0, capacity=0.0, probability=0.9, deadline_s=1.0
    )
    assert bucket.try_acquire_at(1.5, 1.0) == inf


def test_a_part_that_is_taken_away_and_given_back_forgives_no_debt() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=10.0)
    assert bucket.try_acquire_at(0.0, 30.0) == 0.0
    bucket.close_at(0.0)
    assert bucket.held_at(5.0) == 0.0
    assert bucket.try_acquire_at(5.0, 1.0) == inf
    bucket.set_ceiling_at(5.0, ceiling=10.0, capacity=10.0)
    assert bucket.held_at(5.0) == -20.0
    assert bucket.try_acquire_at(5.0, 1.0) == 2.0
    bucket.set_ceiling_at(9.0, ceiling=10.0, capacity=10.0)
    bucket.close_at(9.0)
    bucket.set_ceiling_at(9.0, ceiling=10.0, capacity=10.0)
    assert bucket.held_at(9.0) == 0.0  # tokens are not kept


def test_after_a_year_of_uptime_a_billion_a_second_loses_no_charge() -> None:
    bucket = Bucket(YEAR_S, rate=1e9, capacity=1e9)
    for _ in range(1_000):
        assert bucket.try_acquire_at(YEAR_S, 1.0) == 0.0
    assert bucket.held_at(YEAR_S) == 1e9 - 1_000
    now = YEAR_S
    bucket = Bucket(now, rate=1e9, capacity=1e9, level=0.0)
    for _ in range(10_000):
        now += 1e-6
        bucket.try_acquire_at(now, 1_000.0)
    assert bucket.admitted == pytest.approx((now - YEAR_S) * 1e9, abs=2_000)


def test_fractional_costs_add_up_exactly() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1_000.0)
    admitted = sum(bucket.try_acquire_at(0.0, 0.125) == 0.0 for _ in range(10_000))
    assert admitted == 8_001
    assert bucket.admitted == 1_000.125
    assert bucket.refused == 1_999 * 0.125
    assert bucket.level_at(0.0) == -0.125


@pytest.mark.parametrize("leap_s", [1.0, 86_400.0, 3e9])
def test_a_clock_that_leaps_ahead_fills_the_bucket_once(leap_s: float) -> None:
    bucket = Bucket(0.0, rate=1e9, capacity=100.0)
    for now in (0.0, leap_s, leap_s):
        while bucket.try_acquire_at(now, 1.0) == 0.0:
            pass
    assert bucket.admitted == 101.0 + 101.0


def test_a_delay_that_is_told_is_enough_within_a_lull_too() -> None:
    bucket = Bucket(0.0, rate=2e6, capacity=1.0)
    for cost in (1.0, 2.0, 1.0, 3.0):
        bucket.try_acquire_at(0.0, cost)
    delay_s = bucket.try_acquire_at(1e-7, 1.0)
    assert delay_s > 0.0
    assert bucket.try_acquire_at((1e-7 + delay_s) * (1 + 1e-12), 1.0) == 0.0


def test_a_clock_set_back_neither_earns_nor_freezes() -> None:
    bucket = Bucket(1_000.0, rate=10.0, capacity=10.0, level=0.0)
    bucket.try_acquire_at(1_000.0, 1.0)
    assert bucket.try_acquire_at(400.0, 1.0) == pytest.approx(0.1)
    assert bucket.try_acquire_at(400.2, 1.0) == 0.0


def test_a_time_read_just_before_a_switch_of_threads_earns_nothing_twice() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=10.0, level=0.0)
    bucket.try_acquire_at(0.5, 10.0)
    bucket.try_acquire_at(0.4, 10.0)
    assert bucket.held_at(0.5) == -5.0


def test_a_refusal_in_a_chain_leaves_the_stopping_bucket_uncharged() -> None:
    wide = Bucket(0.0, rate=1.0, capacity=10.0)
    narrow = Bucket(0.0, rate=1.0, capacity=1.0, level=-1.0)
    assert charge_chain_at((wide, narrow), 0.0, 2.0) is narrow
    assert (wide.level_at(0.0), narrow.level_at(0.0)) == (8.0, -1.0)
    assert narrow.refused == 2.0
    give_back_before((wide, narrow), narrow, 2.0)
    assert (wide.level_at(0.0), wide.admitted) == (10.0, 0.0)
    assert narrow.level_at(0.0) == -1.0


def test_asking_for_the_delay_changes_nothing() -> None:
    bucket = Bucket(0.0, rate=5.0, capacity=10.0, level=-10.0)
    assert bucket.delay_at(0.0, 1.0) == 2.0
    assert bucket.delay_at(2.0, 1.0) == 0.0
    assert (bucket.admitted, bucket.refused, bucket.sampled) == (0.0, 0.0, 0)


def test_what_is_charged_within_a_lull_is_paid_to_the_unit() -> None:
    bucket = Bucket(0.0, rate=1_000.0, capacity=100.0, level=50.0)
    admitted = 0
    for step in range(1_000):  # ten lulls, each of a hundred attempts
        admitted += bucket.try_acquire_at(step * LULL_S / 100, 1.0) == 0.0
    assert admitted == 60
    assert bucket.admitted == 60.0


def test_a_lull_loses_at_most_its_own_refill_of_a_full_bucket_and_wins_nothing() -> (
    None
):
    bucket = Bucket(0.0, rate=100_000.0, capacity=1_000.0)
    for step in range(5):
        bucket.try_acquire_at(step * LULL_S / 10, 100.0)
    level = bucket.level_at(LULL_S / 2)
    exact = 1_000.0 - 500.0 + LULL_S / 2 * 100_000.0
    assert exact - LULL_S * 100_000.0 <= level <= exact
    settled = Bucket(0.0, rate=1e6, capacity=1_000.0)
    settled.try_acquire_at(0.0, 1.0)
    settled.try_acquire_at(LULL_S / 2, 200.0)
    assert settled.level_at(LULL_S) == pytest.approx(1_000.0 - 200.0)
    assert settled.try_acquire_at(LULL_S, 0.5) == 0.0
    assert settled.level_at(LULL_S) == pytest.approx(1_000.0 - 200.5)


def test_mean_cost_is_sampled_once_a_lull() -> None:
    bucket = Bucket(0.0, rate=1e6, capacity=1e6)
    for step in range(1_000):
        bucket.try_acquire_at(step * LULL_S / 10, 7.0)
    assert bucket.sampled_units / bucket.sampled == 7.0
    assert 90 <= bucket.sampled <= 110


def test_what_is_charged_within_a_lull_and_given_back_is_no_overflow() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=10.0)
    for _ in range(5):
        assert bucket.try_acquire_at(0.0, 1.0) == 0.0
        bucket.give_back(1.0)
    assert bucket.level_at(0.01) == pytest.approx(10.0, abs=0.01)
    bucket.settle(0.01)
    assert bucket.level_at(0.01) == pytest.approx(10.0, abs=0.01)
    assert bucket.admitted == 0.0
