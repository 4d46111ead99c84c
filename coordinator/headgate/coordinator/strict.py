"""Strict ledgers at work: what is told of them, and what is given when.

See `headgate.coordinator.rights` for the claim and its proof,
`headgate.coordinator.estates` for what becomes of the parts of ended lives, and
`headgate.coordinator.strict_targets` for who should own what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.estates import Lives, take
from headgate.coordinator.report import Grants
from headgate.coordinator.rights import (
    NOBODY,
    Transfers,
    Untold,
    agent_of,
    gifts,
    holder_of,
    name_transfer,
    parse_transfer,
)
from headgate.coordinator.strict_targets import targets

if TYPE_CHECKING:
    from headgate.coordinator.attendance import Attendance
    from headgate.coordinator.membership import Members
    from headgate.coordinator.settings import Settings
    from headgate.coordinator.shelf import Shelf
    from headgate.coordinator.table import Key, Table

    Row = tuple[str, str, float]

LEAST_GIFT = 0.004
"""Of all: less is not worth a report; noise moves targets by more."""

MINT_INTERVALS = 1.5
"""Heartbeats that a newcomer listens before it mints: everyone has spoken once."""

REPEAT_INTERVALS = 3.0
"""Heartbeats for which a report repeats what was given last."""

LOOK_INTERVALS = 0.25
"""Heartbeats between two looks at what ended lives left."""

BURST = "__burst"
"""Ends the name under which the rights to a ledger's burst are told."""

LEAST_TOKENS = 0.1
"""Of an even part of the burst: a smaller gift of it is not worth a report."""


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
        self._opened_at: dict[Key, float] = {}
        self._mine: list[str] = []
        self._estates: dict[Key, frozenset[str]] = {}
        self._look_at: dict[Key, float] = {}
        self._news_at: dict[Key, float] = {}
        self._untold = Untold()
        self._asks = False

    def __bool__(self) -> bool:
        return bool(self._transfers)

    def begin(self, agent: str, incarnation: int, now: float) -> None:
        """Own parts under this name from now on, and hand over those of before."""
        name = holder_of(agent, incarnation)
        for transfers in self._transfers.values():
            for holder in self._mine:
                transfers.give(holder, name, transfers.balance(holder), now)
        self._mine.append(name)
        self._lives.begin(name)

    def open(self, key: Key, now: float) -> None:
        """Track a strict ledger."""
        if key not in self._transfers:
            self._transfers[key] = Transfers()
            self._transfers[burst_of(key)] = Transfers()
            self._opened_at[key] = now

    def close(self, key: Key) -> None:
        """Stop tracking: what was owned is not used any more."""
        for each in (key, burst_of(key)):
            self._transfers.pop(each, None)
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
        for each in grants:
            rows = zip(
                each.group_ids.tolist(),
                each.receivers,
                each.given.tolist(),
                strict=True,
            )
            for group_id, name, given in rows:
                key = each.dimension, group_id
                transfers = self._transfers.get(key)
                pair = parse_transfer(name, sender)
                if pair is None or not 0.0 <= given < 1e9:
                    sound = False
                elif transfers is not None and pair[0] not in self._mine:
                    news = transfers.learn(*pair, given)
                    if news and sender not in pair and pair[0] != NOBODY:
                        self._news_at[key] = now
        return sound

    def vouch(self, agent: str, now: float, *, alive: bool | None) -> None:
        """Note that the API says a process is gone, or lives, or can't be asked."""
        self._lives.vouch(agent, now, alive=alive)

    def step(self, now: float, agent: str, *, heard_own: bool) -> bool:
        """Mint, inherit and give; return whether anything was given."""
        moved = False
        for key in list(self._opened_at):
            if key not in self._table:
                continue
            shelf, slot = self._table.at(key)
            for each, column in (
                (key, shelf.right),
                (burst_of(key), shelf.burst_right),
            ):
                transfers = self._transfers[each]
                if not transfers:
                    moved |= self._mint(key, transfers, now, agent, heard_own=heard_own)
                else:
                    moved |= self._inherit(each, transfers, now, agent)
                    even = each != key
                    moved |= self._give(shelf, slot, transfers, agent, now, even=even)
                owned = sum(transfers.owned(holder) for holder in self._mine)
                if owned != column[slot]:
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
        sender = self._mine[-1]
        grants: list[Grants] = []
        columns: dict[str, list[tuple[int, str, float]]] = {}
        for key, transfers in sorted(self._transfers.items()):
            if everything:
                self._untold.begin(key, self._for_others(key, now, agent))
            told = transfers.rows({NOBODY, *self._mine}, self._mine, since=since)
            told += self._some_untold(key)
            for giver, receiver, given in told:
                name = name_transfer(giver, receiver, sender)
                columns.setdefault(key[0], []).append((key[1], name, given))
        for dimension, rows in columns.items():
            grants.append(
                Grants(
                    dimension=dimension,
                    group_ids=np.array([row[0] for row in rows], dtype=np.int64),
                    receivers=tuple(row[1] for row in rows),
                    given=np.array([row[2] for row in rows]),
                )
            )
        return tuple(grants)

    def leave(self, agent: str, now: float) -> None:
        """Give all away: to be called before the last report."""
        for key in self._opened_at:
            others = self._present(key, agent)
            names = [name for name in others if name not in self._mine]
            for each in (key, burst_of(key)):
                transfers = self._transfers[each]
                for holder in self._mine:
                    part = transfers.balance(holder)
                    for name in names:
                        transfers.give(holder, name, part / len(names), now)

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
        dimension, group_id = key
        return self._opened_at[dimension.removesuffix(BURST), group_id]

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
        lines = np.flatnonzero(shelf.weight[:, slot] > 0.0)
        return [self._name(int(n), agent) for n in shelf.member[lines, slot]]

    def _name(self, number: int, agent: str) -> str:
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

    def _give(
        self,
        shelf: Shelf,
        slot: int,
        transfers: Transfers,
        agent: str,
        now: float,
        *,
        even: bool,
    ) -> bool:
        if not shelf.weight[0, slot]:
            return False
        lines = np.flatnonzero(shelf.weight[:, slot] > 0.0)
        least = LEAST_TOKENS / len(lines) if even else LEAST_GIFT
        owned = sum(transfers.balance(holder) for holder in self._mine)
        if owned < least:
            return False
        members: list[int] = shelf.member[lines, slot].tolist()

        def names_of() -> list[str]:
            return [self._name(number, agent) for number in members]

        target = targets(shelf, slot, lines, names_of, even=even) * transfers.minted
        # Line 0 is this agent's.
        if owned - float(target[0]) < least:
            return False
        wanted: dict[str, float] = {}
        surplus, names = owned, names_of()
        own, balance_of = self._mine[-1], transfers.balance
        for name, part in zip(names, target.tolist(), strict=True):
            if name == own:
                surplus -= part
            else:
                balance = balance_of(name)
                if part > balance + 0.5 * least:
                    wanted[name] = part - balance
        given = gifts(surplus=surplus, wanted=wanted, least=least)
        for name, part in given.items():
            transfers.give(self._mine[-1], name, part, now)
        return bool(given)


def burst_of(key: Key) -> Key:
    """Return the name under which the rights to a ledger's burst are told."""
    return key[0] + BURST, key[1]
