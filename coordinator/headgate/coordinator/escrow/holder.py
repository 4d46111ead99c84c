"""The strict limits of one agent: what it reports about them, gives away, and may use.

`headgate.coordinator.escrow.permits` decides who owns what, and has the claim and its
proof; `headgate.coordinator.escrow.targets` decides how much each agent should own.

**Tokens travel inside the register of a permit**: without them it would be an empty
bucket.  Requests continue while a gift is decided, and nobody can predict how many
tokens a bucket will lose.  So permits are *set aside* first: one step lowers the part
in use, which clips the bucket, and the bucket counts what it lost.  The next step
follows at once, knows that number, writes the gift, and spreads the tokens over the
permits.

*Claim:* tokens in buckets and in registers on their way sum to at most B, and no bucket
is in debt, so admitted(W) ≤ Q·W + B, whatever requests cost and however often processes
end.  *Proof:* a bucket starts empty and holds at most p·B, where p is its part in use.
(The exception is the founder's bucket if the API granted the limit: it starts full,
when nobody has founded the limit before, and so nobody else has tokens.)
A gift lowers p one step before it is reported, and carries at most what was clipped
since, and at most its part of B.  Until the receiver has adopted the register those
tokens are nowhere else.  When it has, p grows in the step that credits them, which
happens once because an epoch is learnt once, and the bucket clips what its capacity
can't hold.  Permits taken from ended lives come without tokens.  ∎  (What a caller
charges without asking, or beyond its reservation, is admitted in addition.)
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.conditions import ROUNDING
from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.escrow.lives import Sightings
from headgate.coordinator.escrow.permits import Escrow, Section
from headgate.coordinator.escrow.slots import SlotView, Stock, worth_of
from headgate.coordinator.escrow.targets import (
    Asks,
    Seat,
    gifts,
    idle_turn_s,
    seated,
)
from headgate.coordinator.membership.failure_detector import GONE_PART
from headgate.coordinator.messages.events import Claim, Noticed, WakeAt
from headgate.coordinator.messages.report import PERMITS, AgentLife, Permits

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.membership.members import Members
    from headgate.coordinator.messages.events import Granted
    from headgate.coordinator.messages.report import Report
    from headgate.coordinator.table.arrays import Ints, LedgerBlock
    from headgate.coordinator.table.index import Key, Table

SPARE_RUNS = 8
"""Own runs beyond the fewest possible that are tolerated until the next keyframe."""

LEAST_GIFT = 4
"""Fewest permits worth a report; smaller differences from a target are noise."""

FOUND_INTERVALS = 1.5
"""Heartbeats for which a new agent listens before it founds a limit: by then all agents
have reported once."""

GRANT_INTERVALS = 1.0
"""Heartbeats for which a grant of the API holds, from when it was asked for: less than
those, because another agent may found the limit then."""

REPEAT_INTERVALS = 3.0
"""Heartbeats for which each report repeats what changed."""

ASK_INTERVALS, ASK_GROWTH, ASK_MOST_INTERVALS = 0.2, 1.5, 5.0
"""Heartbeats between the first two questions while a limit waits for agreement, their
growth with each question, and their most: an agent may be away for long."""

STOP_TICKS = 2.0
"""Looks by which a life that can reach nobody stops before others may think it gone."""

NOTICE_INTERVALS = 10.0
"""Heartbeats of waiting for an agent after which a notice is due: by then it should
have sent a keyframe."""

STOPPED = Noticed(
    "strict_stopped",
    "strict groups admit nothing here: neither bus nor API can be reached",
    each_time=True,
)
GOES_ON = Noticed(
    "strict_goes_on", "strict groups admit requests here again", ends=STOPPED.kind
)


@dataclass(slots=True, eq=False)
class Held:
    """One strict limit, and what this agent does with it.

    Attributes:
        key: Which one.
        escrow: Its permits.
        opened_at: When it was opened here.
        silent: It is not reported, because it is no longer configured as strict.
        clipped: What the bucket had lost to lowered capacities when permits were set
            aside.
        due: Tokens that arrived and have yet to be put into the bucket.
        echoed: A report came back that tells that this life takes part.
        since_made: This agent has heard everything since before it was made.
        waits_since: Since when something has been waiting for agreement.
        seat: Its turn, where permits are too few for all.
    """

    key: Key
    escrow: Escrow
    opened_at: float
    silent: bool = False
    clipped: float = 0.0
    due: float = 0.0
    echoed: bool = False
    since_made: bool = False
    waits_since: float = inf
    seat: Seat = field(default_factory=Seat)


class Strict:
    """The strict limits of one agent.

    Attributes:
        waits: Permits are set aside; the next step, which gives them, is due at once.
        asks: All agents must be asked for keyframes.
        stocks: The limits whose permits are slots, which `Stock` gives away.
        api_answers: As long as nothing else is said, it does.
        stopped: Others may think this life over, so it uses no permit.
    """

    def __init__(self, settings: Settings, table: Table, members: Members) -> None:
        self._settings, self._interval_s = settings, settings.interval_s
        self._table = table
        self._members = members
        self._me = AgentLife("", 0)
        # A life remembers each limit that it ever opened: if it lost the registers, it
        # would forget what it gave away, and mistake old news of that for a gift.
        self._held: dict[Key, Held] = {}
        self.stocks: dict[Key, Stock] = {}
        self._sightings = Sightings()
        self._noticed: set[AgentLife] = set()
        self._hearing_since = self._heard_at = -inf
        self.api_answers, self.stopped, self._stop_told = True, False, False
        self._confirmed: set[AgentLife] = set()
        self._stopped_at = self._confirm_at = -inf
        self._claims: set[Key] = set()
        self._ask_at, self._ask_gap = -inf, ASK_INTERVALS
        self._news = self.waits = self.asks = False

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def superseded(self) -> bool:
        """Return whether others think this life over: then it must begin a new one."""
        return any(held.escrow.superseded for held in self._held.values())

    def begin(self, agent: str, incarnation: int, now: float) -> None:
        """Continue as this life; what an earlier one owned is no longer used."""
        self._me = AgentLife(agent, incarnation)
        self.stopped = False
        for held in self._held.values():
            held.escrow.begin(self._me, now)
            held.due, held.opened_at, held.echoed = 0.0, now, False
        self._ask_soon()

    def open(self, key: Key, now: float, *, since_made: bool = False) -> None:
        """Use a strict limit, perhaps one that was made just now."""
        if key not in self._held:
            interval_s, sightings = self._interval_s, self._sightings
            escrow = Escrow(self._me, now, interval_s=interval_s, sightings=sightings)
            self._held[key] = Held(key, escrow, now, since_made=since_made)
        held = self._held[key]
        held.silent = False
        if not held.escrow.uses:
            held.escrow.uses, held.escrow.reported_at = True, now
            self._ask_soon()

    def stop_using(self, key: Key, now: float, *, others_use: bool = True) -> bool:
        """Stop using a limit; return whether to report at once.

        If `others_use` it as a strict one, all permits go to them, or are kept for the
        first that reports using it.  This life goes on reporting them, because others
        need it to agree.  If nobody uses it any more, its permits are not reported.
        """
        held = self._held.get(key)
        if held is None or not held.escrow.uses:
            return False
        held.escrow.uses, held.due = False, 0.0
        held.silent, held.since_made, held.waits_since = not others_use, False, inf
        held.escrow.aside = {}
        if others_use:
            held.escrow.reported_at = now
            held.escrow.give_all(now)
        return others_use

    def follow_slots(
        self, sizes: Mapping[int, int], now: float, made: Container[int] = ()
    ) -> bool:
        """Use stocks of so many slots, by group id, and no others.

        Those in `made` were made just now.  Return whether to report at once that a
        stock is no longer used.
        """
        moved = False
        for key in [key for key in self.stocks if key[1] not in sizes]:
            moved |= self.stop_using(key, now)
            del self.stocks[key]
        for group_id, size in sizes.items():
            key = IN_FLIGHT, group_id
            self.open(key, now, since_made=group_id in made)
            stock = self.stocks.setdefault(key, Stock(self._held[key].escrow, size))
            stock.size = size
        return moved

    def may_hold(self) -> dict[int, int]:
        """Return how many slots callers here may hold, by group id."""
        return {key[1]: stock.may_hold for key, stock in self.stocks.items()}

    def slot_views(self, group_id: int) -> list[SlotView]:
        """Return how each agent uses the slots of a group, by id."""
        stock = self.stocks.get((IN_FLIGHT, group_id))
        if stock is None:
            return []
        escrow = stock.escrow
        worth = worth_of(stock.size, len(escrow.registers))
        lives = sorted({*escrow.registers.names[1:], *escrow.view.living()})
        views: list[SlotView] = []
        for life, owned in zip(
            lives, escrow.registers.counts(lives, worth), strict=True
        ):
            said = escrow if life == self._me else escrow.said_by(life.agent)
            over = escrow.view.is_over(life)
            used = (0, 0) if over else (said.in_use, said.wanted)
            if owned or any(used):
                views.append(SlotView(life.agent, int(owned), *used))
        return views

    # What is heard.

    def note(self, report: Report, now: float) -> None:
        """Note that a report arrived, whatever it says: its life may be fenced."""
        if now - self._heard_at > GONE_PART * self._members.lease_of(None):
            self._hearing_since = now
        self._heard_at = now
        life = AgentLife(report.agent, report.incarnation)
        heard_at = self._sightings.heard_at(life)
        begins = heard_at == -inf and report.sequence <= REPEAT_INTERVALS
        if now - heard_at > REPEAT_INTERVALS * self._interval_s and not begins:
            # What it has told is not repeated any more: it may have founded a limit.
            for held in self._held.values():
                held.since_made = False
        if self._sightings.note(life, now):
            for held in self._held.values():
                held.escrow.view.end_before(life, now)
            self._ask_soon()

    def echo(self, report: Report, now: float) -> list[Claim]:
        """Note what others know of this life: its own report came back."""
        for key in _sections(report.permits).keys() & self._held.keys():
            held = self._held[key]
            if not held.echoed:
                held.echoed = True
                self._claim(held)
        return self.claims(now)

    def hear(self, report: Report, now: float) -> bool:
        """Merge another agent's report; return whether its life is presumed over."""
        sender = AgentLife(report.agent, report.incarnation)
        fenced = any(held.escrow.view.is_over(sender) for held in self._held.values())
        for key, told in _sections(report.permits).items():
            held = self._held.get(key)
            if held is None:
                continue
            escrow = held.escrow
            came = escrow.hear(sender, told, now, whole=report.keyframe)
            if escrow.uses:
                held.due += came
            elif escrow.may_be_given(sender):
                # The tokens that came along are lost: kept until the limit is used
                # again, they would be admitted beyond what has flowed in since.
                escrow.registers.write(escrow.owned(), sender, self._me, now)
                self._news = True
        if report.keyframe and self.stopped and self._heard_again():
            self._confirmed.add(sender)
        if report.leave:
            self._end(sender, now)
        return fenced

    def stops_at(self) -> float:
        """Return when this life must stop, unless it hears itself before.

        The API says that an agent is gone if its connection broke, and the others
        believe it if they don't hear that agent either.  So one that can reach neither
        uses no permits from a moment before that.  Infinite while the API answers.
        """
        if self.api_answers:
            return inf
        lease_s = self._settings.lease_min_intervals * self._interval_s
        ahead_s = STOP_TICKS * self._settings.tick_s
        return self._members.echo_at + GONE_PART * lease_s - ahead_s

    def _stop_or_go_on(self, now: float) -> None:
        """Stop in time; go on once those that are heard show that they know this life.

        A keyframe tells whom its sender thinks over, and then this life ends.  One that
        isn't heard can have taken nothing without the word of those that are.
        """
        if now >= self.stops_at():
            self.stopped, self._stopped_at, self._confirm_at = True, now, -inf
            self._confirmed.clear()
        if not self.stopped or not self._heard_again():
            return
        members = self._members.by_agent
        views = [held.escrow.view for held in self._held.values()]
        others = {life for v in views for life in v.living() if life.agent in members}
        heard = {life for life in others if not members[life.agent].silent}
        if heard <= self._confirmed and (heard or not others):
            self.stopped = False
        elif now >= self._confirm_at:
            self._confirm_at = now + self._interval_s
            self.asks = True

    def _heard_again(self) -> bool:
        """Return whether a report has come back that was sent after this life stopped.

        What the others report after that is an answer to it.
        """
        return self._members.echo_at > self._stopped_at

    def _end_gone(self, now: float) -> None:
        """End lives that are gone according to the API and silent on the bus.

        Silence counts while others are heard: an agent that hears nobody is cut off.
        """
        silent_s = GONE_PART * self._members.lease_of(None)
        for word in self._members.said.values():
            if not word.alive:
                life = AgentLife(word.agent, word.incarnation)
                heard_at = max(self._sightings.heard_at(life), self._hearing_since)
                if self._heard_at - heard_at >= silent_s:
                    self._end(life, now)

    def _end(self, life: AgentLife, now: float) -> None:
        for held in self._held.values():
            view = held.escrow.view
            if view.knows(life.agent) and view.learn(life, over=True, now=now):
                self._ask_soon()

    # The tick.

    def step(self, now: float, local: LocalBuckets) -> bool:
        """Settle, take and give; return whether to report something at once.

        The counters in `local` must have been read after all effects of the step before
        were performed; its `credit` is changed.
        """
        self._end_gone(now)
        moved = self._news
        self._news = self.waits = self.asks = False
        self._stop_or_go_on(now)
        for key, held in self._held.items():
            if held.silent:
                continue
            moved |= self._agree(held, now)
            if key in self.stocks and held.escrow.uses:
                moved |= self.stocks[key].step(self._weight_of, now)
                self.waits |= self.stocks[key].waits
            elif held.escrow.uses and key in self._table:
                moved |= self._give(held, local, now)
                self._set_aside(held, local, now)
                self._use(held, local)
        self._ask(now)
        return moved

    def _agree(self, held: Held, now: float) -> bool:
        """Let one limit's escrow settle and take; return whether it did."""
        escrow = held.escrow
        before = escrow.settled, escrow.registers.version
        done = escrow.step(now, may_found=self._may_found(held, now))
        held.waits_since = inf if done else min(held.waits_since, now)
        return before != (escrow.settled, escrow.registers.version)

    def _ask(self, now: float) -> None:
        """Ask all agents for keyframes now and then while a limit waits for agreement.

        And the API for those that nobody is heard to own: its listener may not have
        heard yet that this agent uses them.
        """
        waiting = [held for held in self._held.values() if held.waits_since < inf]
        if not waiting:
            self._ask_soon()
        elif now >= self._ask_at:
            self._ask_at = now + self._ask_gap * self._interval_s
            self._ask_gap = min(ASK_GROWTH * self._ask_gap, ASK_MOST_INTERVALS)
            self.asks = True
            for held in waiting:
                self._claim(held)

    def _ask_soon(self) -> None:
        """Ask as if for the first time, because an agent joined or ended."""
        self._ask_at, self._ask_gap = -inf, ASK_INTERVALS

    def claims(self, now: float) -> list[Claim]:
        """Return, once, what to ask the API for."""
        limits = frozenset(self._claims)
        self._claims.clear()
        return [Claim(self._me.agent, limits, now)] if limits else []

    def grant(self, granted: Granted, now: float) -> list[WakeAt]:
        """Found what the API grants; if there was anything, look at once."""
        if now - granted.asked_at_s > GRANT_INTERVALS * self._interval_s:
            return []
        founded = False
        for key in granted.limits & self._held.keys():
            held = self._held[key]
            # Not what an earlier life asked for, or for a use that has ended.
            asked = granted.asked_at_s >= held.opened_at and held.escrow.uses
            if asked and held.escrow.found(now):
                founded = self._news = True
                if key in self._table:
                    block, slot = self._table.at(key)
                    held.due = block.burst.item(slot)
        return [WakeAt(now)] if founded else []

    def grantable(self, key: Key, agent: str) -> bool:
        """Return whether nobody but `agent`, which is heard, can own a part of it."""
        held = self._held.get(key)
        if held is None or not (held.since_made and held.escrow.unfounded):
            return False
        return held.escrow.view.knows(agent)

    def notices(self, now: float) -> list[Noticed]:
        """Return, once: it stopped or goes on, and which agents delay agreement."""
        since = now - NOTICE_INTERVALS * self._interval_s
        held = self._held.values()
        waiting = [each.escrow for each in held if each.waits_since <= since]
        lives = {life for escrow in waiting for life in escrow.waited_for(now)}
        if any(not escrow.registers for escrow in waiting):
            lives.update(self._unheard())
        news, self._noticed = sorted(lives - self._noticed), lives
        message = "strict groups are waiting for agent {!r} to agree"
        notices = [
            Noticed("strict_waits", message.format(agent), agent) for agent, _ in news
        ]
        if self.stopped != self._stop_told:
            notices.append(STOPPED if self.stopped else GOES_ON)
        self._stop_told = self.stopped
        return notices

    def _unheard(self) -> list[AgentLife]:
        """Return the lives that the API sees but that have sent no keyframe."""
        said, members = self._members.said.values(), self._members.by_agent
        return [
            AgentLife(word.agent, word.incarnation)
            for word in said
            if word.alive and word.agent != self._me.agent
            if word.agent not in members or not members[word.agent].whole
        ]

    def permits(self, now: float, *, whole: bool) -> tuple[Permits, ...]:
        """Return the permits to report; everything if `whole`, for a keyframe."""
        since = now - REPEAT_INTERVALS * self._interval_s
        told: dict[str, Section] = {}
        for (dimension, group_id), held in sorted(self._held.items()):
            if not held.silent:
                held.escrow.tidy(now, spare=0 if whole else SPARE_RUNS)
                runs, lives = held.escrow.tell(group_id, now, whole=whole, since=since)
                section = told.setdefault(dimension, Section([], []))
                section.runs.extend(runs)
                section.lives.extend(lives)
        return tuple(
            Permits(dimension=dimension, runs=tuple(runs), lives=tuple(lives))
            for dimension, (runs, lives) in told.items()
            if runs or lives
        )

    def leave(self, now: float) -> None:
        """Give all permits away; call this before the last report."""
        for held in self._held.values():
            held.escrow.give_all(now)

    def _claim(self, held: Held) -> None:
        if held.echoed and held.escrow.uses and held.escrow.unfounded:
            self._claims.add(held.key)

    def _may_found(self, held: Held, now: float) -> bool:
        """Return whether every live agent was heard, and for long enough."""
        escrow = held.escrow
        wait = FOUND_INTERVALS * self._interval_s + 4.0 * self._members.lag_s
        waited = held.echoed and now - held.opened_at >= wait
        if escrow.settled or not waited or self._unheard():
            return False
        if held.key in self.stocks:  # agents report in a keyframe which ones they use
            return self._members.all_whole()
        if held.key not in self._table:
            return False
        block, slot = self._table.at(held.key)
        present = block.member[block.weight[:, slot] > 0.0, slot].tolist()
        return all(escrow.view.knows(self._life(number).agent) for number in present)

    def _weight_of(self, agent: str) -> float:
        member = self._members.by_agent.get(agent)
        return self._settings.weight if member is None else member.weight

    def _life(self, number: int) -> AgentLife:
        member = self._members.by_number.get(number)
        return AgentLife(member.agent, member.incarnation) if member else self._me

    # Gifts.

    def _set_aside(self, held: Held, local: LocalBuckets, now: float) -> None:
        """Decide what to give away: permits above the target, if others need some."""
        escrow, (block, slot) = held.escrow, self._table.at(held.key)
        owned = len(escrow.owned())
        if not block.weight[0, slot] or not owned:
            held.seat.end()
            return
        lives, lines = self._able(escrow, block, slot)
        owns, mine = escrow.registers.counts(lives), lives.index(self._me)
        owns[mine] = owned
        permits, asked = int(owns.sum()), Asks(block, slot, lines)
        least, asks, over = asked.least, asked.asks, False
        enough = least[asks].sum() <= permits
        if enough or owned < least[mine]:
            held.seat.end()
        if not enough:
            at = local.at[held.key]
            ready = local.held.item(at) >= block.cost.item(0, slot) * (1.0 - ROUNDING)
            idle_s = idle_turn_s(asked, mine, owns < least)
            transfer_s = self._members.lag_s + self._settings.tick_s
            admitted = local.admitted.item(at)
            over = held.seat.is_over(idle_s, transfer_s, admitted, now, ready=ready)
        left = asked.spare(permits)
        if not held.seat.crowded(now, short=least[~asks].sum() > left):
            left = permits
        sits = seated(asks, owns, least, left, mine, over=over)
        lacking = asked.targets(sits, permits) - owns
        surplus = int(-lacking[mine])
        # A seat that lacks a single permit may admit nothing, so none is kept back.
        few = LEAST_GIFT if sits[mine] else 0
        lacking = np.where(2 * lacking > few, lacking, 0)
        # If an agent lacks many, all others give away all their excess: if ten of
        # them kept three back each, it would stay thirty short.
        least_gift = 1 if lacking.max() >= 2 * few else LEAST_GIFT
        if surplus < least_gift or lacking.sum() < max(few, 1) or owned <= few:
            return
        # Each starts after itself, so that not all give their remainders to one agent.
        lives, lacking = lives[mine:] + lives[:mine], np.roll(lacking, -mine)
        for life, count in zip(lives, gifts(surplus, lacking).tolist(), strict=True):
            if count:
                usable = escrow.usable()
                escrow.aside[life] = escrow.registers.to_give(usable, count, life)
        held.clipped = clipped_of(local, held.key)
        self.waits = True

    def _able(
        self, escrow: Escrow, block: LedgerBlock, slot: int
    ) -> tuple[list[AgentLife], Ints]:
        """Return who can own permits, by id, and their lines, ``int64[K]``.

        These are this agent, and all that may be given some.
        """
        lines = np.flatnonzero(block.weight[:, slot] > 0.0)
        lives = map(self._life, block.member[lines, slot].tolist())
        able = sorted(
            (life, line)
            for life, line in zip(lives, lines.tolist(), strict=True)
            if life == self._me or escrow.may_be_given(life)
        )
        return [life for life, _ in able], np.array([line for _, line in able])

    def _give(self, held: Held, local: LocalBuckets, now: float) -> bool:
        """Write the gifts that were set aside in the step before; return if any."""
        aside, (block, slot) = held.escrow.take_aside(), self._table.at(held.key)
        taken = max(0.0, clipped_of(local, held.key) - held.clipped)
        each = taken / max(1, sum(map(len, aside.values())))
        each = min(each, block.burst.item(slot) / PERMITS)
        for life, at in aside.items():
            held.escrow.registers.write(at, life, self._me, now, tokens=each)
        return bool(aside)

    def _use(self, held: Held, local: LocalBuckets) -> None:
        """Make the bucket follow the permits that are owned and not set aside."""
        escrow, (block, slot) = held.escrow, self._table.at(held.key)
        over = escrow.superseded or self.stopped
        part = 0.0 if over else len(escrow.usable()) / PERMITS
        at = local.at.get(held.key, local.shell_size)
        if held.due:
            if at < local.shell_size:
                local.credit[at] += held.due
                block.dirty[slot] = True
            held.due = 0.0  # without a bucket they are lost, as after the end of use
        if part != block.right[slot]:
            block.right[slot] = part
            block.dirty[slot] = True


def clipped_of(local: LocalBuckets, key: Key) -> float:
    """Return what lowered capacities took out of an own bucket; 0 if it has none."""
    at = local.at.get(key)
    return 0.0 if at is None else local.clipped.item(at)


def _sections(permits: Iterable[Permits]) -> dict[Key, Section]:
    """Return what a report says, by limit."""
    sections: dict[Key, Section] = defaultdict(lambda: Section([], []))
    for each in permits:
        for run in each.runs:
            sections[each.dimension, run.group_id].runs.append(run)
        for known in each.lives:
            sections[each.dimension, known.group_id].lives.append(known)
    return sections
