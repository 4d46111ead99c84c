"""What happens to a coordinator, and what it wants done.

The ordering law: the shell performs the effects of one step in the order in
which they stand, before it steps the next event.  Times are seconds on the
shell's monotonic clock; the coordinator reads no clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from headgate.coordinator.config.configuration import Configuration
    from headgate.coordinator.messages.report import Report


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The local buckets of one agent, N of them, in a fixed order.

    The shell makes a new `Keys` when a bucket comes or goes and else passes the
    same object, so that the coordinator can recognise it by identity.

    Attributes:
        dimensions: Names of the dimensions that occur.
        dimension: ``int64[N]`` index into `dimensions`.
        group_ids: ``int64[N]``.
    """

    dimensions: tuple[str, ...]
    dimension: NDArray[np.int64]
    group_ids: NDArray[np.int64]


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

    Each of `refused`, `admitted` only grows; a bucket that is made anew may
    start at 0 again.  A request is counted in the nearest limited group alone: what
    the children of a group count is added to its own here, and a group that nothing
    is charged to directly may be left out of `keys`.

    Attributes:
        keys: Which buckets; cluster-scoped limits only.
        refused: ``float64[N]`` units refused.
        admitted: ``float64[N]`` units admitted.
        held: ``float64[N]`` tokens held now; below zero it is a debt.
        cost: ``float64[N]`` mean units of one request lately, > 0.
        subjects: ``int64[N]`` limiters that use the bucket.
        clipped: ``float64[N]`` units that were taken out because a capacity was
            lowered; None of a shell that doesn't say, which gives no tokens away.
        slots: Of each group whose slots callers may ask for.
    """

    keys: Keys
    refused: NDArray[np.float64]
    admitted: NDArray[np.float64]
    held: NDArray[np.float64]
    cost: NDArray[np.float64]
    subjects: NDArray[np.int64]
    clipped: NDArray[np.float64] | None = None
    slots: tuple[SlotCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Configured:
    """A new revision of the configuration is to be followed."""

    configuration: Configuration


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """A report came from the bus, the own ones included.

    Attributes:
        report: What was decoded.
        received_wall_s: Receiver's wall clock when it came out of the bus.
    """

    report: Report
    received_wall_s: float


@dataclass(frozen=True, slots=True, eq=False)
class HeardTogether:
    """Reports that came from the bus at once, in their order.

    What each would do by itself, but their rows are entered together, which is much
    cheaper.

    Attributes:
        reports: What was decoded, of any agents.
    """

    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class Vouched:
    """The API says of a life of another agent that it goes on, or is over.

    Attributes:
        agent: Id of the other agent.
        incarnation: Its life.
        alive: None takes an earlier word back: the API can't be asked any more.
    """

    agent: str
    incarnation: int
    alive: bool | None


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is about to end; the answer is a report that says so."""


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """Levels that were stored before a restart of the whole cluster.

    Counts as one answer to this agent's hello, for ledgers that no living agent
    tells it about (quotas per hour or month, Ably).

    Attributes:
        dimension: What is counted.
        group_ids: ``int64[N]``.
        level: ``float64[N]`` units, as stored.
        age_s: Seconds since it was stored; the rate is credited for them.
    """

    dimension: str
    group_ids: NDArray[np.int64]
    level: NDArray[np.float64]
    age_s: float = 0.0


Event = Counted | Configured | Heard | HeardTogether | Vouched | Restored | Stopping


@dataclass(frozen=True, slots=True, eq=False)
class Publish:
    """Put this report on the bus."""

    report: Report


@dataclass(frozen=True, slots=True, eq=False)
class SetCeilings:
    """Let local buckets refill at these rates from now on.

    Attributes:
        keys: The `Keys` that `index` points into.
        index: ``int64[K]`` positions of the buckets that change.
        ceiling: ``float64[K]`` units/s; infinite where unlimited.
        capacity: ``float64[K]`` units that the bucket may hold.
        probability: ``float64[K]`` 1 for a token bucket.  Below 1 or with
            capacity 0: no local tokens, admit each request with this chance
            (small quotas).
        share: ``float64[K]`` allocated units/s, what status shows.
        deadline_s: ``float64[K]`` when the ceiling ends.
        reserve: ``float64[K]`` units/s after the deadline.
        credit: ``float64[K]`` units to put into each bucket once, as far as its new
            capacity allows, or None: others took them out of theirs.
    """

    keys: Keys
    index: NDArray[np.int64]
    ceiling: NDArray[np.float64]
    capacity: NDArray[np.float64]
    probability: NDArray[np.float64]
    share: NDArray[np.float64]
    deadline_s: NDArray[np.float64]
    reserve: NDArray[np.float64]
    credit: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class SetSlots:
    """Let callers hold at most so many slots from now on.

    A caller that holds one keeps it, even if fewer may be held now.

    Attributes:
        may_hold: By group id; of others, none.
        deadline_s: When this ends, and no slot may be taken until it is said anew: the
            others may have taken this agent for dead by then.
        lost: Slots that are held now do not count any more: others have them.
    """

    may_hold: Mapping[int, int]
    deadline_s: float
    lost: bool = False


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Step a `Counted` at this time at the latest."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Renamed:
    """Another process has this id; go by the new one from now on."""

    agent: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that a person should be able to see; counted by `kind`.

    Attributes:
        kind: Name of the counter, such as ``report_from_the_future``.
        detail: A sentence for the log, written when the kind first occurs
            for an agent.
        agent: Whom it is about, or empty.
    """

    kind: str
    detail: str
    agent: str = ""


Effect = Publish | SetCeilings | SetSlots | WakeAt | Renamed | Noticed
