"""Slots in flight: at most N at once over the whole cluster, as permits of a stock.

Slots are permits of a stock, with the registers and the rule of
`headgate.coordinator.escrow.permits` (docs/decisions/0050-slots-in-flight.md): permit i
of P is worth N // P slots, plus one if i < N mod P.

*Claim:* callers never hold more than N slots at once.  *Proof:* an agent lets its
callers hold at most what its permits are worth, and permits in use sum to at most all.
A gift lowers what callers may hold one step before it is reported, and carries at most
what is free then, counted after the lowering took effect.  So what stays is worth at
least what is held.  ∎

*If N is lowered* below what is held, nobody loses a slot: an agent hands out no slot
until fewer are held than its permits are worth, so the sum never exceeds the old N, and
is at most the new N once the slots that were taken before are back.

**How many does each agent get?**  The max-min shares of what callers hold or ask for;
the rest is spread evenly, so that an idle agent has some at once.  Shares are seldom
whole numbers.  Each agent keeps the whole part of its share; the remainders go around:
an agent that has one slot more than that passes it on after `ROTATE_S` to the next
agent, by id, that is short.  With one slot and three agents that is a round robin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headgate.coordinator.escrow.targets import max_min
from headgate.coordinator.messages.report import PERMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator.escrow.permits import Escrow
    from headgate.coordinator.messages.events import SlotCount
    from headgate.coordinator.table.arrays import Floats, Ints

ROTATE_S = 1.0
"""How long an agent keeps a slot that it is due a fraction of.  Passing one on takes a
twentieth of that, during which nobody has it."""

PEAK_S = 1.0
"""How long the most that callers wanted is reported, so that not every request causes a
report."""

SPARE_PART = 4
"""An agent gets one spare slot, plus one per this many that it wants."""

TOLD_PART = 8
"""Wanted slots are reported at once if they have moved by one in this many."""

_EPSILON = 1e-9


def worth_of(size: int, permits: int = PERMITS) -> Ints:
    """Return how many slots each permit of a stock is worth, ``int64[permits]``.

    >>> worth_of(5, permits=4)
    array([2, 1, 1, 1])
    """
    each, rest = divmod(size, permits)
    return each + (np.arange(permits) < rest).astype(np.int64)


class SlotView(NamedTuple):
    """How many slots of a group an agent owns; its callers hold; they hold or want."""

    agent: str
    owned: int
    in_use: int
    wanted: int


class Stock:
    """The slots of one group at one agent.

    Attributes:
        escrow: The permits; changed if some are given away, and told what is in use.
        size: N.
        may_hold: Slots that callers here may hold.
        waits: A gift was decided, and is due in the next step.
    """

    def __init__(self, escrow: Escrow, size: int) -> None:
        self.escrow = escrow
        self.size = size
        self.may_hold = 0
        self.waits = False
        self._wanted = 0
        self._wanted_at = self._owned_since = -np.inf
        self._owned: int = 0

    def count(self, count: SlotCount, now: float) -> None:
        """Enter how many slots callers here hold and want."""
        self.escrow.in_use = count.in_use
        if count.wanted >= self._wanted or now - self._wanted_at > PEAK_S:
            self._wanted, self._wanted_at = count.wanted, now

    def step(self, weight_of: Callable[[str], float], now: float) -> bool:
        """Give away what the previous step set aside, and set the next gift aside.

        Agents weigh what `weight_of` says.  Return whether to report at once.
        """
        escrow = self.escrow
        worth = worth_of(self.size, len(escrow.registers))
        moved = self._give(worth, now)
        if abs(self._wanted - escrow.wanted) > escrow.wanted // TOLD_PART:
            escrow.wanted, escrow.reported_at = self._wanted, now
            moved = True
        owned = int(worth[escrow.owned()].sum())
        if owned != self._owned:
            self._owned, self._owned_since = owned, now
        self._set_aside(worth, weight_of, now)
        self.may_hold = 0 if escrow.superseded else int(worth[escrow.usable()].sum())
        self.waits = bool(escrow.aside) and owned > escrow.in_use
        return moved

    def _give(self, worth: Ints, now: float) -> bool:
        """Write the gifts of the previous step, as far as their slots are free."""
        escrow, moved = self.escrow, False
        free = int(worth[escrow.owned()].sum()) - escrow.in_use
        for life, at in escrow.take_aside().items():
            given = at[worth[at].cumsum() <= free]
            free -= int(worth[given].sum())
            escrow.registers.write(given, life, escrow.me, now)
            moved |= len(given) > 0
        return moved

    def _set_aside(
        self, worth: Ints, weight_of: Callable[[str], float], now: float
    ) -> None:
        """Decide what to give in the next step, and to which agents."""
        escrow = self.escrow
        lives = sorted([escrow.me, *escrow.users()])
        if len(lives) == 1 or not self._owned or escrow.superseded:
            return
        me = lives.index(escrow.me)
        said = [escrow.said_by(life.agent) for life in lives]
        used, wanted = np.array([(each.in_use, each.wanted) for each in said]).T
        used[me], wanted[me] = escrow.in_use, self._wanted
        owned = escrow.registers.counts(lives, worth)
        owned[me] = self._owned
        weight = np.array([weight_of(life.agent) for life in lives])
        rotate = now - self._owned_since >= ROTATE_S
        given = gifts_of(me, owned, used, wanted, weight, rotate=rotate)
        most = max(1, int(worth[0]))  # what the largest permit is worth
        for life, count in zip(lives, (given // most).tolist(), strict=True):
            if count:
                mine = escrow.usable()
                mine = mine[worth[mine] > 0]
                escrow.aside[life] = escrow.registers.to_give(mine, count, life)


def gifts_of(
    me: int, owned: Ints, used: Ints, wanted: Ints, weight: Floats, *, rotate: bool
) -> Ints:
    """Return how many slots one agent should give to each other, ``int64[K]``.

    All agents compute the same result from the same numbers, so two of them don't both
    give an agent what it lacks.

    Args:
        me: Index of the agent that gives.
        owned: ``int64[K]`` slots that each may hand out.
        used: ``int64[K]`` how many of those are held.
        wanted: ``int64[K]`` slots that are held or asked for.
        weight: ``float64[K]`` weights, > 0.
        rotate: This agent has had its slots long enough to pass a remainder on.

    >>> def gifts(me, owned, wanted, rotate=False):
    ...     used = np.minimum(owned, wanted)
    ...     one = np.ones(len(owned))
    ...     owned, wanted = np.array(owned), np.array(wanted)
    ...     return gifts_of(me, owned, used, wanted, one, rotate=rotate)
    >>> gifts(0, [10, 0], [4, 9])
    array([0, 6])
    >>> gifts(0, [1, 0, 0], [1, 1, 1])
    array([0, 0, 0])
    >>> gifts(0, [1, 0, 0], [1, 1, 1], rotate=True)
    array([0, 1, 0])
    """
    slots = float(owned.sum())
    share = max_min(np.minimum(wanted, slots), weight, slots)
    share += max(0.0, slots - float(share.sum())) * weight / float(weight.sum())
    whole = np.floor(share + _EPSILON).astype(np.int64)
    partly = share - whole > _EPSILON
    enough = np.minimum(whole, wanted + 1 + wanted // SPARE_PART)
    lacking, over = np.maximum(enough - owned, 0), np.maximum(owned - whole, 0)
    # Imagine all offers laid end to end on one line, and all shortages on another: each
    # giver gives to the agents opposite to it.  Free slots go first, because nobody
    # knows when held ones come back.
    free = np.minimum(over, np.maximum(owned - used, 0))
    given = np.zeros(len(owned), dtype=np.int64)
    for offers, start in ((free, 0), (over - free, int(free.sum()))):
        first = start + int(offers[:me].sum())
        upto = lacking.cumsum().clip(first, first + int(offers[me]))
        given += np.diff(upto, prepend=first)
    left = int(owned[me] - given.sum() - whole[me] - (partly[me] and not rotate))
    # in order of ids, starting after this agent
    order = np.roll(np.arange(len(owned)), -me - 1)
    short = partly & (owned <= whole) & (wanted > owned)
    short[me] = False
    receivers = order[short[order]]
    before = int(np.count_nonzero(owned[:me] > whole[:me]))
    given[np.roll(receivers, -before)[: max(left, 0)]] += 1
    return given
