"""Tokens that change hands together with the right to hold them.

The rights to a strict ledger's burst are held evenly at rest, so that whoever starts
has something at once.  In a flash those who can spend the burst get the rights to it,
and a right without tokens is an empty bucket that fills at a rate which is used up
anyway.  So a giver's tokens go with its right.

**How.**  Requests go on while a gift is decided, so nobody can say beforehand what a
bucket will give up.  A gift is therefore *set aside* first: the giver's capacity is
lowered in this step, the bucket is clipped, and counts in the same stretch of lines
what that took out.  The next step, which follows at once, knows that figure, and only
then is the right handed over, with the tokens beside it, in one row.  Both counters
of a row grow in that one place, are told together, and are merged together; so what
the receiver is credited is the growth of a counter that only the giver raises, once,
however often a row is lost, doubled or told by others.

*Claim:* tokens in buckets and on their way sum to at most B − 2·n·cost, hence
admitted(W) ≤ Q·W + B.  *Proof:* a bucket holds at most p·(B − 2·n·cost) where p is
its part in use.  A gift of part g lowers p by g one step before it is told, and takes
tokens along that were clipped since, at most g·(B − 2·n·cost).  Until the receiver has
heard the row, neither g nor its tokens are anywhere else; when it has, p grows by g in
the step that credits them, and the bucket clips what its capacity can't hold.  Parts in
use and on their way sum to at most 1 (`headgate.coordinator.escrow.transfer`).  A life
that ends takes what it held, and what was on its way to it, along: credits go to the
life that a row names, never to a heir.  A row that an heir had guessed at (it took the
part of a dead life before it heard of the gift) credits no more tokens than its *new*
part can hold.  ∎

A life remembers its counters when a ledger is closed and opened again, so nothing is
credited twice then either.

Rejected: to give the right at once and tell the tokens later (the receiver's bucket
has refilled meanwhile: both were spent); to tell what the bucket held when it was
looked at (requests spend it before it is clipped).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.escrow.transfer import Gift, Transfers
    from headgate.coordinator.table.index import Key

BURST = "__burst"
"""Ends the name under which the rights to a ledger's burst are told."""


def burst_of(key: Key) -> Key:
    """Return the name under which the rights to a ledger's burst are told."""
    return key[0] + BURST, key[1]


def ledger_of(key: Key) -> Key:
    """Return the ledger that rights are told of, be it to its burst or its rate."""
    return key[0].removesuffix(BURST), key[1]


@dataclass(frozen=True, slots=True)
class Aside:
    """Gifts that are decided and not made yet.

    Attributes:
        parts: What each holder is to get, before the division by what was minted.
        clipped: What the bucket's capacities had taken out when they were decided.
        urgent: They are worth a report of their own.
    """

    parts: dict[str, float]
    clipped: float
    urgent: bool

    @property
    def part(self) -> float:
        """All of it; this agent does not use it any more."""
        return sum(self.parts.values())


class Handover:
    """Gifts of one agent between their decision and the receiver's bucket.

    False when no gift is set aside.  Keys are those of rights: a ledger's own, and
    `burst_of` it.
    """

    def __init__(self) -> None:
        self._aside: dict[Key, Aside] = {}
        self._due: dict[Key, tuple[float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._aside)

    def set_aside(
        self, key: Key, parts: dict[str, float], own: Own, *, urgent: bool
    ) -> None:
        """Stop using some parts, to give them in the next step.

        Args:
            key: Which rights.
            parts: By receiver, before the division by what was minted.
            own: The own buckets.
            urgent: They are worth a report of their own.
        """
        self._aside[key] = Aside(parts, clipped_of(own, key), urgent)

    def part(self, key: Key) -> float:
        """Return what is set aside, before the division by what was minted."""
        aside = self._aside.get(key)
        return 0.0 if aside is None else aside.part

    def give(
        self,
        key: Key,
        transfers: Transfers,
        giver: str,
        own: Own,
        now: float,
        *,
        tokens: float,
    ) -> bool:
        """Make the gifts that were set aside in the step before; say if it is urgent.

        Args:
            key: Which rights.
            transfers: Changed.
            giver: Own holder.
            own: The own buckets, as counted after that step's effects.
            now: Monotonic seconds.
            tokens: Units that all of the burst is good for; 0 for rights to a rate.
        """
        aside = self._aside.pop(key, None)
        if aside is None:
            return False
        taken = max(0.0, clipped_of(own, key) - aside.clipped)
        taken = min(taken, aside.part / transfers.minted * tokens)
        for name, part in aside.parts.items():
            transfers.give(giver, name, part, now, tokens=taken * part / aside.part)
        return aside.urgent

    def forget(self, key: Key) -> None:
        """Keep what was set aside."""
        self._aside.pop(key, None)

    def came(self, key: Key, gift: Gift) -> None:
        """Note what is new of a row that names this life as the receiver."""
        part, tokens = self._due.get(key, (0.0, 0.0))
        self._due[key] = part + gift.part, tokens + gift.tokens

    def credit(
        self, key: Key, transfers: Transfers, own: Own, *, tokens: float
    ) -> bool:
        """Have a bucket credited with the next ceilings; return whether it is.

        Args:
            key: Of the rights to the burst.
            transfers: Of that key.
            own: Changed: `credit`.
            tokens: Units that all of the burst is good for.
        """
        at = own.at.get(ledger_of(key), own.told_size)
        if at >= own.told_size or key not in self._due:
            return False  # no bucket of this shell's, or nothing for it
        part, units = self._due.pop(key)
        units = min(units, part / transfers.minted * tokens)
        own.credit[at] += units
        return units > 0.0


def clipped_of(own: Own, key: Key) -> float:
    """Return what lowered capacities took out of an own bucket; 0 of none."""
    at = own.at.get(ledger_of(key))
    return 0.0 if at is None else own.clipped.item(at)
