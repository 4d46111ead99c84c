"""The demo's verdict says what the logs say, and fails when it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.cli.demo.replay import admitted_by_one_bucket, max_min
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


def _even(rate: float, *, begins_s: float, ends_s: float) -> NDArray[np.float64]:
    count = round((ends_s - begins_s) * rate)
    return begins_s + (np.arange(count, dtype=np.float64) + 0.5) / rate


def _attempts(
    at_s: NDArray[np.float64], admitted: NDArray[np.bool_] | None = None
) -> Attempts:
    got = np.ones(len(at_s), dtype=np.bool_) if admitted is None else admitted
    return Attempts(at_s, np.full(len(at_s), 1e-6), got)


def _summarise(attempts: dict[str, Attempts]) -> DemoSummary:
    return summarise(
        attempts,
        seconds=SECONDS,
        quota_per_s=Q,
        burst_units=Q,
        flip_s=FLIP_S,
        settle_within_s=10.0,
    )


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
