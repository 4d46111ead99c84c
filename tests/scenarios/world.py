"""A few coordinators on a bus in memory, driven by commands in plain words.

Nothing here decides anything: time passes in ticks, reports arrive after a delay, and
counters are what a command says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator import (
    Claim,
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Effect,
    Event,
    Granted,
    Group,
    Heard,
    Keys,
    Limit,
    Noticed,
    Publish,
    Renamed,
    Report,
    SetCeilings,
    SetSlots,
    Settings,
    Stopping,
    Vouched,
    WakeAt,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.configuration import Isolation, Mode
    from headgate.coordinator.table.index import Key

DELAY_S = 0.02
"""One way, of every report, unless a test says otherwise."""

STEP_S = 0.025
"""Ticks of the world; agents are stepped when they asked to be."""

DIMENSION = "requests"


@dataclass
class Process:
    """One agent: its coordinator, and the counters that its buckets would have."""

    name: str
    coordinator: Coordinator
    keys: Keys
    admitted: NDArray[np.float64]
    refused: NDArray[np.float64]
    held: NDArray[np.float64]
    rates: dict[int, tuple[float, float]] = field(
        default_factory=dict[int, tuple[float, float]]
    )
    wake_s: float = 0.0
    sent: list[Report] = field(default_factory=list[Report])
    ceilings: dict[int, SetCeilings] = field(default_factory=dict[int, SetCeilings])
    noticed: list[str] = field(default_factory=list[str])
    paused: bool = False


class World:
    """Processes, the bus between them, and time."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.now = 0.0
        self.delay_s = DELAY_S
        self.cost = 1.0
        self.groups: dict[int, Group] = {}
        self.revision = 0
        self.processes: dict[str, Process] = {}
        self.flying: list[tuple[float, str, Report]] = []
        self.apart: list[set[str]] = []
        self.losing = 0
        self.doubling = False
        self.lives: dict[str, int] = {}
        self.grants = False
        self.claimed: set[Key] = set()
        self.granted: list[tuple[str, Granted]] = []

    def group(
        self,
        group_id: int,
        *,
        rate: float,
        burst: float,
        mode: Mode = "balanced",
        isolation: Isolation = "fair",
    ) -> None:
        """Make or change a group, in force everywhere at once."""
        self.groups[group_id] = Group(
            id=group_id,
            name=f"group-{group_id}",
            limits=(Limit(dimension=DIMENSION, rate=rate, burst=burst),),
            mode=mode,
            isolation=isolation,
        )
        self._configure()

    def remove(self, group_id: int) -> None:
        """Remove a group's limit everywhere at once; its buckets go on counting."""
        self.groups[group_id] = replace(self.groups[group_id], limits=())
        self._configure()

    def _configure(self) -> None:
        self.revision += 1
        for process in self.processes.values():
            self.step(process, Configured(self.configuration()))

    def configuration(self) -> Configuration:
        """Return what is in force."""
        return Configuration(revision=self.revision, groups=tuple(self.groups.values()))

    def start(
        self,
        name: str,
        *,
        agent: str = "",
        incarnation: int = 1,
        observing: bool = False,
    ) -> None:
        """Start a process that has a bucket for each group."""
        self.lives[agent or name] = incarnation
        coordinator = Coordinator(
            self.settings,
            agent=agent or name,
            incarnation=incarnation,
            seed=sum(map(ord, name)) + incarnation,
            now=self.now,
            observing=observing,
        )
        ids = sorted(self.groups) if not observing else []
        size = len(ids)
        keys = Keys(
            dimensions=(DIMENSION,),
            dimension=np.zeros(size, dtype=np.int64),
            group_ids=np.array(ids, dtype=np.int64),
        )
        process = Process(
            name,
            coordinator,
            keys,
            np.zeros(size),
            np.zeros(size),
            np.zeros(size),
            wake_s=self.now,
        )
        self.processes[name] = process
        self.step(process, Configured(self.configuration()))

    def kill(self, name: str) -> None:
        """End a process without a word."""
        del self.processes[name]

    def stop(self, name: str) -> None:
        """End a process that says so."""
        self.step(self.processes[name], Stopping())
        del self.processes[name]

    def drop(self, name: str) -> None:
        """Let a process drop all of its buckets, at once."""
        self.use_groups(name, [])

    def use_groups(self, name: str, group_ids: list[int]) -> None:
        """Let a process have new buckets of these groups, and no others."""
        process, size = self.processes[name], len(group_ids)
        at = np.zeros(size, np.int64)
        process.keys = Keys((DIMENSION,), at, np.array(group_ids, np.int64))
        process.admitted, process.refused, process.held = np.zeros((3, size))
        process.rates.clear()
        self._tick(process)

    def load(self, name: str, group_id: int, admitted: float, refused: float) -> None:
        """Let a process admit and refuse so many units a second from now on."""
        self.processes[name].rates[group_id] = (admitted, refused)

    def use(self, name: str, group_id: int, admitted: float, refused: float) -> None:
        """Let a process admit and refuse so many units at this moment."""
        process = self.processes[name]
        at = process.keys.group_ids.tolist().index(group_id)
        process.admitted[at] += admitted
        process.refused[at] += refused

    def vouch(self, agent: str, *, alive: bool | None) -> None:
        """Let the API say to all that a process lives or is gone, or nothing more."""
        for process in self.processes.values():
            if process.name != agent:
                self.step(process, Vouched(agent, self.lives.get(agent, 1), alive))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now = round(self.now + STEP_S, 6)
            for process in self.processes.values():
                for group_id, (admitted, refused) in process.rates.items():
                    self.use(
                        process.name, group_id, admitted * STEP_S, refused * STEP_S
                    )
            self._deliver()
            for process in list(self.processes.values()):
                if not process.paused and process.wake_s <= self.now + 1e-9:
                    self._tick(process)

    def step(self, process: Process, event: Event) -> None:
        """Step one coordinator and perform what it wants."""
        effects = process.coordinator.step(self.now, event, wall_s=self.now)
        for effect in effects:
            self._perform(process, effect)

    def _tick(self, process: Process) -> None:
        self.step(process, self._counted(process))

    def _counted(self, process: Process) -> Counted:
        size = len(process.keys.group_ids)
        return Counted(
            keys=process.keys,
            refused=process.refused.copy(),
            admitted=process.admitted.copy(),
            held=process.held.copy(),
            cost=np.full(size, self.cost),
            subjects=np.ones(size, dtype=np.int64),
        )

    def _perform(self, process: Process, effect: Effect) -> None:
        match effect:
            case Publish():
                process.sent.append(effect.report)
                self._send(process, effect.report)
            case Claim():
                if self.grants:
                    fresh = effect.limits - self.claimed
                    granted = Granted(fresh, effect.asked_at_s)
                    self.granted.append((process.name, granted))
                    self.claimed |= effect.limits
            case WakeAt():
                process.wake_s = effect.at_s
            case SetCeilings():
                for at in range(len(effect.index)):
                    group_id = int(effect.keys.group_ids[effect.index[at]])
                    process.ceilings[group_id] = _one(effect, at)
            case Noticed():
                process.noticed.append(f"{effect.kind} {effect.agent}".strip())
            case Renamed():
                process.noticed.append("renamed")
            case SetSlots():
                pass  # no scenario has a group with slots

    def _send(self, process: Process, report: Report) -> None:
        if self.losing:
            self.losing -= 1
            return
        copies = 2 if self.doubling else 1
        for name in self.processes:
            if self._joined(process.name, name):
                for _ in range(copies):
                    self.flying.append((self.now + self.delay_s, name, report))

    def _joined(self, one: str, other: str) -> bool:
        if any(len(part) == 1 and one in part for part in self.apart):
            return False
        return all((one in part) == (other in part) for part in self.apart)

    def _deliver(self) -> None:
        granted, self.granted = self.granted, []
        for name, grant in granted:
            if name in self.processes:
                self.step(self.processes[name], grant)
        arrived = [each for each in self.flying if each[0] <= self.now + 1e-9]
        self.flying = [each for each in self.flying if each[0] > self.now + 1e-9]
        for _, name, report in arrived:
            process = self.processes.get(name)
            if process is not None and not process.paused:
                self.step(process, Heard((report,)))

    def inject(self, name: str, report: Report) -> None:
        """Let one process hear a report that nobody in this world sent."""
        self.step(self.processes[name], Heard((report,)))


def _one(effect: SetCeilings, at: int) -> SetCeilings:
    return replace(
        effect,
        index=effect.index[at : at + 1],
        ceilings=effect.ceilings.at(effect.index == effect.index[at]),
        counted=effect.counted[at : at + 1],
        deadline_s=effect.deadline_s[at : at + 1],
    )
