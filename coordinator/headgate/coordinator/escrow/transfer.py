"""Strict groups: rights to a rate that change hands, and can't be doubled.

A strict group must admit at most Q·W + B in any window, whatever the network does:
no ledger will do, since a ledger is only as good as its news.  So each agent *owns*
a part of Q, 1 for all agents together, and refills at its part alone.

**The table of transfers.**  given[i → j] is what holder i gave to holder j in all.
Only i raises it, and never lowers it, so copies merge by the maximum, and a lost,
doubled or reordered report does no harm (a bounded counter: Balegas et al. 2015).
What i owns is given[* → i] − given[i → *].

*Claim:* while lives only mint and give, the parts in use sum to at most what was
minted.  *Proof:* a life knows all of its own giving and some of its receiving, so
what it uses is at most what it owns.  A giver lowers its ceiling in the step before
the report leaves (effects are performed in order), so a transfer on its way is used
by nobody, and one that is lost stays unused until a later report repeats it.  ∎
This says nothing of an heir: it does not know all that the dead life gave.

*Bound:* a bucket of part p holds at most p·(B − 2·n·cost) tokens and may owe one
cost, and is clipped in the step in which p shrinks.  So tokens never sum to more than
B − 2·n·cost, and admitted(W) ≤ Q·W + B.

**Who owns what at first.**  Parts are minted once, as a transfer from nobody.  A
newcomer that hears of no transfer for longer than a heartbeat, and has the smallest
id of all it hears, mints all.  Should two do so unheard by each other, everyone
divides by what was minted in all, as soon as it knows.

**Death.**  An agent that is silent keeps its part: whoever took it back could not
know that it has stopped (in a partition it has not).  A part comes back when its
holder *provably* ended: its next life was heard, it left, or the API says that its
process is gone, and it has been silent for a quarantine longer than any ceiling.  An
agent that leaves gives all away in its last report; what else is left, one takes for
all.  How much that may be is in `headgate.coordinator.escrow.reclaim`.  Until then the
part is unused; that is the price of the bound.

Rejected: lower-at-once-raise-into-free without transfers (two agents raise into the
same free share: Σ reached 1.75·Q); leases that a majority takes back (needs a member
list that all agree on, and stops every minority).
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOBODY = ""
"""Gives what is minted."""

ARROW = ">"
"""Between giver and receiver where a transfer is named in a report."""

TRANSFERS_MAX = 20_000
"""Pairs of holders in one table: 140 agents that all gave to all."""

DUST = 1e-9
"""A part below this is rounding."""

NAMES_KEPT = 4096
"""Names of holders and transfers that are remembered as they were read: the same ones
come in every report, and each tick looks at all holders."""


@lru_cache(maxsize=NAMES_KEPT)
def holder_of(agent: str, incarnation: int) -> str:
    """Return the name under which one life of an agent owns parts."""
    return f"{agent}@{incarnation}"


@lru_cache(maxsize=NAMES_KEPT)
def agent_of(holder: str) -> str:
    """Return the id of a holder's agent."""
    return holder.rpartition("@")[0]


def life_of(holder: str) -> int:
    """Return the incarnation of a holder."""
    return int(holder.rpartition("@")[2])


class Gift(NamedTuple):
    """What a row that was heard says beyond what was known.

    Attributes:
        part: Of what was minted first.
        tokens: Units that went with it.
    """

    part: float
    tokens: float


class Row(NamedTuple):
    """What one holder gave to one other in all.

    Attributes:
        giver: Its name; `NOBODY` of what is minted.
        receiver: Its name.
        given: Parts.
        tokens: Units that went with them.
    """

    giver: str
    receiver: str
    given: float
    tokens: float = 0.0


class Transfers:
    """The table of transfers of one ledger, as far as this agent knows it."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], float] = {}
        self._tokens: dict[tuple[str, str], float] = {}
        self._balance: dict[str, float] = {}
        self._changed_at: dict[tuple[str, str], float] = {}
        self._holders: list[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._given)

    @property
    def minted(self) -> float:
        """What was minted in all, at least 1."""
        return max(1.0, self.raw_minted)

    @property
    def raw_minted(self) -> float:
        """What was minted as far as this table knows, 0 before it was heard."""
        return -self._balance.get(NOBODY, 0.0)

    def owned(self, holder: str) -> float:
        """Return the part that a holder owns at least, 0 … 1."""
        balance = self._balance.get(holder, 0.0)
        return balance / self.minted if balance > DUST else 0.0

    def balance(self, holder: str) -> float:
        """Return what a holder has, before it is divided by what was minted."""
        return max(0.0, self._balance.get(holder, 0.0))

    def has_none_left(self, holder: str) -> bool:
        """Say whether a holder had a part and gave all of it away."""
        return self._balance.get(holder, inf) <= DUST

    def holders(self) -> list[str]:
        """Return all holders that have something left, by name; not to be changed."""
        if self._holders is None:
            left = (h for h, b in self._balance.items() if h and b > DUST)
            self._holders = sorted(left)
        return self._holders

    def give(
        self, giver: str, receiver: str, part: float, now: float, tokens: float = 0.0
    ) -> None:
        """Raise one counter: `giver` hands over, before the division.

        Args:
            giver: Whose part it was.
            receiver: Whose it is now.
            part: What is handed over.
            now: Monotonic seconds.
            tokens: Units that went with it.
        """
        key = (giver, receiver)
        self._changed_at[key] = now
        self._raise(key, self._given.get(key, 0.0) + part)
        if tokens > 0.0:
            self._tokens[key] = self._tokens.get(key, 0.0) + tokens

    def learn(
        self, giver: str, receiver: str, given: float, tokens: float = 0.0
    ) -> Gift | None:
        """Merge counters that were heard; return what is new of them, if anything.

        Tokens count only together with the part that they came with: a row is
        written whole, so one that has no more of the part has no more of them.
        """
        key = (giver, receiver)
        known = self._given.get(key, 0.0)
        if given <= known:
            return None
        if key not in self._given and len(self._given) >= TRANSFERS_MAX:
            return None
        self._raise(key, given)
        had = self._tokens.get(key, 0.0)
        if tokens > had:
            self._tokens[key] = tokens
        return Gift(given - known, max(0.0, tokens - had))

    def _raise(self, key: tuple[str, str], given: float) -> None:
        growth = given - self._given.get(key, 0.0)
        self._given[key] = given
        self._holders = None
        giver, receiver = key
        self._balance[giver] = self._balance.get(giver, 0.0) - growth
        self._balance[receiver] = self._balance.get(receiver, 0.0) + growth

    def rows(
        self,
        givers: Iterable[str],
        receivers: Iterable[str] = (),
        *,
        since: float = -inf,
    ) -> list[Row]:
        """Return the rows of some of either, changed here since."""
        wanted, also = set(givers), set(receivers)
        return [
            Row(giver, receiver, given, self._tokens.get((giver, receiver), 0.0))
            for (giver, receiver), given in sorted(self._given.items())
            if (giver in wanted or receiver in also)
            and self._changed_at.get((giver, receiver), -inf) >= since
        ]

    def givers(self) -> set[str]:
        """Return all that ever gave."""
        return {giver for giver, _ in self._given}


class Untold:
    """What is told for those that can't say it themselves: some at a time.

    It grows with the square of the agents, a report must not.  Whoever has heard a part
    of it knows too little, and may think that a dead life owns more than it does: so no
    estate is taken by a balance alone (see `headgate.coordinator.escrow.reclaim`).
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, int], list[Row]] = {}

    def begin(self, table: tuple[str, int], rows: list[Row]) -> None:
        """Tell all of these, first what of an earlier call was not told yet."""
        left = self._left.get(table, [])
        again = {row[:2] for row in left}
        self._left[table] = left + [row for row in rows if row[:2] not in again]

    def some(self, table: tuple[str, int], most: int) -> list[Row]:
        """Return the next rows to tell, and take them as told."""
        left = self._left.get(table)
        if not left:
            return []
        self._left[table] = left[most:]
        return left[:most]

    def forget(self, table: tuple[str, int]) -> None:
        """Tell nothing more of a table."""
        self._left.pop(table, None)


def name_transfer(giver: str, receiver: str, sender: str) -> str:
    """Return how a report names a transfer; of the sender's own just the receiver."""
    return receiver if giver == sender else f"{giver}{ARROW}{receiver}"


@lru_cache(maxsize=NAMES_KEPT)
def parse_transfer(name: str, sender: str) -> tuple[str, str] | None:
    """Return (giver, receiver) of a row's name; None where it is malformed."""
    giver, arrow, receiver = name.rpartition(ARROW)
    if not arrow:
        giver = sender
    if not _is_holder(receiver) or not (giver == NOBODY or _is_holder(giver)):
        return None
    return giver, receiver


def _is_holder(name: str) -> bool:
    agent, at, life = name.rpartition("@")
    return bool(agent and at and life.isdigit()) and ARROW not in agent


def gifts(
    *, surplus: float, wanted: Mapping[str, float], least: float
) -> dict[str, float]:
    """Return what to give to whom: a surplus over deficits, in proportion.

    Several givers that see the same table each give their own surplus; surpluses
    sum to at most the deficits, so nobody gets more than it lacks.

    Args:
        surplus: What this agent owns above its own target.
        wanted: Deficit by holder, > 0.
        least: A smaller gift is not worth a report.
    """
    lacking = sum(wanted.values())
    if surplus < least or lacking < least:
        return {}
    part = min(1.0, surplus / lacking)
    return {holder: deficit * part for holder, deficit in sorted(wanted.items())}
