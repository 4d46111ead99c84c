"""Reports in parts: each partition of a topic carries the rows of its own groups.

Without this, every agent reads every row of the cluster.  With it, an agent reads only
the partitions of the groups that it uses, and the lobby::

    partition 0      the lobby: one part of every report, with its permits and no rows
    1 … n-1          the rows of the groups whose id modulo n - 1 selects it

Through the lobby all agents know the same members and hear themselves; it costs one
header per report.  The permits of strict limits are there because agents that no
longer use a limit, and no longer read its partition, still have to agree.  All parts
of a report have the same sequence number and list the partitions of all parts, so a
reader knows which parts are still to come, joins them, and passes on one report.  A
part that doesn't arrive within `PATIENCE_S` counts as lost: its rows are absent, and
come again with a later report.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.errors import BusUnavailable
from headgate.coordinator.messages.report import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from headgate.coordinator.messages.report import Report

    Numbers = NDArray[np.int64]

LOBBY = 0
"""Carries a part of every report, and is read by everyone."""

MAX_PARTITIONS = 1_024
"""Most partitions of a topic split by group; each part costs its sender 60 bytes."""

PATIENCE_S = 0.1
"""How long a missing part is awaited.  Parts of one report are a few milliseconds
apart; a lost one costs a quarter of the time that it takes to follow a change of
demand."""

MAX_INCOMPLETE = 1_024
"""Most reports that wait for a part; the oldest are passed on incomplete."""


@dataclass(frozen=True)
class PartitionPlan:
    """Which partition carries which group.

    Attributes:
        partitions: Number of partitions; with 1, nothing is split.
    """

    partitions: int = 1

    @property
    def all(self) -> frozenset[int]:
        """All partitions; only number 0 if nothing is split."""
        return frozenset(range(self.partitions))

    def of(self, group_ids: Numbers) -> frozenset[int]:
        """Return the lobby and the partitions of these groups, ``int64[N]``.

        >>> sorted(PartitionPlan(4).of(np.array([3, 6, 7])))
        [0, 1, 2]
        """
        return frozenset({LOBBY, *np.unique(self.places(group_ids)).tolist()})

    def places(self, group_ids: Numbers) -> Numbers:
        """Return the partition of each group, ``int64[N]``."""
        if self.partitions == 1:
            return np.zeros_like(group_ids)
        places: Numbers = 1 + group_ids % (self.partitions - 1)
        return places


def checked_partitions(value: object) -> int:
    """Return the number of partitions that a setting asks for.

    Raises:
        BusUnavailable: It is not a valid number.
    """
    if type(value) is int and 1 <= value <= MAX_PARTITIONS:
        return value
    raise BusUnavailable(
        f"report_partitions: expected 1 to {MAX_PARTITIONS}, got {value!r}"
    )


def cut(
    report: Report, plan: PartitionPlan, written: frozenset[int], *, hello: bool = False
) -> Iterator[tuple[int | None, Report]]:
    """Yield the parts of a report, each with its partition.

    Args:
        report: The whole.
        plan: Where groups belong; a single partition takes the report as it is.
        written: Partitions of the groups that the sender uses.  One without a row in
            this report gets no part of it: the lobby shows that the sender is alive.
        hello: Ask for everyone's rows, whatever the report says.
    """
    if hello:
        report = replace(report, hello=True)
    if plan.partitions == 1:
        yield None, report
        return
    touched = {LOBBY}
    for rows in report.rows:
        touched.update(np.unique(plan.places(rows.group_ids)).tolist())
    if report.hello or report.leave or report.keyframe:
        touched |= written
    parts = tuple(sorted(touched))
    for partition in parts:
        yield (
            partition,
            replace(
                report,
                part=partition,
                parts=parts,
                rows=_picked(report.rows, plan, partition),
                permits=report.permits if partition == LOBBY else (),
            ),
        )


class Joiner:
    """Joins parts; used by one thread.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[tuple[str, int, int], _Open] = {}
        self._done: list[tuple[Report, float]] = []

    def put(self, report: Report, received_wall_s: float, read: frozenset[int]) -> None:
        """Receive a part, or a report that was never split."""
        if not report.parts:
            self._done.append((report, received_wall_s))
            return
        key = (report.agent, report.incarnation, report.sequence)
        began = self._open.get(key)
        if began is None:
            missing = set(report.parts) & read
            began = _Open(self._clock(), received_wall_s, missing, [])
            self._open[key] = began
        if report.part not in began.missing:
            return  # a duplicate, or of a partition that is no longer read
        began.missing.remove(report.part)
        began.parts.append(report)
        if not began.missing:
            self._hand_on(key)
        while len(self._open) > MAX_INCOMPLETE:
            self._hand_on(next(iter(self._open)))

    def take(self) -> list[tuple[Report, float]]:
        """Return the complete reports, and those that waited long enough."""
        now = self._clock()
        late = [k for k, o in self._open.items() if now - o.began_s >= PATIENCE_S]
        for key in late:
            self._hand_on(key)
        done, self._done = self._done, []
        return done

    @property
    def waits(self) -> bool:
        """Whether parts of a report are missing, or complete ones were not taken."""
        return bool(self._open or self._done)

    def wait_s(self, timeout_s: float) -> float:
        """Return how long to wait for messages, at most `timeout_s`."""
        if not self._open:
            return timeout_s
        oldest_s = next(iter(self._open.values())).began_s
        return min(timeout_s, max(oldest_s + PATIENCE_S - self._clock(), 0.0))

    def _hand_on(self, key: tuple[str, int, int]) -> None:
        """Pass on a report with the parts that arrived."""
        began = self._open.pop(key)
        if began.parts:
            report = join(began.parts, whole=not began.missing)
            self._done.append((report, began.received_wall_s))


@dataclass(slots=True)
class _Open:
    """A report with parts still to come."""

    began_s: float
    received_wall_s: float
    missing: set[int]
    parts: list[Report]


def join(parts: list[Report], *, whole: bool) -> Report:
    """Return one report of different parts; see the module.

    Args:
        parts: At least one, each once.
        whole: No part that is read here is missing, so absent rows are at rest.
    """
    first = parts[0]
    return replace(
        first,
        keyframe=first.keyframe and whole,
        rows=_merged([rows for part in parts for rows in part.rows]),
        permits=tuple(each for part in parts for each in part.permits),
        part=0,
        parts=(),
        left_out=_united([part.left_out for part in parts]),
    )


def _united(parts: list[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """Return the ids of all parts in ascending order, None if there are none."""
    told = [part for part in parts if part is not None]
    return np.unique(np.concatenate(told)) if told else None


def _picked(
    columns: tuple[Rows, ...], plan: PartitionPlan, partition: int
) -> tuple[Rows, ...]:
    """Return the part of each dimension that belongs to a partition."""
    picked: list[Rows] = []
    for one in columns:
        where = np.flatnonzero(plan.places(one.group_ids) == partition)
        if len(where):
            picked.append(one.at(where))
    return tuple(picked)


def _merged(columns: list[Rows]) -> tuple[Rows, ...]:
    """Return one entry for each dimension, its rows by group id."""
    of: dict[str, list[Rows]] = {}
    for one in columns:
        of.setdefault(one.dimension, []).append(one)
    return tuple(_by_group(many) if len(many) > 1 else many[0] for many in of.values())


def _by_group(many: list[Rows]) -> Rows:
    """Return rows of one dimension by group id; of one that is told twice, the first.

    Parts of an honest sender have no group in common.
    """
    joined = Rows.joined(many)
    return joined.at(np.unique(joined.group_ids, return_index=True)[1])
