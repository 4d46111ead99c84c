"""What happens to a coordinator, and what it wants done.

The ordering law: the shell performs the effects of one step in the order given, before
it steps the next event.  Times are seconds on the shell's monotonic clock; the
coordinator reads no clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from headgate.coordinator.config.configuration import Configuration
    from headgate.coordinator.messages.report import AgentLife, Report


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The local buckets of one agent, N of them, in a fixed order.

    The shell makes a new `Keys` when a bucket comes or goes and otherwise passes the
    same object, so that the coordinator can recognise it by identity.

    Attributes:
        dimensions: Names of the dimensions that occur.
        dimension: ``int64[N]`` index into `dimensions`.
        group_ids: ``int64[N]``.
        templates: Group id → id of its template, for groups of single values.
    """

    dimensions: tuple[str, ...]
    dimension: NDArray[np.int64]
    group_ids: NDArray[np.int64]
    templates: Mapping[int, int] = field(default_factory=dict[int, int])


class SlotCount(NamedTuple):
    """What the callers of one agent do with the slots of one group.

    Attributes:
        group_id: Of the group.
        in_use: Slots that callers hold now.
        wanted: The most that they held or asked for at a time since the last count.
    """

    group_id: int
    in_use: int
    wanted: int


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The tick: what the local buckets counted, cumulative since the start.

    `refused` and `admitted` only grow, but a bucket that is recreated may start at 0
    again.  A request is counted only in the nearest limited group; the coordinator adds
    what a group's children count.  So a group that nothing is charged to directly may
    be left out of `keys`, unless it is strict and others are inside it.

    Attributes:
        keys: Which buckets; cluster-scoped limits only.
        refused: ``float64[N]`` units refused.
        admitted: ``float64[N]`` units admitted.
        held: ``float64[N]`` units that the bucket lets through now; below zero it is
            a debt.  Of a strict group with others inside, this and `clipped` are about
            its allowance, which all of them spend.
        cost: ``float64[N]`` mean units of one request lately, > 0.
        subjects: ``int64[N]`` limiters that use the bucket.
        clipped: ``float64[N]`` units that were taken out because a capacity was
            lowered; None if the shell doesn't count it; then no tokens are given away.
        overflowed: ``float64[N]`` units that were earned while the bucket was full;
            None if the shell's buckets are never full.
        slots: One count for each group whose slots callers may ask for.
    """

    keys: Keys
    refused: NDArray[np.float64]
    admitted: NDArray[np.float64]
    held: NDArray[np.float64]
    cost: NDArray[np.float64]
    subjects: NDArray[np.int64]
    clipped: NDArray[np.float64] | None = None
    overflowed: NDArray[np.float64] | None = None
    slots: tuple[SlotCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Configured:
    """A new revision of the configuration takes effect.

    Attributes:
        configuration: What is in force.
        agents: How many agents there are, this one included, if the shell knows that:
            a process without a bus, and the simulation, whose callers don't wait until
            the others were met.
        levels_due: The configuration is not the API's, but from a disk or from before a
            fork: the API has been asked, and may tell levels in a moment.
    """

    configuration: Configuration
    agents: int | None = None
    levels_due: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """Reports came from the bus at once; this agent's own come back, too.

    Each has the effect it would have by itself, but the rows of several are entered
    together, which is much cheaper.

    Attributes:
        reports: What was decoded, of any agents, in the order of arrival.
    """

    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class Vouched:
    """The API says that a life of another agent goes on, or is over.

    Attributes:
        agent: Id of the other agent.
        incarnation: Its life.
        alive: None withdraws an earlier statement, because the API can't be asked any
            more.
    """

    agent: str
    incarnation: int
    alive: bool | None


@dataclass(frozen=True, slots=True)
class ApiAnswers:
    """Whether the API answers this agent; as long as nothing is said, it does.

    Attributes:
        answers: False once a request has failed.
    """

    answers: bool


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is about to end; the answer is a report that says so."""


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """Levels that the API tells: as it sees them now, or stored before a restart.

    They count for ledgers whose level this agent does not know yet, until another agent
    answers (quotas per hour or month, Ably).

    Attributes:
        dimension: What is counted.
        group_ids: ``int64[N]``.
        level: ``float64[N]`` units.
        age_s: Seconds since it held; the rate is credited for that time.
        counted: ``float64[N]`` this agent's own counters that the levels include; NaN
            where that is not known.
        others: For each level, the counters of others that it includes, units; a life
            that is missing was not heard, or is over.  None where that is not known.
    """

    dimension: str
    group_ids: NDArray[np.int64]
    level: NDArray[np.float64]
    age_s: float = 0.0
    counted: NDArray[np.float64] | None = None
    others: Sequence[Mapping[AgentLife, float] | None] | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """The API's answer to a `Claim`: nobody has founded these limits.

    Attributes:
        limits: (dimension, group id) of each.
        asked_at_s: That of the claim.
    """

    limits: frozenset[tuple[str, int]]
    asked_at_s: float


Event = (
    Counted | Configured | Heard | Vouched | ApiAnswers | Restored | Granted | Stopping
)


@dataclass(frozen=True, slots=True, eq=False)
class Publish:
    """Put this report on the bus."""

    report: Report


@dataclass(frozen=True, slots=True, eq=False)
class Ceilings:
    """What local buckets may do until the next look: columns of equal length K.

    A *shared* bucket is this agent's view of the one bucket of a group: its level is
    what the ledger holds, and two comparisons decide (see
    `headgate.coordinator.allocation.window`).  One that is not shared is this
    agent's alone, and refills at `rate` up to `capacity`: where groups are strict or
    unlimited, and while this agent is cut off.

    Attributes:
        shared: ``bool[K]``; of the others only `share`, `ceiling`, `rate`,
            `capacity` and `reserve` mean anything.
        share: ``float64[K]`` allocated units/s, what status shows; of a strict group,
            the rate of its permits, at which an allowance refills.
        ceiling: ``float64[K]`` units/s that may go on for longer: the share and an
            even part of what nobody wants, what status shows; infinite where unlimited.
        level: ``float64[K]`` E, units; NaN if the bucket itself knows it best.
        rate: ``float64[K]`` units/s by which the level grows: Q less what the others
            are expected to spend; infinite where unlimited.
        capacity: ``float64[K]`` units that the bucket may hold.
        room: ``float64[K]`` the larger of a - V' and, as far as it is heeded, -V,
            units; NaN to go on with what the bucket has.
        window: ``float64[K]`` a, units that may be spent before others heed it.
        expected_rate: ``float64[K]`` units/s that the others expect of this agent and
            have left to it.
        room_cap: ``float64[K]`` most that the room may become, units.
        cautious: ``bool[K]`` the others expect nothing of this agent.
        quota: ``float64[K]`` Q, units/s: the rate at which debts are paid back.
        least_delay_s: ``float64[K]`` shortest delay to give a refused caller.
        reserve: ``float64[K]`` units/s after the deadline.
    """

    shared: NDArray[np.bool_]
    share: NDArray[np.float64]
    ceiling: NDArray[np.float64]
    level: NDArray[np.float64]
    rate: NDArray[np.float64]
    capacity: NDArray[np.float64]
    room: NDArray[np.float64]
    window: NDArray[np.float64]
    expected_rate: NDArray[np.float64]
    room_cap: NDArray[np.float64]
    cautious: NDArray[np.bool_]
    quota: NDArray[np.float64]
    least_delay_s: NDArray[np.float64]
    reserve: NDArray[np.float64]

    def at(self, rows: NDArray[np.bool_]) -> Ceilings:
        """Return the ceilings of some of the buckets, ``bool[K]``."""
        if rows.all():
            return self
        return Ceilings(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class SetCeilings:
    """Apply these terms to local buckets from now on.

    Attributes:
        keys: The `Keys` that `index` points into.
        index: ``int64[K]`` positions of the buckets that change.
        ceilings: What they may do.
        counted: ``float64[K]`` what each bucket's `Counted.admitted` was at `as_of_s`:
            what it has admitted since is not yet in `ceilings`.
        as_of_s: When `ceilings` held, monotonic seconds.
        deadline_s: ``float64[K]`` when they end.
        credit: ``float64[K]`` units to put into each bucket once, as far as its new
            capacity allows, or None; others took them out of their buckets.
    """

    keys: Keys
    index: NDArray[np.int64]
    ceilings: Ceilings
    counted: NDArray[np.float64]
    as_of_s: float
    deadline_s: NDArray[np.float64]
    credit: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class SetSlots:
    """Let callers hold at most this many slots from now on.

    A caller that holds one keeps it, even if fewer may be held now.

    Attributes:
        may_hold: By group id; none of any other group.
        deadline_s: When this expires.  After that no slot may be taken until the next
            `SetSlots`, because the others may presume this agent dead.
        lost: Slots that are held now no longer count, because others have them.
    """

    may_hold: Mapping[int, int]
    deadline_s: float
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask the API about limits that this agent begins to use.

    It grants each strict limit that nobody is heard to have founded once, with a
    `Granted`.  Of others that others have used it tells the level, with a `Restored`,
    if it knows that.

    Attributes:
        agent: Id of this agent.
        limits: (dimension, group id) of each.
        asked_at_s: Monotonic seconds.
    """

    agent: str
    limits: frozenset[tuple[str, int]]
    asked_at_s: float


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Step `Counted` no later than this time."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Renamed:
    """Another process has this id; use the new one from now on."""

    agent: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that a person should be able to see; counted by `kind`.

    Attributes:
        kind: Name of the counter, such as ``report_from_the_future``.
        detail: A sentence for the log.
        agent: Whom it is about, or empty.
        each_time: It begins a state, so it is to be logged each time.
        ends: The kind that began the state which this ends; empty if it ends none.
    """

    kind: str
    detail: str
    agent: str = ""
    each_time: bool = False
    ends: str = ""


Effect = Publish | SetCeilings | SetSlots | Claim | WakeAt | Renamed | Noticed
