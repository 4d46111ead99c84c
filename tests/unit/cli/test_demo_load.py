"""The demo's load and its log: open loop, Poisson, and proof against SIGKILL."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

import pytest

from headgate.cli.demo.arrivals import PhasedArrivals
from headgate.cli.demo.callerlog import CallerLog, LogFull, LogTail, read_log
from headgate.cli.demo.script import (
    AGENTS,
    KILLED_AT,
    QUOTA_PER_S,
    RETURNS_AT,
    SHAPES,
    VICTIM,
    LoadShape,
    Phase,
    script,
)

if TYPE_CHECKING:
    from pathlib import Path

PHASES = (
    Phase("busy", 0.0, 10.0, (300.0,)),
    Phase("silent", 10.0, 20.0, (0.0,)),
    Phase("calm", 20.0, 30.0, (30.0,)),
)


def _arrivals(from_s: float = 0.0, seed: int = 1) -> PhasedArrivals:
    return PhasedArrivals(PHASES, agent=0, random=Random(seed), from_s=from_s)


def test_arrivals_follow_the_rate_of_each_phase() -> None:
    arrivals = _arrivals()
    counts = [arrivals.due(at_s) for at_s in (10.0, 20.0, 30.0)]
    assert counts[0] == pytest.approx(3000, abs=5 * math.sqrt(3000))
    assert counts[1] == 0
    assert counts[2] == pytest.approx(300, abs=5 * math.sqrt(300))
    assert arrivals.next_s == math.inf


def test_a_late_caller_makes_up_for_every_arrival_that_was_due() -> None:
    early, late = _arrivals(), _arrivals()
    in_steps = sum(early.due(step / 100) for step in range(3001))
    assert late.due(30.0) == in_steps


def test_a_returning_caller_skips_what_was_due_while_it_was_away() -> None:
    arrivals = _arrivals(from_s=25.0)
    assert arrivals.next_s >= 25.0
    assert arrivals.due(30.0) == pytest.approx(150, abs=5 * math.sqrt(150))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_the_phases_cover_the_whole_run_without_a_gap(shape: LoadShape) -> None:
    plan = script(60.0, shape)
    assert plan.phases[0].begins_s == 0.0
    assert plan.phases[-1].ends_s == 60.0
    for before, after in zip(plan.phases, plan.phases[1:], strict=False):
        assert before.ends_s == after.begins_s
    assert {len(p.demand_per_s) for p in plan.phases} == {len(shape.agents)}


def test_the_rate_of_arrivals_is_the_demand_over_the_cost() -> None:
    arrivals = PhasedArrivals(PHASES, agent=0, random=Random(1), from_s=0.0, cost=30.0)
    assert arrivals.due(10.0) == pytest.approx(100, abs=5 * math.sqrt(100))


def test_the_script_is_skewed_flips_bursts_from_rest_and_overloads_threefold() -> None:
    plan = script(60.0)
    named = {p.name: p.demand_per_s for p in plan.phases}
    assert max(named["skewed"]) > 0.5 * sum(named["skewed"])
    assert named["flipped"] == named["overload"][::-1]
    assert sum(named["idle"]) < 0.05 * QUOTA_PER_S
    assert sum(named["burst"]) > 2 * QUOTA_PER_S
    assert sum(named["threefold"]) == 3 * QUOTA_PER_S
    index = AGENTS.index(VICTIM)
    assert plan.phase(60 * KILLED_AT) is plan.phase(60 * RETURNS_AT)
    assert plan.phase(60 * KILLED_AT).demand_per_s[index] > QUOTA_PER_S / len(AGENTS)


@pytest.mark.parametrize("seconds", [0, 19.9, 601, math.nan])
def test_a_run_of_a_length_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="expected between 20 and 600 seconds"):
        script(seconds)


def test_a_run_of_large_requests_needs_a_minute() -> None:
    with pytest.raises(ValueError, match="expected between 60 and 600 seconds"):
        script(59.0, SHAPES["tokens"])


def test_what_was_logged_can_be_read_though_the_writer_never_closed(
    tmp_path: Path,
) -> None:
    log = CallerLog(tmp_path / "log", capacity=10)
    log.record(5_000_000_000, 900, True)
    log.record(6_000_000_000, 2**40, False, 4000)
    records = read_log(tmp_path / "log")
    assert records["at_ns"].tolist() == [5_000_000_000, 6_000_000_000]
    assert records["spent_ns"].tolist() == [900, 2**32 - 1]
    assert records["admitted"].tolist() == [1, 0]
    assert records["cost"].tolist() == [1, 4000]
    log.close()


def test_a_full_log_says_so(tmp_path: Path) -> None:
    log = CallerLog(tmp_path / "log", capacity=1)
    log.record(1, 1, True)
    assert len(read_log(tmp_path / "log")) == 1
    with pytest.raises(LogFull, match="1 records"):
        log.record(2, 1, True)
    log.close()


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    CallerLog(tmp_path / "log", capacity=1).close()
    with pytest.raises(FileExistsError):
        CallerLog(tmp_path / "log", capacity=1)


def test_the_tail_of_a_log_adds_up_units(tmp_path: Path) -> None:
    log, tail = CallerLog(tmp_path / "log", capacity=3), LogTail(tmp_path / "log")
    log.record(1, 1, True, 500)
    log.record(2, 1, False, 8000)
    assert tail.advance() == (8500, 500)
    log.close()


def test_the_tail_of_a_log_counts_each_attempt_once(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log")
    assert tail.advance() == (0, 0)
    log = CallerLog(tmp_path / "log", capacity=3)
    assert tail.advance() == (0, 0)
    log.record(1, 1, True)
    log.record(2, 1, False)
    assert tail.advance() == (2, 1)
    log.record(3, 1, True)
    assert tail.advance() == (1, 1)
    assert tail.advance() == (0, 0)
    log.close()
