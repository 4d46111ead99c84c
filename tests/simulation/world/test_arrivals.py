"""Arrivals: seeded, per agent, and with the rate that the scenario says."""

from dataclasses import replace

import numpy as np
import pytest

from headgate.simulation.scenario.scenario import DemandPiece, GroupSpec, Scenario
from headgate.simulation.simulate import simulate
from headgate.simulation.world.arrivals import demand_rate, generate


def scenario_of(
    *pieces: DemandPiece, agents: int = 3, seconds: float = 100.0
) -> Scenario:
    return Scenario(
        name="arrivals",
        seconds=seconds,
        groups=(GroupSpec(rate=1000.0),),
        agents=agents,
        weights=(1.0,) * agents,
        demands=pieces,
    )


def steady(rate: float = 50.0, **more: object) -> DemandPiece:
    values = {"agents": (0, 1, 2), "start_s": 0.0, "until_s": 100.0, "rate": rate}
    return DemandPiece(**(values | more))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] (test values)


def test_the_same_seed_makes_the_same_arrivals_and_another_seed_others() -> None:
    scenario = scenario_of(steady())
    first, again, other = (generate(scenario, seed)[0][0] for seed in (1, 1, 2))
    assert np.array_equal(first.time_s, again.time_s)
    assert not np.array_equal(first.time_s[:50], other.time_s[:50])


def test_one_agents_arrivals_do_not_depend_on_the_others() -> None:
    alone = generate(scenario_of(steady(agents=(1,))), 5)[0][1]
    among = generate(scenario_of(steady()), 5)[0][1]
    assert np.array_equal(alone.time_s, among.time_s)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_poisson() -> None:
    (agents,) = generate(scenario_of(steady(rate=200.0, cost=2.0)), 3)
    counts = np.histogram(agents[0].time_s, bins=np.arange(101))[0]
    assert counts.mean() == pytest.approx(100, rel=0.03)
    assert counts.var() == pytest.approx(100, rel=0.5)


def test_even_arrivals_are_evenly_apart() -> None:
    (agents,) = generate(scenario_of(steady(rate=8.0, poisson=False)), 3)
    assert np.diff(agents[0].time_s) == pytest.approx(1 / 8)
    assert len(agents[0].time_s) == pytest.approx(800, abs=1)


def test_a_sine_has_its_mean_its_phase_and_its_zero() -> None:
    piece = steady(rate=100.0, period_s=10.0, phase_per_agent=0.5)
    (agents,) = generate(scenario_of(piece), 7)
    assert len(agents[0].time_s) == pytest.approx(10_000, rel=0.05)
    folded = [np.histogram(a.time_s % 10.0, bins=10)[0] for a in agents[:2]]
    assert int(np.argmax(folded[0])) in (2, 3)  # sin is largest at a quarter period
    assert int(np.argmax(folded[1])) in (6, 7, 8)  # half a turn later
    assert folded[0].min() < 60  # and nearly nothing at three quarters


def test_a_piece_that_moves_leaves_the_last_agent_at_once() -> None:
    piece = steady(agents=(2,), moves_every_s=10.0)
    (agents,) = generate(scenario_of(piece), 1)
    for index, agent in enumerate(agents):
        turns = (agent.time_s // 10.0).astype(int)
        assert set((turns + 2) % 3) == {index}


def test_pieces_add_up_in_order_of_time() -> None:
    (agents,) = generate(scenario_of(steady(), steady(cost=5.0, retry=True)), 1)
    both = agents[0]
    assert np.all(np.diff(both.time_s) >= 0)
    assert set(both.cost.tolist()) == {1.0, 5.0}
    assert np.array_equal(both.retry, both.cost == 5.0)


def test_lost_arrivals_are_those_inside_the_gaps() -> None:
    (agents,) = generate(scenario_of(steady()), 1)
    left = agents[0].outside([(10.0, 20.0)])
    assert not ((left.time_s >= 10) & (left.time_s < 20)).any()
    assert len(left.time_s) == (~((agents[0].time_s // 10) == 1)).sum()


def test_the_true_demand_is_what_the_pieces_say() -> None:
    moving = steady(agents=(0,), rate=30.0, moves_every_s=10.0)
    wave = steady(agents=(1,), rate=10.0, period_s=4.0)
    rates = demand_rate(scenario_of(moving, wave), 0, np.array([1.0, 11.0]))
    assert rates[:, 0] == pytest.approx([30.0, 20.0, 0.0])
    assert rates[:, 1] == pytest.approx([0.0, 30.0, 0.0])


def test_demand_that_outlasts_a_scenario_ends_with_it() -> None:
    # Few tokens: each request is an event, and one was served in the quiet tail.
    scenario = replace(
        scenario_of(steady(rate=2.0), seconds=6.0),
        groups=(GroupSpec(rate=2.0, burst=2.0),),
        measure_from=1.0,
    )
    result, run = simulate(scenario, seed=1)
    assert [f"{v.name}: {v.detail}" for v in result.violations] == []
    assert all(a.time_s.max() < 6.0 for a in run.arrivals[0])
