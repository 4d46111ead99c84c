"""Runs the checkers, both during a simulation and after its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.coordinator import Coordinator
from headgate.simulation.invariants.replay import RecordingController, check_replay
from headgate.simulation.invariants.safety import check_changes, check_safety
from headgate.simulation.invariants.totals import Ledgers, check_killed, check_tables
from headgate.simulation.invariants.views import (
    Looked,
    check_members,
    check_view,
    remembered_s,
)
from headgate.simulation.invariants.work import check_work
from headgate.simulation.world.record import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headgate.coordinator import Report
    from headgate.simulation.controllers.controller import Birth, Controller
    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.node import Life, Node
    from headgate.simulation.world.record import SimulationRun

LOOKED_AT = 4
"""Agents inspected per simulated second, in turn: an inspection costs as much as a
received report, so inspecting all agents would double the time of a run."""

MOST_OF_A_KIND = 5
"""Violations kept per invariant: the first ones are the ones that matter."""

MOST_REPORTS = 42
"""Most reports of one agent in a second: one each 50 ms, as many answers to hellos, and
two that say hello and goodbye."""

LEAST_BYTES = 400
"""Bytes that any report may have, for names, times and one row."""

ROW_BYTES = 64
"""Bytes that each further row may have; 13 are usual."""

RIGHTS_PER_AGENT = 4
"""Rows for each agent of a strict group: its life takes some 25 bytes, and each run of
its permits 10 or 11.  An owner writes one epoch over all its permits as soon as eight
runs would be saved, so 20 runs are stretches, which few gifts cut, and those eight."""


class InvariantWatch:
    """Watches one run; `finish` returns the violations."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        make_controller: Callable[[Scenario, Birth], Controller],
    ) -> None:
        """Prepare to watch a run of a scenario with a seed."""
        self._scenario = scenario
        self._make_controller = make_controller
        self._relived = seed % scenario.agents
        self._recorders: list[RecordingController] = []
        self._controllers: dict[int, Controller] = {}
        self._nodes: dict[int, Node] = {}
        self._lives: list[Life] = []
        self._made_up: dict[str, float] = {}
        self._ledgers = Ledgers()
        self._found: list[Violation] = []
        self._counts: dict[str, int] = {}

    def born(self, node: Node) -> None:
        """Remember a process; record it if it is to be replayed.

        Two are recorded: the first incarnation of one agent, and the first one that
        starts after time 0.
        """
        birth = node.life.birth
        self._lives.append(node.life)
        self._controllers[birth.incarnation] = node.controller
        recorded = [recorder.birth.now > 0 for recorder in self._recorders]
        first = birth.index == self._relived and False not in recorded
        later = True not in recorded
        if later if birth.now > 0 else first:
            recorder = RecordingController(node.controller, birth)
            self._recorders.append(recorder)
            node.controller = recorder

    def delivered(self, now: float, receiver: int, report: Report) -> None:
        """Note what another agent received."""
        del now
        node = self._nodes.get(receiver)
        if node is None or node.life.agent != report.agent:
            self._ledgers.hear(report)

    def garbled(self, now: float, report: Report) -> None:
        """Note an agent id that flipped bytes may have made up."""
        self._made_up[report.agent] = now

    def probe(self, now: float, nodes: dict[int, Node]) -> None:
        """Inspect some of the running agents."""
        self._nodes = dict(nodes)
        turn = int(now) * LOOKED_AT
        agents = self._scenario.agents
        chosen = {(turn + i) % agents for i in range(min(LOOKED_AT, agents))}
        for index in sorted(chosen & nodes.keys()):
            if not self._stopped(index, now):
                self._look(now, index, nodes[index])

    def settled(self, run: SimulationRun, nodes: dict[int, Node], now: float) -> bool:
        """Return whether each table holds the true counters of all others."""
        return not any(check_tables(run, self._coordinators(nodes), now))

    def finish(
        self, run: SimulationRun, nodes: dict[int, Node], now: float
    ) -> list[Violation]:
        """Return all violations of a finished run, including its quiet tail."""
        self._nodes = dict(nodes)
        self._keep(check_safety(run))
        self._keep(check_changes(run))
        self._keep(check_work(run))
        self._keep(self._check_reports(run))
        self._keep(check_tables(run, self._coordinators(nodes), now))
        self._keep(check_killed(run, self._ledgers))
        for recorder in self._recorders:
            self._keep(check_replay(recorder, self._scenario, self._make_controller))
        return sorted(self._found)

    def _coordinators(
        self, nodes: dict[int, Node]
    ) -> dict[int, tuple[Life, Coordinator]]:
        found: dict[int, tuple[Life, Coordinator]] = {}
        for index, node in nodes.items():
            controller = self._controllers[node.life.birth.incarnation]
            if isinstance(controller, Coordinator):
                found[index] = (node.life, controller)
        return found

    def _look(self, now: float, index: int, node: Node) -> None:
        controller = self._controllers[node.life.birth.incarnation]
        if not isinstance(controller, Coordinator):
            return
        looked = Looked(now, index, node.life.birth.now, node.told)
        self._keep(check_view(self._scenario, controller, looked))
        alive = self._alive_lately(now)
        self._keep(check_members(controller, looked, alive_lately=alive))

    def _alive_lately(self, now: float) -> int:
        """Return how many ids were in use so recently that they are remembered."""
        since = now - remembered_s(self._scenario)
        names = {name for name, at_s in self._made_up.items() if at_s >= since}
        for life in self._lives:
            if life.ended_s >= since:
                names |= life.names
        return len(names)

    def _stopped(self, index: int, now: float) -> bool:
        return any(
            fault.kind == "pause"
            and index in fault.agents
            and fault.start_s <= now <= fault.until_s
            for fault in self._scenario.faults
        )

    def _check_reports(self, run: SimulationRun) -> Iterator[Violation]:
        counts: dict[tuple[int, int], int] = {}
        agents, groups = self._scenario.agents, len(self._scenario.groups)
        strict = any(group.mode == "strict" for group in self._scenario.groups)
        # In a strict group, a report also says who was given how much.
        rows = 1 + (RIGHTS_PER_AGENT * agents if strict else 0)
        most = LEAST_BYTES + ROW_BYTES * groups * rows
        for report in run.published:
            key = (report.index, int(report.at_s))
            counts[key] = counts.get(key, 0) + 1
            if report.size > most:
                text = f"agent {report.index}: {report.size} bytes, at most {most}"
                yield Violation(report.at_s, "bounded", text)
        for (index, second), count in counts.items():
            if count > MOST_REPORTS:
                text = f"agent {index}: {count} reports in a second"
                yield Violation(float(second), "bounded", text)

    def _keep(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            count = self._counts.get(violation.name, 0) + 1
            self._counts[violation.name] = count
            if count <= MOST_OF_A_KIND:
                self._found.append(violation)
