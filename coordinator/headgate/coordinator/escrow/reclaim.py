"""Estates: when the part of an ended life may be taken, by whom, and how much of it.

**Why not the dead one's balance.**  A table that is heard in parts knows what a dead
life received and not all that it gave away, so its balance there is too high.  What
can be known exactly is what the living have: they can be asked, and what they got
from the dead does not change any more.

*Rule:* one agent, the smallest id of a majority that has been there for a quarantine,
takes part d of an ended life, at most

    minted − Σ of what all others own that can't be taken yet,

once every life that is not proven to have ended has told *all that it gave and all
that it received* since the end of d, and nothing new was told of others for a
quarantine.

*Claim:* then parts in use still sum to at most what was minted.  *Proof:* rows only
move parts, so in the heir's table, complete or not, all balances sum to what was
minted.  Gifts between lives that are not over leave their sum as it is.  It grows
only by a gift of a dead life that its receiver did not know when it told; but a
receiver is told of such gifts by the heir alone, whose table counts them already.
So the sum was at most Σ when it was taken, and is at most minted after.  ∎

*Assumed, not proven:* that who hears, is heard (two that take at a time, or a life
that got a part in its last exchange with d and that the heir never heard of); that a
newcomer that is to be heir has been told, within its quarantine, of holders that are
silent and yet live.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from headgate.coordinator.escrow.transfer import (
    DUST,
    NOBODY,
    agent_of,
    holder_of,
    life_of,
)

if TYPE_CHECKING:
    from headgate.coordinator.escrow.transfer import Transfers
    from headgate.coordinator.membership.failure_detector import Attendance
    from headgate.coordinator.membership.members import Members

QUARANTINE_LEASES = 2.0
"""Longer than any ceiling holds, and than any report is on its way."""

QUESTIONS_MAX = 3
"""Times that all are asked to tell all for the sake of one ended life; after that it
waits until they do so by themselves."""


class Lives:
    """When each holder was heard, when it told all, and whether it ended for good."""

    def __init__(self, members: Members, attendance: Attendance) -> None:
        self._members = members
        self._attendance = attendance
        self._since: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._newest: dict[str, int] = {}
        self._gone: dict[str, float] = {}
        self._left: set[str] = set()
        self._over: set[str] = set()
        self._asked: dict[str, tuple[int, float]] = {}

    @property
    def quarantine_s(self) -> float:
        """For how long a life must have been silent before its part is taken."""
        return QUARANTINE_LEASES * self._members.lease_of(None)

    def hear(self, holder: str, now: float, *, whole: bool, last: bool) -> None:
        """Note a report: whether it told all of the sender's rows, and was its last."""
        agent = agent_of(holder)
        self._since.setdefault(holder, now)
        self._seen[holder] = now
        self._over.discard(holder)
        self._newest[agent] = max(self._newest.get(agent, 0), life_of(holder))
        if whole:
            self._told[holder] = now
        if last:
            self._left.add(holder)

    def begin(self, holder: str) -> None:
        """Note an own life: earlier ones of this id are over."""
        agent = agent_of(holder)
        self._newest[agent] = max(self._newest.get(agent, 0), life_of(holder))

    def vouch(self, agent: str, now: float, *, alive: bool | None) -> None:
        """Note that the API says a process is gone, or lives, or can't be asked.

        Only the word that it is gone proves anything; None takes that back.
        """
        if alive is False:
            self._gone[agent] = now
        else:
            self._gone.pop(agent, None)

    def over(self, holder: str, now: float, began: float) -> bool:
        """Say whether a life ended for good, and long enough ago.

        Args:
            holder: Whose.
            now: Monotonic seconds.
            began: Since when its table is followed: who was never heard may have
                lived until then.
        """
        if holder in self._over:
            return True
        quarantine = self.quarantine_s
        if not self._ended(holder) or now - self._end_of(holder, began) < quarantine:
            return False
        if now - self._gone.get(agent_of(holder), -inf) < quarantine:
            return False
        self._over.add(holder)
        return True

    def may_be_asked_of(self, holder: str, now: float, began: float) -> bool:
        """Say whether a life ended, and what was told from now on covers it."""
        asked = self._end_of(holder, began) + self._members.lease_of(None)
        return self._ended(holder) and now >= asked

    def _ended(self, holder: str) -> bool:
        agent = agent_of(holder)
        next_life = life_of(holder) < self._newest.get(agent, 0)
        return next_life or holder in self._left or agent in self._gone

    def covered(
        self, dead: str, transfers: Transfers, now: float, began: float, mine: list[str]
    ) -> bool:
        """Say whether all that may live have told all since the end of a life.

        One that fell silent a quarantine earlier can have got nothing in the end.
        """
        end, quarantine = self._end_of(dead, began), self.quarantine_s
        asked = end + self._members.lease_of(None)
        for holder in {*self._seen, *transfers.holders()}:
            if self._told.get(holder, -inf) >= asked or holder in mine:
                continue
            if self._seen.get(holder, began) < end - quarantine:
                continue
            if not self.over(holder, now, began):
                return False
        return True

    def ask(self, waiting: list[str], now: float) -> bool:
        """Say whether to ask all to tell all, for the sake of these ended lives."""
        asks = False
        for holder in waiting:
            count, last = self._asked.get(holder, (0, -inf))
            if count < QUESTIONS_MAX and now - last >= self._members.lease_of(None):
                self._asked[holder] = count + 1, now
                asks = True
        return asks

    def is_heir(self, agent: str, now: float, began: float) -> bool:
        """Say whether this agent takes what ended lives owned: one of all does."""
        if now - began < self.quarantine_s:
            return False
        heard = [m.agent for m in self._members.by_agent.values() if not m.silent]
        return agent == min([agent, *heard]) and self._attendance.quorate(agent)

    def heard(self, mine: list[str]) -> set[str]:
        """Return the lives that can speak for themselves."""
        living = [m for m in self._members.by_agent.values() if not m.silent]
        return {holder_of(m.agent, m.incarnation) for m in living} | set(mine)

    def speaks(self, agent: str, now: float, began: float, mine: list[str]) -> bool:
        """Say whether this agent tells what the silent can't: the smallest id does.

        Of those that have been there for a quarantine: a newcomer knows nothing yet.
        """
        since = now - self.quarantine_s
        heard = self.heard(mine) - set(mine)
        old = {agent_of(h) for h in heard if self._since.get(h, now) <= since}
        if began <= since:
            return agent == min(old | {agent})
        return not old and agent == min({agent_of(h) for h in heard} | {agent})

    def _end_of(self, holder: str, began: float) -> float:
        return max(self._seen.get(holder, began), began)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a look at the estates.

    Attributes:
        took: Something was taken.
        asks: All are to be asked to tell all that they gave and received.
        estates: Ended lives that this agent may tell the gifts of: its table counts
            what those who got them may not know yet.
    """

    took: bool = False
    asks: bool = False
    estates: frozenset[str] = frozenset()


def take(
    transfers: Transfers,
    lives: Lives,
    *,
    agent: str,
    mine: list[str],
    now: float,
    began: float,
    quiet_since: float,
) -> Taken:
    """Take the parts of ended lives, if it is this agent's turn.

    Args:
        transfers: Changed.
        lives: What is known of the lives.
        agent: Own id.
        mine: Own holders, the newest last.
        now: Monotonic seconds.
        began: Since when this table is followed.
        quiet_since: When something new was last told of others than the sender.
    """
    quarantine = lives.quarantine_s
    if now - quiet_since < quarantine or not lives.is_heir(agent, now, began):
        return Taken()
    ended = [
        holder
        for holder in {*transfers.holders(), *transfers.givers()} - {NOBODY, *mine}
        if lives.may_be_asked_of(holder, now, began)
    ]
    ready: list[str] = []
    waiting: list[str] = []
    for holder in sorted(ended):
        if not lives.covered(holder, transfers, now, began, mine):
            if transfers.balance(holder) > DUST:
                waiting.append(holder)
        elif lives.over(holder, now, began):
            ready.append(holder)
    asks = lives.ask(waiting, now)
    left = transfers.raw_minted - sum(
        transfers.balance(holder)
        for holder in transfers.holders()
        if holder not in ready
    )
    if not ready or left < -DUST:
        return Taken(asks=asks)
    took = False
    for holder in ready:
        part = min(transfers.balance(holder), left)
        if part > DUST:
            transfers.give(holder, mine[-1], part, now)
            left -= part
            took = True
    return Taken(took, asks, frozenset(ready))
