"""One bucket: levels, debt, windows, terms with a deadline, counters."""

from __future__ import annotations

from math import inf

import pytest

from headgate.agent.bucket.bucket import PART_GROWS_S, Bucket
from headgate.agent.bucket.chain import charge_chain_at, give_back_before
from headgate.agent.bucket.level import LULL_S
from headgate.agent.bucket.suppression import AttemptedRate
from headgate.agent.bucket.terms import SharedTerms

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
    bucket.set_rate_at(100.0, rate=10.0, capacity=10.0)
    assert bucket.held_at(100.0) == 10.0


def test_time_before_a_raise_earns_at_the_old_rate_and_capacity() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=5.0, level=0.0)
    bucket.set_rate_at(100.0, rate=1_000.0, capacity=1_000.0)
    assert bucket.held_at(100.0) == 5.0


def test_after_the_deadline_a_bucket_refills_at_the_reserve_only() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1_000.0, level=0.0)
    bucket.set_rate_at(0.0, rate=100.0, capacity=1_000.0, deadline_s=2.0, reserve=5.0)
    assert bucket.held_at(2.0) == 200.0
    assert bucket.held_at(4.0) == 210.0
    assert bucket.try_acquire_at(4.0, 1.0) == 0.0
    assert bucket.held_at(4.0) == 209.0
    assert bucket.held_at(5.0) == 214.0


def test_a_new_ceiling_settles_what_was_earned_across_the_old_deadline() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1_000.0, level=0.0)
    bucket.set_rate_at(0.0, rate=100.0, capacity=1_000.0, deadline_s=1.0, reserve=1.0)
    bucket.set_rate_at(3.0, rate=0.0, capacity=1_000.0)
    assert bucket.held_at(9.0) == 102.0


def test_a_rate_of_zero_lets_nothing_through() -> None:
    bucket = Bucket(0.0, rate=0.0, capacity=100.0)
    assert bucket.try_acquire_at(0.0, 1.0) == inf
    assert bucket.try_acquire_at(YEAR_S, 1.0) == inf
    bucket.set_rate_at(YEAR_S, rate=1.0, capacity=1.0)
    assert bucket.try_acquire_at(YEAR_S, 1.0) == 0.0
    bucket.close_at(YEAR_S)
    assert bucket.try_acquire_at(YEAR_S + 9.0, 1.0) == inf


def test_unlimited_admits_any_cost_and_can_be_limited_again() -> None:
    bucket = Bucket(0.0, rate=inf, capacity=1.0)
    assert all(bucket.try_acquire_at(0.0, 1e12) == 0.0 for _ in range(10))
    assert bucket.held_at(1.0) == 0.0
    bucket.set_rate_at(1.0, rate=1.0, capacity=1.0)
    assert bucket.try_acquire_at(1.0, 1.0) == 0.0
    assert bucket.try_acquire_at(1.0, 1.0) == 1.0


def test_a_part_that_is_taken_away_and_given_back_forgives_no_debt() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=10.0)
    assert bucket.try_acquire_at(0.0, 30.0) == 0.0
    bucket.close_at(0.0)
    assert bucket.held_at(5.0) == 0.0
    assert bucket.try_acquire_at(5.0, 1.0) == inf
    bucket.set_rate_at(5.0, rate=10.0, capacity=10.0)
    assert bucket.held_at(5.0) == -20.0
    assert bucket.try_acquire_at(5.0, 1.0) == 2.0
    bucket.set_rate_at(9.0, rate=10.0, capacity=10.0)
    bucket.close_at(9.0)
    bucket.set_rate_at(9.0, rate=10.0, capacity=10.0)
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


def test_a_full_bucket_loses_nothing_within_a_lull() -> None:
    bucket = Bucket(0.0, rate=100_000.0, capacity=1_000.0)
    exact = 1_000.0
    for step in range(5):
        now = step * LULL_S / 10
        exact = min(1_000.0, exact + (LULL_S / 10 * 100_000.0 if step else 0.0))
        assert bucket.try_acquire_at(now, 9.0) == 0.0
        exact -= 9.0
        assert bucket.level_at(now) == pytest.approx(exact)


def shared(
    bucket: Bucket,
    now: float,
    *,
    level: float,
    room: float,
    window: float,
    **more: float,
) -> None:
    terms = {"rate": 0.0, "expected_rate": 0.0, "counted": bucket.admitted, **more}
    bucket.share_at(
        now,
        SharedTerms(
            ceiling=5.0,
            level=level,
            rate=terms["rate"],
            capacity=100.0,
            room=room,
            window=window,
            expected_rate=terms["expected_rate"],
            room_cap=inf,
            cautious=bool(terms.get("cautious", 0.0)),
            quota=10.0,
            least_delay_s=terms.get("least_delay_s", 0.1),
            reserve=terms.get("reserve", 0.0),
        ),
        as_of_s=now,
        counted=terms["counted"],
        burst=terms.get("burst", inf),
        may_owe=True,
        deadline_s=terms.get("deadline_s", inf),
    )


def test_a_shared_bucket_admits_until_more_than_its_window_is_untold() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=50.0, room=3.0, window=3.0)
    assert [bucket.try_acquire_at(0.0, 1.0) for _ in range(6)] == [0.0] * 4 + [0.1] * 2
    assert bucket.level_at(0.0) == 46.0


def test_terms_made_before_a_limit_was_lowered_hold_no_more_than_its_burst() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=50.0, room=inf, window=inf, burst=8.0)
    assert bucket.level_at(0.0) == 8.0


def test_the_room_of_a_shared_bucket_grows_by_what_others_expect() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=50.0, room=-2.0, window=3.0, expected_rate=10.0)
    assert bucket.try_acquire_at(0.1, 1.0) == pytest.approx(0.1)
    assert bucket.try_acquire_at(0.2, 1.0) == 0.0


def test_one_of_whom_nothing_is_expected_admits_what_fits_or_the_first() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=50.0, room=3.0, window=3.0, cautious=1.0)
    assert bucket.try_acquire_at(0.0, 9.0) == 0.0  # the first that others don't know
    assert bucket.try_acquire_at(0.0, 1.0) == 0.1
    shared(bucket, 1.0, level=41.0, room=2.5, window=3.0, cautious=1.0)
    assert bucket.try_acquire_at(1.0, 3.0) == 0.1
    assert bucket.fitting_at(1.0, 1.0) == 2.0
    assert bucket.try_acquire_at(1.0, 2.0) == 0.0


def test_a_refusal_tells_the_delay_of_the_whole_bucket_not_of_a_part() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=-20.0, room=3.0, window=3.0, rate=1.0)
    assert bucket.try_acquire_at(0.0, 1.0) == 2.0
    assert bucket.try_acquire_at(1.0, 1.0) == pytest.approx(1.0)


def test_what_was_admitted_since_the_terms_were_found_comes_on_top_of_them() -> None:
    bucket = Bucket(0.0, rate=10.0, capacity=100.0)
    assert bucket.try_acquire_at(0.0, 7.0) == 0.0
    shared(bucket, 0.0, level=50.0, room=20.0, window=20.0, counted=0.0)
    assert (bucket.level_at(0.0), bucket.available_at(0.0)) == (43.0, 13.0)


def test_past_its_deadline_a_shared_bucket_has_a_part_of_its_own() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=80.0, room=3.0, window=3.0, deadline_s=1.0, reserve=2.0)
    bucket.settle(2.0)
    assert (bucket.level_at(2.0), bucket.capacity, bucket.rate) == (5.0, 20.0, 2.0)
    shared(bucket, 3.0, level=-80.0, room=3.0, window=3.0, deadline_s=3.0, reserve=2.0)
    bucket.settle(3.5)
    assert bucket.level_at(3.5) == pytest.approx(-15.0)


@pytest.mark.parametrize(
    ("level", "room", "left"),
    [(80.0, 30.0, 16.0), (80.0, 3.0, 3.0), (-80.0, 3.0, -16.0)],
)
def test_who_leaves_a_shared_bucket_takes_a_part_of_its_level_or_debt(
    level: float, room: float, left: float
) -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=level, room=room, window=30.0)
    bucket.set_rate_at(0.0, rate=2.0, capacity=20.0)
    assert bucket.level_at(0.0) == left
    bucket.set_rate_at(0.0, rate=1.0, capacity=20.0)
    assert bucket.level_at(0.0) == left  # once


def test_a_limit_of_zero_forgives_no_debt_of_a_shared_bucket() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=-80.0, room=3.0, window=30.0)
    bucket.close_at(0.0)
    assert bucket.level_at(0.0) == -80.0


def test_a_shared_bucket_counts_what_overflows_before_a_charge() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=95.0, room=50.0, window=50.0, rate=10.0)
    assert bucket.try_acquire_at(1.0, 2.0) == 0.0
    assert (bucket.overflowed, bucket.level_at(1.0)) == (5.0, 98.0)
    shared(bucket, 9.0, level=100.0, room=50.0, window=50.0, rate=10.0)
    assert bucket.overflowed == 5.0  # the ledger has cut its level by itself


def test_mean_cost_is_sampled_once_a_lull() -> None:
    bucket = Bucket(0.0, rate=1e6, capacity=1e6, level=5e5)
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


def test_a_refusal_never_looks_like_an_admission() -> None:
    """A delay of 0 says that a request was admitted."""
    bucket = Bucket(0.0, rate=1.0, capacity=1.0)
    shared(bucket, 0.0, level=50.0, room=0.0, window=0.0, least_delay_s=0.0)
    assert bucket.try_acquire_at(0.0, 1.0) == 0.0
    for now in (0.0, 0.0, 0.001, 1.0):
        assert bucket.try_acquire_at(now, 1.0) > 0.0
        assert bucket.delay_at(now, 1.0) > 0.0
    assert bucket.admitted == 1.0


def test_a_part_that_is_too_small_for_a_request_tells_when_it_could_have_grown() -> (
    None
):
    bucket = Bucket(0.0, rate=1.0, capacity=1.0, may_owe=False, maximum_cost=100.0)
    for own in (0.0, 0.01):
        bucket.set_rate_at(0.0, rate=own, capacity=10.0 * own, whole_rate=10.0)
        assert bucket.try_acquire_at(0.0, 1.0) == PART_GROWS_S
        assert bucket.try_acquire_at(0.0, 30.0) == pytest.approx(3.0, rel=0.01)
        assert bucket.try_acquire_at(0.0, 101.0) == inf


def test_a_lowered_rate_takes_no_tokens_of_a_part_away() -> None:
    bucket = Bucket(0.0, rate=100.0, capacity=500.0)
    bucket.lower_at(0.0, rate_part=0.1, burst_part=1.0, capacity=1000.0)
    assert bucket.level_at(0.0) == 500.0
    assert bucket.level_at(10.0) == bucket.capacity == 500.0
    bucket.lower_at(0.0, rate_part=1.0, burst_part=0.5, capacity=500.0)
    assert bucket.level_at(0.0) == 250.0


def test_an_empty_part_that_suppresses_admits_nothing_and_says_so() -> None:
    bucket = Bucket(0.0, rate=1.0, capacity=1.0, may_owe=False)
    bucket.suppress(AttemptedRate(0.0))
    bucket.set_rate_at(0.0, rate=0.0, capacity=0.0, whole_rate=10.0)
    assert bucket.try_acquire_at(0.0, 1.0) > 0.0
    assert bucket.delay_at(0.0, 1.0) > 0.0
    assert bucket.fitting_at(0.0, 1.0) == 0.0


def inside(above: Bucket, **options: bool) -> Bucket:
    """Return a bucket of a hundred units inside another one."""
    bucket = Bucket(0.0, rate=1.0, capacity=100.0, **options)
    bucket.stand_inside(above)
    return bucket


@pytest.mark.parametrize("may_owe", [True, False])
def test_a_bucket_inside_another_admits_what_both_have(*, may_owe: bool) -> None:
    top = Bucket(0.0, rate=1.0, capacity=12.0, may_owe=False)
    above = Bucket(0.0, rate=1.0, capacity=10.0, may_owe=False)
    above.stand_inside(top)
    one, two = inside(above, may_owe=may_owe), inside(above, may_owe=may_owe)
    assert one.try_acquire_at(0.0, 7.0) == 0.0
    assert two.available_at(0.0) == 3.0
    assert two.fitting_at(0.0, 2.0) == 1.0
    assert two.delay_at(0.0, 4.0) == pytest.approx(1.0)
    assert two.try_acquire_at(0.0, 4.0) == pytest.approx(1.0)
    assert (two.admitted, two.refused, two.level_at(0.0)) == (0.0, 4.0, 100.0)
    assert two.try_acquire_at(1.0, 4.0) == 0.0
    assert (above.level_at(1.0), top.level_at(1.0)) == (0.0, 2.0)
    two.give_back(3.0)
    assert (above.level_at(1.0), top.level_at(1.0)) == (3.0, 5.0)
    two.charge_at(1.0, 5.0)
    assert (above.level_at(1.0), top.level_at(1.0)) == (-2.0, 0.0)
    two.stand_inside(None)
    assert two.try_acquire_at(1.0, 4.0) == 0.0


def test_a_bucket_that_suppresses_asks_the_one_above() -> None:
    above = Bucket(0.0, rate=1.0, capacity=2.0, may_owe=False)
    bucket = inside(above)
    bucket.suppress(AttemptedRate(0.0))
    admitted = sum(bucket.try_acquire_at(0.0, 1.0) == 0.0 for _ in range(20))
    assert admitted == 2
    assert bucket.admitted == 2.0
