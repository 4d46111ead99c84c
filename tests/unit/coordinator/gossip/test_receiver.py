"""What an agent does because of a report that it hears, beside entering its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.scenarios.world import STEP_S, World

from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Group,
    Heard,
    Keys,
    Limit,
    Publish,
    Report,
    Rows,
    Settings,
)

if TYPE_CHECKING:
    from headgate.coordinator import Event

LIMIT = Limit(dimension="requests", rate=100, burst=1000)
KEYS = Keys(("requests",), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))


def level(world: World, name: str) -> float:
    """Return the level of the world's group as one process sees it."""
    return world.processes[name].coordinator.explain(1, "requests", world.now).level


@pytest.mark.parametrize("first", ["its own report", "another's"])
def test_an_agent_that_hears_nobody_at_first_adopts_the_level_once(first: str) -> None:
    world = World()
    world.group(1, rate=100, burst=1000)
    for name in "bc":
        world.start(name)
        world.load(name, 1, admitted=50, refused=200)
    world.run(6.0)
    for name in "bc":
        world.use(name, 1, admitted=350.0, refused=0.0)
    world.run(3.0)
    world.apart = [{"a"}]
    world.start("a")
    world.run(6.0)
    own = world.processes["a"].sent
    before = len(own)
    while len(own) == before:
        world.run(STEP_S)
    world.apart = []
    sender = "a" if first == "its own report" else "b"
    for name in "abc":
        world.inject(name, world.processes[sender].sent[-1])
    for _ in range(round(0.5 / STEP_S)):
        world.run(STEP_S)
        assert level(world, "a") > level(world, "b") - 100.0
    assert level(world, "a") == pytest.approx(level(world, "b"), abs=100.0)


class Listener:
    """An agent that hears what the test tells it, and its own reports."""

    def __init__(self) -> None:
        self.now = 0.0
        self.coordinator = Coordinator(
            Settings(), agent="a", incarnation=1, seed=1, now=0.0
        )
        self.sent: list[Report] = []
        self.flying: list[Report] = []
        self.sequence = dict.fromkeys("bc", 0)
        group = Group(id=1, name="g", limits=(LIMIT,))
        self.step(Configured(Configuration(revision=1, groups=(group,))))

    def step(self, event: Event) -> None:
        effects = self.coordinator.step(self.now, event, wall_s=self.now)
        reports = [each.report for each in effects if isinstance(each, Publish)]
        self.sent += reports
        self.flying += reports

    def report_of(self, name: str, *, rows: bool, missed: int = 0) -> Report:
        """Return the next report of another agent."""
        self.sequence[name] += 1 + missed
        column = np.ones(1)
        one = Rows(
            dimension="requests",
            group_ids=np.ones(1, dtype=np.int64),
            refused=0.0 * column,
            admitted=5.0 * self.sequence[name] * column,
            demand=10.0 * column,
            held=column,
            cost=column,
            level=500.0 * column,
        )
        return Report(
            cluster="default",
            agent=name,
            incarnation=1,
            sequence=self.sequence[name],
            sent_at_s=self.now,
            revision=1,
            keyframe=rows and not missed,
            rows=(one,) if rows else (),
        )

    def run(self, seconds: float, talk: str = "bc") -> None:
        """Let time pass, in which others send a heartbeat each second."""
        for _ in range(round(seconds / 0.05)):
            self.now = round(self.now + 0.05, 6)
            arrived, self.flying = self.flying, []
            for report in arrived:
                self.step(Heard((report,)))
            if round(self.now / 0.05) % 20 == 0:
                for name in talk:
                    self.step(Heard((self.report_of(name, rows=True),)))
            zero, one = np.zeros(1), np.ones(1)
            self.step(Counted(KEYS, zero, zero, zero, one, one.astype(np.int64)))


@pytest.mark.parametrize("together", [False, True])
def test_rows_that_came_before_the_question_answer_it_in_no_order(
    together: bool,
) -> None:
    agent = Listener()
    agent.run(5.0)
    agent.now += 20.0  # a pause
    agent.run(2.5, talk="b")
    assert not agent.coordinator._state.bootstrap  # pyright: ignore[reportPrivateUsage]
    reports = (
        agent.report_of("b", rows=True),
        agent.report_of("c", rows=False, missed=22),  # some were sent during the pause
    )
    for heard in [reports] if together else zip(reports):
        agent.step(Heard(heard))
    bootstrap = agent.coordinator._state.bootstrap  # pyright: ignore[reportPrivateUsage]
    assert bootstrap, "it asks anew"
    assert not bootstrap._answers  # pyright: ignore[reportPrivateUsage]


def test_a_member_that_was_silent_is_told_all_rows() -> None:
    agent = Listener()
    agent.run(5.0)
    agent.run(8.0, talk="b")
    before = len(agent.sent)
    agent.step(Heard((agent.report_of("c", rows=True),)))
    agent.run(0.5, talk="")
    assert any(report.keyframe for report in agent.sent[before:])


def test_a_row_that_was_new_is_answered_with_the_own_row_alone() -> None:
    agent = Listener()
    agent.run(5.0, talk="b")
    before = len(agent.sent)
    agent.step(Heard((agent.report_of("c", rows=True),)))
    agent.run(0.3, talk="")
    answers = [report for report in agent.sent[before:] if report.rows]
    assert answers
    assert not any(report.keyframe for report in answers)
