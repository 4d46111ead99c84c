"""Excess over the central bucket, and told delays, on runs made up for the purpose.

And what the real coordinator exceeds on a slow bus, or without one.
"""

from typing import cast

import numpy as np
import pytest
from tests.sample import thorough

from headgate.simulation.measure.delays import told_delays
from headgate.simulation.measure.excess import (
    depths,
    in_flight,
    information_age_s,
    over_explained,
)
from headgate.simulation.measure.rates import RateTable
from headgate.simulation.scenario.parsing import parse_scenario
from headgate.simulation.scenario.scenario import (
    DemandPiece,
    GroupSpec,
    Network,
    Scenario,
)
from headgate.simulation.simulate import simulate
from headgate.simulation.world.record import Admissions, SimulationRun

RATE, BURST, COST = 10.0, 20.0, 5.0


def admissions(*pairs: tuple[float, float]) -> Admissions:
    return np.array([t for t, _ in pairs]), np.array([u for _, u in pairs])


def run_of(
    parts: list[Admissions],
    *,
    refused: list[tuple[float, float, float]] | None = None,
    central: Admissions | None = None,
    may_owe: bool = True,
    loss: float = 0.0,
) -> SimulationRun:
    scenario = Scenario(
        name="case",
        seconds=20.0,
        groups=(GroupSpec(rate=RATE, burst=BURST, may_owe=may_owe),),
        agents=len(parts),
        weights=(1.0,) * len(parts),
        network=Network(loss=loss),
        demands=(DemandPiece(agents=(0,), start_s=0.0, until_s=20.0, rate=1.0),),
    )
    none = np.zeros((0, 3))
    return SimulationRun(
        scenario=scenario,
        seed=1,
        strategy="case",
        gaps=[],
        arrivals=[],
        admitted=[parts],
        refused=[[np.array(refused or none).reshape(-1, 3)]],
        central=[central if central is not None else admissions()],
        ceilings=[],
    )


def test_the_depth_is_that_of_a_bucket_that_never_holds_more_than_its_burst() -> None:
    table = RateTable(((0.0, RATE, BURST),), 20.0)
    spent = admissions((0.0, 20.0), (1.0, 15.0), (9.0, 20.0), (9.0, 1.0))
    assert depths(spent, table).tolist() == [0.0, 5.0, 0.0, 1.0]


def test_a_burst_that_was_lowered_cuts_what_is_left_and_is_no_depth() -> None:
    table = RateTable(((0.0, RATE, BURST), (10.0, 0.0, 0.0)), 20.0)
    spent = admissions((9.0, 5.0), (10.01, 1.0), (10.02, 2.0))
    assert depths(spent, table).tolist()[1:] == pytest.approx([1.0, 3.0])


def test_one_largest_cost_of_each_agent_active_within_the_age_is_in_flight() -> None:
    busy = admissions((1.0, 5.0), (1.05, 2.0), (1.06, 3.0))
    rare = admissions((1.02, 7.0))
    times = np.array([0.9, 1.0, 1.06, 1.101, 1.13, 1.2])
    found = in_flight([busy, rare, admissions()], times, 0.1)
    assert found.tolist() == [0.0, 5.0, 12.0, 10.0, 3.0, 0.0]


def test_one_request_of_each_agent_at_one_instant_is_explained_two_are_not() -> None:
    full, one = (0.0, BURST), (0.5, COST)
    central = admissions(full, one)  # empties it twice, and never owes
    explained = [admissions(full, one, one), admissions(one)]
    _, over, allowed = over_explained(run_of(explained, central=central), 0)
    assert np.all(over <= allowed)
    twice = [admissions(full, one, one), admissions(one, one)]
    _, over, allowed = over_explained(run_of(twice, central=central), 0)
    assert np.any(over > allowed)


def test_the_central_buckets_own_depth_is_no_excess() -> None:
    deep = admissions((0.0, BURST), (0.0, 100.0))
    _, over, _ = over_explained(run_of([deep], central=deep), 0)
    assert over.max() == pytest.approx(0.0)


def test_a_lost_report_is_as_old_as_the_next_heartbeat() -> None:
    assert information_age_s(run_of([]).scenario) == pytest.approx(0.105)
    assert information_age_s(run_of([], loss=0.2).scenario) == pytest.approx(1.105)


@pytest.mark.parametrize(
    ("told_s", "may_owe", "kept"),
    [
        (0.5, True, True),  # 1 unit is owed after 0.1 s: 0.1 · 2 + 0.3
        (0.51, True, False),
        (1.5, False, True),  # 6 units are missing
        (1.51, False, False),
        (0.0001, True, True),  # too early is the caller's loss, not counted here
    ],
)
def test_a_told_delay_is_kept_up_to_twice_the_central_one_and_a_grace(
    told_s: float, *, may_owe: bool, kept: bool
) -> None:
    spent = [admissions((0.0, 22.0))]
    refused = [(0.1, COST, told_s)]
    delays = told_delays(run_of(spent, refused=refused, may_owe=may_owe), 0)
    assert (delays.refusals, delays.kept) == (1, int(kept))


def test_what_can_never_pass_is_told_no_delay() -> None:
    refused = [(1.0, BURST + 1, np.inf)]
    delays = told_delays(run_of([admissions()], refused=refused, may_owe=False), 0)
    assert delays.refusals == 0
    assert delays.part is None


def herd(
    seed: int,
    *,
    rate: float,
    burst: float,
    agents: int,
    each: float,
    delay: float,
    jitter: float | None = None,
    lasts_s: float = 2.0,
    groups: int = 1,
) -> tuple[float, float]:
    """Return what a burst that all want at once is exceeded by, and the total.

    Of several groups alike: in the worst one, and of all.
    """
    names = [f"g{n}" for n in range(groups)]
    demand = [
        {"agents": "all", "group": name} | piece
        for name in names
        for piece in (
            {"rate": each, "from": 3, "until": 3 + lasts_s},
            {"rate": 0.3 * rate / agents},
        )
    ]
    scenario = parse_scenario(
        {
            "seconds": 8,
            "group": [{"name": name, "rate": rate, "burst": burst} for name in names],
            "agents": {"count": agents},
            "network": {
                "delay": delay,
                "jitter": delay / 2 if jitter is None else jitter,
            },
            "demand": demand,
        },
        name="herd",
    )
    result, run = simulate(scenario, seed=seed)
    beyond: list[float] = []
    for group in range(groups):
        _, over, explained = over_explained(run, group)
        beyond.append(float((over - explained).max()))
    total = cast("float", result.as_json()["whole_total_ratio"])
    return max(beyond), total


@pytest.mark.long
@pytest.mark.parametrize(
    ("seconds", "agents"), [*thorough((30.0, 2)), (30.0, 3), (10.0, 3)]
)
def test_a_large_burst_that_all_want_at_once_is_admitted_once_on_a_slow_bus(
    seconds: float, agents: int
) -> None:
    """4 to 10 % too much if nobody waits for what the others have spent."""
    rate = 200.0
    burst = rate * seconds
    each = 40.0 * burst / agents
    over, total = herd(1, rate=rate, burst=burst, agents=agents, each=each, delay=0.06)
    assert over <= 0.02 * burst
    assert 0.97 <= total <= 1.02


@pytest.mark.long
@pytest.mark.parametrize("seed", [6, 8, 12])
def test_who_may_not_report_yet_is_waited_for(seed: int) -> None:
    """All is gone within 50 ms, the least gap between two reports of an agent.

    Else it is exceeded by 81 to 107.
    """
    over, total = herd(
        seed, rate=50.0, burst=1500.0, agents=3, each=10_000.0, delay=0.01
    )
    assert over <= 0.0
    assert 0.97 <= total <= 1.02


@pytest.mark.long
@pytest.mark.parametrize(("seed", "groups"), [(7, 1), *thorough((3, 3)), (4, 3)])
def test_who_is_expected_to_spend_more_waits_for_what_the_others_spent(
    seed: int, groups: int
) -> None:
    """Reports take up to 50 ms.  Else it is exceeded by 19 to 32."""
    over, total = herd(
        seed,
        rate=50.0,
        burst=1500.0,
        agents=4,
        each=11_250.0,
        delay=0.02,
        jitter=0.03,
        lasts_s=0.2,
        groups=groups,
    )
    assert over <= 0.0
    assert 0.97 <= total <= 1.02


@pytest.mark.long
@pytest.mark.parametrize("agents", [12, *thorough(20)])
def test_what_one_was_expected_to_spend_is_spent_although_many_others_begin(
    agents: int,
) -> None:
    """From then on it reports each admission, so its silence means none.

    But it has to know that first.  Else each of the others admits a second request.
    """
    others = list(range(1, agents))
    scenario = parse_scenario(
        {
            "seconds": 5,
            "group": {"rate": 50.0, "burst": 100.0},
            "agents": {"count": agents},
            "demand": [
                {"agents": [0], "rate": 150.0},
                {"agents": others, "rate": 200.0, "from": 3},
            ],
        },
        name="joined",
    )
    _, run = simulate(scenario, seed=1)
    _, over, explained = over_explained(run, 0)
    assert float((over - explained).max()) <= 0.0


@pytest.mark.long
@pytest.mark.parametrize("loss", [*thorough(0.0), 0.1])
@pytest.mark.parametrize(
    ("rate", "burst", "cost", "agents"),
    [(60.0, 20.0, 1.0, 3), (20.0, 2.0, 1.0, 2), (50.0, 100.0, 10.0, 6)],
)
def test_what_is_reported_to_nobody_counts_as_known_to_nobody(
    rate: float, burst: float, cost: float, agents: int, loss: float
) -> None:
    """Agents that report each admission took the silence of a lost bus for disuse.

    Each spent the whole quota, until a lease was over.
    """
    lost = {"kind": "cut", "agents": "all", "from": 6, "until": 10}
    scenario = parse_scenario(
        {
            "seconds": 14,
            "group": {"rate": rate, "burst": burst},
            "agents": {"count": agents},
            "network": {"delay": 0.005, "jitter": 0.002, "loss": loss},
            "fault": [lost],
            "demand": [{"agents": "all", "rate": 2.0 * rate, "cost": cost}],
        },
        name="outage",
    )
    _, run = simulate(scenario, seed=1)
    times, units = map(np.concatenate, zip(*run.admitted[0], strict=True))
    during, after = (times >= 6.0) & (times < 10.0), times >= 12.0
    # One request of each as the bus is lost, and one as it notices after a lease.
    assert units[during].sum() <= 4.0 * rate + burst / 4.0 + 2.0 * agents * cost
    assert units[after].sum() >= 0.9 * (2.0 * rate - agents * cost)
