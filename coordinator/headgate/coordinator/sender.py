"""What this agent tells the others, and the memory of what it told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import note_told
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
        if not self._core.reporting.may_speak(now, own):
            return []
        size = len(own.names)
        expected, burn, quota, theta, quiet, swung = np.zeros((6, size))
        at_once = np.zeros(size, dtype=np.bool_)
        for place in own.places:
            block, slots, rows = place.block, place.slots, place.rows
            rho = block.burn[0, slots]
            burn[rows] = rho
            expected[rows] = block.ahead[0, slots] + rho * (now - block.at[slots])
            # Where nothing is shared out nothing is urgent: heartbeats will do.
            free = block.unlimited[slots]
            rate = np.where(free, np.inf, block.rate[slots])
            quota[rows] = rate / block.agents[slots]
            theta[rows] = block.theta[slots] * self._core.settings.weight
            quiet[rows] = block.quiet_s[slots]
            swung[rows] = block.swung[slots]
            at_once[rows] = block.at_once[0, slots] & ~free
        chosen = self._core.reporting.choose(
            own,
            now,
            off=own.admitted - own.sent_admitted - expected,
            unsure=swung * self._age_s(),
            theta=theta,
            quota=quota,
            burn=burn,
            quiet_s=quiet,
            at_once=at_once,
            loss=self._core.members.loss,
        )
        if chosen is None:
            return []
        chosen = own.with_ancestors(chosen)
        report = self._publish(own, chosen, own.tell(chosen, at_once), now, wall_s)
        for place in own.places:
            sent = chosen[place.rows]
            if not np.count_nonzero(sent):
                continue
            block = place.block
            slots = block.slots[place.slots][sent]
            rows = own.positions[place.rows][sent]
            demand = np.maximum(own.sent_demand[rows], 0.0)
            note_told(block, slots, own.sent_admitted[rows], demand, now)
            block.dirty[slots] = True
        return [Publish(report)]

    def _age_s(self) -> float:
        """Return Δ, for which the others may take ρ for what it was before."""
        settings = self._core.settings
        return self._core.members.lag_s + settings.urgent_gap_s + settings.tick_s

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
            block, slots = place.block, place.slots
            others = block.outflow[slots] - block.burn[0, slots]
            grown = (block.rate[slots] - others) * (now - block.at[slots])
            most = block.burst[slots]
            level[place.rows] = np.minimum(block.belief[slots] + grown, most)
            unsure_s = UNSURE_LAGS * self._core.members.lag_s
            asking = block.joining_until[slots] > now - unsure_s
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
