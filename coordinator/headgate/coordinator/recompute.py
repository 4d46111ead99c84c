"""From counters to ceilings: brings ledgers up to date and says what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import (
    FEWEST_AT_FIRST,
    KNOWN_LAGS,
    Conditions,
    own_ceilings,
    share_out,
)
from headgate.coordinator.allocation.reserves import keep_shares, seat
from headgate.coordinator.config.configuration import HOLD
from headgate.coordinator.ledger.replay import settle
from headgate.coordinator.table.arrays import LedgerBlock, compact

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
    """Looks at ledgers when an input changed, and at busy ones at least so often.

    Attributes:
        arrives_at: When the others know what this agent told last, monotonic seconds;
            infinite where nothing is on its way.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.arrives_at = np.inf

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
        for block, slots in self._core.table.where(numbers):
            self.settle(block, slots, now)
            share_out(block, slots, on, self._core.settings)
            answers = [told[number] for number in block.number[slots].tolist()]
            known = np.array([answer is not None for answer in answers])
            if known.any():
                pairs = np.array([answer for answer in answers if answer is not None])
                self._take_levels(block, slots[known], pairs.T, on)
            doubts = [self._core.joining.doubts(n) for n in block.number[slots]]
            lost = slots[~known & np.array(doubts) & (block.agents[slots] > 1.0)]
            # What the others spent while this agent stood still is not known.
            excess = np.maximum(block.belief[lost] - block.margin[lost], 0.0)
            block.level[lost] -= excess
            block.belief[lost] -= excess
            # Else all are new and began at what was stored, or at the margin.
            # What they spent meanwhile is charged already: to begin anew now
            # would give it back, to each a different amount.
            block.joining_until[slots] = now
            block.dirty[slots] = True
            block.bucket_knows[lost] = False

    def _take_levels(
        self,
        block: LedgerBlock,
        slots: NDArray[np.int64],
        answers: NDArray[np.float64],
        on: Conditions,
    ) -> None:
        """Go over to levels that others told, with what they have grown by since.

        Args:
            block: Changed.
            slots: K of its columns.
            answers: ``float64[2, K]`` level and when it was true.
            on: What holds now.
        """
        level, told_at = answers
        spent = block.burn[1:, slots].sum(axis=0)
        grown = (block.rate[slots] - spent) * np.maximum(on.now - told_at, 0.0)
        # What this agent spent meanwhile, the others did not know of.
        grown -= np.maximum(block.unseen[slots], 0.0)
        change = np.minimum(level + grown, block.burst[slots]) - block.belief[slots]
        block.level[slots] += change
        block.belief[slots] += change
        block.bucket_knows[slots] = False
        block.joining_until[slots] = on.now

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

    def settle(self, block: LedgerBlock, slots: NDArray[np.int64], now: float) -> None:
        """Bring some ledgers to `now`, without sharing out."""
        settle(block, slots, now, self.conditions(now).age_s)

    def conditions(self, now: float) -> Conditions:
        """Return what holds for all ledgers now."""
        members, settings = self._core.members, self._core.settings
        attendance = self._core.attendance
        mute = attendance.mute(now)
        return Conditions(
            now,
            members.lag_s,
            members.loss,
            members.lag_s + settings.urgent_gap_s + settings.tick_s,
            self._present(),
            mute,
            adrift=mute and attendance.adrift(now),
            quorate=attendance.quorate(self._core.agent)
            if self._core.limits.closed
            else True,
            echoed=members.echoed,
        )

    def _present(self) -> float:
        """Return how many agents to assume where a level is still asked for.

        Those that are known, if the API says how many there are or one round of
        reports was heard; else more.
        """
        known = 1.0 + len(self._core.members.by_agent)
        told = self._core.agents_told
        if told is not None:
            return max(known, float(told))
        return known if self._core.members.echoed else max(known, FEWEST_AT_FIRST)

    def calculate(self, now: float) -> list[tuple[LedgerBlock, NDArray[np.bool_]]]:
        """Bring every ledger up to date that changed or is due."""
        computed: list[tuple[LedgerBlock, NDArray[np.bool_]]] = []
        if self.arrives_at <= now:
            self.arrives_at = np.inf
        for block in self._core.table.blocks:
            chosen = block.dirty | (block.due <= now)
            slots = chosen.nonzero()[0]
            if len(slots):
                self.calculate_block(block, slots, now)
                computed.append((block, chosen))
        if self._core.tree:
            self._pass_down(computed)
        return computed

    def _pass_down(self, computed: list[tuple[LedgerBlock, NDArray[np.bool_]]]) -> None:
        for parent in self._core.tree.children:
            if parent in self._core.table:
                block, slot = self._core.table.at(parent)
                if any(other is block and chosen[slot] for other, chosen in computed):
                    self._core.tree.pass_down(parent, self._core.table)

    def calculate_block(
        self, block: LedgerBlock, slots: NDArray[np.int64], now: float
    ) -> None:
        """Bring some ledgers to `now` and share out."""
        at = compact(slots)
        on = self.conditions(now)
        own = self._core.weight
        held = (block.isolation[at] == HOLD).nonzero()[0]
        if len(held):
            keep_shares(
                block,
                slots[held],
                self._core.attendance.roster(own, now),
                now=now,
                interval_s=self._core.settings.interval_s,
            )
        settle(block, at, now, on.age_s)
        stale = block.stale[at]
        if np.count_nonzero(stale):
            roster = self._core.attendance.roster(own, now)
            seat(block, slots[stale], roster)
        asked = share_out(block, at, on, self._core.settings)
        block.dirty[at] = False
        # Without demand and with a full bucket nothing changes until someone asks.
        # Nor while the others have yet to hear what was told them last.
        busy = ~block.full[at] | asked | (block.pending_at[at] < np.inf)
        # What arrives at the others widens the window: not a tick later.
        arrives = block.pending_at[at] + KNOWN_LAGS * on.lag_s
        # One that hears nobody does not count on it (`_know`), and must not wait here.
        arrives = np.where(arrives > now, arrives, np.inf)
        soon = np.minimum(now + self.refresh_s(), arrives)
        self.arrives_at = min(self.arrives_at, float(np.minimum.reduce(arrives)))
        block.due[at] = np.where(busy, soon, np.inf)

    def set_ceilings(
        self,
        own: Own,
        now: float,
        computed: list[tuple[LedgerBlock, NDArray[np.bool_]]],
        effects: list[Effect],
    ) -> None:
        """Append what the shell must be told of the ledgers just calculated."""
        on = self.conditions(now)
        lease_s = self._core.members.lease_of(None)
        for place in own.places:
            for block, chosen in computed:
                if block is not place.block:
                    continue
                rows, slots = _picked(own, place, chosen)
                if not len(rows):
                    continue
                new = own_ceilings(block, slots, on, self._core.settings)
                # A right that was given must not be used for one look longer.
                exact = block.strict[slots]
                change = own.change(rows, new, now=now, lease_s=lease_s, exact=exact)
                if change is not None:
                    effects.append(change)

    def fresh(self, key: Key, now: float) -> tuple[LedgerBlock, int]:
        """Return a copy of one ledger, brought to `now`: looking changes nothing."""
        block, slot = self._core.table.at(key)
        copy = LedgerBlock(block.width)
        to = copy.take_slot()
        block.copy_slot(slot, copy, to)
        self.calculate_block(copy, np.array([to]), now)
        return copy, to


def _picked(
    own: Own, place: Place, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Index]:
    """Return rows and slots of the own buckets of a place that are chosen."""
    here = chosen[place.slots]
    rows = own.positions[place.rows]
    if here.all():
        return rows, place.slots
    return rows[here], compact(place.block.slots[place.slots][here])
