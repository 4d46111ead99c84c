"""Strict limits: permits in escrow, and how those of ended lives are reclaimed.

A strict group must admit at most Q·W + B in any window, whatever the network does.  A
replayed ledger can't promise that, since it is only as good as the reports it has.  So
the rate and the burst are cut into `PERMITS` equal permits, and an agent spends what
its own permits are worth: p permits refill at p/P of Q and hold at most p/P of the
burst.

**The rule.**

- *life*: One run of an agent: `id @ incarnation`.  A newer life of an id ends the
  earlier ones.
- *permit*: A register (epoch, owner, giver, tokens).  Copies merge by the larger
  (epoch, owner).
- *view*: The newest life known of each id that takes part, and whether that one is
  over too: it left, or the API saw its process end.  A view only grows.
- *keyframe*: A report of all registers that the sender knows, first-hand or not, its
  view, and whether it is settled.  All of it is merged.  Other reports carry what the
  sender itself wrote.
- *fence*: A report of a life that is over in the receiver's view is dropped.
- *gift*: The owner stops using a permit, and one step later writes epoch + 1, the
  receiver's life and itself as the giver.
- *accept*: A life adopts a register that names it as the owner only from the giver
  itself, and only once it is settled.  What others say is hearsay: enough to know,
  not to own.  The life's own keyframe includes such a register too, marked as missed.
- *agreed*: Each life that is not over in my view has given me its *word*: a keyframe
  whose view is at least mine everywhere, so it knows my life and every end that I
  know of.  If I am not settled, one of them is.  And nobody has heard an earlier life
  of my id for 1.5 heartbeats.
- *settled*: I agreed once, or I founded the limit.
- *take*: Once agreed, I write epoch + 2 over a permit whose owner is over, or whose
  giver is over while the owner's own keyframe shows that the gift never arrived.  It
  is mine to take if the life that is over is an earlier one of my id, or if its id is
  gone and mine is the smallest id that goes on.
- *found*: If nobody is settled, all lives that are not over have sent such keyframes,
  and one and a half heartbeats have passed, the smallest of them counts as settled
  and mints the permits that have no epoch.  A life that the API grants the limit does
  so at once.  The API grants a limit once, and only if it has listened on the bus
  since before the limit was made and has heard nobody found it.

**Claim.**  At most one life uses a permit at a time, so the parts in use sum to at most
1.

*Proof.*  A gift has one receiver and the giver has stopped, so gifts alone never double
a permit.  It remains to show that nobody uses a permit that a life T takes.  Let V be
T's view when it takes permit i, and e the largest epoch of i that it knows, written for
a life d that is over in V (or given by such a life, and never received).

1. *T's knowledge of what ended lives wrote is complete.*  Suppose that some life that
   goes on learns, after giving T its word, of an epoch written by a life that is over
   in V.  The first to do so hears of it either from the writer, but its word covered V,
   so its fence drops that report; or from a life Z that is not in V.  Z's news comes
   with a keyframe whose view has Z in it; hence everyone whom this news reaches knows
   Z, and can't agree before T knows Z.
2. *Nobody got i behind T's back.*  If a life X uses i at an epoch above e, there is a
   chain of gifts d → X₁ → … → X.  Take its first member X_k that goes on according to
   V.  If it had i when it gave T its word, that keyframe had an epoch above e, and T
   would know it.  If it gets it later, it gets it from a giver that is over in V, so in
   its own view too, and its fence drops the gift.  If no member of the chain is in V, X
   is a life that T does not know.  It was settled before it accepted, so it agreed with
   a settled life S that T agreed with as well (assumption c).  If S knew X when it gave
   T its word, V has X.  If not, S gave its word to X later than to T, so X's view has T
   and the end of d: X agreed with T, which knew X by then, or X's fence dropped the
   gift.
3. *Two don't take the same permit.*  T and T′ both agreed.  If T′ gave its word after
   it took, T knows the larger epoch, and vice versa.  If both gave it before, each
   one's word covers the other's view, so both views are equal.  By 1 both know the same
   registers that ended lives wrote.  These alone decide who may take the permit.  ∎

The proof needs no clock, no quarantine and no majority: a clock only says how often to
ask.  For tokens see `headgate.coordinator.escrow.holder`.

**Assumptions**, and what is done where they can be checked:

a. *One process per id at a time.*  An older process that hears a younger one continues
   under a new id, and owns nothing under it.  The younger one takes nothing until 1.5
   heartbeats have passed in which neither it nor any agent that reports to it has heard
   the older one.
b. *A life that is said to be over has ended, or uses nothing.*  The API names the life
   (`Vouched`), and its statement counts only once that life is silent on the bus as
   well.  A life that can reach neither stops before that (`Strict.stops_at`).  One that
   finds in a view that it is over, or that its id has a larger incarnation, stops at
   once and continues under a new id (`superseded`).
c. *At any time there is a settled life that all settled lives have agreed with.*
d. *Reports are read as they were sent* (checksums), nobody lies (signatures), and no
   report arrives two hours after it was sent.

**Not covered.**  *Founding*: two agents that start at once and can't hear each other
both found a limit, which is admitted twice until they hear each other; then the larger
(epoch, owner) wins.  If the API says that other agents are alive, none founds by itself
before it has heard them.  The API can't know of a founder that neither asked it nor is
heard by it.  *Waiting*: a process that is silent, never returns, and whose end nobody
confirms blocks agreement.  Its permits stay unused, as do those of lives that end
meanwhile, and new agents get none.  Never exceeding the limit comes first; the agent
waited for is named in a notice, ``strict_waits``.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headgate.coordinator.escrow.lives import (
    END_NEEDED_S,
    END_TOLD_S,
    NEVER,
    NO_WORD,
    NOBODY,
    Newest,
    Sightings,
    View,
    Word,
)
from headgate.coordinator.escrow.registers import Registers
from headgate.coordinator.messages.report import (
    PERMITS,
    AgentLife,
    KnownLife,
    PermitRun,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.coordinator.table.arrays import Ints

TWIN_INTERVALS = 1.5
"""Heartbeats for which nobody may have heard an earlier life of this agent's id: a
running one is heard once a heartbeat."""

LEARNT_MAX = 4096
"""Number of runs remembered as merged above which they are forgotten."""


class Section(NamedTuple):
    """What one report says about one limit: registers, and who takes part."""

    runs: list[PermitRun]
    lives: list[KnownLife]


class Escrow:
    """The permits of one strict limit, as one life knows them.

    `sightings` are those of all limits; everyone must assume as many `permits`.

    Attributes:
        registers: As known.
        view: Who takes part, as known.
        settled: This life may own permits.
        uses: This agent has a bucket of the limit.
        reported_at: When `settled`, `uses` or `wanted` changed last.
        in_use: Slots that callers of this agent hold, where permits are slots.
        wanted: Slots that they hold or ask for, as reported.
        aside: Permits that this agent no longer uses, because the next step gives them
            away: ``int64[K]`` for each receiver.
    """

    def __init__(
        self,
        me: AgentLife,
        now: float,
        *,
        interval_s: float,
        sightings: Sightings,
        permits: int = PERMITS,
    ) -> None:
        self._twin_s = TWIN_INTERVALS * interval_s
        self._sightings = sightings
        self.registers = Registers(permits)
        self.view = View()
        self._words: dict[str, Word] = {}
        self._learnt: set[PermitRun] = set()
        self.uses = False
        self.in_use = self.wanted = 0
        self.reported_at = -inf
        self._left_then = self.registers.of(me)
        self.begin(me, now)

    def begin(self, me: AgentLife, now: float) -> None:
        """Continue as a new life, which owns nothing."""
        self.me = me
        self.settled = False
        self.aside: dict[AgentLife, Ints] = {}
        self._left_of = -1, -1
        self._words.clear()
        self.view.learn(me, over=False, now=now)

    @property
    def superseded(self) -> bool:
        """Return whether others consider this life over: then it must stop."""
        return self.view.is_over(self.me)

    def owned(self) -> Ints:
        """Return the permits of this life, ``int64[K]``."""
        return self.registers.of(self.me)

    def usable(self) -> Ints:
        """Return the permits that are owned and not set aside, ``int64[K]``."""
        if not self.aside:
            return self.owned()
        aside = np.concatenate([*self.aside.values()])
        return np.setdiff1d(self.owned(), aside, assume_unique=True)

    def take_aside(self) -> dict[AgentLife, Ints]:
        """Return what is set aside and still owned; it is set aside no longer."""
        aside, self.aside, owned = self.aside, {}, self.owned()
        return {life: at[np.isin(at, owned)] for life, at in aside.items()}

    def give_all(self, now: float) -> None:
        """Give away all that is owned, in even parts, to those that use the limit."""
        self.aside, users = {}, self.users()
        parts = np.array_split(self.owned(), max(1, len(users)))
        for life, at in zip(users, parts, strict=False):
            self.registers.write(at, life, self.me, now)

    def may_be_given(self, life: AgentLife) -> bool:
        """Return whether a life would accept a gift, and can use it."""
        said = self.said_by(life.agent)
        able = said.life == life and said.settled and said.uses
        return able and not self.view.is_over(life)

    def said_by(self, agent: str) -> KnownLife:
        """Return what another agent said of itself last; of nobody, if it didn't."""
        return self._words.get(agent, NO_WORD).said

    def users(self) -> list[AgentLife]:
        """Return the other lives that may be given permits, by id."""
        return [life for life in self.view.living() if self.may_be_given(life)]

    def waited_for(self, now: float) -> Iterator[AgentLife]:
        """Yield the lives that keep this one from agreeing, by id."""
        for life in self.view.living():
            if life != self.me and not self._agrees(life, now):
                yield life

    # What is heard and told.

    def hear(
        self, sender: AgentLife, told: Section, now: float, *, whole: bool
    ) -> float:
        """Merge what another agent's report says, a keyframe if it is `whole`.

        Returns:
            Units of the burst that came with permits given to this life.
        """
        if self._is_fenced(sender):
            return 0.0
        self.view.learn(sender, over=False, now=now)
        word = self._words.get(sender.agent, NO_WORD)
        if word.said.life != sender:
            word = self._words[sender.agent] = Word(KnownLife(0, sender))
        by: dict[str, Newest] = {}
        twin_at = -inf
        for known in told.lives:
            self.view.learn(known.life, over=known.over, now=now)
            by[known.life.agent] = known.life.incarnation, known.over
            if known.life.agent == self.me.agent:
                twin_at = now - known.heard_s
            if known.life == sender:
                word.said = known
        # What changed is told for three heartbeats, so most of it was merged before.
        news = [run for run in told.runs if whole or run not in self._learnt]
        # An owner takes part, even if it was never heard: it must be waited for.
        for owner in dict.fromkeys(run.owner for run in news):
            self.view.learn(owner, over=False, now=now)
        self.registers.merge(news, self.me, whole_of=sender if whole else NOBODY)
        if len(self._learnt) >= LEARNT_MAX:
            self._learnt.clear()
        self._learnt.update(news)
        if whole:  # and merged by now
            word.covers = self.view.version if self._covers(by, now) else -1
            word.twin_at = twin_at
        accepted = [run for run in told.runs if self._accepts(run, sender)]
        return sum(run.tokens * self.registers.adopt(run) for run in accepted)

    def tell(
        self, group_id: int, now: float, *, whole: bool, since: float = -inf
    ) -> Section:
        """Return what to report: all, or what this agent changed `since` a time."""
        registers = self.registers
        chosen = registers.changed_at >= (-inf if whole else since)
        runs = list(registers.runs(group_id, chosen, self.me))
        own = KnownLife(
            group_id,
            self.me,
            settled=self.settled,
            uses=self.uses,
            in_use=self.in_use,
            wanted=self.wanted,
        )
        if not whole:
            return Section(runs, [own] if runs or self.reported_at >= since else [])
        lives = [own]
        known = self.view.known(now, END_TOLD_S, registers.named())
        for agent, (incarnation, over) in known:
            life = AgentLife(agent, incarnation)
            if life != self.me:
                heard_s = now - self._sightings.earlier_at(agent)
                if heard_s > 2.0 * self._twin_s:
                    heard_s = inf
                lives.append(KnownLife(group_id, life, over, heard_s=heard_s))
        return Section(runs, lives)

    def tidy(self, now: float, *, spare: int) -> None:
        """Write one epoch over all own permits if that saves more than `spare` runs.

        This is a gift to itself, which keeps an owner's permits in few runs.
        """
        at, registers = self.owned(), self.registers
        cuts = np.zeros(max(len(at) - 1, 0), dtype=np.bool_)
        for column in (registers.epoch, registers.giver, registers.tokens):
            cuts |= column[at[1:]] != column[at[:-1]]
        if np.count_nonzero(cuts & (np.diff(at) == 1)) > spare:
            registers.write(at, self.me, self.me, now)

    def _is_fenced(self, sender: AgentLife) -> bool:
        """Return whether a life's reports no longer count."""
        return self.view.is_over(sender)

    def _accepts(self, run: PermitRun, sender: AgentLife) -> bool:
        """Return whether a register makes this life the owner."""
        return run.owner == self.me and run.giver == sender and self.settled

    def _covers(self, by: dict[str, Newest], now: float) -> bool:
        """Return whether a reported view is at least this agent's own."""
        needed = self.view.known(now, END_NEEDED_S)
        return all(by.get(agent, NEVER) >= newest for agent, newest in needed)

    # Agreement, and what follows from it.

    def agreed(self, now: float) -> bool:
        """Return whether this life may take what ended lives left."""
        return self._all_told(now) and (self.settled or self._hears_settled())

    def step(self, now: float, *, may_found: bool) -> bool:
        """Settle, and take what is this life's to take; return whether all is done.

        Args:
            now: Monotonic seconds.
            may_found: Long enough has passed, and nobody is known to live unheard.
        """
        if not self.settled:
            founds = may_found and self._is_first() and not self._hears_settled()
            if not (self.agreed(now) or (founds and self._all_told(now))):
                return False
            self._settle(now, founds=founds)
        left = self._left()
        if not len(left):
            return True
        if not self.agreed(now):
            return False
        self.registers.write(left, self.me, self.me, now, by=2)
        return True

    def found(self, now: float) -> bool:
        """Found the limit if nobody has; return whether that happened."""
        if self.superseded or not self.unfounded:
            return False
        self._settle(now, founds=True)
        return True

    @property
    def unfounded(self) -> bool:
        """Whether no life is known that founded the limit, or could own permits."""
        return not (self.settled or self.registers or self._hears_settled())

    def _settle(self, now: float, *, founds: bool) -> None:
        self.settled, self.reported_at = True, now
        if founds and not self.registers:
            everything = np.arange(len(self.registers))
            self.registers.write(everything, self.me, NOBODY, now)

    def _all_told(self, now: float) -> bool:
        """Return whether all lives that go on have reported a view of at least mine."""
        earlier_at = self._sightings.earlier_at(self.me.agent)
        has_twin = earlier_at > now - self._twin_s
        return not (self.superseded or has_twin or any(self.waited_for(now)))

    def _agrees(self, life: AgentLife, now: float) -> bool:
        word = self._words.get(life.agent, NO_WORD)
        return (
            word.said.life == life
            and word.covers == self.view.version
            and word.twin_at <= now - self._twin_s
        )

    def _hears_settled(self) -> bool:
        return any(
            word.said.settled and not self.view.is_over(word.said.life)
            for word in self._words.values()
        )

    def _is_first(self) -> bool:
        """Return whether this is the smallest id that goes on."""
        return self.view.living()[:1] == [self.me]

    def _left(self) -> Ints:
        """Return the permits that are this life's to take, ``int64[K]``."""
        registers, view = self.registers, self.view
        if self._left_of != (view.version, registers.version):
            self._left_of = view.version, registers.version
            over = registers.where(view.is_over)
            mine = over & registers.where(self._falls_to_me)
            never_came = registers.missed & ~over[registers.owner]
            left = mine[registers.owner] | (never_came & mine[registers.giver])
            self._left_then = np.flatnonzero(left)
        return self._left_then

    def _falls_to_me(self, life: AgentLife) -> bool:
        """Return whether this life takes what a life left, if that has ended."""
        gone = self.view.is_gone(life.agent) and self._is_first()
        return gone or life.agent == self.me.agent
