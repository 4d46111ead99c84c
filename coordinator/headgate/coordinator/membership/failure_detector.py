"""The failure detector: leases, presumed death, and which side of a partition decides.

A member is presumed dead if for M (plus its lease) it gave no sign of life although
this agent heard others or itself (docs/decisions/0041-failure-detection.md).

`headgate.coordinator.allocation.reserves` says what each step means for shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.ledger.replay import close_accounts
from headgate.coordinator.messages.events import Noticed

if TYPE_CHECKING:
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.membership.members import Hole, Member, Members
    from headgate.coordinator.messages.events import Vouched
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.arrays import Flags, Floats
    from headgate.coordinator.table.index import Table

DEPARTED_MAX = 4096
"""Most dropped members that are remembered; the oldest is forgotten first."""

DEPARTED_S = 3600.0
"""How long they are remembered, seconds: people notice a partition of an hour."""

GONE_PART = 0.5
"""Fraction of the lease: a life that is gone according to the API must also have been
silent for this long.  Its last reports can still arrive, and a broken connection to the
API alone ends nobody."""

CUT_OFF = Noticed("cut_off", "this agent does not hear its own reports", each_time=True)
HEARD_AGAIN = Noticed(
    "heard_again", "this agent hears its own reports again", ends=CUT_OFF.kind
)


@dataclass(frozen=True, slots=True)
class DepartedMember:
    """A member that was dropped because it was silent, and may still be alive.

    Attributes:
        weight: Its weight.
        since: When it was dropped, monotonic seconds.
        heard_at: When it was last heard.
        votes: Whether a majority must still count it, because the agent that dropped
            it did not hear a majority itself.
    """

    weight: float
    since: float
    heard_at: float
    votes: bool


class FailureDetector:
    """Which members are silent or gone, and whether this agent hears a majority.

    Attributes:
        departed: Dropped members that may still be alive, by id.
        silent_since: When the last time began in which nobody was heard, monotonic
            seconds.
    """

    def __init__(
        self,
        settings: Settings,
        table: Table,
        members: Members,
        now: float,
        *,
        observing: bool,
    ) -> None:
        self._settings = settings
        self._table = table
        self._members = members
        self._observing = observing
        self.departed: dict[str, DepartedMember] = {}
        self._heard_at = self._hearing_since = self.silent_since = now
        self._next_at = np.inf
        self._was_alone = False, False

    def cut_off(self, now: float) -> bool:
        """Return whether this agent has stopped hearing its own reports.

        An observer publishes nothing that it could hear, and spends nothing, so for it
        silence is no sign of trouble.
        """
        silent_s = now - self._members.echo_at
        return silent_s > self._members.lease_of(None) and not self._observing

    def presumed_dead(self, now: float) -> bool:
        """Return whether it has been cut off so long that the others dropped it."""
        dead = self._settings.presumed_dead_s + self._members.lease_of(None)
        return now - self._members.echo_at > dead

    def hears_nobody(self, now: float) -> bool:
        """Return whether this agent hears nobody, not even itself."""
        return self._gap(now) and not self._observing

    def _gap(self, now: float) -> bool:
        return now - self._heard_at > self._members.lease_of(None)

    def apart(self, now: float) -> int:
        """Return how many unheard agents may be alive and have dropped this one."""
        dead = self._settings.presumed_dead_s
        return len(self.departed) + sum(
            now - member.heard_at > dead + self._members.lease_of(member)
            for member in self._members.by_agent.values()
            if member.silent and member.vouched is not True
        )

    def quorate(self, agent: str) -> bool:
        """Return whether this agent and those that it hears are a majority.

        Of two equal halves the one with the smallest id counts as the majority.  An
        agent that dropped others while it had no majority goes on counting them, so
        there are never two majorities at once.
        """
        weight = self._settings.weight
        heard, whole, names = weight, weight, [agent]
        for member in self._members.by_agent.values():
            whole += member.weight
            if not member.silent:
                heard += member.weight
                names.append(member.agent)
        whole += sum(one.weight for one in self.departed.values() if one.votes)
        if 2.0 * heard != whole:
            return 2.0 * heard > whole
        everyone = [*self._members.by_agent, *self.departed, agent]
        return min(names) == min(everyone)

    def vouch(self, event: Vouched, now: float) -> None:
        """Note what the API says about a process, even one not heard of yet."""
        self._members.vouch(event)
        member = self._members.by_agent.get(event.agent)
        if member is not None:
            if member.vouched and event.alive is None:
                member.lived_at = now
            member.vouched, member.vouched_at = event.alive, now
            self._next_at = -np.inf
        if event.alive is False:
            self.departed.pop(event.agent, None)

    def begin(self, member: Member) -> None:
        """Apply what the API said about an id to a life that was just heard of.

        Only "alive" is applied; if the API said "gone", it meant an earlier life.
        """
        said = self._members.said.get(member.agent)
        member.vouched = True if said is not None and said.alive else None

    def heard(self, member: Member, report: Report, now: float) -> Hole:
        """Note what a report says of its sender; return what is missing before it.

        A member that is heard long after the API called it gone is alive: it now uses
        another API process, and gets as much time as any other.
        """
        members = self._members
        member.reported_at = member.arrival_of(report, now, members.least_lag_s)
        hole = members.note_sequence(member, report.sequence)
        member.heard_at = now
        weight = report.weight if 0 < report.weight < 1e9 else 1.0
        if member.silent or member.weight != weight:
            # What was predicted while it was silent stands until its rows arrive.
            member.silent, member.weight = False, weight
            self.reseat(member)
        if isfinite(report.interval_s) and 0 < report.interval_s <= 3600:
            member.interval_s = report.interval_s
        member.revision = report.revision
        member.whole |= report.keyframe
        self.hears(now)
        lease = members.lease_of(member)
        if member.vouched is False and now - member.vouched_at > GONE_PART * lease:
            member.vouched = None
            members.said.pop(member.agent, None)
        self._next_at = min(self._next_at, now + lease)
        return hole

    def hears(self, now: float) -> None:
        """Note that a report came, whoever sent it: from now on silence counts."""
        if self._gap(now):
            self.silent_since, self._hearing_since = self._heard_at, now
        self._heard_at = now

    def missing(self, now: float) -> list[Member]:
        """Return the members of which this agent lacks rows that others may have heard.

        Once it hears others again these are all of which it hasn't heard all rows yet:
        silent ones until they are presumed dead.
        """
        members, since = self._members, self._hearing_since
        over_s = since + self._settings.presumed_dead_s + members.lease_of(None)
        if since == self.silent_since or now > over_s:
            return []
        return [
            member
            for member in members.by_agent.values()
            if not member.whole or (member.silent and member.heard_at < since)
        ]

    def unheard_from(self, now: float, within_s: float) -> float:
        """Return since when nobody may have heard of what this agent reports.

        `within_s` ago, or so long before a time without any report, if that goes on or
        ended within the last `within_s`.
        """
        if self._gap(now):
            return self._heard_at - within_s
        lately = now - self._hearing_since < within_s
        return (self.silent_since if lately else now) - within_s

    def advance(self, now: float, agent: str) -> list[Noticed]:
        """Let time pass; call it at each tick."""
        noticed: list[Noticed] = []
        cut_off = self.cut_off(now)
        alone = cut_off, cut_off and self.presumed_dead(now)
        if alone != self._was_alone:
            # Full buckets rest until someone asks, but their terms are others now.
            for block in self._table.blocks:
                block.dirty |= block.number >= 0
            if cut_off != self._was_alone[0]:
                noticed.append(CUT_OFF if cut_off else HEARD_AGAIN)
            self._was_alone = alone
        if now < self._next_at:
            return noticed
        self._next_at = np.inf
        for member in list(self._members.by_agent.values()):
            self._next_at = min(self._next_at, self._judge(member, now, agent, noticed))
        return noticed

    def _judge(
        self, member: Member, now: float, agent: str, noticed: list[Noticed]
    ) -> float:
        """Return when to check a member again."""
        lease = self._members.lease_of(member)
        quiet = now - member.heard_at
        dead_at = self._dead_at(member, lease, now)
        if now >= dead_at:
            if member.vouched is None:
                self._remember(member, now, votes=not self.quorate(agent))
            self.drop(member)
            noticed.append(
                Noticed("dropped", f"agent {member.agent!r} is gone", member.agent)
            )
            return np.inf
        if not member.silent and quiet > lease:
            member.silent = True
            self.reseat(member)
            noticed.append(
                Noticed("silent", f"agent {member.agent!r} is silent", member.agent)
            )
        since = now if member.silent else member.heard_at
        return min(dead_at, since + lease) + 1e-3

    def _dead_at(self, member: Member, lease: float, now: float) -> float:
        """Return when a member will be presumed dead; infinite while it can't be."""
        if member.vouched is False:
            return member.heard_at + GONE_PART * lease
        if member.vouched or self.hears_nobody(now):
            return np.inf
        since = max(member.heard_at, member.lived_at, self._hearing_since)
        return since + self._settings.presumed_dead_s + lease

    def _remember(self, member: Member, now: float, *, votes: bool) -> None:
        for name, one in list(self.departed.items()):
            if now - one.since > DEPARTED_S:
                del self.departed[name]
        if len(self.departed) >= DEPARTED_MAX:
            del self.departed[next(iter(self.departed))]
        self.departed[member.agent] = DepartedMember(
            member.weight, now, member.heard_at, votes
        )

    def drop(self, member: Member, *, charge: bool = True) -> None:
        """Forget a member; charge what was predicted for it, or give it back."""
        close_accounts(self._table, member.number, charge=charge)
        self._members.remove(member)

    def reseat(self, member: Member) -> None:
        """Make its ledgers determine again who takes part."""
        for place in self._table.all_places(member.number):
            place.block.stale[place.slots] = True
            place.block.dirty[place.slots] = True

    def roster(self, now: float) -> Roster:
        """Return what ledgers need to know about members, by number."""
        size = max(self._members.by_number, default=0) + 2
        weights, heard_at = np.zeros(size), np.full(size, now)
        silent = np.zeros(size, dtype=np.bool_)
        weights[0] = 0.0 if self._observing else self._settings.weight
        heard_at[0] = self._members.echo_at
        for number, member in self._members.by_number.items():
            weights[number] = member.weight
            silent[number] = member.silent
            heard_at[number] = member.heard_at
        return Roster(weights, silent, heard_at)


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """Columns by member number; entry M, the last one, stands for nobody.

    Attributes:
        weights: ``float64[M + 1]``; 0 for nobody.
        silent: ``bool[M + 1]``.
        heard_at: ``float64[M + 1]`` monotonic seconds.
    """

    weights: Floats
    silent: Flags
    heard_at: Floats
