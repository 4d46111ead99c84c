"""A few real agents on a simulated clock: each has limiters of its own.

Unlike the processes of a scenario, they need not all use the same groups, their rows
go through the codec as on a bus, and their callers may do as they are told.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.bus.reports import used_of
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.periods import in_periods
from headgate.agent.wire.codec import decode, encode
from headgate.coordinator import (
    Claim,
    Configuration,
    Configured,
    Coordinator,
    Event,
    Group,
    Heard,
    Limit,
    Publish,
    Restored,
    SetCeilings,
    Settings,
    Stopping,
    WakeAt,
)
from headgate.coordinator.config.configuration import Attachment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headgate.agent import Decision
    from headgate.coordinator import Report
    from headgate.coordinator.state import CoordinatorState

DELAY_S = 0.02
WALL_S = 1_700_000_000.0


def limit(rate: float, burst: float | None = None) -> Limit:
    """Return a limit on requests; its burst is a second by default."""
    return Limit(
        dimension="requests", rate=rate, burst=rate if burst is None else burst
    )


def configured(*groups: Group) -> Configuration:
    """Attach a tenant of the same name to each group."""
    attached = tuple(Attachment((("tenant", g.name),), g.id) for g in groups)
    return Configuration(revision=1, groups=groups, attachments=attached)


@dataclass
class Member:
    """One agent.

    Attributes:
        reported: Its counters as it reported them last, by group.
        not_before_s: When it can look again at the earliest.
        deaf: It hears nothing.
        off: It hears nothing, and nobody hears it.
        far_s: What a report takes between it and the bus, beside the delay of the bus.
        late: What has come for it while its bus is held up; None while it is not.
    """

    name: str
    enforcer: Enforcer
    coordinator: Coordinator
    wake_s: float = 0.0
    not_before_s: float = 0.0
    claimed: list[Claim] = field(default_factory=list[Claim])
    reported: dict[int, float] = field(default_factory=dict[int, float])
    gone: bool = False
    deaf: bool = False
    off: bool = False
    far_s: float = 0.0
    late: list[bytes] | None = None
    forge: Callable[[Report], Report] = lambda report: report


class Members:
    """Some agents, the bus between them, and time.

    Where looks take long, `pace_s` returns how far apart an agent's next two are at
    least.

    Attributes:
        now: Monotonic seconds.
        delay_s: Of the bus, seconds.
        cut: The bus loses everything.
        rows: How many all agents have reported.
        all: The agents.
    """

    def __init__(
        self,
        configuration: Configuration,
        number: int,
        *,
        delay_s: float = DELAY_S,
        pace_s: Callable[[], float] | None = None,
    ) -> None:
        self.now = 0.0
        self.delay_s = delay_s
        self.cut = False
        self.rows = 0
        self._pace_s = pace_s
        self._look_s = 0.005 if pace_s is None else 0.001
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._in_force, _ = in_periods(configuration, WALL_S)
        self.all = [self._begin(n, number) for n in range(number)]

    def join(self) -> Member:
        """Start one more agent, which the API tells that all limits are full."""
        member = self._begin(len(self.all), len(self.all) + 1)
        self.all.append(member)
        return member

    def _begin(self, n: int, number: int) -> Member:
        configuration = self._in_force
        coordinator = Coordinator(
            Settings(), agent=f"agent-{n}", incarnation=1, seed=n, now=self.now
        )
        member = Member(
            f"agent-{n}", Enforcer(clock=lambda: self.now, seed=n + 1), coordinator
        )
        first = coordinator.first_terms
        member.enforcer.first_terms = lambda group, dimension: first(
            group.id, dimension, self.now, group.template
        )
        member.enforcer.configure(configuration, self.now, wall_s=self._wall())
        self.step(member, Configured(configuration, number))
        full = [(g.id, each.burst) for g in configuration.groups for each in g.limits]
        ids, bursts = zip(*full, strict=True)
        levels = np.array(bursts, dtype=np.float64)
        self.step(member, Restored("requests", np.array(ids), levels))
        self._wake(member)
        return member

    def at(self, when_s: float, do: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._due, (when_s, next(self._order), do))

    def run(self, until_s: float) -> None:
        """Let time pass."""
        while self._due and self._due[0][0] <= until_s:
            self.now, _, do = heapq.heappop(self._due)
            do()
        self.now = until_s

    def skip(self, for_s: float) -> None:
        """Let much time pass, in which every agent looks once a second only."""
        self._look_s = 1.0
        self.run(self.now + for_s)
        self._look_s = 0.005
        self.run(self.now + 1.0)

    def ask(self, member: int, group: str, cost: float = 1.0) -> Decision:
        """Let a caller ask now."""
        limiter = self.all[member].enforcer.limiter(tenant=group)
        return limiter.try_acquire_at(self.now, requests=cost)

    def since_heard(self, member: int, group_id: int) -> float:
        """Return how long ago an agent heard that others use a group."""
        state: CoordinatorState = vars(self.all[member].coordinator)["_state"]
        return state.elsewhere.since(group_id, self.now)

    def leave(self, member: int) -> None:
        """Stop an agent cleanly."""
        one = self.all[member]
        self.step(one, one.enforcer.counts(self.now))
        self.step(one, Stopping())
        one.gone = True

    def step(self, member: Member, event: Event) -> None:
        """Step an agent's coordinator, and do what it asks for."""
        for effect in member.coordinator.step(self.now, event, wall_s=self._wall()):
            match effect:
                case SetCeilings():
                    member.enforcer.apply(effect, self.now)
                case Publish():
                    for rows in effect.report.rows:
                        self.rows += len(rows.group_ids)
                        counters = zip(rows.group_ids, rows.admitted, strict=True)
                        member.reported |= {int(n): float(a) for n, a in counters}
                    self._send(member, encode(member.forge(effect.report)))
                case WakeAt():
                    member.wake_s = min(member.wake_s, effect.at_s)
                case Claim():
                    member.claimed.append(effect)
                case _:
                    pass

    def _wall(self) -> float:
        return WALL_S + self.now

    def _send(self, sender: Member, payload: bytes) -> None:
        if self.cut or sender.off:
            return
        for to in getattr(self, "all", list[Member]()):
            heard_s = self.now + self.delay_s + sender.far_s + to.far_s
            self.at(heard_s, partial(self._hear, to, payload))

    def _hear(self, member: Member, payload: bytes) -> None:
        if member.late is not None:
            member.late.append(payload)
        else:
            self._take(member, payload)

    def _take(self, member: Member, *payloads: bytes) -> None:
        if member.gone or member.deaf or member.off:
            return
        used = used_of(member.enforcer.counts(self.now).keys.group_ids)
        self.step(member, Heard(tuple(decode(each, used) for each in payloads)))

    def deliver(self, member: Member) -> None:
        """Let a member hear at once what came while its bus was held up."""
        payloads, member.late = member.late or [], None
        if payloads:
            self._take(member, *payloads)

    def _wake(self, member: Member) -> None:
        """Look at the counters when that is due, and at least every 50 ms."""
        if member.gone:
            return
        if max(member.wake_s, member.not_before_s) <= self.now + 1e-9:
            if self._pace_s is not None:
                member.not_before_s = self.now + self._pace_s()
            member.wake_s = inf
            self.step(member, member.enforcer.counts(self.now))
            member.wake_s = min(member.wake_s, self.now + 0.05)
        self.at(self.now + self._look_s, lambda: self._wake(member))


def family(
    inside: int = 10, *, rate: float = 100.0, weight: float = 1.0
) -> tuple[Group, ...]:
    """Return a group of 100/s and others inside it, the second of them as told."""
    groups = [Group(id=1, name="p", limits=(limit(100.0),))]
    for n in range(inside):
        its_rate, its_weight = (rate, weight) if n == 1 else (100.0, 1.0)
        groups.append(
            Group(
                id=2 + n,
                name=f"c{n}",
                limits=(limit(its_rate),),
                parent=1,
                weight=its_weight,
            )
        )
    return tuple(groups)


def admitted(
    members: Members, wants: dict[int, str], per_s: float, until_s: float
) -> list[int]:
    """Let each agent ask for one group at random times; return what was admitted.

    Only what was asked after the first five seconds counts.
    """
    callers = [(n, group, per_s) for n, group in wants.items()]
    passed = [0] * len(members.all)
    for n, units in zip(wants, admitted_to(members, callers, until_s), strict=True):
        passed[n] = units
    return passed


def admitted_to(
    members: Members, callers: Sequence[tuple[int, str, float]], until_s: float
) -> list[int]:
    """Return the same for each of some callers: agent, group, requests a second."""
    passed = [0] * len(callers)

    def ask(caller: int, random: Random) -> None:
        member, group, per_s = callers[caller]
        if members.ask(member, group) and members.now > 5.0:
            passed[caller] += 1
        members.at(
            members.now + random.expovariate(per_s), partial(ask, caller, random)
        )

    for caller in range(len(callers)):
        members.at(0.01, partial(ask, caller, Random(caller)))
    members.run(until_s)
    return passed


def told_and_admitted(
    members: Members, groups: list[str], cost: float, until_s: float
) -> tuple[list[float], float]:
    """Let two callers of each group return when they are told to.

    Returns:
        The delays, and the units admitted.
    """
    delays: list[float] = []
    units = [0.0]

    def call(member: int, group: str) -> None:
        decision = members.ask(member, group, cost)
        units[0] += cost if decision else 0.0
        if not decision:
            delays.append(decision.delay_s)
        pause_s = 0.05 if decision else decision.delay_s
        if pause_s < inf:
            members.at(members.now + pause_s + 1e-4, partial(call, member, group))

    for n in range(len(members.all)):
        for at, group in enumerate(2 * groups):
            members.at(0.01 + 0.003 * at, partial(call, n, group))
    members.run(until_s)
    return delays, units[0]


def begin_beside_one(delay_s: float, per_s: float, begins_s: float) -> Members:
    """Let an agent ask often, and two begin beside it while the API is silent.

    Returns:
        The agents, a second after the start; the last one has asked so often.
    """
    group = Group(id=1, name="g", limits=(limit(50.0, 1500.0),))
    members = Members(configured(group), 3, delay_s=delay_s)

    def ask(member: int, per_s: float) -> None:
        members.ask(member, "g")
        members.at(members.now + 1.0 / per_s, partial(ask, member, per_s))

    members.at(0.02, partial(ask, 2, per_s))
    for n in (0, 1):
        members.at(begins_s + 0.03 * n, partial(ask, n, 4.0))
    members.run(1.0)
    return members


def burst_at_once(
    seed: int, pace_s: Callable[[Random], float], rate: float, burst: float
) -> tuple[float, float]:
    """Let three agents whose looks are as far apart as drawn want a burst at once.

    Returns:
        By how many units they exceeded what one bucket holds and earns, at worst, and
        what they admitted within 0.3 s.
    """
    chance, begins_s = Random(seed), 1.5
    group = Group(id=1, name="g", limits=(limit(rate, burst),))
    members = Members(
        configured(group), 3, delay_s=0.004, pace_s=lambda: pace_s(chance)
    )
    passed: list[float] = []

    def ask(member: int) -> None:
        all_at_once = members.now >= begins_s
        if members.ask(member, "g") and all_at_once:
            passed.append(members.now - begins_s)
        next_s = members.now + chance.expovariate(10_000.0 if all_at_once else 5.0)
        if not all_at_once:
            next_s = min(next_s, begins_s)
        members.at(next_s, partial(ask, member))

    for n in range(3):
        members.at(chance.uniform(0.0, 0.2), partial(ask, n))
    members.run(begins_s + 0.3)
    over = 1.0 + np.arange(len(passed)) - burst - rate * np.array(passed)
    return float(over.max()), float(len(passed))


def spend(members: Members, group: str, units: int) -> None:
    """Let the first agent spend so much, as fast as its window allows."""
    while units:
        if members.ask(0, group):
            units -= 1
        else:
            members.run(members.now + 0.02)


def met(number: int, rate: float, burst: float) -> Members:
    """Return agents that share another group, and have not used this one yet."""
    group = Group(id=1, name="g", limits=(limit(rate, burst),))
    other = Group(id=2, name="other", limits=(limit(10.0),))
    members = Members(configured(group, other), number)
    for n in range(number):
        members.ask(n, "other")
    members.run(2.0)
    return members
