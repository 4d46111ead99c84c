"""Strict ledgers at work: who should own what, and what is given when.

Targets are the max-min shares of Q itself, not of Q': no level is needed, since
rights alone keep the bound.  What demand leaves over is spread, first as room for
each agent's own noise, then evenly, so that whoever starts has something at once.
See `headgate.coordinator.rights` for the claim and its proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation import shares_at, water_level
from headgate.coordinator.report import Grants
from headgate.coordinator.rights import (
    NOBODY,
    Transfers,
    Untold,
    agent_of,
    gifts,
    holder_of,
    life_of,
    name_transfer,
    parse_transfer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.coordinator.attendance import Attendance
    from headgate.coordinator.membership import Members
    from headgate.coordinator.own import Own
    from headgate.coordinator.settings import Settings
    from headgate.coordinator.shelf import Shelf
    from headgate.coordinator.table import Key, Table

    Floats = NDArray[np.float64]

LEAST_GIFT = 0.004
"""Of all: less is not worth a report; noise moves targets by more."""

MINT_INTERVALS = 1.5
"""Heartbeats that a newcomer listens before it mints: everyone has spoken once."""

REPEAT_INTERVALS = 3.0
"""Heartbeats for which a report repeats what was given last."""

TOKENS_PER_HOLDER = 2.0
"""Costs of burst that a holder needs: with fewer, not everyone can own a part."""

BURST = "__burst"
"""Ends the name under which the rights to a ledger's burst are told."""

LEAST_TOKENS = 0.1
"""Of an even part of the burst: a smaller gift of it is not worth a report."""

YOUNG_S = 1.0
"""Age of a demand estimate up to which one sigma is asked for beside it: until the
average is as long as it gets."""


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
        self._attendance = attendance
        self._transfers: dict[Key, Transfers] = {}
        self._opened_at: dict[Key, float] = {}
        self._mine: list[str] = []
        self._estates: set[str] = set()
        self._seen: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._untold = Untold()

    def __bool__(self) -> bool:
        return bool(self._transfers)

    def begin(self, agent: str, incarnation: int, now: float) -> None:
        """Own parts under this name from now on, and hand over those of before."""
        name = holder_of(agent, incarnation)
        for transfers in self._transfers.values():
            for holder in self._mine:
                transfers.give(holder, name, transfers.balance(holder), now)
        self._mine.append(name)

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
        self._opened_at.pop(key, None)

    def owned(self, key: Key) -> dict[str, float]:
        """Return the parts of the rate by holder, as known; empty if not strict."""
        transfers = self._transfers.get(key)
        if transfers is None:
            return {}
        return {holder: transfers.owned(holder) for holder in transfers.holders()}

    def hear(self, grants: tuple[Grants, ...], sender: str, now: float) -> bool:
        """Merge what a report says; return whether it was all well-formed."""
        self._seen[sender] = now
        sound = True
        for each in grants:
            rows = zip(
                each.group_ids.tolist(),
                each.receivers,
                each.given.tolist(),
                strict=True,
            )
            for group_id, name, given in rows:
                transfers = self._transfers.get((each.dimension, group_id))
                pair = parse_transfer(name, sender)
                if pair is None or not 0.0 <= given < 1e9:
                    sound = False
                elif transfers is not None and pair[0] not in self._mine:
                    transfers.learn(*pair, given)
        return sound

    def vouch(self, agent: str, now: float, *, alive: bool | None) -> None:
        """Note that the API says a process is gone, or lives, or can't be asked.

        Only the word that it is gone proves anything; None takes that back.
        """
        if alive is False:
            self._gone[agent] = now
        else:
            self._gone.pop(agent, None)

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
                    moved |= self._inherit(transfers, now, agent)
                    even = each != key
                    moved |= self._give(shelf, slot, transfers, agent, now, even=even)
                owned = sum(transfers.owned(holder) for holder in self._mine)
                if owned != column[slot]:
                    column[slot] = owned
                    shelf.dirty[slot] = True
        return moved

    def grants(
        self, now: float, agent: str, *, all_own: bool, everything: bool
    ) -> tuple[Grants, ...]:
        """Return what a report is to say.

        Args:
            now: Monotonic seconds.
            agent: Own id.
            all_own: All that this agent ever gave, not just lately.
            everything: Also what those gave who can't say it themselves.
        """
        since = now - REPEAT_INTERVALS * self._settings.interval_s
        if all_own:
            since = -np.inf
        sender = self._mine[-1]
        grants: list[Grants] = []
        columns: dict[str, list[tuple[int, str, float]]] = {}
        for key, transfers in sorted(self._transfers.items()):
            givers = {NOBODY, *self._mine, *self._estates}
            if everything:
                absent = self._absent(transfers, agent) - givers
                self._untold.begin(key, transfers.rows(absent))
            told = transfers.rows(givers, since=since)
            told += self._untold.some(key, 1 + len(self._members.by_agent))
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

    def _absent(self, transfers: Transfers, agent: str) -> set[str]:
        """Return givers that are not heard; the smallest id speaks for them."""
        heard = [m for m in self._members.by_agent.values() if not m.silent]
        if agent != min([agent, *(m.agent for m in heard)]):
            return set()
        alive = {holder_of(m.agent, m.incarnation) for m in heard}
        return transfers.givers() - alive

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

    def _inherit(self, transfers: Transfers, now: float, agent: str) -> bool:
        """Take the parts of lives that are proven to have ended."""
        took = False
        quarantine = 2.0 * self._members.lease_of(None)
        for holder in transfers.holders():
            if holder in self._mine:
                continue
            if now - self._seen.get(holder, -np.inf) < quarantine:
                continue
            if not self._is_heir(holder, now, agent, quarantine):
                continue
            transfers.give(holder, self._mine[-1], transfers.balance(holder), now)
            self._estates.add(holder)
            took = True
        return took

    def _is_heir(self, holder: str, now: float, agent: str, quarantine: float) -> bool:
        """Tell whether a life that was not seen for a quarantine is over for good."""
        dead, own = agent_of(holder), self._mine[-1]
        if dead == agent_of(own):
            since = min(self._opened_at.values(), default=now)
            return life_of(holder) < life_of(own) and now - since >= quarantine
        gone_at = self._gone.get(dead)
        if gone_at is None or now - gone_at < quarantine:
            return False
        heard = [m.agent for m in self._members.by_agent.values() if not m.silent]
        return agent == min([*heard, agent]) and self._attendance.quorate(agent)

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


def ask_for_room(own: Own) -> None:
    """Let the demand that is told of strict ledgers be no guess on the low side.

    A balanced ledger makes up for a first guess that was too low; rights that were
    not asked for are refusals until the next guess, 125 ms later.

    Args:
        own: Changed: `usable`, just after a reset.
    """
    young = own.demand.age_s < YOUNG_S
    if not young.any():
        return
    room = np.where(young, own.demand.sigma(own.cost), 0.0)
    usable = own.usable.copy()
    for place in own.places:
        strict = place.shelf.strict[place.slots]
        usable[place.rows] += np.where(strict, room[place.rows], 0.0)
    own.usable = usable


def burst_of(key: Key) -> Key:
    """Return the name under which the rights to a ledger's burst are told."""
    return key[0] + BURST, key[1]


def targets(
    shelf: Shelf,
    slot: int,
    lines: NDArray[np.int64],
    names_of: Callable[[], list[str]],
    *,
    even: bool,
) -> Floats:
    """Return the parts, ``float64[K]``, that agents should own; they sum to 1.

    Args:
        shelf: Of the ledger.
        slot: Of the ledger.
        lines: ``int64[K]`` of the agents that take part.
        names_of: Returns their holders, which is asked only where they matter.
        even: By weight alone, whatever they want.
    """
    rate = max(float(shelf.rate[slot]), 1e-12)
    cost = float(shelf.cost[slot])
    weight = shelf.weight[lines, slot]
    demand = np.minimum(shelf.demand[lines, slot], shelf.demand_cap[slot])
    most = max(1, int(shelf.burst[slot] / (TOKENS_PER_HOLDER * cost)))
    if len(lines) > most:
        # Too few tokens for all: those with most demand own parts, ties by name.
        names = names_of()
        order = sorted(range(len(names)), key=lambda i: (-demand[i], names[i]))
        weight = weight.copy()
        weight[order[most:]] = 0.0
    if even:
        whole_weight: Floats = weight / max(float(weight.sum()), 1e-12)
        return whole_weight
    room = demand + np.sqrt(2.0 * demand * cost)
    whole = np.array([rate])
    theta = water_level(room[:, None], weight[:, None], whole)
    share = shares_at(theta, room[:, None], weight[:, None])[:, 0]
    left = max(0.0, rate - float(share.sum()))
    part: Floats = (share + left * weight / max(float(weight.sum()), 1e-12)) / rate
    return part
