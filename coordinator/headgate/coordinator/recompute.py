"""From counters to ceilings: bring ledgers up to date and return what changed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import own_ceilings
from headgate.coordinator.allocation.conditions import FEWEST_AT_FIRST, Conditions
from headgate.coordinator.allocation.hierarchy import pass_down
from headgate.coordinator.allocation.reserves import keep_shares, seat
from headgate.coordinator.allocation.shares import share_out
from headgate.coordinator.allocation.window import KNOWN_LAGS, UNSURE_LAGS
from headgate.coordinator.config.configuration import HOLD
from headgate.coordinator.ledger.replay import keeps_own, settle
from headgate.coordinator.table.arrays import LedgerBlock, compact
from headgate.coordinator.table.one_or_many import chosen, lesser, single, some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.membership.bootstrap import Answered
    from headgate.coordinator.messages.events import SetCeilings
    from headgate.coordinator.state import CoordinatorState
    from headgate.coordinator.table.arrays import Flags, Floats, Index, Ints
    from headgate.coordinator.table.index import Key

SECONDS_PER_CELL = 2.5e-7
"""Ten times the cost of computing one cell of the table: a table so large that it
would take more than a tenth of a core is recomputed less often."""


class Recomputation:
    """Recomputes ledgers when an input changed, and busy ones at least every so often.

    Attributes:
        arrives_at: When the others will know this agent's last report, monotonic
            seconds; infinite if none is on its way.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self.arrives_at = inf

    def refresh_s(self) -> float:
        """Return how old the allocation of a busy ledger may become."""
        least_s = SECONDS_PER_CELL * self._state.table.cells()
        return max(self._state.settings.refresh_s, least_s)

    def finish_joining(self, now: float) -> None:
        """Adopt the levels that this agent asked for, once the answers are in."""
        state = self._state
        if not state.bootstrap:
            return
        over = state.bootstrap.finish(now, self._patience_s(now))
        if not over:
            return
        on = self.conditions(now)
        for place in state.table.own_places(np.array(list(over), dtype=np.int64)):
            block, slots = place.block, place.block.slots[place.slots]
            self.settle(block, slots, now)
            share_out(block, slots, on)
            numbers = block.number[slots].tolist()
            answers = list(map(over.get, numbers))
            absent = self._absent(block, slots, now)
            known = np.array([each is not None for each in answers])
            known &= ~keeps_own(block, slots) | absent.any(axis=0)
            both = zip(answers, known, strict=True)
            if found := [each for each, takes in both if takes and each]:
                self._take_levels(block, slots[known], found, absent[:, known], now)
            block.doubtful_since[slots] = inf
            # Nobody told a level: all agents are new and started at the stored level or
            # at the margin, or none heard the others.  What they spent since is charged
            # already; starting over now would give it back, a different amount to each.
            block.joining_until[slots] = now
            block.unanswered[slots] = block.guessed[slots] = False
            block.apart[:, slots] = np.nan
            block.dirty[slots] = True
            # Others may have asked for these in vain meanwhile.
            sure_at = now + UNSURE_LAGS * state.members.lag_s
            state.owe_rows(block.number[slots[block.agents[slots] > 1.0]], sure_at)

    def _take_levels(
        self,
        block: LedgerBlock,
        slots: Ints,
        answers: list[Answered],
        absent: Flags,
        now: float,
    ) -> None:
        """Adopt levels that the others reported.

        A new agent corrects its level by how far it was off when they answered, because
        whatever was charged since lowers both.  An agent that stood still or was cut
        off has meanwhile caught up with what they knew long ago, so it
        adopts the level itself, plus what that has earned since, less what it has
        spent beyond what they knew.  If it is lower, and members are silent of which
        others may have heard more (`absent`), that is expected of those until their
        rows come.
        """
        columns: Floats = np.array(answers).T
        level, reported_at, apart = map(np.array, columns)
        spent = block.extrapolated_rate[1:, slots].sum(axis=0)
        level += (block.rate[slots] - spent) * np.maximum(now - reported_at, 0.0)
        level -= block.admitted[0, slots]
        doubts = np.isfinite(block.doubtful_since[slots])
        change: Floats = np.where(doubts, level - block.belief[slots], apart)
        change = np.minimum(change, block.burst[slots] - block.belief[slots])
        members = np.count_nonzero(absent, axis=0)
        change = np.where(members > 0, np.minimum(change, 0.0), change)
        expected = np.where(members > 0, -change, 0.0)
        block.predicted[:, slots] += absent * (expected / np.maximum(members, 1))
        block.level[slots] += change + expected
        block.belief[slots] += change
        includes_at = np.where(members > 0, block.includes_at[slots], reported_at)
        block.includes_at[slots] = includes_at
        block.bucket_knows[slots] = False

    def _absent(self, block: LedgerBlock, slots: Ints, now: float) -> Flags:
        """Return ``bool[A, K]``: rows of silent members; others may have heard more.

        None of ledgers that began since: the levels that others tell include all.
        """
        missing = self._state.detector.missing(now)
        numbers = [each.number for each in missing if each.silent]
        doubts = np.isfinite(block.doubtful_since[slots])
        return np.isin(block.member[:, slots], numbers) & doubts

    def _patience_s(self, now: float) -> float:
        """Return how long to distrust a round of answers that seems complete.

        Of many agents that start together, one that knows only a few of the others
        would take their shares too.  So while it keeps meeting agents whose rows it has
        not heard, it keeps to an even part, for a lease at most.
        """
        members = self._state.members
        quiet_s = now - members.met_at
        if quiet_s > members.answer_gap_s() + members.answer_s():
            return 0.0
        if self._state.observing or members.all_whole():
            return 0.0
        return members.lease_of(None)

    def settle(self, block: LedgerBlock, slots: Ints, now: float) -> None:
        """Bring some ledgers to `now` without computing shares."""
        settle(block, slots, now, self._state.age_s, self._state.members.lag_s)

    def conditions(self, now: float) -> Conditions:
        """Return what applies to all ledgers now."""
        state = self._state
        members, detector = state.members, state.detector
        cut_off = detector.cut_off(now)
        return Conditions(
            state.settings,
            now,
            members.lag_s,
            members.loss,
            state.age_s,
            KNOWN_LAGS * members.lag_s + state.settings.tick_s,
            self.present(now),
            cut_off,
            presumed_dead=cut_off and detector.presumed_dead(now),
            quorate=not state.limits.closed or detector.quorate(state.agent),
            answer_s=members.answer_s(),
            unheard_s=members.unheard_s(now, now - KNOWN_LAGS * members.lag_s),
            missed=bool(detector.missing(now)),
        )

    def present(self, now: float) -> float:
        """Return how many agents to assume for a ledger whose level is not known yet.

        The number of known agents once they have had time to answer; until then a
        larger one, unless the shell says how many there are.
        """
        members, told = self._state.members, self._state.agents_told
        if told is None:
            told = 0 if members.knows_at <= now else FEWEST_AT_FIRST
        return max(1.0 + len(members.by_agent), float(told))

    def calculate(self, local: LocalBuckets, now: float) -> list[SetCeilings]:
        """Bring every ledger up to date that changed or is due.

        Returns:
            What the shell must know about the own buckets of these ledgers.
        """
        if self.arrives_at <= now:
            self.arrives_at = inf
        computed = {
            block: due
            for block in self._state.table.blocks
            if np.count_nonzero(due := block.dirty | (block.due <= now))
        }
        if not computed:
            return []
        on = self.conditions(now)
        for block in computed:
            block.surplus_left.fill(0.0)
        # Parents first: what they have left decides what their children may take.
        for depth in range(self._state.limits.depths):
            for block, due in computed.items():
                slots = (due & (block.depth == depth)).nonzero()[0]
                if len(slots):
                    arrives_at = self._calculate_block(block, slots, on)
                    self.arrives_at = min(self.arrives_at, arrives_at)
            self._pass_down(depth, computed, local)
        lease_s = self._state.members.lease_of(None)
        changes: list[SetCeilings] = []
        for block, rows, slots in _own_rows(local, computed):
            # A permit that was given away must not stay in use until the next look.
            new, strict = own_ceilings(block, slots, on), block.strict[slots]
            counted, credit = local.counted[rows], local.credit
            change = local.given.take(
                rows, new, counted, credit, now=now, lease_s=lease_s, exact=strict
            )
            if change is not None:
                changes.append(change)
        return changes

    def _pass_down(
        self, depth: int, computed: dict[LedgerBlock, Flags], local: LocalBuckets
    ) -> None:
        """Tell the children of computed ledgers with so many limits above them.

        Those whose buckets must know are added to the `computed` ones.
        """
        limits, table = self._state.limits, self._state.table
        for parent in limits.children:
            if parent in table and len(limits.ancestors[parent]) == depth:
                block, slot = table.at(parent)
                if block in computed and computed[block][slot]:
                    wall_s, called = self._state.wall_s, local.called(parent)
                    changed = pass_down(parent, limits, table, wall_s, called=called)
                    for inside, at in () if self._state.observing else changed:
                        if inside not in computed:
                            computed[inside] = np.zeros(inside.capacity, np.bool_)
                        computed[inside][at] = True

    def _calculate_block(
        self, block: LedgerBlock, slots: Ints, on: Conditions
    ) -> float:
        """Bring some ledgers up to date and compute shares.

        Returns:
            When the others will know the last report of one of them, monotonic seconds.
        """
        columns, now, detector = compact(slots), on.now, self._state.detector
        at = single(columns)
        held = block.isolation[at] == HOLD
        if some(held):
            keep_shares(block, slots[np.atleast_1d(held)], detector.roster(now), on)
        # Charges come later from a bus that was gone, but not from before the start.
        unheard_s = on.unheard_s if on.unheard_s < inf else 0.0
        settle(block, columns, now, on.age_s + unheard_s, on.lag_s)
        stale = block.stale[at]
        if some(stale):
            seat(block, slots[np.atleast_1d(stale)], detector.roster(now))
        asked = share_out(block, columns, on)
        block.dirty[at] = False
        # A full bucket without demand rests until someone asks, but not while this
        # agent's last report is still on its way to the others.
        busy = ~block.full[at] | asked | (block.pending_at[at] < inf)
        # Once a report has arrived the window widens; don't wait another tick.
        arrives = block.pending_at[at] + KNOWN_LAGS * on.lag_s
        # An agent that hears nobody can't count on that (`know`), so it doesn't wait.
        arrives = chosen(arrives > now, arrives, inf)
        # It also widens once they have heeded it, or left a larger part.
        busy |= lesser(block.heeding_at[at], block.part_next_at[at]) < inf
        soon = lesser(now + self.refresh_s(), arrives)
        block.due[at] = chosen(busy, soon, inf)
        return float(np.min(arrives))

    def fresh(self, key: Key, now: float) -> tuple[LedgerBlock, int]:
        """Return a copy of one ledger, brought to `now`; change nothing else."""
        block, slot = self._state.table.at(key)
        copy = LedgerBlock(block.width)
        to = copy.take_slot()
        block.copy_slot(slot, copy, to)
        self._calculate_block(copy, np.array([to]), self.conditions(now))
        return copy, to


def _own_rows(
    local: LocalBuckets, computed: dict[LedgerBlock, Flags]
) -> Iterator[tuple[LedgerBlock, Ints, Index]]:
    """Yield block by block the own buckets whose ledgers were computed."""
    for place in local.places:
        block, rows, slots = place.block, local.positions[place.rows], place.slots
        if block in computed and (here := computed[block][slots]).any():
            if not here.all():
                rows, slots = rows[here], compact(block.slots[slots][here])
            yield block, rows, slots
