from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.allocation.oracle import max_min

from headgate.coordinator.allocation.max_min import level_of, shares_at, water_level

demands = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-3, 1e6)), min_size=1, max_size=12
)


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[list[float], list[float], float]:
    demand = draw(demands)
    weight = draw(
        st.lists(
            st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]),
            min_size=len(demand),
            max_size=len(demand),
        )
    )
    return demand, weight, draw(st.floats(0.0, 2e6))


def solve(
    demand: list[float], weight: list[float], available: float
) -> tuple[float, list[float]]:
    column = np.array(demand)[:, None], np.array(weight)[:, None]
    theta = water_level(*column, np.array([available]))
    shares: list[float] = shares_at(theta, *column)[:, 0].tolist()
    return float(theta[0]), shares


@pytest.mark.long
@given(problems())
@settings(max_examples=400, deadline=None)
def test_shares_are_those_of_the_scalar_twin(
    problem: tuple[list[float], list[float], float],
) -> None:
    demand, weight, available = problem
    _, shares = solve(demand, weight, available)
    _, expected = max_min(demand, weight, available)
    assert shares == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.long
@given(problems())
@settings(max_examples=400, deadline=None)
def test_shares_sum_to_what_is_there_or_to_what_is_wanted(
    problem: tuple[list[float], list[float], float],
) -> None:
    demand, weight, available = problem
    _, shares = solve(demand, weight, available)
    wanted = sum(d for d, w in zip(demand, weight, strict=True) if w > 0)
    assert sum(shares) == pytest.approx(min(wanted, available), rel=1e-9, abs=1e-6)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_nobody_gets_more_than_it_wants_or_more_per_weight_than_the_hungry(
    problem: tuple[list[float], list[float], float],
) -> None:
    demand, weight, available = problem
    theta, shares = solve(demand, weight, available)
    for share, wanted, w in zip(shares, demand, weight, strict=True):
        assert share <= wanted * (1 + 1e-12)
        if w > 0:
            assert share <= w * theta * (1 + 1e-9)
            assert share >= min(wanted, w * theta) * (1 - 1e-9)


def test_many_ledgers_at_once_are_each_as_if_alone() -> None:
    random = np.random.default_rng(7)
    demand = random.exponential(100, (9, 40))
    weight = random.choice([0.0, 1.0, 3.0], (9, 40))
    available = random.uniform(0, 800, 40)
    together = water_level(demand, weight, available)
    alone = [
        water_level(demand[:, [g]], weight[:, [g]], available[[g]])[0]
        for g in range(40)
    ]
    assert together.tolist() == alone


@pytest.mark.parametrize("heavy", [0.5, 1.0, 4.0])
def test_agents_of_equal_weight_need_only_one_row_of_weights(heavy: float) -> None:
    random = np.random.default_rng(8)
    present = random.random((9, 40)) < 0.7
    demand = np.where(present, random.exponential(100, (9, 40)), 0.0)
    weight = np.where(present, heavy, 0.0)
    available, wanted = random.uniform(0, 800, 40), demand.sum(axis=0)
    full = level_of(demand, weight, available, wanted)
    row = np.full((1, 40), heavy)
    theta = level_of(demand, row, available, wanted)
    assert theta == pytest.approx(full, rel=1e-12)
    assert shares_at(theta, demand, row) == pytest.approx(
        shares_at(full, demand, weight), rel=1e-12
    )
    assert 0 < np.isinf(theta).sum() < 40


def test_pip82_usage_10_50_30_of_100_hands_out_the_rest() -> None:
    theta, shares = solve([10, 50, 30], [1, 1, 1], 100)
    assert shares == [10, 50, 30]
    assert theta == float("inf")


def test_pip82_80_to_20_where_both_want_more_becomes_50_50() -> None:
    assert solve([200, 200], [1, 1], 100)[1] == [50, 50]
    assert solve([80, 20], [1, 1], 100)[1] == [80, 20]


def test_ably_a_well_behaved_agent_is_never_cut_however_greedy_the_others() -> None:
    _, shares = solve([30, 1e9, 1e9], [1, 1, 1], 100)
    assert shares == [30, 35, 35]
