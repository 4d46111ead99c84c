"""Strict ledgers at work: what is told of them, and what is given when.

See `headgate.coordinator.escrow.transfer` for the claim and its proof,
`headgate.coordinator.escrow.reclaim` for what becomes of the parts of ended lives, and
`headgate.coordinator.escrow.targets` for who should own what, and
`headgate.coordinator.escrow.handover` for how tokens go with rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.escrow.gifts import decide, give_all, in_use
from headgate.coordinator.escrow.handover import Handover, burst_of, ledger_of
from headgate.coordinator.escrow.reclaim import Lives, take
from headgate.coordinator.escrow.targets import tokens_of
from headgate.coordinator.escrow.transfer import (
    NOBODY,
    Row,
    Transfers,
    Untold,
    agent_of,
    holder_of,
    parse_transfer,
)
from headgate.coordinator.escrow.wire import grants_of, rows_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import Own
    from headgate.coordinator.membership.failure_detector import Attendance
    from headgate.coordinator.membership.members import Members
    from headgate.coordinator.messages.report import Grants
    from headgate.coordinator.table.arrays import Shelf
    from headgate.coordinator.table.index import Key, Table

MINT_INTERVALS = 1.5
"""Heartbeats that a newcomer listens before it mints: everyone has spoken once."""

REPEAT_INTERVALS = 3.0
"""Heartbeats for which a report repeats what was given last."""

LOOK_INTERVALS = 0.25
"""Heartbeats between two looks at what ended lives left."""


class Strict:
    """The strict ledgers of one agent.

    Rights to the rate and to the burst are two tables: the rate follows demand, the
    burst is held evenly by all, so that whoever starts can spend something until
    the rate has come.
    """

    def __init__(
        self,
        settings: Settings,
        table: Table,
        members: Members,
        attendance: Attendance,
    ) -> None:
        self._settings = settings
        self._table = table
        self._members = members
        self._lives = Lives(members, attendance)
        self._transfers: dict[Key, Transfers] = {}
        self._closed: dict[Key, Transfers] = {}
        self._retired_at: dict[Key, float] = {}
        self._handover = Handover()
        self._opened_at: dict[Key, float] = {}
        self._mine: list[str] = []
        self._estates: dict[Key, frozenset[str]] = {}
        self._look_at: dict[Key, float] = {}
        self._news_at: dict[Key, float] = {}
        self._untold = Untold()
        self._asks = False

    def __bool__(self) -> bool:
        return bool(self._transfers or self._closed)

    def begin(self, agent: str, incarnation: int, now: float) -> None:
        """Own parts under this name from now on, and hand over those of before."""
        name = holder_of(agent, incarnation)
        for transfers in (*self._transfers.values(), *self._closed.values()):
            for holder in self._mine:
                transfers.give(holder, name, transfers.balance(holder), now)
        self._mine.append(name)
        self._lives.begin(name)

    def open(self, key: Key, now: float) -> None:
        """Track a strict ledger."""
        if key not in self._transfers:
            for each in (key, burst_of(key)):
                before = self._closed.pop(each, None)
                self._transfers[each] = Transfers() if before is None else before
                self._retired_at.pop(each, None)
            self._opened_at[key] = now

    def retire(self, key: Key, now: float) -> bool:
        """Give all away before a ledger is closed whose bucket is gone.

        The last one shares with those who closed it before: any of them may be the
        first to come back.  It is told with the next reports, as any gift is.

        Args:
            key: Of a ledger that others go on using under the same rules.
            now: Monotonic seconds.

        Returns:
            Whether there is something to tell.
        """
        if key not in self._opened_at or not self._give_all(key, now, stays=True):
            return False
        self._retired_at[key] = self._retired_at[burst_of(key)] = now
        return True

    def close(self, key: Key) -> None:
        """Stop tracking: what was owned is not used any more.

        What this life gave away is remembered: should the ledger be opened again,
        its counters must go on, or it would own what it gave, and be credited twice.
        """
        for each in (key, burst_of(key)):
            transfers = self._transfers.pop(each, None)
            if transfers:
                self._closed[each] = transfers
            self._handover.forget(each)
            self._untold.forget(each)
            for known in (self._estates, self._look_at, self._news_at):
                known.pop(each, None)
        self._opened_at.pop(key, None)

    def owned(self, key: Key) -> dict[str, float]:
        """Return the parts of the rate by holder, as known; empty if not strict."""
        transfers = self._transfers.get(key)
        if transfers is None:
            return {}
        return {holder: transfers.owned(holder) for holder in transfers.holders()}

    def hear(
        self,
        grants: tuple[Grants, ...],
        sender: str,
        now: float,
        *,
        whole: bool,
        last: bool,
    ) -> bool:
        """Merge what a report says; return whether it was all well-formed.

        Args:
            grants: Its rows.
            sender: The holder that sent it.
            now: Monotonic seconds.
            whole: It tells all that the sender gave and received.
            last: The sender leaves with it.
        """
        self._lives.hear(sender, now, whole=whole, last=last)
        sound = True
        for key, name, given, tokens in rows_in(grants):
            # What comes while a ledger is closed is there when it is opened again.
            transfers = self._transfers.get(key, self._closed.get(key))
            pair = parse_transfer(name, sender)
            if pair is None or not 0.0 <= given < 1e9:
                sound = False
            elif transfers is not None and pair[0] not in self._mine:
                gift = transfers.learn(*pair, given, tokens)
                if gift and pair[1] in self._mine and key in self._transfers:
                    self._handover.came(key, gift)
                if gift and sender not in pair and pair[0] != NOBODY:
                    self._news_at[key] = now
        return sound

    def vouch(self, agent: str, now: float, *, alive: bool | None) -> None:
        """Note that the API says a process is gone, or lives, or can't be asked."""
        self._lives.vouch(agent, now, alive=alive)

    @property
    def waits(self) -> bool:
        """Gifts are set aside: the next step, which makes them, is due at once."""
        return bool(self._handover)

    def step(self, now: float, agent: str, own: Own, *, heard_own: bool) -> bool:
        """Mint, inherit and give; return whether anything was given.

        Args:
            now: Monotonic seconds.
            agent: Own id.
            own: The own buckets, with counters that were read after all effects of
                the step before were performed; changed: `credit`.
            heard_own: This agent has heard a report of its own.
        """
        moved = False
        for key in list(self._opened_at):
            if key not in self._table:
                continue
            shelf, slot = self._table.at(key)
            units = tokens_of(shelf, slot)
            for each, column in (
                (key, shelf.right),
                (burst_of(key), shelf.burst_right),
            ):
                transfers = self._transfers[each]
                if not transfers:
                    moved |= self._mint(key, transfers, now, agent, heard_own=heard_own)
                else:
                    giver, tokens = self._mine[-1], units if each != key else 0.0
                    moved |= self._handover.give(
                        each, transfers, giver, own, now, tokens=tokens
                    )
                    moved |= self._inherit(each, transfers, now, agent)
                    self._set_aside(key, shelf, slot, own, burst=each != key)
                owned = sum(transfers.owned(holder) for holder in self._mine)
                owned -= self._handover.part(each) / transfers.minted
                credited = self._handover.credit(each, transfers, own, tokens=units)
                if credited or owned != column[slot]:
                    column[slot] = owned
                    shelf.dirty[slot] = True
        return moved

    def asks(self) -> bool:
        """Say, once, that all are to be asked for all that they gave and received."""
        asks, self._asks = self._asks, False
        return asks

    def grants(
        self, now: float, agent: str, *, all_own: bool, everything: bool
    ) -> tuple[Grants, ...]:
        """Return what a report is to say.

        Args:
            now: Monotonic seconds.
            agent: Own id.
            all_own: All that this agent ever gave or received, not just lately.
            everything: Also what those gave who can't say it themselves.
        """
        since = now - REPEAT_INTERVALS * self._settings.interval_s
        if all_own:
            since = -np.inf
        told: list[tuple[Key, list[Row]]] = []
        for key, transfers in sorted(self._transfers.items()):
            if everything:
                self._untold.begin(key, self._for_others(key, now, agent))
            rows = transfers.rows({NOBODY, *self._mine}, self._mine, since=since)
            told.append((key, rows + self._some_untold(key)))
        for key in self._retired(now):
            since = self._retired_at[key]
            told.append((key, self._closed[key].rows(self._mine, since=since)))
        return grants_of(told, self._mine[-1])

    def leave(self, agent: str, now: float) -> None:
        """Give all away: to be called before the last report."""
        for key in self._opened_at:
            self._give_all(key, now)

    def _give_all(self, key: Key, now: float, *, stays: bool = False) -> bool:
        """Give away what is owned, in even parts; return whether there was any.

        Where nobody else is left that uses it, those who stay have a part as well.
        """
        shelf, slot = self._table.at(key)
        users = self._names(shelf, slot, self._in_use(key, shelf, slot))
        names = [name for name in users if name not in self._mine]
        if not names:
            names = self._names(shelf, slot, np.flatnonzero(shelf.weight[:, slot] > 0))
            names = [name for name in names if stays or name not in self._mine]
        gave = False
        for each in (key, burst_of(key)):
            self._handover.forget(each)
            gave |= give_all(self._transfers[each], self._mine, names, now)
        return gave

    def _retired(self, now: float) -> list[Key]:
        """Return the closed tables of which gifts are still told."""
        since = now - REPEAT_INTERVALS * self._settings.interval_s
        for key in [key for key, at in self._retired_at.items() if at < since]:
            del self._retired_at[key]
        return sorted(self._retired_at)

    def _for_others(self, key: Key, now: float, agent: str) -> list[Row]:
        """Return what those can't say that are not heard.

        What they gave to someone who is heard is told by that one, or by the heir.
        """
        transfers, mine = self._transfers[key], self._mine
        began = self._began(key)
        rows: list[Row] = []
        if self._lives.speaks(agent, now, began, mine):
            heard = self._lives.heard(mine)
            rows = [
                row
                for row in transfers.rows(transfers.givers() - heard - {NOBODY})
                if row[1] not in heard
            ]
        return rows + self._of_estates(key)

    def _of_estates(self, key: Key) -> list[Row]:
        """Return what ended lives gave to others that are heard: as heir."""
        others = self._lives.heard([])
        rows = self._transfers[key].rows(self._estates.get(key, ()))
        return [row for row in rows if row[1] in others]

    def _some_untold(self, key: Key) -> list[Row]:
        rows = self._untold.some(key, 1 + len(self._members.by_agent))
        if not rows:
            return rows
        heard, estates = self._lives.heard(self._mine), self._estates.get(key, ())
        return [row for row in rows if row[0] in estates or row[1] not in heard]

    def _began(self, key: Key) -> float:
        """Return since when a table is followed."""
        return self._opened_at[ledger_of(key)]

    def _mint(
        self,
        key: Key,
        transfers: Transfers,
        now: float,
        agent: str,
        *,
        heard_own: bool,
    ) -> bool:
        wait = MINT_INTERVALS * self._settings.interval_s + 4.0 * self._members.lag_s
        if not heard_own or now - self._opened_at[key] < wait:
            return False
        present = [agent_of(holder) for holder in self._present(key, agent)]
        if not present or agent != min(present):  # nobody was seated yet
            return False
        transfers.give(NOBODY, self._mine[-1], 1.0, now)
        return True

    def _present(self, key: Key, agent: str) -> list[str]:
        """Return the holders that use a ledger and are heard, by line."""
        shelf, slot = self._table.at(key)
        return self._names(shelf, slot, np.flatnonzero(shelf.weight[:, slot] > 0.0))

    def _names(self, shelf: Shelf, slot: int, lines: NDArray[np.int64]) -> list[str]:
        return [self._name(number) for number in shelf.member[lines, slot].tolist()]

    def _in_use(self, key: Key, shelf: Shelf, slot: int) -> NDArray[np.int64]:
        """Return the lines of those that use a ledger, this agent's first."""
        return in_use(
            shelf,
            slot,
            self._name,
            self._transfers[burst_of(key)],
        )

    def _name(self, number: int) -> str:
        member = self._members.by_number.get(number)
        if member is None:
            return self._mine[-1]
        return holder_of(member.agent, member.incarnation)

    def _inherit(self, key: Key, transfers: Transfers, now: float, agent: str) -> bool:
        """Take the parts of lives that are proven to have ended."""
        if now < self._look_at.get(key, -np.inf):
            return False
        self._look_at[key] = now + LOOK_INTERVALS * self._settings.interval_s
        taken = take(
            transfers,
            self._lives,
            agent=agent,
            mine=self._mine,
            now=now,
            began=self._began(key),
            quiet_since=self._news_at.get(key, -np.inf),
        )
        self._asks |= taken.asks
        known = self._estates.get(key, frozenset())
        self._estates[key] = taken.estates
        if taken.estates - known:
            self._untold.begin(key, self._of_estates(key))
        return taken.took

    def _set_aside(
        self, key: Key, shelf: Shelf, slot: int, own: Own, *, burst: bool
    ) -> None:
        """Decide what to give: what is owned beyond the target, where some lack it."""
        if not shelf.weight[0, slot]:
            return
        transfers = self._transfers[burst_of(key) if burst else key]
        lines = self._in_use(key, shelf, slot)
        parts, urgent = decide(
            shelf,
            slot,
            lines,
            names_of=lambda: self._names(shelf, slot, lines),
            transfers=transfers,
            mine=self._mine,
            rights=self._transfers[key] if burst else None,
        )
        if parts:
            of = burst_of(key) if burst else key
            self._handover.set_aside(of, parts, own, urgent=urgent)
