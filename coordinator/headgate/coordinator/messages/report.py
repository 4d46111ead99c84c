"""What agents tell each other: cumulative counters, demand, what a request costs.

A report is a plain value here; only the agent's codec knows its bytes.  Shapes:
N rows of one dimension, ordered by group id.  Counters only grow within an
incarnation, so a lost, doubled or reordered report loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One dimension's rows of a report: columns of equal length N.

    Attributes:
        dimension: What is counted, such as ``requests``.
        group_ids: ``int64[N]``, strictly increasing.
        refused: ``float64[N]`` units refused since the incarnation began.
        admitted: ``float64[N]`` units admitted since the incarnation began.
        demand: ``float64[N]`` attempted units/s, refused ones included.
        held: ``float64[N]`` units that the sender may admit before it reports, shown to
            people; below zero it is a debt.
        cost: ``float64[N]`` mean units of one request, > 0; 1 if the sender doesn't
            say.
        largest: ``float64[N]`` units of the largest request that may be in the row's
            growth, 0 if that is no more than a few costs; None if all are 0.
        inside: ``float64[N]`` weight of the groups inside the row's that the sender's
            callers use, of each as large a part as they have of its demand; None if
            all are 0.
        counted: ``float64[N]`` units/s of the demand that count: of callers inside the
            row's group as much as the limits there admit.  None if all count.
        own: ``float64[N]`` units/s of those that callers of the row's group itself
            want, not callers inside it.  None if there are no groups inside, or, where
            `inside` is told, from a sender that does not know the column.
        age_s: ``float64[N]`` seconds since the sender began to use the limit, 0 if that
            was long ago; None if all are 0.
        told_s: ``float64[N]`` seconds since it reported the row for the first time, 0
            where `age_s` is; None if all are 0, or from a sender that does not know the
            column.
        before: ``float64[N]`` units that it had admitted by then; None if all are 0.
        level: ``float64[N]`` what the sender believes the ledger holds (E), NaN where
            it is not sure of it yet; None where the report does not carry it.
        subjects: ``int64[N]`` limiters (topics, producers) in use, or None.
    """

    dimension: str
    group_ids: NDArray[np.int64]
    refused: NDArray[np.float64]
    admitted: NDArray[np.float64]
    demand: NDArray[np.float64]
    held: NDArray[np.float64]
    cost: NDArray[np.float64]
    largest: NDArray[np.float64] | None = None
    inside: NDArray[np.float64] | None = None
    counted: NDArray[np.float64] | None = None
    own: NDArray[np.float64] | None = None
    age_s: NDArray[np.float64] | None = None
    told_s: NDArray[np.float64] | None = None
    before: NDArray[np.float64] | None = None
    level: NDArray[np.float64] | None = None
    subjects: NDArray[np.int64] | None = None

    @property
    def counting(self) -> NDArray[np.float64]:
        """The demand that counts, ``float64[N]`` units/s."""
        return self.demand if self.counted is None else self.counted

    @property
    def of_own_callers(self) -> NDArray[np.float64]:
        """What of that the group's own callers want, ``float64[N]`` units/s."""
        if self.own is not None:
            return self.own
        if self.inside is None:
            return self.counting
        # An older version tells a weight of 1 if it uses no group inside.
        return np.where(self.inside == 1.0, self.counting, 0.0)

    def at(self, where: NDArray[np.int64]) -> Rows:
        """Return the rows at these positions, ``int64[K]``."""
        return _rows([self], lambda columns: columns[0][where])

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """Return rows of one dimension, one part after the other, in their order.

        Where some parts leave out a column, `level` counts as unknown there (NaN),
        `counted` as all of the demand, `own` as `of_own_callers` says, any other as 0,
        and no row has `subjects`.
        """
        return _rows(parts, np.concatenate)


_COLUMNS = tuple(field.name for field in fields(Rows) if field.name != "dimension")

_ABSENT = {
    **dict.fromkeys(("largest", "inside", "age_s", "told_s", "before"), 0.0),
    "level": nan,
}
"""What these columns count as in rows that leave them out."""


def _rows(
    parts: Sequence[Rows], made_of: Callable[[list[NDArray[Any]]], NDArray[Any]]
) -> Rows:
    """Return rows whose columns are made of the same columns of some parts."""
    columns: dict[str, Any] = {}
    for name in _COLUMNS:
        found: list[NDArray[Any] | None] = [getattr(rows, name) for rows in parts]
        told = [column for column in found if column is not None]
        if told and len(told) < len(found):
            filled = [_column(rows, name) for rows in parts]
            told = [column for column in filled if column is not None]
        columns[name] = made_of(told) if len(told) == len(parts) else None
    return Rows(dimension=parts[0].dimension, **columns)


def _column(rows: Rows, name: str) -> NDArray[Any] | None:
    """Return a column, or what it counts as where it is left out."""
    column: NDArray[Any] | None = getattr(rows, name)
    if name == "counted":
        return rows.counting
    if name == "own":
        return rows.of_own_callers
    if column is None and name in _ABSENT:
        return np.full(len(rows.cost), _ABSENT[name])
    return column


PERMITS = 1024
"""Permits that the rate and the burst of one strict limit are cut into.  One is a
thousandth of the limit, so 256 agents can share it in steps of a quarter of an even
part; beyond 1,024 agents, the rest would own nothing."""


class AgentLife(NamedTuple):
    """One run of an agent: lives of one id are ordered by their incarnation.

    Attributes:
        agent: Id of the agent; empty for nobody, the giver of minted permits.
        incarnation: Grows with each start.
    """

    agent: str
    incarnation: int


class PermitRun(NamedTuple):
    """Neighbouring permits of one limit whose registers are alike.

    Attributes:
        group_id: Of the limit.
        first: Number of the first permit.
        size: How many there are, ≥ 1; `first + size` ≤ `PERMITS`.
        epoch: Grows with each change of owner, > 0.
        owner: The life that owns them.
        giver: The life that wrote this epoch.
        tokens: Units of the burst that came with each.
        missed: The owner is the sender, which knows of the gift but never got it.
    """

    group_id: int
    first: int
    size: int
    epoch: int
    owner: AgentLife
    giver: AgentLife
    tokens: float
    missed: bool = False


class KnownLife(NamedTuple):
    """What a sender knows about one agent that takes part in a strict limit.

    Attributes:
        group_id: Of the limit.
        life: The newest that it knows.
        over: That one has ended, too.
        settled: For the sender's own life: it may own permits.
        uses: For the sender's own life: it has a bucket of the limit.
        heard_s: Seconds since the sender heard an earlier life of this id; infinite if
            that was long ago.
        in_use: For the sender's own life: slots that its callers hold.
        wanted: For the sender's own life: slots that its callers hold or ask for.
    """

    group_id: int
    life: AgentLife
    over: bool = False
    settled: bool = False
    uses: bool = False
    heard_s: float = inf
    in_use: int = 0
    wanted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Permits:
    """What a report says about strict limits in one dimension.

    A keyframe carries all registers that the sender knows and everyone who, as far as
    it knows, takes part; other reports carry what the sender changed lately, and its
    own life.  See `headgate.coordinator.escrow.permits`.

    Attributes:
        dimension: What is counted.
        runs: Registers, by group and permit.
        lives: Who takes part, by group.
    """

    dimension: str
    runs: tuple[PermitRun, ...] = ()
    lives: tuple[KnownLife, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """One message of one agent.

    Attributes:
        cluster: Name of the cluster.
        agent: Id of the sender.
        incarnation: AgentLife of the sender; grows with each start.
        sequence: Number of this report within the incarnation, from 1.
        sent_at_s: Sender's wall clock, seconds since the epoch.  Only its
            differences are used: a wall clock may be wrong.
        revision: Revision of the configuration that the sender uses.
        hello: The sender has just started and asks for everyone's keyframe.
        leave: The sender stops; its share is free at once.
        keyframe: All rows of the sender are here; what is missing is at rest.
        rows: At most one per dimension.
        permits: At most one per dimension.
        weight: Of the sender among all agents, > 0.
        interval_s: The sender's heartbeat T, from which its lease follows.
        part: Which of `parts` this is, on the wire only: the coordinator hears whole
            reports.
        parts: Partitions that the report was split over; none if it was not.
        left_out: ``int64[K]`` ascending ids of the groups whose rows the reader left
            out, because it does not use them; on the wire there is nothing of it.
    """

    cluster: str
    agent: str
    incarnation: int
    sequence: int
    sent_at_s: float
    revision: int = 0
    hello: bool = False
    leave: bool = False
    keyframe: bool = False
    rows: tuple[Rows, ...] = ()
    permits: tuple[Permits, ...] = ()
    weight: float = 1.0
    interval_s: float = 1.0
    part: int = 0
    parts: tuple[int, ...] = ()
    left_out: NDArray[np.int64] | None = None
