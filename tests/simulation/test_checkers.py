"""Bounds of the checkers, on runs made up for the purpose."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from headgate.simulation.invariants.replay import fingerprint
from headgate.simulation.invariants.safety import check_changes, check_safety
from headgate.simulation.invariants.spans import (
    age_s,
    calm_spans,
    disturbed,
    lease_s,
    unbilled_s,
)
from headgate.simulation.invariants.work import check_work
from headgate.simulation.measure.reference_bucket import central_admissions
from headgate.simulation.scenario.scenario import (
    DemandPiece,
    Fault,
    GroupSpec,
    LimitChange,
    Network,
    Scenario,
)
from headgate.simulation.world.arrivals import AgentArrivals
from headgate.simulation.world.node import AppliedCeilings
from headgate.simulation.world.record import SimulationRun

RATE = 100.0
SECONDS = 40.0


def scenario_of(
    *,
    changes: tuple[LimitChange, ...] = (),
    faults: tuple[Fault, ...] = (),
    group: GroupSpec | None = None,
    demand: float = 150.0,
) -> Scenario:
    return Scenario(
        name="checkers",
        seconds=SECONDS,
        groups=(group or GroupSpec(rate=RATE),),
        agents=2,
        weights=(1.0, 1.0),
        demands=(
            DemandPiece(agents=(0, 1), start_s=0.0, until_s=SECONDS, rate=demand / 2),
        ),
        changes=changes,
        faults=faults,
    )


def evenly(
    rate: float, start: float = 0.0, end: float = SECONDS
) -> NDArray[np.float64]:
    return np.arange(start, end, 1 / rate)


def run_of(scenario: Scenario, *admitted: NDArray[np.float64]) -> SimulationRun:
    offered = [evenly(d.rate) for d in scenario.demands for _ in d.agents]
    central = evenly(min(RATE, sum(d.rate * 2 for d in scenario.demands)))
    return SimulationRun(
        scenario=scenario,
        seed=1,
        strategy="case",
        gaps=[[], []],
        arrivals=[
            [
                AgentArrivals(t, np.ones(len(t)), np.zeros(len(t), dtype=np.bool_))
                for t in offered
            ]
        ],
        admitted=[[(t, np.ones(len(t))) for t in admitted]],
        central=[(central, np.ones(len(central)))],
        ceilings=[[AppliedCeilings(), AppliedCeilings()]],
    )


def names(run: SimulationRun) -> set[str]:
    checks = (check_safety, check_changes, check_work)
    return {violation.name for check in checks for violation in check(run)}


def test_a_run_that_does_what_a_central_bucket_does_is_clean() -> None:
    assert names(run_of(scenario_of(), evenly(50), evenly(50))) == set()


def test_twice_the_rate_is_unsafe_and_half_of_it_is_idle() -> None:
    assert "safety" in names(run_of(scenario_of(), evenly(100), evenly(100)))
    assert "work-conserved" in names(run_of(scenario_of(), evenly(25), evenly(25)))


def test_a_strict_group_may_not_be_a_unit_over() -> None:
    exact = np.r_[np.zeros(100), evenly(100, 0.01)]
    strict = scenario_of(group=GroupSpec(rate=RATE, mode="strict"))
    for extra, found in ((0, set[str]()), (2, {"safety"})):
        run = run_of(strict, np.sort(np.r_[exact, np.full(extra, 20.0)]), np.zeros(0))
        assert {v.name for v in check_safety(run)} == found


def test_one_agent_that_gets_all_starves_the_other() -> None:
    assert names(run_of(scenario_of(), evenly(99), evenly(1))) == {"no-starvation"}


def test_refusals_below_the_limit_are_false() -> None:
    light = scenario_of(demand=80.0)
    assert names(run_of(light, evenly(40), evenly(40))) == set()
    assert "no-false-refusal" in names(run_of(light, evenly(40), evenly(30)))


def test_after_the_last_fault_it_is_called_recovery() -> None:
    crash = Fault(kind="crash", agents=(0,), start_s=10.0, until_s=15.0)
    late = np.r_[evenly(50, 0, 10), evenly(25, 10)]
    run = run_of(scenario_of(faults=(crash,)), late, late)
    assert {"recovery", "work-conserved"} & names(run) == {"recovery"}


def test_a_closed_limit_lets_nothing_through() -> None:
    closed = scenario_of(changes=(LimitChange(at_s=20.0, rate=0.0),))
    half = evenly(50, 0.0, 20.0)
    assert "change-in-force" not in names(run_of(closed, half, half))
    one_more = np.r_[half, 30.0]
    assert "change-in-force" in names(run_of(closed, half, one_more))


def test_old_tokens_are_gone_when_the_limit_is_lowered() -> None:
    lowered = scenario_of(
        changes=(LimitChange(at_s=20.0, rate=1.0, burst=1.0),),
        group=GroupSpec(rate=RATE, burst=1000.0),
    )
    before = evenly(25, 0.0, 20.0)
    burst = np.sort(np.r_[before, np.full(500, 21.0)])
    assert "change-in-force" in names(run_of(lowered, before, burst))


def test_faults_and_ramps_are_left_out_of_calm_spans() -> None:
    cut = Fault(kind="cut", agents=(0,), start_s=20.0, until_s=22.0)
    spans = calm_spans(run_of(scenario_of(faults=(cut,)), evenly(50), evenly(50)), 0)
    assert [(s.start_s > 2.0, s.end_s) for s in spans] == [(True, 20.0), (True, 40.0)]
    assert spans[1].start_s > 22.0 + 5.0


def test_what_is_kept_for_the_dead_is_idle_until_they_are_dropped() -> None:
    gone = Fault(kind="crash", agents=(0,), start_s=5.0, until_s=SECONDS)
    assert max(end for _, end in disturbed(scenario_of(faults=(gone,)))) > 35.0


def test_ages_grow_with_loss_and_with_time_apart() -> None:
    scenario = scenario_of()
    lossy = replace(scenario, network=Network(loss=0.2))
    assert lease_s(scenario) == 3.0
    assert lease_s(lossy) == pytest.approx(5.72, abs=0.01)
    assert age_s(lossy) > age_s(scenario) > 1.0
    short = Fault(kind="partition", agents=(0,), start_s=5.0, until_s=6.0)
    long = replace(short, until_s=SECONDS)
    assert unbilled_s(scenario, short) < unbilled_s(scenario, long)


def test_a_fingerprint_sees_the_last_bit() -> None:
    value = np.array([1.0, 2.0])
    assert fingerprint([value]) == fingerprint([value.copy()])
    assert fingerprint([value]) != fingerprint([np.nextafter(value, 9.0)])


MUTATIONS = GroupSpec(rate=5.0, burst=500.0)
"""KIP-599's own figures, with requests of 80 mutations."""


def mutations(part: float) -> set[str]:
    """Return what is found where a part of each of the central's seconds is idle."""
    scenario = replace(
        scenario_of(group=MUTATIONS),
        seconds=120.0,
        demands=(
            DemandPiece(agents=(0,), start_s=0.0, until_s=120.0, rate=20.0, cost=80.0),
        ),
    )
    wanted = AgentArrivals(
        np.arange(0.0, 120.0, 4.0), np.full(30, 80.0), np.zeros(30, dtype=np.bool_)
    )
    central = central_admissions(
        scenario.limits(0), [wanted], [[]], may_owe=True, until_s=120.0
    )
    count = round(part * len(central[0]))
    none = (np.zeros(0), np.zeros(0))
    run = run_of(scenario, np.zeros(0), np.zeros(0))
    run.arrivals = [[wanted, replace(wanted, time_s=np.zeros(0), cost=np.zeros(0))]]
    run.admitted = [[(central[0][-count:], central[1][-count:]), none]]
    run.central = [central]
    return names(run)


def test_three_quarters_of_a_few_large_requests_is_too_little() -> None:
    assert mutations(1.0) == set()
    assert mutations(0.737) == {"work-conserved"}


def test_a_burst_that_is_left_unused_at_the_start_is_found() -> None:
    scenario = scenario_of(group=GroupSpec(rate=RATE, burst=1000.0))
    run = run_of(scenario, evenly(50), evenly(50))
    full = np.r_[np.zeros(1000), evenly(100)]
    run.central = [(full, np.ones(len(full)))]
    assert "work-conserved" in names(run)


def test_many_requests_at_once_are_unsafe_though_one_of_each_agent_is_not() -> None:
    even = evenly(100, 0.01)
    full = np.zeros(100)
    for storm, found in ((2, set[str]()), (40, {"safety"})):
        admitted = np.sort(np.r_[full, even, np.full(storm // 2, 20.0)])
        other = np.full(storm // 2, 20.0)
        run = run_of(scenario_of(), admitted, other)
        assert {v.name for v in check_safety(run)} == found


def test_what_a_small_bucket_wastes_is_due_to_nobody() -> None:
    for shares, found in (((25, 25), set[str]()), ((40, 10), {"no-starvation"})):
        run = run_of(scenario_of(), *map(evenly, shares))
        half = evenly(50)
        run.central = [(half, np.ones(len(half)))]
        assert names(run) == found


def test_a_burst_that_is_refilled_before_news_arrives_may_lose_some() -> None:
    small = scenario_of(group=GroupSpec(rate=RATE, burst=10.0))
    assert names(run_of(small, evenly(43), evenly(43))) == set()
    assert "work-conserved" in names(run_of(small, evenly(41), evenly(41)))
    enough = scenario_of(group=GroupSpec(rate=RATE, burst=50.0))
    assert "work-conserved" in names(run_of(enough, evenly(43), evenly(43)))
    light = scenario_of(group=GroupSpec(rate=RATE, burst=10.0), demand=80.0)
    assert names(run_of(light, evenly(39), evenly(39))) == set()
    assert "no-false-refusal" in names(run_of(light, evenly(37), evenly(37)))


def test_a_strict_group_with_too_few_requests_for_its_agents_is_only_safe() -> None:
    for burst, found in ((3.0, set[str]()), (4.0, {"work-conserved", "no-starvation"})):
        few = scenario_of(group=GroupSpec(rate=RATE, burst=burst, mode="strict"))
        assert names(run_of(few, evenly(5, 0.1), evenly(5, 0.2))) == found


def test_a_strict_group_must_be_full_at_the_start_like_any_other() -> None:
    for mode in ("balanced", "strict"):
        group = GroupSpec(rate=RATE, burst=3000.0, mode=mode)
        scenario = scenario_of(group=group, demand=200.0)
        central = np.r_[evenly(200, 0.0, 30.0), evenly(100, 30.0)]
        for first, found in ((central, set[str]()), (evenly(100), {"work-conserved"})):
            run = run_of(scenario, first, np.zeros(0))
            run.central = [(central, np.ones(len(central)))]
            assert names(run) & {"work-conserved"} == found


def test_what_was_admitted_under_a_larger_burst_is_not_over_a_smaller_one() -> None:
    lowered = scenario_of(
        changes=(LimitChange(at_s=20.0, rate=RATE, burst=10.0),),
        group=GroupSpec(rate=RATE, burst=1000.0, mode="strict"),
    )
    before = np.r_[np.full(900, 19.0), evenly(90, 21.0)]
    for extra, found in ((0, set[str]()), (100, {"safety"})):
        after = np.sort(np.r_[before, np.full(extra, 30.0)])
        run = run_of(lowered, after, np.zeros(0))
        assert {v.name for v in check_safety(run)} == found
