"""Each figure of the result against a case whose answer is known."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headgate.simulation.max_min import max_min
from headgate.simulation.measure.fairness import Fairness, fair_parts
from headgate.simulation.measure.hierarchy import dues
from headgate.simulation.measure.metrics import (
    STEADY,
    group_figures,
    overshoot_seconds,
    total_figures,
    traffic,
)
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.measure.settling import healed_intervals, settle_seconds
from headgate.simulation.scenario.scenario import (
    DemandPiece,
    Fault,
    GroupSpec,
    LimitChange,
    Scenario,
)
from headgate.simulation.world.arrivals import AgentArrivals
from headgate.simulation.world.node import AppliedCeilings
from headgate.simulation.world.record import Admissions, SimulationRun


def evenly(rate: float, start: float, end: float) -> NDArray[np.float64]:
    return np.arange(start, end, 1 / rate)


def units(times: NDArray[np.float64]) -> Admissions:
    return times, np.ones(len(times))


def run_of(
    offered: list[NDArray[np.float64]],
    admitted: list[NDArray[np.float64]],
    *,
    rate: float = 10.0,
    seconds: float = 10.0,
    measure_from: float = 0.0,
    weights: tuple[float, ...] | None = None,
    changes: tuple[LimitChange, ...] = (),
    demands: tuple[DemandPiece, ...] = (),
) -> SimulationRun:
    scenario = Scenario(
        name="case",
        seconds=seconds,
        measure_from=measure_from,
        groups=(GroupSpec(rate=rate),),
        agents=len(offered),
        weights=weights or (1.0,) * len(offered),
        changes=changes,
        demands=demands,
    )
    arrivals = [
        AgentArrivals(t, np.ones(len(t)), np.zeros(len(t), dtype=np.bool_))
        for t in offered
    ]
    merged = np.sort(np.concatenate(admitted))
    return SimulationRun(
        scenario=scenario,
        seed=1,
        strategy="case",
        gaps=[[] for _ in offered],
        arrivals=[arrivals],
        admitted=[[units(t) for t in admitted]],
        refused=[[np.zeros((0, 3)) for _ in admitted]],
        central=[units(merged)],
        ceilings=[[AppliedCeilings() for _ in offered]],
    )


def test_totals_errors_and_refusals_are_counted_from_time_0() -> None:
    offered = evenly(20, 0.01, 10)
    got = np.r_[evenly(6, 0.01, 5), evenly(8, 5.01, 10)]
    run = run_of([offered], [got], measure_from=5.0)
    run.central = [units(evenly(10, 0.01, 10))]
    figures = total_figures(run)
    assert (figures.offered, figures.admitted, figures.central) == (200, 70, 100)
    assert figures.total_ratio == pytest.approx(0.7)
    assert figures.steady_total_ratio == pytest.approx(0.8)
    assert figures.error_1s_mean == pytest.approx(0.3)
    assert figures.falsely_refused == pytest.approx(0.15)


def test_the_steady_figures_are_those_that_leave_the_warm_up_out() -> None:
    got = np.r_[evenly(6, 0.01, 5), evenly(8, 5.01, 10)]
    early = total_figures(run_of([evenly(20, 0.01, 10)], [got], measure_from=0.0))
    late = total_figures(run_of([evenly(20, 0.01, 10)], [got], measure_from=5.0))
    known = {**asdict(early), **asdict(traffic(run_of([got], [got])))}
    assert set(STEADY) <= set(known)
    differ = {k for k, v in asdict(early).items() if v != getattr(late, k)}
    assert differ <= set(STEADY)
    assert {"worst_agent", "swing"} <= differ


def test_nothing_offered_has_no_ratio_and_no_fairness() -> None:
    none = np.zeros(0)
    figures = total_figures(run_of([none], [none]))
    assert figures.total_ratio is None
    assert figures.fairness is None
    assert figures.worst_agent is None
    assert figures.falsely_refused == 0.0


def test_overshoot_is_the_depth_of_a_bucket_fed_with_what_was_admitted() -> None:
    table = RateTable(((0.0, 10.0, 10.0),), 10.0)
    assert overshoot_seconds(units(evenly(10, 0, 10)), table) == 0.0
    burst = np.full(25, 3.0)  # 25 at once, 10 of them from the burst
    assert overshoot_seconds(units(burst), table) == pytest.approx(1.5)


def test_overshoot_may_come_from_a_window_far_from_the_start() -> None:
    table = RateTable(((0.0, 10.0, 10.0),), 100.0)
    slow = evenly(12, 50, 60)  # 2/s too much for 10 s, of which 10 are the burst
    assert overshoot_seconds(units(slow), table) == pytest.approx(1.0, abs=0.11)


def test_a_lowered_limit_counts_from_when_it_was_lowered() -> None:
    table = RateTable(((0.0, 100.0, 100.0), (5.0, 10.0, 10.0)), 10.0)
    times = np.r_[evenly(100, 0, 5), evenly(20, 5, 10)]
    assert overshoot_seconds(units(times), table) > 0.0


def test_an_unlimited_span_is_never_over() -> None:
    limits = ((0.0, float("inf"), float("inf")), (5.0, 10.0, 10.0))
    table = RateTable(limits, 10.0)
    times = np.r_[evenly(1000, 0, 5), evenly(10, 5.1, 10)]
    assert overshoot_seconds(units(times), table) == 0.0


def test_fairness_is_measured_against_weighted_max_min() -> None:
    offered = [evenly(100, 0.001, 10), evenly(100, 0.002, 10)]
    admitted = [evenly(2.5, 0.01, 10), evenly(7.5, 0.01, 10)]
    fair = total_figures(run_of(offered, admitted, weights=(1.0, 3.0)))
    assert fair.fairness == pytest.approx(1.0, abs=1e-3)
    unfair = total_figures(run_of(offered, admitted))
    assert unfair.worst_agent == pytest.approx(0.5, abs=0.02)
    assert unfair.fairness == pytest.approx(0.8, abs=0.02)


def test_an_agent_that_offered_nothing_is_not_in_the_index() -> None:
    parts = Fairness(np.array([5.0, 0.0]), np.array([5.0, 0.0]))
    assert (parts.jain(), parts.worst()) == (1.0, 1.0)


@given(
    demand=st.lists(st.floats(0, 1e6), min_size=1, max_size=8),
    rate=st.floats(0, 1e6),
    data=st.data(),
)
def test_max_min_shares_meet_their_definition(
    demand: list[float], rate: float, data: st.DataObject
) -> None:
    some = st.lists(st.floats(0.1, 10), min_size=len(demand), max_size=len(demand))
    weights = np.array(data.draw(some))
    wanted = np.array(demand)
    shares = max_min(wanted[:, None], weights, np.array([rate]))[:, 0]
    assert shares.sum() == pytest.approx(min(rate, wanted.sum()), rel=1e-6, abs=1e-6)
    assert (shares <= wanted + 1e-9).all()
    levels = shares / weights
    short = shares < wanted * (1 - 1e-9) - 1e-9
    if short.any():  # an agent that is short stands as high as any
        assert levels[short].min() >= levels.max() - 1e-6 * max(1.0, levels.max())


def test_due_shares_are_summed_over_seconds_not_over_the_run() -> None:
    # One offers everything in the first half, the other in the second.
    offered = [evenly(20, 0.001, 5), evenly(20, 5.001, 10)]
    due = fair_parts(run_of(offered, offered), 0).fair
    assert due == pytest.approx([50.0, 50.0])


def test_settling_ends_when_ceilings_stay_near_max_min() -> None:
    wanted = (
        DemandPiece(agents=(0,), start_s=0.0, until_s=4.0, rate=10.0),
        DemandPiece(agents=(1,), start_s=4.0, until_s=10.0, rate=10.0),
    )
    run = run_of([np.zeros(0)] * 2, [np.zeros(0)] * 2, demands=wanted)
    forever = float("inf")
    first, second = run.ceilings[0]
    first.add(0.0, (10.0, 10.0, 1.0, forever, 0.0))
    second.add(0.0, (0.0, 0.0, 1.0, forever, 0.0))
    second.add(4.3, (10.0, 10.0, 1.0, forever, 0.0))
    assert settle_seconds(run, 0) == pytest.approx(0.3, abs=0.006)
    second.add(7.0, (5.0, 5.0, 1.0, forever, 0.0))  # it does not stay so
    second.add(8.0, (10.0, 10.0, 1.0, forever, 0.0))
    assert settle_seconds(run, 0) == pytest.approx(4.0, abs=0.006)


def test_healed_is_the_time_from_a_faults_end_until_averaged_shares_are_right() -> None:
    wanted = (DemandPiece(agents=(0, 1), start_s=0.0, until_s=10.0, rate=10.0),)
    run = run_of([np.zeros(0)] * 2, [np.zeros(0)] * 2, demands=wanted)
    assert healed_intervals(run, 0) is None  # nothing was broken
    cut = Fault(kind="cut", agents=(0,), start_s=2.0, until_s=4.0)
    run.scenario = replace(run.scenario, faults=(cut,), interval_s=0.5)
    forever = float("inf")
    first, second = run.ceilings[0]
    first.add(0.0, (5.0, 5.0, 1.0, forever, 0.0))
    second.add(0.0, (5.0, 5.0, 1.0, forever, 0.0))
    second.add(3.0, (1.0, 1.0, 1.0, forever, 0.0))
    second.add(4.6, (5.0, 5.0, 1.0, forever, 0.0))
    assert healed_intervals(run, 0) == pytest.approx(0.6 / 0.5)
    second.add(8.0, (1.0, 1.0, 1.0, forever, 0.0))  # a single look
    second.add(8.005, (5.0, 5.0, 1.0, forever, 0.0))
    assert healed_intervals(run, 0) == pytest.approx(0.6 / 0.5)


def test_past_its_deadline_a_ceiling_is_the_reserve() -> None:
    wanted = (DemandPiece(agents=(0,), start_s=2.0, until_s=10.0, rate=10.0),)
    run = run_of([np.zeros(0)], [np.zeros(0)], demands=wanted)
    run.ceilings[0][0].add(0.0, (10.0, 10.0, 1.0, 6.0, 1.0))
    assert settle_seconds(run, 0) == pytest.approx(8.0, abs=0.006)


def test_a_demand_without_steps_has_no_settling() -> None:
    constant = (DemandPiece(agents=(0,), start_s=0.0, until_s=10.0, rate=1.0),)
    sine = (DemandPiece(agents=(0,), start_s=0, until_s=5, rate=1.0, period_s=2.0),)
    for demands in (constant, sine):
        run = run_of([np.zeros(0)], [np.zeros(0)], demands=demands)
        assert settle_seconds(run, 0) is None


def test_swing_is_the_spread_of_calm_seconds_only() -> None:
    steady = evenly(10, 0.01, 10)
    calm = run_of([steady], [steady])
    assert total_figures(calm).swing == pytest.approx(0.0, abs=1e-9)
    doubled = np.sort(np.r_[steady, evenly(10, 4.02, 5)])
    assert total_figures(run_of([doubled], [doubled])).swing > 0.2
    changed = run_of([doubled], [doubled], changes=(LimitChange(at_s=4.5, rate=10.0),))
    assert total_figures(changed).swing == pytest.approx(0.0, abs=1e-9)


def test_a_second_without_a_rate_is_measured_by_the_largest_rate() -> None:
    steady = evenly(10, 0.01, 10)
    run = run_of([steady], [steady], changes=(LimitChange(at_s=5.0, rate=0.0),))
    run.central = [units(steady[steady < 5])]
    assert total_figures(run).error_1s_max == pytest.approx(1.0)
    assert group_figures(run, 0).error_1s_mean == pytest.approx(0.5)


def test_reports_are_counted_per_agent_and_second() -> None:
    run = run_of([np.zeros(0)] * 2, [np.zeros(0)] * 2)
    assert traffic(run).reports_per_agent_second == 0.0


def test_a_childs_due_is_its_minimum_then_max_min_up_to_its_maximum() -> None:
    scenario = Scenario(
        name="tree",
        seconds=10.0,
        groups=(
            GroupSpec(name="top", rate=100.0),
            GroupSpec(name="heavy", rate=200.0, parent="top", weight=3.0),
            GroupSpec(name="light", rate=200.0, parent="top", minimum=30.0),
            GroupSpec(name="small", rate=200.0, parent="top", maximum=10.0),
        ),
        agents=1,
        weights=(1.0,),
        tree=True,
    )
    wanted = np.array([[0.0, 0.0], [500.0, 20.0], [500.0, 20.0], [500.0, 0.0]])
    due = dues(scenario, wanted, np.array([1.0, 2.0]))
    assert due.part[:, 0] == pytest.approx([0.0, 60.0, 30.0, 10.0])
    assert due.part[:, 1] == pytest.approx([0.0, 20.0, 20.0, 0.0])
    assert due.bound[1, 1] == pytest.approx(80.0)  # and the slack, while it is there


def test_where_a_parent_is_closed_nothing_is_due_to_its_children() -> None:
    groups = (GroupSpec(name="a", rate=0.0), GroupSpec(name="b", rate=9.0, parent="a"))
    scenario = Scenario(
        name="closed",
        seconds=1.0,
        groups=groups,
        agents=1,
        weights=(1.0,),
        tree=True,
    )
    due = dues(scenario, np.array([[5.0], [5.0]]), np.array([1.0]))
    assert due.part.tolist() == [[0.0], [0.0]]


def test_what_was_over_in_the_warm_up_is_left_out_of_the_steady_figure() -> None:
    flash = np.full(25, 1.0)  # 25 at once, 10 of them from the burst
    got = np.r_[flash, evenly(10, 4.0, 10)]
    figures = total_figures(run_of([got], [got], measure_from=5.0))
    assert figures.overshoot_seconds == pytest.approx(1.5, abs=0.11)
    assert figures.steady_overshoot_seconds == 0.0


def test_a_steady_excess_whose_window_began_in_the_warm_up_counts() -> None:
    got = np.r_[np.full(10, 4.0), evenly(20, 4.01, 6)]
    figures = total_figures(run_of([got], [got], measure_from=5.0))
    assert figures.steady_overshoot_seconds == pytest.approx(2.0, abs=0.11)
