"""From counters to ceilings: brings ledgers up to date and says what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import (
    Conditions,
    floor_of,
    own_ceilings,
    share_out,
)
from headgate.coordinator.allocation.reserves import keep_shares, seat
from headgate.coordinator.config.configuration import HOLD
from headgate.coordinator.ledger.arithmetic import ops_of
from headgate.coordinator.ledger.replay import EXTRAPOLATE_SMALL_S, settle
from headgate.coordinator.table.arrays import Shelf, compact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.messages.events import Effect
    from headgate.coordinator.state import Core
    from headgate.coordinator.table.arrays import Index
    from headgate.coordinator.table.index import Key, Place

SECONDS_PER_CELL = 2.5e-7
"""Ten times what one cell of the table costs in a calculation: a table so large
that it would take more than a tenth of a core is looked at less often."""


class Calculation:
    """Looks at ledgers when an input changed, and at busy ones at least so often."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def refresh_s(self) -> float:
        """Return how old the allocation of a busy ledger may become."""
        return max(
            self._core.settings.refresh_s, SECONDS_PER_CELL * self._core.table.cells()
        )

    def finish_joining(self, now: float) -> None:
        """Take over the levels that were asked for, where the round is over."""
        if not self._core.joining:
            return
        over = self._core.joining.finish(now - self._patience_s(now))
        if not over:
            return
        told = dict(over)
        numbers = np.array(list(told), dtype=np.int64)
        on = self.conditions(now)
        for shelf, slots in self._core.table.where(numbers):
            self.settle(shelf, slots, now)
            share_out(shelf, slots, on, self._core.settings)
            answers = [told[number] for number in shelf.number[slots].tolist()]
            known = np.array([answer is not None for answer in answers])
            if known.any():
                pairs = np.array([answer for answer in answers if answer is not None])
                self._take_levels(shelf, slots[known], pairs.T, on)
            doubts = [self._core.joining.doubts(n) for n in shelf.number[slots]]
            lost = slots[~known & np.array(doubts) & (shelf.agents[slots] > 1.0)]
            excess = shelf.belief[lost] - shelf.margin[lost]
            shelf.level[lost] -= np.maximum(excess, 0.0)
            # Else all are new and began at what was stored, or at the margin.
            # What they spent meanwhile is charged already: to begin anew now
            # would give it back, to each a different amount.
            shelf.joining_until[slots] = now
            shelf.dirty[slots] = True

    def _take_levels(
        self,
        shelf: Shelf,
        slots: NDArray[np.int64],
        answers: NDArray[np.float64],
        on: Conditions,
    ) -> None:
        """Go over to levels that others told, with what they have grown by since.

        The others left this agent its share, which it did not spend while it asked:
        to go by a level of half a second ago is to compute other shares than they
        do, and to predict them wrongly until their next keyframe.

        Args:
            shelf: Changed.
            slots: K of its slots.
            answers: ``float64[2, K]`` level and when it was true.
            on: What holds now.
        """
        level, told_at = answers
        shelf.level[slots] += level - shelf.belief[slots]
        shelf.belief[slots] = level
        shelf.joining_until[slots] = on.now
        share_out(shelf, slots, on, self._core.settings)
        rate, burst = shelf.rate[slots], shelf.burst[slots]
        # They were not at the floor, and count on being extrapolated at a share.
        burn = shelf.burn[1:, slots]
        due = burn * (shelf.at[slots] - shelf.told_at[1:, slots])
        heard = (shelf.weight[1:, slots] > 0.0) & ~shelf.small[slots]
        missed = np.where(heard, due - shelf.ahead[1:, slots], 0.0)
        shelf.ahead[1:, slots] += missed
        shelf.level[slots] += missed.sum(axis=0)
        elapsed_s = np.maximum(on.now - told_at, 0.0)
        spent = burn.sum(axis=0) + floor_of(rate, shelf.agents[slots])
        grown = np.maximum(rate - spent, 0.0) * elapsed_s
        shelf.level[slots] += np.maximum(np.minimum(grown, burst - level), 0.0)
        # What they take this agent to have spent meanwhile is told at once.
        own = shelf.burn[0, slots]
        noise = np.sqrt(own * shelf.cost[slots] * self._core.settings.interval_s)
        if (own * elapsed_s > noise).any():
            self._core.reporting.urgent = True

    def _patience_s(self, now: float) -> float:
        """Return for how long a round that is over is not yet believed to be.

        Who knows few of the many that start with it would take their parts: as long
        as it meets others, of whom some have not told their rows, it goes on at the
        floor, for a lease at most.
        """
        members = self._core.members
        quiet_s = now - members.met_at
        if quiet_s > members.answer_gap_s() + members.answer_s():
            return 0.0
        if self._core.observing or members.all_whole():
            return 0.0
        return members.lease_of(None)

    def settle(self, shelf: Shelf, slots: NDArray[np.int64], now: float) -> None:
        """Bring some ledgers to `now`, without sharing out."""
        settle(
            shelf,
            slots,
            now,
            small_s=self._core.members.lag_s + EXTRAPOLATE_SMALL_S,
        )

    def conditions(self, now: float) -> Conditions:
        """Return what holds for all ledgers now."""
        members = self._core.members
        delivered = 1.0 - members.loss
        unseen = members.lag_s + self._core.settings.interval_s / (
            delivered * delivered
        )
        attendance = self._core.attendance
        mute = attendance.mute(now)
        return Conditions(
            now,
            members.lag_s,
            unseen,
            mute,
            adrift=mute and attendance.adrift(now),
            quorate=attendance.quorate(self._core.agent)
            if self._core.limits.closed
            else True,
        )

    def calculate(self, now: float) -> list[tuple[Shelf, NDArray[np.bool_]]]:
        """Bring every ledger up to date that changed or is due."""
        computed: list[tuple[Shelf, NDArray[np.bool_]]] = []
        for shelf in self._core.table.shelves:
            chosen = shelf.dirty | (shelf.due <= now)
            slots = chosen.nonzero()[0]
            if len(slots):
                self.calculate_shelf(shelf, slots, now)
                computed.append((shelf, chosen))
        if self._core.tree:
            self._pass_down(computed)
        return computed

    def _pass_down(self, computed: list[tuple[Shelf, NDArray[np.bool_]]]) -> None:
        for parent in self._core.tree.children:
            if parent in self._core.table:
                shelf, slot = self._core.table.at(parent)
                if any(other is shelf and chosen[slot] for other, chosen in computed):
                    self._core.tree.pass_down(parent, self._core.table)

    def calculate_shelf(
        self, shelf: Shelf, slots: NDArray[np.int64], now: float
    ) -> None:
        """Bring some ledgers to `now` and share out."""
        at = compact(slots)
        on = self.conditions(now)
        own = self._core.weight
        held = (shelf.isolation[at] == HOLD).nonzero()[0]
        if len(held):
            keep_shares(
                shelf,
                slots[held],
                self._core.attendance.roster(own, now),
                now=now,
                interval_s=self._core.settings.interval_s,
            )
        settle(shelf, at, now, small_s=on.lag_s + EXTRAPOLATE_SMALL_S)
        stale = shelf.stale[at]
        if np.count_nonzero(stale):
            roster = self._core.attendance.roster(own, now)
            seat(shelf, slots[stale], roster)
        asked = share_out(shelf, at, on, self._core.settings)
        shelf.dirty[at] = False
        # Without demand and with a full bucket nothing changes until someone asks.
        at, ops = ops_of(at)
        busy = ~shelf.full[at] | asked
        shelf.due[at] = ops.where(busy, now + self.refresh_s(), np.inf)

    def set_ceilings(
        self,
        own: Own,
        now: float,
        computed: list[tuple[Shelf, NDArray[np.bool_]]],
        effects: list[Effect],
    ) -> None:
        """Append what the shell must be told of the ledgers just calculated."""
        on = self.conditions(now)
        lease_s = self._core.members.lease_of(None)
        for place in own.places:
            for shelf, chosen in computed:
                if shelf is not place.shelf:
                    continue
                rows, slots = _picked(own, place, chosen)
                if not len(rows):
                    continue
                new = own_ceilings(shelf, slots, on, self._core.settings)
                # A right that was given must not be used for one look longer.
                exact = shelf.strict[slots]
                change = own.change(rows, new, now=now, lease_s=lease_s, exact=exact)
                if change is not None:
                    effects.append(change)

    def fresh(self, key: Key, now: float) -> tuple[Shelf, int]:
        """Return a copy of one ledger, brought to `now`: looking changes nothing."""
        shelf, slot = self._core.table.at(key)
        copy = Shelf(shelf.width)
        to = copy.take_slot()
        shelf.copy_slot(slot, copy, to)
        self.calculate_shelf(copy, np.array([to]), now)
        return copy, to


def _picked(
    own: Own, place: Place, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Index]:
    """Return rows and slots of the own buckets of a place that are chosen."""
    here = chosen[place.slots]
    rows = own.positions[place.rows]
    if here.all():
        return rows, place.slots
    return rows[here], compact(place.shelf.slots[place.slots][here])
