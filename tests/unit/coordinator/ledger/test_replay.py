"""The ledger under any loss, doubling, order and restart: totals stay exact."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from tests.scenarios.world import DIMENSION, World

from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Group,
    Heard,
    Keys,
    Limit,
    Report,
    Rows,
    Settings,
)

NAMES = ("b", "c", "d")
KEYS = Keys(("requests",), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))
GROUP = Group(
    id=1, name="g", limits=(Limit(dimension="requests", rate=1000, burst=1000),)
)


@dataclass
class Sender:
    """An agent that counts, and what it has put on the bus."""

    name: str
    incarnation: int = 1
    sequence: int = 0
    admitted: float = 0.0
    refused: float = 0.0
    earlier: float = 0.0
    sent: list[Report] = field(default_factory=list[Report])

    def report(self, now: float) -> Report:
        """Return the next report."""
        self.sequence += 1
        rows = Rows(
            dimension="requests",
            group_ids=np.array([1]),
            refused=np.array([self.refused]),
            admitted=np.array([self.admitted]),
            demand=np.array([50.0]),
            held=np.array([0.0]),
            cost=np.array([1.0]),
        )
        return Report(
            cluster="default",
            agent=self.name,
            incarnation=self.incarnation,
            sequence=self.sequence,
            sent_at_s=now,
            hello=self.sequence == 1,
            keyframe=True,
            rows=(rows,),
        )


class LedgerMachine(RuleBasedStateMachine):
    """One coordinator hears three senders over the worst of buses."""

    reports = Bundle("reports")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.coordinator = Coordinator(
            Settings(), agent="a", incarnation=1, seed=1, now=0.0
        )
        self.senders = {name: Sender(name) for name in NAMES}
        self.newest: dict[str, tuple[int, int, float]] = {}

    @initialize()
    def configure(self) -> None:
        configured = Configured(Configuration(revision=1, groups=(GROUP,)))
        self.coordinator.step(self.now, configured, wall_s=self.now)
        self.tick(0.1)

    @rule(seconds=st.sampled_from([0.01, 0.025, 0.1, 0.5]))
    def tick(self, seconds: float) -> None:
        self.now += seconds
        nothing = np.zeros(1)
        counted = Counted(
            KEYS, nothing, nothing, nothing, np.ones(1), np.ones(1, dtype=np.int64)
        )
        self.coordinator.step(self.now, counted, wall_s=self.now)

    @rule(
        name=st.sampled_from(NAMES),
        admitted=st.integers(0, 20),
        refused=st.integers(0, 20),
    )
    def use(self, name: str, admitted: int, refused: int) -> None:
        self.senders[name].admitted += admitted
        self.senders[name].refused += refused

    @rule(target=reports, name=st.sampled_from(NAMES))
    def publish(self, name: str) -> Report:
        return self.senders[name].report(self.now)

    @rule(report=reports)
    def deliver(self, report: Report) -> None:
        """Deliver any report that was ever sent: late, twice, in any order."""
        self.coordinator.step(self.now, Heard((report,)), wall_s=self.now)
        stamp = (report.incarnation, report.sequence)
        known = self.newest.get(report.agent)
        if known is None or stamp > known[:2]:
            self.newest[report.agent] = (*stamp, float(report.rows[0].admitted[0]))

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        sender = self.senders[name]
        sender.incarnation += 1
        sender.sequence = 0
        sender.admitted = sender.refused = 0.0

    @invariant()
    def counters_are_those_of_the_newest_report(self) -> None:
        if not self.newest:
            return
        rows = self.coordinator.explain(1, "requests", self.now).agents
        told = {row.agent: row.admitted for row in rows if row.agent != "a"}
        for name, (_, _, admitted) in self.newest.items():
            if name in told:
                assert told[name] == admitted

    @invariant()
    def the_level_is_what_was_told_less_what_is_predicted(self) -> None:
        if self.now == 0.0:
            return
        shown = self.coordinator.explain(1, "requests", self.now)
        assert shown.level <= 1000.0
        assert abs(shown.level_reported - shown.predicted - shown.level) < 1e-6

    @invariant()
    def shares_sum_to_what_is_there_or_wanted(self) -> None:
        if self.now == 0.0:
            return
        shown = self.coordinator.explain(1, "requests", self.now)
        present = [row for row in shown.agents if row.state != "silent"]
        wanted = sum(row.demand for row in present)
        total = sum(row.share for row in present)
        assert abs(total - min(wanted, shown.available)) < 1e-6


LedgerMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None
)
TestLedger = pytest.mark.long(LedgerMachine.TestCase)


def test_what_was_expected_of_agents_is_not_charged_twice_when_a_limit_closes() -> None:
    world = World()
    world.group(1, rate=300.0, burst=300.0)
    for name in "abc":
        world.start(name)
        world.load(name, 1, 100.0, 0.0)
    world.run(3.0)
    for name in "abc":
        world.load(name, 1, 0.0, 100.0)
    world.group(1, rate=0.0, burst=1.0)
    world.run(1.0)
    world.group(1, rate=300.0, burst=300.0)
    world.run(0.1)
    for name in "abc":
        told = world.processes[name].coordinator.explain(1, DIMENSION, world.now)
        # At most what two spent within the age of information, before they stopped.
        assert told.level > -2 * 100.0 * 0.1
