"""The thread of an agent: bus → coordinator → buckets, and back.

One turn of the loop takes the messages of the bus, a new configuration if there is
one, and the counters when they are due; it steps the coordinator with each and
performs the effects in order.  Nothing may end the thread: a failure is counted and
logged once, and the next turn goes on.

**At rest.**  While no bucket is used, a look at the counters every 50 ms costs most of
what an idle agent costs, and says nothing new.  So the runtime then only asks whether
any bucket was used, which reads a flag, and steps the coordinator when one was, when
another agent reported, or when the coordinator itself has something due, such as its
heartbeat.  Before the first counters that differ, the coordinator gets the old ones as
of the last such look; otherwise it would take what came just now as spread over a
second.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.bus.open import open_bus
from headgate.agent.bus.reports import ReportBus
from headgate.agent.errors import BusUnavailable
from headgate.agent.follow.liveness import LastWords
from headgate.agent.follow.periods import in_periods
from headgate.agent.once_log import OnceLog
from headgate.coordinator import (
    Claim,
    Configured,
    Coordinator,
    Heard,
    Noticed,
    Publish,
    Renamed,
    SetCeilings,
    SetSlots,
    Settings,
    Stopping,
    WakeAt,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from headgate.agent.bus.port import Bus, BusSettings
    from headgate.agent.follow.liveness import Word
    from headgate.agent.follow.snapshot import Snapshot
    from headgate.agent.json_place import Json
    from headgate.agent.ports import EnforcementPort
    from headgate.coordinator import (
        Counted,
        Effect,
        Event,
        Explanation,
        MemberView,
        Report,
        SlotView,
    )
    from headgate.coordinator.config.configuration import Group

MAX_POLL_S = 0.1
"""Longest wait on the bus; a new configuration and `close` are noticed after it."""

LOOK_S = 0.05
"""Time between two looks at buckets that aren't busy: this soon others know of a first
request, and a ledger follows what was heard."""

RESTS_AFTER_S = 5.0
"""Time without use after which an agent rests: an average over the slowest callers has
faded by then, or the others know how it fades."""

ANSWERS_S = 1.0
"""How long an agent doesn't rest after another sent it rows or asked for its own: what
has to be answered or asked in turn is due within that."""

FAILED_TURN_PAUSE_S = 0.1
"""Pause after a failed turn, so that a permanent fault doesn't occupy a core."""

COUNTING_PART = 0.05
"""Largest part of a core for reading the counters: 10,000 buckets in use take 10 ms to
read and as much for their ledgers, and urgent reports then wait up to half a second."""

COUNTING_GAP = 1.0
"""Most heartbeats between two readings, however long one takes: an agent that doesn't
read its counters for a lease assumes that it was paused, and asks for all levels."""

REOPEN_BUS_S = 10.0
"""Pause before another attempt to open a bus."""

MAX_VOUCHED = 10_000
"""Statements of the API that wait for the next turn; the oldest are dropped."""

CORRECTED_S = 3_600.0
"""A wall clock that is set back by less is a correction: until it has caught up, it
counts as standing still.  One set back by more was wrong before."""

OPENING_S = 1.0
"""Longest wait for the bus at the end of a life so short that nothing was published: it
was opened just now, and would lose what it holds back."""

CLOSE_S = 5.0
"""Longest wait for the leave report to go out and the daemon thread to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The settings of a runtime.

    Attributes:
        agent: Id of the agent.
        observing: Only listen.
        weight: Weight of the agent relative to the others.
        bus_options: Added to the bus options that the snapshot names: secrets, which
            a snapshot should not carry.
    """

    agent: str
    observing: bool = False
    weight: float = 1.0
    bus_options: Mapping[str, Json] | None = field(default=None, repr=False)


class Runtime:
    """An agent's thread, and what other threads may ask of it.

    Attributes:
        following: Set once the first configuration is in force.
        met: Set once the other agents have had time to answer this one.
    """

    def __init__(
        self,
        enforcement: EnforcementPort,
        options: RuntimeOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        on_bus: Callable[[], None] | None = None,
        claim: Callable[[Claim], None] = lambda _: None,
    ) -> None:
        """Make a runtime; `start` starts it.

        Args:
            enforcement: What enforces in this process.
            options: Its settings.
            clock: Seconds, monotonic; that of `enforcement`.
            wall: Seconds since the epoch, for calendar periods.
            on_bus: Called in the runtime's thread once a bus is open.
            claim: Asks the API, without waiting for its answer.
        """
        self._on_bus = on_bus
        self._claim = claim
        self._enforcement = enforcement
        self._options = options
        self._clock = clock
        self._wall = wall
        self._boundary_s = inf
        self._latest_s = -inf
        self._agent = options.agent
        self._incarnation = time.time_ns() // 1_000
        self._lock = threading.Lock()  # around each use of the coordinator
        self._coordinator: Coordinator | None = None
        self._settings: Settings | None = None
        self._bus: ReportBus | None = None
        self._bus_settings: BusSettings | None = None
        self._reopen_at: float | None = None
        self._lacks_bus = False
        self._arrived: Snapshot | None = None
        self._levels_due = False
        self._vouched: deque[Word] = deque(maxlen=MAX_VOUCHED)
        self._words = LastWords()
        self._followed: Snapshot | None = None
        self._wake_at = clock()
        self._due_at = -inf  # when the coordinator wants its next step
        self._awake_until = -inf
        self._looked_at = -inf
        self._spent_s = 0.0  # on the last reading of the counters
        self._counted: tuple[float, Counted] | None = None
        self._stopping = threading.Event()
        self.following = threading.Event()
        self.met = threading.Event()
        self._log = OnceLog()
        self._thread = threading.Thread(
            target=self._run, name="headgate-agent", daemon=True
        )

    @property
    def counters(self) -> Counter[str]:
        """Number of events, by name."""
        return self._log.counters

    @property
    def agent(self) -> str:
        """Present id of this agent."""
        return self._agent

    @property
    def incarnation(self) -> int:
        """This life of the agent: microseconds since the epoch at its start."""
        return self._incarnation

    @property
    def snapshot(self) -> Snapshot | None:
        """The configuration in force, None before the first."""
        return self._followed

    @property
    def bus(self) -> Bus | None:
        """The open bus; other threads may use only its `lag` and `counters`."""
        return None if self._bus is None else self._bus.bus

    @property
    def reads(self) -> frozenset[int]:
        """The partitions of the bus that are read; any thread may ask."""
        return frozenset() if self._bus is None else self._bus.reads

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def follow(self, snapshot: Snapshot, *, kept: bool = False) -> None:
        """Adopt a configuration at the next turn; may be called from any thread.

        Args:
            snapshot: What is in force.
            kept: It is from the disk or from before a fork, and the API is being asked.
        """
        self._levels_due = kept
        self._arrived = snapshot

    def vouch(self, word: Word) -> None:
        """Pass on what the API says about agents and limits; from any thread."""
        self._vouched.append(word)

    def identity(self) -> tuple[str, int]:
        """Return the present id and incarnation of this agent."""
        return self._agent, self._incarnation

    def close(self) -> None:
        """Send a leave report and stop; may be called twice."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def explain(self, group_id: int, dimension: str) -> Explanation:
        """Return this agent's share with all its inputs; from any thread.

        Raises:
            KeyError: This process tracks no such limit.
        """
        with self._lock:
            if self._coordinator is None:
                raise KeyError(group_id)
            return self._coordinator.explain(group_id, dimension, self._clock())

    def first_terms(self, group: Group, dimension: str) -> tuple[float, float] | None:
        """Return level and window of a limit whose bucket is being made, if known.

        From any thread, without the lock: a caller doesn't wait for a calculation.
        """
        coordinator = self._coordinator
        if coordinator is None:
            return None
        return coordinator.first_terms(
            group.id, dimension, self._clock(), group.template
        )

    def used(self) -> list[tuple[str, int]]:
        """Return (dimension, group id) of each limit that others use; any thread."""
        with self._lock:
            return [] if self._coordinator is None else self._coordinator.used()

    def appeared(self) -> list[tuple[str, int]]:
        """Return (dimension, group id) of limits that others began to use lately.

        Since the last call, from any thread; they may have left.
        """
        with self._lock:
            return [] if self._coordinator is None else self._coordinator.appeared()

    def slots(self, group_id: int) -> list[SlotView]:
        """Return how many slots of a group each agent holds; from any thread."""
        with self._lock:
            known = self._coordinator
            return [] if known is None else known.slots(group_id)

    def grantable(self, group_id: int, dimension: str, agent: str) -> bool:
        """Return whether nobody can own a part of a strict limit that `agent` claims.

        From any thread.  Only a runtime that has listened since before the limit was
        made can know.
        """
        with self._lock:
            known = self._coordinator
            return known is not None and known.grantable(group_id, dimension, agent)

    def members(self) -> list[MemberView]:
        """Return all known agents, this one included; from any thread."""
        with self._lock:
            if self._coordinator is None:
                return []
            return self._coordinator.members(self._clock())

    def _run(self) -> None:
        """Take turns until stopped, then leave."""
        self._guarded(self._turn)  # also if stopped by now: something was admitted
        while not self._stopping.is_set():
            self._guarded(self._turn)
        self._guarded(self._leave)
        self._guarded(self._await_bus)
        self._guarded(self._close_bus)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run one step; count and log what it raises, and go on."""
        try:
            step()
        except Exception as error:
            self._log.fault("failed_turns", error)
            self._wake_at = self._clock() + FAILED_TURN_PAUSE_S
            self._stopping.wait(FAILED_TURN_PAUSE_S)

    def _turn(self) -> None:
        """Receive, follow, count; waits for at most `MAX_POLL_S`."""
        wait_s = min(max(self._wake_at - self._clock(), 0.0), MAX_POLL_S)
        if self._bus is None:
            self._stopping.wait(max(wait_s, 0.001))
        else:
            if reports := tuple(report for report, _ in self._bus.receive(wait_s)):
                self._step(Heard(reports))
                self._wake_for(reports)
        if self._arrived is not self._followed or self._calendar() >= self._boundary_s:
            self._follow()
        while self._vouched and self._coordinator is not None:
            self._step(self._words.keep(self._vouched.popleft()))
            self._stay_awake(ANSWERS_S)
        if self._reopen_at is not None and self._clock() >= self._reopen_at:
            self._open_bus()
        now = self._clock()
        if now >= self._wake_at:  # also before there is a coordinator
            if self._rests(now):
                self._looked_at = now
                self._wake_at = min(now + LOOK_S, self._due_at)
            else:
                self._count(now)

    def _count(self, now: float) -> None:
        """Read the counters, and let the coordinator decide."""
        spent_s = -time.thread_time()
        before = self._counted
        self._due_at = now + MAX_POLL_S
        counted = self._enforcement.counts(now)
        self._counted = now, counted
        if before and counted is not before[1] and self._looked_at > before[0]:
            self._step(before[1], self._looked_at)
        if before is None or _was_used(before[1], counted):
            self._stay_awake(RESTS_AFTER_S)
        if self._bus is not None:
            self._bus.use(counted.keys.group_ids)
        self._step(counted)
        if not self.met.is_set():
            self._note_met(now)
        spent_s += time.thread_time()
        self._wake_at = min(self._due_at, now + LOOK_S)
        # A single long one, which opened ledgers, says nothing about the next.
        usual_s, self._spent_s = min(spent_s, self._spent_s), spent_s
        self._wake_at = max(self._wake_at, now + self._pause_s(usual_s))

    def _note_met(self, now: float) -> None:
        if self._coordinator is not None and self._coordinator.met(now):
            self.met.set()

    def _rests(self, now: float) -> bool:
        """Whether a step of the coordinator would change nothing."""
        return (
            now < self._due_at
            and now >= self._awake_until
            and self._coordinator is not None
            and self._enforcement.at_rest()
        )

    def _stay_awake(self, for_s: float) -> None:
        """Look at the counters at the next turn, and don't rest for `for_s`."""
        self._awake_until = max(self._awake_until, self._clock() + for_s)

    def _wake_for(self, reports: tuple[Report, ...]) -> None:
        """Follow what others reported, and be ready to answer."""
        others = [report for report in reports if report.agent != self._agent]
        if any(report.rows or report.permits or report.hello for report in others):
            self._stay_awake(ANSWERS_S)
        elif others:
            self._due_at = -inf  # a heartbeat: one step, at the usual time

    def _calendar(self) -> float:
        """Return the wall clock; a clock that was corrected repeats no boundary."""
        wall_s = self._wall()
        if wall_s <= self._latest_s - CORRECTED_S:
            self._boundary_s = -inf  # the period in force belongs to the wrong time
        if not wall_s < self._latest_s < wall_s + CORRECTED_S:
            self._latest_s = wall_s
        return self._latest_s

    def _pause_s(self, spent_s: float) -> float:
        """Return how long to leave the counters alone after reading them."""
        interval_s = 1.0 if self._settings is None else self._settings.interval_s
        return min(spent_s / COUNTING_PART, COUNTING_GAP * interval_s)

    def _follow(self) -> None:
        """Adopt the newest configuration: bus, coordinator, buckets."""
        snapshot = self._arrived
        if snapshot is None:
            return
        wanted = self._wanted_bus(snapshot)
        if wanted != self._bus_settings:
            self._close_bus()
            self._bus_settings = wanted
            self._open_bus()
        now, wall_s = self._clock(), self._calendar()
        configuration, self._boundary_s = in_periods(snapshot.configuration, wall_s)
        self._enforcement.configure(configuration, now, snapshot.policies, wall_s)
        before = self._coordinator
        self._coordinate(snapshot, now)
        # Without a bus it is on its own; how many are on one isn't known here.
        alone = 1 if self._bus_settings is None else None
        due, self._levels_due = self._levels_due, False
        self._step(Configured(configuration, agents=alone, levels_due=due))
        for word in self._words if self._coordinator is not before else ():
            self._step(word)
        self._followed = snapshot
        self._wake_at = now
        self._stay_awake(RESTS_AFTER_S)
        self.following.set()

    def _coordinate(self, snapshot: Snapshot, now: float) -> None:
        """Make a coordinator, or a new one if its settings have changed."""
        usual = Settings()
        settings = Settings(
            cluster=snapshot.configuration.cluster,
            weight=self._options.weight,
            interval_s=snapshot.report_interval_s,
            keyframe_every=snapshot.keyframe_every,
            tick_s=min(usual.tick_s, snapshot.report_interval_s),
            rest_tick_s=snapshot.report_interval_s,  # shorter ones are this runtime's
            presumed_dead_s=max(
                usual.presumed_dead_s,
                usual.lease_max_intervals * snapshot.report_interval_s,
            ),
        )
        if settings == self._settings:
            return
        if self._coordinator is not None:
            self._leave()
            self._enforcement.hold(SetSlots({}, now, lost=True))
            self._incarnation = max(self._incarnation + 1, time.time_ns() // 1_000)
        self._counted = None
        with self._lock:
            self._settings = settings
            self._coordinator = Coordinator(
                settings,
                agent=self._agent,
                incarnation=self._incarnation,
                seed=0,
                draw=random.random,
                now=now,
                observing=self._options.observing,
            )

    def _step(self, event: Event, at_s: float | None = None) -> None:
        """Step the coordinator and perform its effects in order.

        Args:
            event: What happened.
            at_s: When; now by default.
        """
        coordinator = self._coordinator
        if coordinator is None:
            return
        with self._lock:
            now = self._clock() if at_s is None else at_s
            effects = coordinator.step(now, event, wall_s=self._wall())
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        """Perform one effect of the coordinator."""
        match effect:
            case Publish():
                if self._bus is not None:
                    self._bus.publish(effect.report)
            case SetCeilings():
                self._enforcement.apply(effect, self._clock())
            case SetSlots():
                self._enforcement.hold(effect)
            case Claim():
                self._claim(effect)
            case WakeAt():
                self._due_at = effect.at_s
                self._wake_at = min(self._wake_at, effect.at_s)
            case Renamed():
                self._log.note(
                    "renamed",
                    f"another process uses the id {self._agent}; this one is "
                    f"called {effect.agent} from now on",
                )
                self._agent = effect.agent
            case Noticed():
                self._log.note(
                    effect.kind,
                    effect.detail,
                    about=effect.agent,
                    each_time=effect.each_time,
                    ends=effect.ends,
                )

    def _wanted_bus(self, snapshot: Snapshot) -> BusSettings | None:
        """Return the bus of a snapshot, with the options of this process."""
        if snapshot.bus is None or not self._options.bus_options:
            return snapshot.bus
        options = {**snapshot.bus.options, **self._options.bus_options}
        return replace(snapshot.bus, options=options)

    def _open_bus(self) -> None:
        """Open the wanted bus; if that fails, the agent continues without it."""
        self._reopen_at = None
        if self._bus_settings is None:
            return
        self._reopen_at = self._clock() + REOPEN_BUS_S  # whatever opening it raises
        try:
            bus = open_bus(self._bus_settings)
            everything = self._options.observing
            self._bus = ReportBus(bus, self._log, everything=everything)
            self._reopen_at = None
            if self._on_bus is not None:
                self._on_bus()
            if self._lacks_bus:
                sentence = "there is a bus now, so this agent hears the others"
                self._log.note("bus_available", sentence, ends="bus_unavailable")
            self._lacks_bus = False
        except BusUnavailable as error:
            sentence = f"no bus, so this agent does not hear the others: {error}"
            new = not self._lacks_bus
            self._log.note("bus_unavailable", sentence, each_time=new)
            self._lacks_bus = True

    def _await_bus(self) -> None:
        """Let a bus that was opened just now take what this agent said."""
        until_s = self._clock() + OPENING_S
        while (bus := self.bus) is not None and self._clock() < until_s:
            if bus.counters.get("published") or self._options.observing:
                break
            bus.receive(MAX_POLL_S)

    def _close_bus(self) -> None:
        """Close the bus, if one is open."""
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.bus.close()

    def _leave(self) -> None:
        """Tell the others that this agent's share is free."""
        if self._coordinator is None:
            return
        if not self._options.observing:
            self._step(self._enforcement.counts(self._clock()))
        self._step(Stopping())


def _was_used(before: Counted, counted: Counted) -> bool:
    """Whether callers attempted anything between two readings."""
    if counted is before:
        return False
    return (
        counted.keys is not before.keys
        or not np.array_equal(counted.admitted, before.admitted)
        or not np.array_equal(counted.refused, before.refused)
    )
