"""What this agent tells the others, and the memory of what it told."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.messages.events import Effect, Publish
from headgate.coordinator.messages.report import Permits, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.state import Core

    Floats = NDArray[np.float64]

UNSURE_LAGS = 4.0
"""After its own round, for so many lags, an agent tells no level: rows on their way
tell of the time when all spent the floor, and are extrapolated at a share."""


class Speaking:
    """The sender's side: from ledgers to reports."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def report(self, own: Own, now: float, wall_s: float) -> list[Effect]:
        """Return the report that is due now, if one is."""
        if not self._core.reporting.may_speak(now, own) or self._is_quiet(own, now):
            return []
        size = len(own.names)
        off, burn, quota, theta = np.zeros((4, size))
        eager = np.zeros(size, dtype=np.bool_)
        for place in own.places:
            shelf, slots, rows = place.shelf, place.slots, place.rows
            rho = shelf.burn[0, slots]
            burn[rows] = rho
            off[rows] = shelf.ahead[0, slots] + rho * (now - shelf.at[slots])
            # Where nothing is shared out nothing is urgent: heartbeats will do.
            free = shelf.unlimited[slots]
            rate = np.where(free, np.inf, shelf.rate[slots])
            quota[rows] = rate / shelf.agents[slots]
            theta[rows] = shelf.theta[slots] * self._core.settings.weight
            eager[rows] = shelf.small[slots] & ~free
        off = own.admitted - own.sent_admitted + own.held - own.sent_held - off
        chosen = self._core.reporting.choose(
            own,
            now,
            off=off,
            theta=theta,
            quota=quota,
            burn=burn,
            eager=eager,
            loss=self._core.members.loss,
        )
        if chosen is None:
            return []
        chosen = own.with_ancestors(chosen)
        report = self._publish(own, chosen, own.tell(chosen, eager), now, wall_s)
        for place in own.places:
            shelf, slots = place.shelf, place.slots
            zero = -shelf.burn[0, slots] * (now - shelf.at[slots])
            sent = chosen[place.rows]
            shelf.ahead[0, slots] = np.where(sent, zero, shelf.ahead[0, slots])
            shelf.told_demand[slots] = np.maximum(own.sent_demand[place.rows], 0.0)
            shelf.dirty[slots] |= sent
        return [Publish(report)]

    def _is_quiet(self, own: Own, now: float) -> bool:
        """Say of a lone bucket that there is nothing to report: a cheap second look."""
        if len(own.names) != 1 or not own.places:
            return False
        place = own.places[0]
        shelf, slot = place.shelf, place.few[0][2]
        free = bool(shelf.unlimited.item(slot))
        rate = inf if free else shelf.rate.item(slot)
        return self._core.reporting.is_quiet(
            own,
            now,
            theta=shelf.theta.item(slot) * self._core.settings.weight,
            quota=rate / shelf.agents.item(slot),
            eager=bool(shelf.small.item(slot)) and not free,
        )

    def _publish(
        self,
        own: Own,
        rows: NDArray[np.bool_],
        demand: Floats,
        now: float,
        wall_s: float,
    ) -> Report:
        level = np.zeros(len(own.names))
        joined = True
        for place in own.places:
            level[place.rows] = place.shelf.belief[place.slots]
            unsure_s = UNSURE_LAGS * self._core.members.lag_s
            asking = place.shelf.joining_until[place.slots] > now - unsure_s
            joined = joined and not bool((asking & rows[place.rows]).any())
        report = self._core.reporting.publish(
            own,
            rows,
            now=now,
            level=level if joined else None,
            demand=demand,
            like=self._blank(wall_s, permits=self._permits(now)),
        )
        if self._core.joining:
            self._core.joining.asked(report.sequence, own.numbers[rows])
        self._core.members.published(report.sequence, now)
        return report

    def _permits(self, now: float) -> tuple[Permits, ...]:
        reporting = self._core.reporting
        return self._core.strict.permits(now, whole=reporting.answer or reporting.hello)

    def _blank(
        self, wall_s: float, *, leave: bool = False, permits: tuple[Permits, ...] = ()
    ) -> Report:
        return Report(
            cluster=self._core.settings.cluster,
            agent=self._core.agent,
            incarnation=self._core.incarnation,
            sequence=0,
            sent_at_s=wall_s,
            revision=self._core.limits.revision,
            leave=leave,
            permits=permits,
            weight=self._core.settings.weight,
            interval_s=self._core.settings.interval_s,
        )

    def stop(self, now: float, wall_s: float, effects: list[Effect]) -> None:
        """Append the last report: final counters, and what was owned given away."""
        own = self._core.own
        rows = None if own is None else own.numbers >= 0
        self._core.reporting.hello = False
        self._core.strict.leave(now)
        effects.append(
            Publish(
                self._core.reporting.publish(
                    own,
                    rows,
                    now=now,
                    level=None,
                    like=self._blank(
                        wall_s,
                        leave=True,
                        permits=self._core.strict.permits(now, whole=True),
                    ),
                )
            )
        )
