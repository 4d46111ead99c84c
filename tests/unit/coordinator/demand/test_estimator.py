from __future__ import annotations

import numpy as np
import pytest
from tests.scenarios.world import World

from headgate.coordinator.demand.estimator import Demand

TICK_S = 0.025
COST = np.ones(1)


def follow(rates: list[tuple[float, float]], seed: int) -> list[float]:
    """Return λ at each tick for Poisson arrivals at (rate, seconds) in turn."""
    random = np.random.default_rng(seed)
    demand, now, total = Demand(1, 0.0), 0.0, 0.0
    seen: list[float] = []
    for rate, seconds in rates:
        for _ in range(round(seconds / TICK_S)):
            now += TICK_S
            total += float(random.poisson(rate * TICK_S))
            demand.look(now, np.array([total]), COST)
            seen.append(float(demand.rate[0]))
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_steady_demand_is_estimated_within_four_sigma(seed: int) -> None:
    seen = follow([(1000.0, 10.0)], seed)[80:]
    assert np.abs(np.array(seen) - 1000).max() < 4.5 * np.sqrt(1000 / 1.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("before", "after"), [(100.0, 1000.0), (1000.0, 100.0)])
def test_a_rise_and_a_fall_are_seen_alike_within_75_ms(
    before: float, after: float, seed: int
) -> None:
    seen = follow([(before, 3.0), (after, 1.0)], seed)
    at = round(3.0 / TICK_S)
    assert abs(seen[at + 2] - after) < abs(before - after) * 0.35


@pytest.mark.parametrize("seed", range(5))
def test_a_small_change_is_seen_by_the_longer_windows(seed: int) -> None:
    seen = follow([(40.0, 5.0), (160.0, 1.0)], seed)
    at = round(5.6 / TICK_S)
    assert seen[at] > 90


@pytest.mark.parametrize("seed", range(5))
def test_the_end_of_demand_is_seen_without_a_request(seed: int) -> None:
    seen = follow([(400.0, 2.0), (0.0, 0.2)], seed)
    assert seen[-1] == 0.0


def test_demand_after_a_long_rest_is_seen_at_once() -> None:
    random = np.random.default_rng(3)
    demand, now, total = Demand(1, 0.0), 0.0, 0.0
    for _ in range(400):
        now += TICK_S
        if demand.due(now):
            demand.look(now, np.array([total]), COST)
        else:
            demand.rest(now)
    for _ in range(3):
        now += TICK_S
        total += float(random.poisson(800 * TICK_S))
        demand.look(now, np.array([total]), COST)
    assert demand.rate[0] == pytest.approx(800, rel=0.35)


def rest_for(demand: Demand, since: float, seconds: float, total: float) -> int:
    """Tick without a request; return how many looks that took."""
    looks = 0
    for i in range(round(seconds / TICK_S)):
        now = since + (i + 1) * TICK_S
        if demand.due(now):
            demand.look(now, np.array([total]), COST)
            looks += 1
        else:
            demand.rest(now)
    return looks


def test_a_single_request_is_forgotten_with_few_looks() -> None:
    demand = Demand(1, 0.0)
    demand.look(TICK_S, np.ones(1), COST)
    assert rest_for(demand, TICK_S, 5.0, 1.0) < 60
    assert 0.0 < demand.rate[0] < 0.5
    assert rest_for(demand, 5.0 + TICK_S, 40.0, 1.0) < 200
    assert demand.rate[0] == 0.0
    assert rest_for(demand, 45.0 + TICK_S, 40.0, 1.0) == 0


def test_demand_is_seen_at_once_while_an_earlier_one_fades() -> None:
    random = np.random.default_rng(3)
    demand, total = Demand(1, 0.0), 3.0
    demand.look(TICK_S, np.array([total]), COST)
    rest_for(demand, TICK_S, 3.0, total)
    assert demand.rate[0] > 0.0
    for i in range(3):
        total += float(random.poisson(800 * TICK_S))
        demand.look(3.0 + (i + 2) * TICK_S, np.array([total]), COST)
    assert demand.rate[0] == pytest.approx(800, rel=0.35)


def test_buckets_do_not_disturb_each_other() -> None:
    random = np.random.default_rng(5)
    arrivals = random.poisson([5, 0, 50, 1], (200, 4)).cumsum(axis=0).astype(float)
    together = Demand(4, 0.0)
    alone = [Demand(1, 0.0) for _ in range(4)]
    for i, totals in enumerate(arrivals):
        now = (i + 1) * TICK_S
        together.look(now, totals, np.ones(4))
        for j, one in enumerate(alone):
            one.look(now, totals[[j]], COST)
    assert together.rate.tolist() == [float(one.rate[0]) for one in alone]


def test_a_pause_leaves_no_negative_or_absurd_estimate() -> None:
    demand = Demand(1, 0.0)
    for i in range(100):
        demand.look((i + 1) * TICK_S, np.array([10.0 * (i + 1)]), COST)
    demand.look(2.5 + 20.0, np.array([1000.0]), COST)
    assert 0.0 <= demand.rate[0] < 500.0


def test_a_total_that_falls_is_no_demand_below_zero() -> None:
    # A parent group's, when a child that used much is moved to another parent.
    demand, now = Demand(1, 0.0), 0.0
    totals = [1000.0 * n for n in range(40)] + [10.0 + n for n in range(80)]
    with np.errstate(all="raise"):
        for total in totals:
            now += TICK_S
            demand.look(now, np.array([total]), COST)
            assert demand.rate[0] >= 0.0
            assert demand.sigma(COST)[0] >= 0.0
    assert demand.rate[0] == pytest.approx(1 / TICK_S, rel=0.3)


def count(ticks: list[float]) -> Demand:
    """Follow 2 s at 1,000/s, then the given requests, tick by tick."""
    demand, now, total = Demand(1, 0.0), 0.0, 0.0
    for came in [25.0] * 80 + ticks:
        now, total = now + TICK_S, total + came
        demand.look(now, np.array([total]), COST)
    return demand


def test_a_new_estimate_rests_on_all_requests_since_the_change() -> None:
    # The tick before the newest had more than that one by chance, not by a rate.
    assert count([10.0, 4.0]).rate[0] == pytest.approx(14 / (2 * TICK_S))


def test_a_tick_in_which_demand_changed_is_left_out() -> None:
    assert count([15.0, 3.0]).rate[0] == pytest.approx(3 / TICK_S)


@pytest.mark.filterwarnings("error")
def test_a_total_that_fell_ends_the_look_back() -> None:
    # A child that had counted 10 leaves its parent in the tick before a rise.
    demand, total = Demand(1, 0.0), 0.0
    for tick, more in enumerate([1.0] * 198 + [-9.0, 60.0], start=1):
        total += more
        demand.look(tick * TICK_S, np.array([total]), COST)
    assert demand.rate[0] == pytest.approx(60.0 / TICK_S)


@pytest.mark.long
def test_who_looks_as_a_rare_request_comes_is_told_how_rare_it_is() -> None:
    # One in 10 s, over two hours: half of the requests of the average is the newest.
    random = np.random.default_rng(7)
    demand, total = Demand(1, 0.0), 0.0
    moved: list[float] = []
    unmoved: list[float] = []
    for tick in range(round(7200 / 0.25)):
        came = float(random.poisson(0.1 * 0.25))
        total += came
        demand.look((tick + 1) * 0.25, np.array([total]), COST)
        if came:
            moved.append(float(demand.rate[0]))
            unmoved.append(float(demand.unmoved()[0]))
    assert np.mean(unmoved) == pytest.approx(0.1, rel=0.15)
    assert np.mean(moved) > 0.25


def test_after_a_change_all_that_is_known_is_told() -> None:
    assert count([200.0, 200.0]).unmoved()[0] == pytest.approx(200 / TICK_S)


def test_an_admission_that_is_told_at_once_does_not_tell_of_more_demand() -> None:
    world = World()
    world.group(1, rate=1, burst=1)
    world.start("a")
    world.start("b")
    world.run(2.0)
    world.use("a", 1, 1, 0)
    world.run(0.1)
    rows = world.processes["a"].sent[-1].rows[0]
    assert rows.admitted.tolist() == [1.0]
    assert rows.demand.tolist() == [0.0]
