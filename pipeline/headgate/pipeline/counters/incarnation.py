"""One agent's lives: reports in, usage of closed windows and gaps out.

Pure: the same state and messages give the same rows, so a batch that is run again
after a crash writes the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.pipeline.counters.clock import UNKNOWN_US, Stamp, event_time_us
from headgate.pipeline.counters.counters import Counters, Part, ReportInterval, merge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.coordinator.messages.report import Report

OPENING = 10
"""An incarnation first heard with a sequence up to this has just begun: its counters
started within the last keyframe interval.  One that is first heard later has a past of
unknown length; what it used then is counted and marked *displaced*, also for groups
first heard of within as many further reports, because rows come in turns."""

SEQUENCE_GRACE = 1_000
SEQUENCES_PER_S = 40.0
"""A sequence may jump by the grace plus this many per second since the life was last
heard: docs/reference/reports.md.  Agents apply the same bound."""

WHOLE = -1
"""Stands for the partition of a report that was not split."""


class ImpossibleReport(ValueError):
    """A well-formed report that no agent can have written; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times that apply to one batch, microseconds.

    Attributes:
        window_us: Length of a window.
        floor_us: Start of the oldest window that is still open.
        watermark_us: Windows that end until here are closed by this batch.
        silence_us: An agent not heard for this long before the watermark is
            presumed dead (M of the membership schedule).
        keep_us: Counters of a life that ended are kept for this long, so that a
            late report can still be differenced.
    """

    window_us: int
    floor_us: int
    watermark_us: int
    silence_us: int
    keep_us: int


@dataclass(slots=True, eq=False)
class Incarnation:
    """What is known of one life of an agent.

    Attributes:
        agent: Id.
        number: The incarnation.
        sequence: Highest of the reports taken in.
        told: Highest sequence by partition, where reports are split by group; under
            `WHOLE` for reports that are not.
        first: Sequence of the first report taken in; 0 before it.
        began_us: Event time of that report.
        heard_us: Event time of the last report; 0 before the first.
        before_us: Event time of the report before it, not counting its own parts.
        least_delay_us: See `clock.event_time_us`.
        revision: Of the configuration at the last report.
        weight: Of the agent at the last report.
        left: The agent said goodbye.
        listed: Its end is already in the list of gaps.
        heard_now: A report was taken in within this batch.
        returned: It was heard again after its end had been listed.
        counters: By dimension.
    """

    agent: str
    number: int
    sequence: int = 0
    told: dict[int, int] = field(default_factory=dict[int, int])
    first: int = 0
    began_us: int = 0
    heard_us: int = 0
    before_us: int = 0
    least_delay_us: int = UNKNOWN_US
    revision: int = 0
    weight: float = 1.0
    left: bool = False
    listed: bool = False
    heard_now: bool = False
    returned: bool = False
    counters: dict[str, Counters] = field(default_factory=dict[str, Counters])

    def absorb(self, report: Report, stamp: Stamp, times: Times) -> int:
        """Take in a report or part of one; an old or duplicate one changes nothing.

        Returns:
            Number of rows whose counters fell.

        Raises:
            ImpossibleReport: The sequence jumps further than any agent's can.
        """
        at_us, least_delay_us = event_time_us(stamp, self.least_delay_us)
        at_us = max(at_us, self.heard_us)
        self._check_jump(report.sequence, at_us)
        if not self._is_new(report):
            return 0
        self.least_delay_us = least_delay_us
        if not self.first:
            self.first, self.began_us, self.heard_us = report.sequence, at_us, at_us
        if report.sequence > self.sequence:
            self.before_us, self.heard_us = self.heard_us, at_us
            self.sequence, self.revision = report.sequence, report.revision
            self.weight = report.weight
        span = ReportInterval(
            at_us=at_us,
            revision=report.revision,
            weight=report.weight,
            floor_us=times.floor_us,
            window_us=times.window_us,
        )
        fallen = 0
        since_us = 0 if self._past_is_unknown(report.sequence) else self.before_us
        for rows in report.rows:
            if len(rows.group_ids):
                counters = self.counters.setdefault(rows.dimension, Counters.empty())
                fallen += counters.absorb(rows, span, since_us=since_us)
        self.left = self.left or report.leave
        self.returned = self.returned or self.listed
        self.listed = False
        self.heard_now = True
        return fallen

    def _check_jump(self, sequence: int, at_us: int) -> None:
        """Refuse a number that would make all later reports look old."""
        if not self.first:
            return
        elapsed_s = (at_us - self.heard_us) / 1e6
        most = SEQUENCE_GRACE + SEQUENCES_PER_S * elapsed_s
        if sequence - self.sequence > most:
            raise ImpossibleReport(
                f"sequence: {sequence} follows {self.sequence}, a jump of at most "
                f"{most:.0f} was possible"
            )

    def _is_new(self, report: Report) -> bool:
        """Whether it has newer rows for its groups than those taken in; notes that."""
        place = report.part if report.parts else WHOLE
        last = max(self.told.get(place, 0), self.told.get(WHOLE, 0))
        if place == WHOLE:
            last = self.sequence
        if report.sequence <= last:
            return False
        self.told[place] = report.sequence
        return True

    def _past_is_unknown(self, sequence: int) -> bool:
        """Whether a group that is new in a report may have been used long before."""
        return self.first > OPENING and sequence <= self.first + OPENING

    def over(self, times: Times) -> bool:
        """Whether this life has ended, as far as can be seen from outside."""
        return self.left or self.heard_us + times.silence_us <= times.watermark_us


@dataclass(frozen=True, slots=True, eq=False)
class UsageGap:
    """A life that ended without goodbye; what it used in the end is not known.

    Attributes:
        life: Which.
        until_us: When its successor began, or 0.
        healed: It was only silent: it has been heard again, and nothing is missing.
    """

    life: Incarnation
    until_us: int
    healed: bool = False


@dataclass(slots=True, eq=False)
class LifeOutcome:
    """What one batch makes of one agent.

    Attributes:
        closed: Usage of closed windows, by dimension.
        gaps: Ends without goodbye, each listed once.
        ended: Lives whose counters are dropped now: their totals are final.
    """

    closed: dict[str, list[Part]] = field(default_factory=dict[str, list[Part]])
    gaps: list[UsageGap] = field(default_factory=list[UsageGap])
    ended: list[Incarnation] = field(default_factory=list[Incarnation])


def conclude(lives: dict[int, Incarnation], times: Times) -> LifeOutcome:
    """Close windows, list gaps, drop what ended long ago; changes `lives`."""
    outcome = LifeOutcome()
    parts: dict[str, list[Part]] = {}
    for life in lives.values():
        for dimension, counters in life.counters.items():
            counters.settle()
            closed = counters.take_closed(times.watermark_us, times.window_us)
            parts.setdefault(dimension, []).extend(closed)
    for life in list(lives.values()):
        if life.returned:
            life.returned = False
            outcome.gaps.append(UsageGap(life, 0, healed=True))
        if not life.over(times):
            continue
        if not life.left and not life.listed:
            life.listed = True
            outcome.gaps.append(UsageGap(life, _successor_us(lives, life)))
        if life.heard_us + times.keep_us <= times.watermark_us:
            for dimension, counters in life.counters.items():
                parts[dimension].extend(counters.parts)
            # A dropped life costs nothing from here on.  A later report of it is
            # refused by means of the table of final counters.
            outcome.ended.append(lives.pop(life.number))
    for dimension, pieces in parts.items():
        outcome.closed[dimension] = list(_merged(pieces))
    return outcome


def _merged(parts: Iterable[Part]) -> Iterable[Part]:
    """Yield one part for each window, displaced or not."""
    by_window: dict[tuple[int, bool], list[Part]] = {}
    for part in parts:
        by_window.setdefault((part.window_us, part.displaced), []).append(part)
    for key in sorted(by_window):
        yield merge(by_window[key])


def _successor_us(lives: dict[int, Incarnation], life: Incarnation) -> int:
    """Return when the agent's next life began, or 0."""
    later = [(o.number, o.began_us) for o in lives.values() if o.number > life.number]
    return min(later)[1] if later else 0
