"""The strict limits of one agent: what it reports about them, gives away, and may use.

`headgate.coordinator.escrow.permits` decides who owns what, and has the claim and its
proof; `headgate.coordinator.escrow.targets` decides how much each agent should own.

**Tokens travel inside the register of a permit.**  A permit without tokens would be an
empty bucket that fills at a rate which is used up anyway, so the giver's tokens go
along.  Requests continue while a gift is decided, and nobody can predict how many
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
from headgate.coordinator.demand.estimator import LONGEST_TAU_S
from headgate.coordinator.escrow.lives import Sightings
from headgate.coordinator.escrow.permits import Escrow, Section
from headgate.coordinator.escrow.seats import Seat, asking, fewest, seated
from headgate.coordinator.escrow.slots import SlotView, Stock, worth_of
from headgate.coordinator.escrow.targets import gifts, spare, targets
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
"""Heartbeats for which a grant of the API holds, from when it was asked for: another
agent may found the limit after `FOUND_INTERVALS`."""

REPEAT_INTERVALS = 3.0
"""Heartbeats for which each report repeats what changed."""

LOOK_INTERVALS = 0.05
"""Heartbeats between two checks whether all agents agree."""

ASK_INTERVALS = 0.2
"""Heartbeats from one question to the next while something waits for agreement."""

ASK_GROWTH = 1.5
"""Factor by which that interval grows with each question, up to
`ASK_MOST_INTERVALS`."""

ASK_MOST_INTERVALS = 5.0
"""The same for an agent that waits for an absent one."""

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
        escrow: Its permits.
        opened_at: When it was opened here.
        silent: It is not reported, because it is no longer configured as strict.
        aside: Permits that are no longer used, to be given away in the next step:
            ``int64[K]`` for each receiver.
        clipped: What the bucket had lost to lowered capacities when they were set
            aside.
        due: Tokens that arrived and have yet to be put into the bucket.
        echoed: A report came back that tells that this life takes part.
        claim_at: When to ask the API for the limit, perhaps once more: its listener may
            not have heard yet that this agent uses it.
        since_made: This agent has listened since before the limit was made, and has
            missed nothing that others did.
        look_at: When to check for agreement again.
        ask_at: When to ask again.
        ask_gap: Heartbeats from that question to the next.
        waits_since: Since when something has been waiting for agreement.
        seat: Its turn, where permits are too few for all.
        crowded_since: Since when those that ask have lacked what is kept for others.
        able: Lives that can own permits, by id, this agent's own included; and
            ``int64[K]`` their lines in the table.
        able_as_of: What `able` was derived from; it holds until that changes.
    """

    escrow: Escrow
    opened_at: float
    silent: bool = False
    aside: dict[AgentLife, Ints] = field(default_factory=dict[AgentLife, "Ints"])
    clipped: float = 0.0
    due: float = 0.0
    echoed: bool = False
    claim_at: float = -inf
    since_made: bool = False
    look_at: float = -inf
    ask_at: float = -inf
    ask_gap: float = ASK_INTERVALS
    waits_since: float = inf
    seat: Seat = field(default_factory=Seat)
    crowded_since: float = inf
    able: tuple[list[AgentLife], Ints] = field(init=False)
    able_as_of: tuple[object, ...] = ()

    def crowded(self, now: float, *, short: bool) -> bool:
        """Return whether those that ask have been short for as long as demand counts.

        A few requests by chance are over sooner.
        """
        self.crowded_since = min(self.crowded_since, now) if short else inf
        return now - self.crowded_since >= LONGEST_TAU_S

    def ask_soon(self) -> None:
        """Ask as if for the first time, because an agent joined or ended."""
        self.ask_at, self.ask_gap, self.look_at = -inf, ASK_INTERVALS, -inf


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
        self._whole: set[str] = set()
        self._noticed: set[AgentLife] = set()
        self._gone_look_at = self._hearing_since = self._heard_at = -inf
        self.api_answers, self.stopped, self._stop_told = True, False, False
        self._confirmed: set[AgentLife] = set()
        self._stopped_at = self._confirm_at = -inf
        self._claims: set[Key] = set()
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
        self._whole.clear()
        for held in self._held.values():
            held.escrow.begin(self._me, now)
            held.aside, held.due, held.opened_at, held.echoed = {}, 0.0, now, False
            held.ask_soon()

    def open(self, key: Key, now: float, *, since_made: bool = False) -> None:
        """Use a strict limit, perhaps one that was made just now."""
        held = self._held.get(key)
        if held is None:
            interval_s, sightings = self._interval_s, self._sightings
            escrow = Escrow(self._me, now, interval_s=interval_s, sightings=sightings)
            held = self._held[key] = Held(escrow, now, since_made=since_made)
        held.silent = False
        if not held.escrow.uses:
            held.escrow.uses, held.escrow.reported_at = True, now
            held.ask_soon()

    def stop_using(self, key: Key, now: float, *, others_use: bool = True) -> bool:
        """Stop using a limit; return whether to report at once.

        If `others_use` it as a strict one, all permits go to them.  If there are none
        at present, they are kept for the first agent that reports using it.  Either way
        this life goes on reporting them, because others need it to agree.  If nobody
        does any more, its permits are not reported.
        """
        held = self._held.get(key)
        if held is None or not held.escrow.uses:
            return False
        held.escrow.uses, held.aside, held.due = False, {}, 0.0
        held.silent, held.since_made = not others_use, False
        if others_use:
            held.escrow.reported_at = now
            self._give_all(held.escrow, now)
        return others_use

    def follow_slots(
        self, sizes: Mapping[int, int], now: float, made: Container[int] = ()
    ) -> bool:
        """Use these stocks of slots, by group id, and no others.

        Args:
            sizes: Slots of each stock.
            now: Monotonic seconds.
            made: Those that were made just now.

        Returns:
            Whether to report at once that a stock is no longer used.
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
        owned = escrow.registers.counts(lives, worth).tolist()
        views: list[SlotView] = []
        for life, may_own in zip(lives, owned, strict=True):
            said = escrow if life == self._me else escrow.said_by(life.agent)
            used = said.in_use, said.wanted
            if escrow.view.is_over(life):
                used = 0, 0
            if may_own or any(used):
                views.append(SlotView(life.agent, may_own, *used))
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
                held.ask_soon()

    def echo(self, report: Report, now: float) -> list[Claim]:
        """Note what others know of this life: its own report came back."""
        for key in _sections(report.permits).keys() & self._held.keys():
            self._held[key].echoed = True
            self._claim(key, self._held[key], now)
        return self.claims(now)

    def hear(self, report: Report, now: float) -> bool:
        """Merge what another agent's report says.

        Returns:
            Whether the sender was presumed over: it must learn that from a keyframe.
        """
        sender = AgentLife(report.agent, report.incarnation)
        fenced = any(held.escrow.view.is_over(sender) for held in self._held.values())
        for key, told in _sections(report.permits).items():
            held = self._held.get(key)
            if held is None:
                continue
            escrow = held.escrow
            came = escrow.hear(sender, told, now, whole=report.keyframe)
            held.look_at = -inf
            if escrow.uses:
                held.due += came
            elif escrow.may_be_given(sender):
                # The tokens that came along are lost: kept until the limit is used
                # again, they would be admitted beyond what has flowed in since.
                escrow.registers.write(escrow.owned(), sender, self._me, now)
                self._news = True
        if report.keyframe:
            self._whole.add(report.agent)
            if self.stopped and self._heard_again():
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
        others = {
            life
            for held in self._held.values()
            for life in held.escrow.view.living()
            if life.agent in members
        }
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
        if now < self._gone_look_at:
            return
        self._gone_look_at = now + LOOK_INTERVALS * self._interval_s
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
                held.ask_soon()

    # The tick.

    def step(self, now: float, local: LocalBuckets) -> bool:
        """Settle, take and give; return whether to report something at once.

        Args:
            now: Monotonic seconds.
            local: The own buckets, with counters that were read after all effects of
                the step before were performed; changed: `credit`.
        """
        self._end_gone(now)
        moved = self._news
        self._news = self.waits = self.asks = False
        self._stop_or_go_on(now)
        for key, held in self._held.items():
            if held.silent:
                continue
            moved |= self._agree(key, held, now)
            if key in self.stocks and held.escrow.uses:
                moved |= self.stocks[key].step(self._weight_of, now)
                self.waits |= self.stocks[key].waits
            if not held.escrow.uses or key not in self._table:
                continue
            block, slot = self._table.at(key)
            if held.aside:
                self._give(held, clipped_of(local, key), block.burst.item(slot), now)
                moved = True
            self._set_aside(key, held, block, slot, local, now)
            self._use(key, held, block, slot, local)
        return moved

    def claims(self, now: float) -> list[Claim]:
        """Return, once, what to ask the API for."""
        limits = frozenset(self._claims)
        self._claims.clear()
        return [Claim(self._me.agent, limits, now)] if limits else []

    def grant(self, granted: Granted, now: float) -> list[WakeAt]:
        """Found what the API grants; if there was anything, look at once."""
        founded = False
        if now - granted.asked_at_s > GRANT_INTERVALS * self._interval_s:
            return []
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
        """Return whether nobody but `agent` can own a part of a limit.

        So it is if this agent has heard nobody found it since it was made, and does
        hear that one.
        """
        held = self._held.get(key)
        if held is None or not (held.since_made and held.escrow.unfounded):
            return False
        return held.escrow.view.knows(agent)

    def notices(self, now: float) -> list[Noticed]:
        """Return, once: it stopped or goes on, and which agents delay agreement."""
        since = now - NOTICE_INTERVALS * self._interval_s
        waiting = [
            held.escrow
            for held in self._held.values()
            if held.waits_since <= since and not held.silent
        ]
        lives = {life for escrow in waiting for life in escrow.waited_for(now)}
        if any(not escrow.registers for escrow in waiting):
            lives.update(self._unheard())
        news, self._noticed = lives - self._noticed, lives
        notices = [
            Noticed(
                "strict_waits",
                f"strict groups are waiting for agent {life.agent!r} to agree",
                life.agent,
            )
            for life in sorted(news)
        ]
        if self.stopped != self._stop_told:
            notices.append(STOPPED if self.stopped else GOES_ON)
        self._stop_told = self.stopped
        return notices

    def _unheard(self) -> list[AgentLife]:
        """Return the lives that the API sees but that have sent no keyframe."""
        known = self._whole | {self._me.agent}
        return [
            AgentLife(word.agent, word.incarnation)
            for word in self._members.said.values()
            if word.alive and word.agent not in known
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
            held.aside = {}
            self._give_all(held.escrow, now)

    def _agree(self, key: Key, held: Held, now: float) -> bool:
        """Let one limit's escrow settle and take; return whether it did."""
        if now < held.look_at:
            return False
        held.look_at = now + LOOK_INTERVALS * self._interval_s
        escrow = held.escrow
        self._claim(key, held, now)
        before = escrow.settled, escrow.registers.version
        if escrow.step(now, may_found=self._may_found(key, held, now)):
            held.waits_since, held.ask_gap = inf, ASK_INTERVALS
        else:
            held.waits_since = min(held.waits_since, now)
            if now >= held.ask_at:
                held.ask_at = now + held.ask_gap * self._interval_s
                held.ask_gap = min(ASK_GROWTH * held.ask_gap, ASK_MOST_INTERVALS)
                self.asks = True
        return before != (escrow.settled, escrow.registers.version)

    def _claim(self, key: Key, held: Held, now: float) -> None:
        """Ask for a limit that nobody is heard to own, now and then."""
        claims = held.echoed and held.escrow.uses and now >= held.claim_at
        if claims and held.escrow.unfounded:
            held.claim_at = now + held.ask_gap * self._interval_s
            self._claims.add(key)

    def _may_found(self, key: Key, held: Held, now: float) -> bool:
        """Return whether every live agent was heard, and for long enough."""
        escrow = held.escrow
        wait = FOUND_INTERVALS * self._interval_s + 4.0 * self._members.lag_s
        waited = held.echoed and now - held.opened_at >= wait
        if escrow.settled or not waited or self._unheard():
            return False
        if key in self.stocks:  # agents report in a keyframe which ones they use
            return self._members.all_whole()
        if key not in self._table:
            return False
        block, slot = self._table.at(key)
        present = block.member[block.weight[:, slot] > 0.0, slot].tolist()
        return all(escrow.view.knows(self._life(number).agent) for number in present)

    def _weight_of(self, agent: str) -> float:
        member = self._members.by_agent.get(agent)
        return self._settings.weight if member is None else member.weight

    def _life(self, number: int) -> AgentLife:
        member = self._members.by_number.get(number)
        return AgentLife(member.agent, member.incarnation) if member else self._me

    # Gifts.

    def _set_aside(
        self,
        key: Key,
        held: Held,
        block: LedgerBlock,
        slot: int,
        local: LocalBuckets,
        now: float,
    ) -> None:
        """Decide what to give away: permits above the target, if others need some."""
        escrow = held.escrow
        owned = escrow.owned()
        if not block.weight[0, slot] or not len(owned):
            held.seat = Seat()
            return
        lives, lines = self._able(held, block, slot)
        owns = escrow.registers.counts(lives)
        mine = lives.index(self._me)
        owns[mine] = len(owned)
        least = fewest(block, slot, lines)
        asks, over = asking(block, slot, lines), False
        if least[asks].sum() <= owns.sum():
            held.seat = Seat()
        else:
            if owns[mine] < least[mine]:
                held.seat = Seat()
            at, cost = local.at[key], block.cost.item(0, slot)
            ready = local.held.item(at) >= cost * (1.0 - ROUNDING)
            held.seat.look(local.admitted.item(at), now, ready=ready)
            transfer_s = self._members.lag_s + self._settings.tick_s
            waiting = lines[owns < least]
            over = held.seat.over(block, slot, waiting, transfer_s, now)
        left = spare(block, slot, lines, least, asks, int(owns.sum()))
        if not held.crowded(now, short=least[~asks].sum() > left):
            left = int(owns.sum())
        sits = seated(asks, owns, least, left, mine, over=over)
        lacking = targets(block, slot, lines, least, sits, int(owns.sum())) - owns
        surplus = int(-lacking[mine])
        # A seat that lacks a single permit may admit nothing, so none is kept back.
        few = LEAST_GIFT if sits[mine] else 0
        lacking = np.where(2 * lacking > few, lacking, 0)
        # If an agent lacks many, all others give away all their excess: if ten of
        # them kept three back each, it would stay thirty short.
        least_gift = 1 if lacking.max() >= 2 * few else LEAST_GIFT
        if surplus < least_gift or lacking.sum() < max(few, 1) or len(owned) <= few:
            return
        # Each starts after itself, so that not all give their remainders to one agent.
        lives, lacking = lives[mine:] + lives[:mine], np.roll(lacking, -mine)
        for life, count in zip(lives, gifts(surplus, lacking).tolist(), strict=True):
            if count:
                held.aside[life] = escrow.registers.to_give(owned, count, life)
                owned = np.setdiff1d(owned, held.aside[life], assume_unique=True)
        held.clipped = clipped_of(local, key)
        self.waits = True

    def _able(
        self, held: Held, block: LedgerBlock, slot: int
    ) -> tuple[list[AgentLife], Ints]:
        """Return who can own permits: this agent, and all that may be given some."""
        escrow, weight = held.escrow, block.weight[:, slot]
        # A line that gets another member has no weight in between.
        as_of = escrow.view.version, escrow.words_version, weight.tobytes()
        if held.able_as_of != as_of:
            lines = np.flatnonzero(weight > 0.0).tolist()
            able = sorted(
                (life, line)
                for line in lines
                if (life := self._life(block.member.item(line, slot))) == self._me
                or escrow.may_be_given(life)
            )
            lives = [life for life, _ in able]
            held.able = lives, np.array([line for _, line in able])
            held.able_as_of = as_of
        return held.able

    def _give(self, held: Held, clipped: float, tokens: float, now: float) -> None:
        """Write the gifts that were set aside in the step before.

        Args:
            held: The limit.
            clipped: What capacities have taken out of the own bucket by now.
            tokens: Units of the whole burst.
            now: Monotonic seconds.
        """
        aside, held.aside = held.aside, {}
        registers = held.escrow.registers
        taken = max(0.0, clipped - held.clipped) / sum(map(len, aside.values()))
        for life, at in aside.items():
            mine = np.intersect1d(at, held.escrow.owned(), assume_unique=True)
            registers.write(
                mine, life, self._me, now, tokens=min(taken, tokens / PERMITS)
            )

    def _give_all(self, escrow: Escrow, now: float) -> None:
        """Give away all that is owned, in even parts."""
        users = escrow.users()
        if users:
            for life, at in zip(
                users, np.array_split(escrow.owned(), len(users)), strict=True
            ):
                escrow.registers.write(at, life, self._me, now)

    def _use(
        self, key: Key, held: Held, block: LedgerBlock, slot: int, local: LocalBuckets
    ) -> None:
        """Make the bucket follow the permits that are owned and not set aside."""
        escrow = held.escrow
        count = len(escrow.owned())
        if escrow.superseded or self.stopped:
            count = 0
        count -= sum(map(len, held.aside.values()))
        part = max(0, count) / PERMITS
        at = local.at.get(key, local.shell_size)
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
