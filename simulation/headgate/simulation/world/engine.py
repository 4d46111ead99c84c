"""The event loop: agents, bus and faults on one simulated clock.

Agents interact only through reports.  So an agent is brought up to date only when an
event reaches it: its requests since the previous event go through its buckets in one
batch.  Events are ordered by (time, number of the event), which makes a run a
function of the scenario and the seed.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, cast

import numpy as np

from headgate.agent.errors import MalformedReport
from headgate.agent.wire.codec import decode, encode
from headgate.coordinator import Granted, Heard, Stopping, Vouched
from headgate.simulation.controllers.controller import (
    Birth,
    agent_name,
    configuration_at,
)
from headgate.simulation.world.faults import FaultState, fault_edges
from headgate.simulation.world.network import SimulatedBus
from headgate.simulation.world.node import Node
from headgate.simulation.world.preparation import prepare
from headgate.simulation.world.record import Published
from headgate.simulation.world.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator import Claim, Report
    from headgate.coordinator.table.index import Key
    from headgate.simulation.controllers.controller import Controller
    from headgate.simulation.scenario.scenario import Fault, Scenario
    from headgate.simulation.world.observer import RunObserver
    from headgate.simulation.world.record import SimulationRun
    from headgate.simulation.world.timeline import Kind

EPOCH_S = 1_700_000_000.0
"""Wall clock at time 0, an arbitrary value; reports carry it in microseconds."""

GONE_S = 0.5
"""A killed process breaks its connection to the API, which waits this long for a new
one before it tells the other agents (see headgate.api.live.liveness)."""

LEAST_STEP_S = 1e-4
"""A controller that asks to be woken at once is woken this much later, because real
timers are no finer."""

QUIET_INTERVALS = 12
"""Longest quiet tail, in T: a little more than the interval of keyframes."""


class SimulationEngine:
    """One simulation; `run` may be called once."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        strategy: str,
        make_controller: Callable[[Scenario, Birth], Controller],
        observer: RunObserver | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            scenario: What to simulate.
            seed: Seed of all random numbers.
            strategy: Name for the record.
            make_controller: Builds the controller, at each birth.
            observer: Called during the run, if given.
            progress: Called with the simulated time, now and then.
        """
        self._scenario = scenario
        self._seed = seed
        self._make_controller = make_controller
        self._observer = observer
        self._progress = progress
        self._faults = FaultState(scenario)
        self._bus = SimulatedBus(scenario, seed, self._faults)
        self._timeline = Timeline()
        self._push = self._timeline.push
        self._nodes: dict[int, Node] = {}
        self._claimed: set[Key] = set()
        self._births = 0
        self._names = [agent_name(i) for i in range(scenario.agents)]
        self._watching = Random(f"{seed}/configuration")
        self._quiet = False
        self.end_s = scenario.seconds
        self._prepared = prepare(scenario, seed, strategy)
        self.record = self._prepared.record

    def run(self) -> SimulationRun:
        """Simulate, with a quiet tail after the last request, and return the record."""
        scenario = self._scenario
        for change in scenario.changes:
            if change.at_s > 0:
                self._push(change.at_s, "change", 0)
        for edge in fault_edges(scenario):
            self._push(edge, "edge", 0)
        for second in range(1, int(scenario.seconds) + 1):
            self._push(float(second), "probe", 0)
        self._edge(0.0)
        for index in range(scenario.agents):
            if index not in self._faults.down and index not in self._nodes:
                self._boot(index, 0.0)
        self._loop(scenario.seconds)
        self._finish()
        return self.record

    @property
    def nodes(self) -> dict[int, Node]:
        """The running processes, by agent."""
        return self._nodes

    def _finish(self) -> None:
        scenario, record = self._scenario, self.record
        for node in self._nodes.values():
            node.serve(scenario.seconds)
        record.admitted = [
            [self._prepared.streams[i][g].admitted() for i in range(scenario.agents)]
            for g in range(len(scenario.groups))
        ]
        record.refused = [
            [
                np.array(self._prepared.streams[i][g].refused).reshape(-1, 3)
                for i in range(scenario.agents)
            ]
            for g in range(len(scenario.groups))
        ]
        for node in self._nodes.values():
            node.count()
        if self._observer is None:
            return
        self._quiet = True
        self._faults.heal()
        self._bus.heal()
        self.end_s += scenario.slowest_s
        for _ in range(QUIET_INTERVALS):
            self.end_s += scenario.interval_s
            self._loop(self.end_s)
            if self._observer.settled(record, self._nodes, self.end_s):
                break

    def _loop(self, end_s: float) -> None:
        for now, kind, index, payload in self._timeline.until(end_s):
            if kind == "deliver":
                self._deliver(now, index, payload)
            elif kind == "wake":
                self._wake(now, index, payload)
            else:
                self._rarely(now, kind, index, payload)

    def _rarely(self, now: float, kind: Kind, index: int, payload: object) -> None:
        if kind == "edge":
            self._edge(now)
        elif kind == "configure":
            self._configure(now, index, payload)
        elif kind == "vouch":
            self._vouch(now, index, payload)
        elif kind == "granted":
            self._grant(now, index, payload)
        elif kind == "change":
            self._tell_all(now, "configure", now)
        elif kind == "gone":
            if index not in self._nodes:
                self._tell_all(now, "vouch", payload)
        else:
            if self._progress is not None:
                self._progress(now)
            if self._observer is not None:
                self._observer.probe(now, self._nodes)

    def _tell_all(self, now: float, kind: Kind, payload: object) -> None:
        """Let the API notify every agent, which takes as long as a report."""
        network = self._scenario.network
        for index in range(self._scenario.agents):
            late_s = network.delay_s + network.jitter_s * self._watching.random()
            self._push(now + late_s, kind, index, payload)

    def _wall(self, now: float, index: int) -> float:
        return EPOCH_S + now + self._faults.clock_jump_s.get(index, 0.0)

    # Faults and lives.

    def _edge(self, now: float) -> None:
        if self._quiet:
            return
        self._faults.update(now)
        for index in self._faults.down & self._nodes.keys():
            leaving = any(
                f.kind == "leave" and index in f.agents and f.start_s <= now < f.until_s
                for f in self._scenario.faults
            )
            self._end(index, now, killed=not leaving)
        for fault in self._scenario.faults:
            if fault.kind == "duplicate-id" and fault.start_s < fault.until_s:
                self._double(fault, now)
        if now > 0:
            for index in range(self._scenario.agents):
                if index not in self._nodes and index not in self._faults.down:
                    self._boot(index, now)

    def _double(self, fault: Fault, now: float) -> None:
        """Restart agents under the first one's id, and later under their own."""
        if fault.start_s == now:
            name = agent_name(fault.agents[0])
        elif fault.until_s == now:
            name = ""
        else:
            return
        for index in fault.agents[1:]:
            self._names[index] = name or agent_name(index)
            if index in self._faults.down:
                continue
            if index in self._nodes:
                # Stopped cleanly: it is the new life that is configured wrongly.
                self._end(index, now, killed=False)
            self._boot(index, now)

    def _boot(self, index: int, now: float) -> None:
        self._births += 1
        birth = Birth(
            index=index,
            agent=self._names[index],
            incarnation=int(EPOCH_S * 1000) + self._births,
            seed=Random(f"{self._seed}/agent/{self._births}").getrandbits(31),
            now=now,
            wall_s=self._wall(now, index),
        )
        node = Node(
            birth,
            self._make_controller(self._scenario, birth),
            groups=self._prepared.used,
            streams=self._prepared.streams[index],
            ceilings={g: self.record.ceilings[g][index] for g in self._prepared.used},
        )
        self._nodes[index] = node
        self.record.lives.append(node.life)
        if self._observer is not None:
            self._observer.born(node)
        wanted = configuration_at(self._scenario, now)
        agents = self._scenario.agents - len(self._faults.down)
        node.configure(now, birth.wall_s, wanted, agents)
        self._after(now, index, node)

    def _end(self, index: int, now: float, *, killed: bool) -> None:
        node = self._nodes[index]
        node.serve(now)
        if not killed:
            wall_s = self._wall(now, index)
            node.tick(now, wall_s)
            node.step(now, wall_s, Stopping())
            self._flush(now, index, node)
        else:
            life = node.life.agent, node.life.birth.incarnation
            self._push(now + GONE_S, "gone", index, life)
        node.end(now, killed=killed)
        for kind, count in node.noticed.items():
            noticed = self.record.noticed
            noticed[kind] = noticed.get(kind, 0) + count
        for group in self._prepared.used:
            # No ceiling while there is no process.
            self.record.ceilings[group][index].add(now, (0.0, 0.0, 0.0, inf, 0.0))
        del self._nodes[index]
        self._bus.restart(index)

    # What happens to one process.

    def _up(self, now: float, kind: Kind, index: int, payload: object) -> Node | None:
        """Return the process; None if it is gone, or paused, which delays the event."""
        until = self._faults.paused_until.get(index)
        if until is not None and until > now:
            self._push(until, kind, index, payload)
            return None
        node = self._nodes.get(index)
        if node is not None and not self._quiet:
            node.serve(now)
        return node

    def _deliver(self, now: float, index: int, payload: object) -> None:
        node = self._up(now, "deliver", index, payload)
        if node is None:
            return
        if isinstance(payload, bytes):
            try:
                report = decode(payload)
            except MalformedReport:
                node.noticed["malformed_report"] = (
                    node.noticed.get("malformed_report", 0) + 1
                )
                return
        else:
            report = cast("Report", payload)
        wall_s = self._wall(now, index)
        if self._observer is not None:
            if report is payload:
                self._observer.delivered(now, index, report)
            else:
                self._observer.garbled(now, report)
        node.step(now, wall_s, Heard((report,)))
        self._after(now, index, node)

    def _wake(self, now: float, index: int, payload: object) -> None:
        node = self._nodes.get(index)
        if node is None or payload != (node.life.birth.incarnation, node.wakes):
            return
        if self._up(now, "wake", index, payload) is None:
            return
        node.tick(now, self._wall(now, index))
        self._after(now, index, node)

    def _configure(self, now: float, index: int, payload: object) -> None:
        node = self._up(now, "configure", index, payload)
        if node is not None and isinstance(payload, float):
            wanted = configuration_at(self._scenario, payload)
            node.configure(now, self._wall(now, index), wanted)
            self._after(now, index, node)

    def _vouch(self, now: float, index: int, payload: object) -> None:
        node = self._up(now, "vouch", index, payload)
        if node is not None:
            agent, incarnation = cast("tuple[str, int]", payload)
            word = Vouched(agent, incarnation, alive=False)
            node.step(now, self._wall(now, index), word)
            self._after(now, index, node)

    def _grant(self, now: float, index: int, payload: object) -> None:
        node = self._up(now, "granted", index, payload)
        if node is not None:
            node.step(now, self._wall(now, index), cast("Granted", payload))
            self._after(now, index, node)

    def _claim(self, now: float, index: int, claim: Claim) -> None:
        """Let the API grant what nobody has asked for yet, as soon as it hears that."""
        granted = Granted(claim.limits - self._claimed, claim.asked_at_s)
        self._claimed |= claim.limits
        network = self._scenario.network
        late_s = network.delay_s + network.jitter_s * self._watching.random()
        if granted.limits:
            self._push(now + 2.0 * late_s, "granted", index, granted)

    def _after(self, now: float, index: int, node: Node) -> None:
        """Send its reports and questions, and make sure that it is called again."""
        for claim in node.claims:
            self._claim(now, index, claim)
        node.claims.clear()
        if node.outbox:
            self._flush(now, index, node)
        if node.wakes != node.called:
            node.called = node.wakes
            call = (node.life.birth.incarnation, node.wakes)
            self._push(max(node.wake_s, now + LEAST_STEP_S), "wake", index, call)

    def _flush(self, now: float, index: int, node: Node) -> None:
        for report in node.outbox:
            multiplier = self._faults.multiplier.get(index)
            told = report if multiplier is None else _exaggerated(report, multiplier)
            payload = encode(told)
            decoded = decode(payload)
            self.record.published.append(Published(now, index, len(payload), decoded))
            for delivery in self._bus.send(now, index, payload):
                flipped = delivery.corrupted
                content = decoded if flipped is None else flipped
                self._push(delivery.at_s, "deliver", delivery.receiver, content)
        node.outbox.clear()


def _exaggerated(report: Report, multiplier: float) -> Report:
    rows = tuple(
        replace(r, demand=r.demand * multiplier, counted=None) for r in report.rows
    )
    return replace(report, rows=rows)
