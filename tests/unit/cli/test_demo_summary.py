"""The demo's verdict says what the logs say, and fails when it should."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.cli.demo.replay import admitted_by_one_bucket, max_min
from headgate.cli.demo.script import FLIP, REQUESTS, TOKENS, Phase, Script, script
from headgate.cli.demo.summary import (
    Attempts,
    DemoSummary,
    merge,
    settle_time,
    summarise,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Q = 100.0
SECONDS = 30.0
FLIP_S = 10.0
PLAN = Script(
    SECONDS,
    (Phase(FLIP, FLIP_S, 20.0, (Q,)),),
    killed_s=SECONDS,
    returns_s=SECONDS,
    shape=replace(REQUESTS, quota_per_s=Q, burst_units=Q),
)


def _even(rate: float, *, begins_s: float, ends_s: float) -> NDArray[np.float64]:
    count = round((ends_s - begins_s) * rate)
    return begins_s + (np.arange(count, dtype=np.float64) + 0.5) / rate


def _attempts(
    at_s: NDArray[np.float64], admitted: NDArray[np.bool_] | None = None
) -> Attempts:
    got = np.ones(len(at_s), dtype=np.bool_) if admitted is None else admitted
    return Attempts(at_s, np.full(len(at_s), 1e-6), got, np.ones(len(at_s)))


def _summarise(attempts: dict[str, Attempts]) -> DemoSummary:
    return summarise(attempts, PLAN)


def _as_one_bucket(at_s: dict[str, NDArray[np.float64]]) -> dict[str, Attempts]:
    """Let one bucket admit the merged attempts; give each agent its answers."""
    owners = np.concatenate([np.full(len(t), i) for i, t in enumerate(at_s.values())])
    merged = np.concatenate(list(at_s.values()))
    order = np.argsort(merged, kind="stable")
    admitted = admitted_by_one_bucket(merged[order], rate_per_s=Q, burst_units=Q)
    owners = owners[order]
    return {
        agent: _attempts(times, admitted[owners == i])
        for i, (agent, times) in enumerate(at_s.items())
    }


def test_what_one_bucket_admits_passes_with_a_ratio_of_one() -> None:
    summary = _summarise(
        _as_one_bucket(
            {
                "a": _even(150, begins_s=0, ends_s=30),
                "b": _even(150, begins_s=0.003, ends_s=30),
            }
        )
    )
    assert summary.ratio == 1.0
    assert summary.faults == ()
    assert summary.debt_units <= 1.0
    assert summary.attempted == 9000
    assert 3000 <= summary.admitted <= 3101


def test_a_cluster_that_wastes_quota_fails_by_its_ratio() -> None:
    at_s = _even(200, begins_s=0, ends_s=30)
    summary = _summarise({"a": _attempts(at_s, np.arange(len(at_s)) % 4 == 0)})
    assert summary.ratio == pytest.approx(0.48, abs=0.01)
    assert "one central bucket" in summary.faults[0]


def test_a_cluster_that_admits_everything_fails_by_ratio_and_window() -> None:
    summary = _summarise({"a": _attempts(_even(300, begins_s=0, ends_s=30))})
    assert summary.worst_10_s == pytest.approx(3000, abs=1)
    assert len(summary.faults) == 2
    assert "admitted in a window of 10 s" in summary.faults[1]


def test_a_starved_agent_fails_by_its_part_though_the_total_is_right() -> None:
    greedy = _even(100, begins_s=0, ends_s=30)
    starved = _even(40, begins_s=0, ends_s=30)
    summary = _summarise(
        {
            "greedy": _attempts(greedy),
            "starved": _attempts(starved, np.zeros(len(starved), dtype=np.bool_)),
        }
    )
    assert [one.part for one in summary.agents] == pytest.approx([100 / 60, 0.0])
    assert summary.faults[-1].startswith("starved got 0.000 of its max-min")


def test_an_agent_that_was_away_is_due_nothing_for_that_time() -> None:
    there = _even(200, begins_s=0, ends_s=30)
    away = np.concatenate(
        [_even(200, begins_s=0, ends_s=10), _even(200, begins_s=20, ends_s=30)]
    )
    summary = _summarise({"there": _attempts(there), "away": _attempts(away)})
    assert [one.max_min for one in summary.agents] == pytest.approx([2000, 1000])


def test_an_agent_without_demand_is_not_the_worst_served() -> None:
    at_s = _even(50, begins_s=0, ends_s=30)
    summary = _summarise({"busy": _attempts(at_s), "idle": _attempts(np.zeros(0))})
    assert summary.agents[1].part == 1.0
    assert summary.faults == ()


def test_a_run_without_any_attempt_is_a_fault_and_no_crash() -> None:
    summary = _summarise({"a": _attempts(np.zeros(0))})
    assert summary.ratio == 0.0
    assert summary.faults


def test_fixed_parts_of_the_quota_are_told_beside_what_was_shared() -> None:
    summary = _summarise(
        {
            "busy": _attempts(_even(200, begins_s=0, ends_s=30)),
            "idle": _attempts(np.zeros(0)),
        }
    )
    assert summary.divided == pytest.approx(30 * Q / 2 + Q / 2, abs=2)


def _late_by(late_s: float) -> list[Attempts]:
    """Two callers swap demand at the flip; shares follow `late_s` later."""
    spans = ((0.0, FLIP_S + late_s), (FLIP_S + late_s, 20.0))
    light, heavy = (
        _even(20, begins_s=0, ends_s=FLIP_S),
        _even(200, begins_s=FLIP_S, ends_s=20),
    )
    first = np.concatenate([light, heavy])
    keep = first >= FLIP_S + late_s
    got = np.where(keep, np.arange(len(first)) % 5 < 2, np.arange(len(first)) % 10 == 0)
    got[: len(light)] = True
    falling = np.concatenate(
        [_even(200, begins_s=0, ends_s=FLIP_S), _even(20, begins_s=FLIP_S, ends_s=20)]
    )
    assert spans[0][1] == spans[1][0]
    falling_got = (falling >= FLIP_S) | (np.arange(len(falling)) % 5 < 2)
    return [_attempts(first, got), _attempts(falling, falling_got)]


@pytest.mark.parametrize("late_s", [0.0, 0.5, 2.0])
def test_the_settle_time_is_how_late_the_shares_follow_the_flip(late_s: float) -> None:
    settled = settle_time(_late_by(late_s), flip_s=FLIP_S, within_s=10.0, quota_per_s=Q)
    assert settled is not None
    # A window that is mostly right is within tolerance: early by part of a window.
    assert late_s - 0.5 <= settled <= late_s + 0.1


def test_shares_that_never_follow_have_no_settle_time() -> None:
    attempts = _late_by(10.0)
    assert settle_time(attempts, flip_s=FLIP_S, within_s=10.0, quota_per_s=Q) is None


def test_merging_keeps_every_attempt_in_the_order_of_time() -> None:
    merged = merge([_attempts(np.array([0.0, 2.0])), _attempts(np.array([1.0, 3.0]))])
    assert merged.at_s.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_summary_is_plain_values_with_every_agent_in_it() -> None:
    value = _summarise({"a": _attempts(np.array([0.5]))}).as_json()
    assert value["admitted"] == 1
    agents = value["agents"]
    assert isinstance(agents, tuple)
    assert agents[0]["agent"] == "a"


def test_max_min_of_equal_wants_is_equal_shares() -> None:
    assert max_min(np.array([9.0, 9.0, 9.0]), 9.0).tolist() == [3.0, 3.0, 3.0]


def _tokens(
    at_s: NDArray[np.float64], cost: NDArray[np.float64], admitted: NDArray[np.bool_]
) -> DemoSummary:
    """Judge a run of large requests, each of the four gateways making its part."""
    parts = {
        agent: Attempts(
            at_s[i::4], np.full(len(at_s[i::4]), 1e-6), admitted[i::4], cost[i::4]
        )
        for i, agent in enumerate(TOKENS.agents)
    }
    return summarise(parts, script(60.0, TOKENS))


def _large(rate: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    chance = Random(1)
    at_s = _even(rate, begins_s=0, ends_s=60)
    return at_s, np.array([float(TOKENS.draw_cost(chance)) for _ in at_s])


def test_large_requests_are_judged_by_their_units() -> None:
    at_s, cost = _large(3.0)
    central = admitted_by_one_bucket(at_s, cost, rate_per_s=2000, burst_units=20000)
    summary = _tokens(at_s, cost, central)
    assert summary.faults == ()
    assert summary.ratio == 1.0
    assert summary.admitted == summary.central == round(float(cost[central].sum()))
    assert summary.debt_units == summary.central_debt_units > 1000
    half = _tokens(at_s, cost, central & (np.arange(len(at_s)) % 2 == 0))
    assert "one central bucket" in half.faults[0]


def test_one_large_request_of_each_gateway_may_be_over_and_no_more() -> None:
    at_s, cost = _large(3.0)
    central = admitted_by_one_bucket(at_s, cost, rate_per_s=2000, burst_units=20000)
    for storm, faults in ((4, 0), (9, 1)):
        # At one instant, when the bucket is empty, each gateway admits some.
        late = np.concatenate([at_s, np.full(storm, 59.9)])
        costs = np.concatenate([cost, np.full(storm, 8000.0)])
        admitted = np.concatenate([central, np.ones(storm, dtype=np.bool_)])
        summary = _tokens(late, costs, admitted)
        over = [fault for fault in summary.faults if "of each process" in fault]
        assert len(over) == faults


def test_a_single_large_request_at_the_end_does_not_decide_the_ratio() -> None:
    at_s, cost = _large(3.0)
    central = admitted_by_one_bucket(at_s, cost, rate_per_s=2000, burst_units=20000)
    admitted = central.copy()
    admitted[-1] = True
    cost[-1] = 8000.0
    assert _tokens(at_s, cost, admitted).ratio == pytest.approx(1.0, abs=0.002)


def test_costs_are_drawn_between_their_bounds_with_the_mean_that_is_said() -> None:
    chance = Random(2)
    drawn = [TOKENS.draw_cost(chance) for _ in range(20_000)]
    assert min(drawn) >= 500
    assert max(drawn) <= 8000
    assert np.mean(drawn) == pytest.approx(TOKENS.mean_cost, rel=0.02)
    assert {REQUESTS.draw_cost(chance) for _ in range(10)} == {1}
