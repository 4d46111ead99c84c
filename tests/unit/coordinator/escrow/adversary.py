"""A random adversary against the real `Escrow`: the worst that hosts and networks do.

Reports are lost, delayed without bound and heard in any order; links fail one way;
lives crash in the middle of a gift, start anew, join, leave; the API's word reaches
some.  What it keeps to are the assumptions of `headgate.coordinator.escrow.permits`:
one process per id, true words, and some settled life that goes on and that all settled
lives agreed with.

After each action each permit must be used by one life at most.  In the end the links
are healed, and then all permits must be owned by lives that go on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.escrow.lives import Sightings
from headgate.coordinator.messages.report import AgentLife

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator.escrow.permits import Escrow, Section

PERMITS = 3
"""Few, so that each is given, lost and taken often."""

IDS_MAX = 5
FLYING_MAX = 60
STEPS = 100
ROUNDS = 12
"""Exchanges after the links are healed."""


@dataclass(frozen=True)
class Message:
    """One report on its way to one process."""

    receiver: str
    sender: AgentLife
    number: int
    told: Section
    whole: bool
    last: bool


class Process:
    """One life: the real escrow, and what its coordinator would do around it."""

    def __init__(self, escrow: type[Escrow], life: AgentLife, now: float) -> None:
        self.sightings = Sightings()
        self.escrow = escrow(
            life, now, interval_s=0.0, sightings=self.sightings, permits=PERMITS
        )
        self.escrow.uses = True
        self.sent = 0
        self.heard: dict[AgentLife, int] = {}

    @property
    def life(self) -> AgentLife:
        """This life."""
        return self.escrow.me

    def hear(self, message: Message, now: float) -> None:
        """Take a report as the coordinator does: the newest of a sender only."""
        if self.heard.get(message.sender, 0) >= message.number:
            return
        self.heard[message.sender] = message.number
        if self.sightings.note(message.sender, now):
            self.escrow.view.end_before(message.sender, now)
        self.escrow.hear(message.sender, message.told, now, whole=message.whole)
        if message.last:
            self.escrow.view.learn(message.sender, over=True, now=now)


class Adversary:
    """One run.

    Attributes:
        doubled: What went wrong first: a permit and the lives that use it, or empty.
        taken: How often permits of ended lives were taken.
        given: How often a gift was accepted.
        crashed: How many lives ended without a word.
    """

    def __init__(self, escrow: type[Escrow], seed: int) -> None:
        self._escrow = escrow
        self._random = Random(seed)
        self._now = 0.0
        self._births = 0
        self._procs: dict[str, Process] = {}
        self._flying: list[Message] = []
        self._late: list[Message] = []
        self._cut: set[tuple[str, str]] = set()
        self._ended: dict[str, AgentLife] = {}
        self._agreed: set[frozenset[AgentLife]] = set()
        self._loss = self._random.choice([0.1, 0.3, 0.5])
        self.doubled = ""
        self.taken = self.given = self.crashed = 0

    def run(self) -> None:
        """Do what is random, and then heal all."""
        for index in range(self._random.choice([3, 3, 4])):
            self._start(f"a{index}")
        for _ in range(4):
            self._meet_all()
            self._step(self._procs["a0"], may_found=True)
        actions = self._actions()
        verbs, weights = list(actions), list(actions.values())
        for _ in range(STEPS):
            self._now += 1.0
            (verb,) = self._random.choices(verbs, weights)
            verb()
            self._check()
            if self.doubled:
                return
        self._heal()

    def owned(self) -> int:
        """Return how many permits are used."""
        return sum(len(p.escrow.owned()) for p in self._procs.values())

    def _actions(self) -> dict[Callable[[], None], float]:
        return {
            self._tell: 3,
            self._deliver: 4,
            self._deliver_late: 5,
            self._meet: 8,
            self._meet_all: 5,
            self._listen: 16,
            self._give: 6,
            self._cut_or_mend: 1,
            self._crash: 1,
            self._ambush: 10,
            self._restart: 10,
            self._hear_of_an_end: 10,
            self._newcomer: 3,
            self._leave: 1,
        }

    # What may happen.

    def _tell(self) -> None:
        self._emit(self._any(), whole=self._random.random() < 0.7)

    def _deliver(self) -> None:
        for _ in range(self._random.randint(1, 12)):
            if self._flying:
                at = self._random.randrange(len(self._flying))
                keep = self._random.random() < 0.1  # it comes again
                message = self._flying[at] if keep else self._flying.pop(at)
                self._hand_over(message)

    def _deliver_late(self) -> None:
        """Let some process hear what was on its way for long."""
        if self._late:
            at = self._random.randrange(len(self._late))
            self._hand_over(self._late.pop(at))

    def _meet(self) -> None:
        """Let some hear each other well for a while, and nobody else."""
        some = self._some()
        for _ in range(self._random.randint(1, 3)):
            for process in some:
                told = self._report(process, whole=True)
                for other in some:
                    self._hand_over(replace(told, receiver=other.life.agent))
            for process in some:
                self._step(process)

    def _listen(self) -> None:
        """Let one hear many, who need not hear it, and look at once."""
        one = self._any()
        self._let_hear(one, self._some())
        self._step(one)

    def _give(self) -> None:
        """Give some permits to any life that is thought to go on."""
        process = self._any()
        escrow = process.escrow
        others = [life for life in escrow.view.living() if life != escrow.me]
        mine = escrow.owned()
        if others and len(mine):
            count = self._random.randint(1, len(mine))
            at = np.array(sorted(self._random.sample(mine.tolist(), count)))
            to = self._random.choice(others)
            escrow.registers.write(at, to, escrow.me, self._now)
            late = self._random.random() < 0.6
            self._emit(process, whole=self._random.random() < 0.3, late=late)

    def _ambush(self) -> None:
        """End a giver whose gift is still on its way, and see who takes its permits.

        What each rule is there for, in its usual order; any step may be left out.
        """
        if self._often():
            self._meet_all()
        givers = [p for p in self._procs.values() if len(p.escrow.owned())]
        if not givers:
            return
        giver = self._random.choice(givers)
        if not self._may_end(giver):
            return
        to = self._victim(giver)
        if to is None:
            return
        giver.escrow.registers.write(
            giver.escrow.owned(), to, giver.life, self._now, tokens=1.0
        )
        gift = self._report(giver, whole=self._often())
        receiver = self._procs.get(to.agent)
        hearers = self._some() if self._often() else []
        for agent in {p.life.agent: p for p in hearers if p is not receiver}:
            self._hand_over(replace(gift, receiver=agent))
        soon = self._often()
        if soon:
            self._hand_over(replace(gift, receiver=to.agent))
        self._end(giver)
        if self._often():
            self._start(giver.life.agent)
        self._check()
        for _ in range(self._random.randint(1, 3)):
            self._ask_around(receiver, giver.life)
        if not soon:
            self._hand_over(replace(gift, receiver=to.agent))

    def _victim(self, giver: Process) -> AgentLife | None:
        """Return who is to get the gift: one that the giver knows, or a newcomer."""
        if len(self._procs) < IDS_MAX and self._often():
            newcomer = self._join()  # it meets the giver, and nobody else
            self._let_hear(newcomer, [giver])
            self._let_hear(giver, [newcomer])
            return newcomer.life
        others = [life for life in giver.escrow.view.living() if life != giver.life]
        return self._random.choice(others) if others else None

    def _ask_around(self, receiver: Process | None, ended: AgentLife) -> None:
        """Let one that may be the taker hear the others, and look."""
        everyone = list(self._procs.values())
        first = self._procs[min(self._procs)]
        taker = self._random.choice([first, self._procs.get(ended.agent, first)])
        if taker is receiver or self._random.random() < 0.3:
            taker = self._random.choice(everyone)
        known = self._random.choice([everyone, [taker], self._some()])
        for process in known:
            if process is not receiver or self._random.random() < 0.2:
                self._end_in(process, ended)
        tellers = [p for p in everyone if p is not receiver or self._often()]
        for _ in range(self._random.randint(1, 2)):
            self._let_hear(taker, tellers)
        self._step(taker)

    def _let_hear(self, one: Process, tellers: list[Process]) -> None:
        """Let one hear keyframes of some, who need not hear it."""
        for process in tellers:
            told = self._report(process, whole=True)
            self._hand_over(replace(told, receiver=one.life.agent))

    def _often(self) -> bool:
        return self._random.random() < 0.5

    def _crash(self) -> None:
        self._end(self._any())

    def _leave(self) -> None:
        process = self._any()
        if self._may_end(process):
            escrow = process.escrow
            others = [life for life in escrow.view.living() if life != escrow.me]
            if others:
                to = self._random.choice(others)
                escrow.registers.write(escrow.owned(), to, escrow.me, self._now)
            self._emit(process, whole=False, last=True)
            self._end(process)

    def _restart(self) -> None:
        ended = [agent for agent in self._ended if agent not in self._procs]
        if ended:
            self._emit(self._start(self._random.choice(ended)), whole=True)

    def _newcomer(self) -> None:
        if len(self._procs) < IDS_MAX:
            self._emit(self._join(), whole=True)

    def _join(self) -> Process:
        return self._start(f"{self._random.choice('Aabz')}-{self._births}")

    def _hear_of_an_end(self) -> None:
        """Let the API say to some that a life is gone."""
        if self._ended:
            life = self._ended[self._random.choice(list(self._ended))]
            for process in self._some():
                self._end_in(process, life)

    def _cut_or_mend(self) -> None:
        if self._random.random() < 0.3:
            self._cut.clear()
        for one in self._procs:
            for other in self._procs:
                if self._random.random() < 0.2:
                    self._cut ^= {(one, other)}

    # How.

    def _any(self) -> Process:
        return self._random.choice(list(self._procs.values()))

    def _some(self) -> list[Process]:
        everyone = list(self._procs.values())
        count = self._random.choice([2, len(everyone), len(everyone) - 1])
        return self._random.sample(everyone, max(1, min(count, len(everyone))))

    def _end_in(self, process: Process, life: AgentLife) -> None:
        if process.escrow.view.knows(life.agent):
            process.escrow.view.learn(life, over=True, now=self._now)

    def _start(self, agent: str) -> Process:
        self._births += 1
        life = AgentLife(agent, self._births)
        self._procs[agent] = process = Process(self._escrow, life, self._now)
        return process

    def _end(self, process: Process) -> bool:
        if not self._may_end(process):
            return False
        del self._procs[process.life.agent]
        self._ended[process.life.agent] = process.life
        self.crashed += 1
        return True

    def _may_end(self, process: Process) -> bool:
        """Keep some settled life that all settled lives agreed with: it is assumed."""
        settled = [
            p.life
            for p in self._procs.values()
            if p.escrow.settled and p is not process
        ]
        return any(
            all(x == s or frozenset((x, s)) in self._agreed for x in settled)
            for s in settled
        )

    def _report(self, process: Process, *, whole: bool, last: bool = False) -> Message:
        process.sent += 1
        since = self._now - self._random.choice([0.0, 5.0, 50.0])
        told = process.escrow.tell(1, self._now, whole=whole, since=since)
        return Message("", process.life, process.sent, told, whole, last)

    def _emit(
        self, process: Process, *, whole: bool, last: bool = False, late: bool = False
    ) -> None:
        told = self._report(process, whole=whole, last=last)
        for agent in self._procs:
            lost = self._random.random() < self._loss
            if not lost and (process.life.agent, agent) not in self._cut:
                flying = self._late if late else self._flying
                flying.append(replace(told, receiver=agent))
        for flying in (self._flying, self._late):
            while len(flying) > FLYING_MAX:
                flying.pop(self._random.randrange(len(flying)))

    def _hand_over(self, message: Message) -> None:
        receiver = self._procs.get(message.receiver)
        if receiver is not None and receiver.life.agent != message.sender.agent:
            before = len(receiver.escrow.owned())
            receiver.hear(message, self._now)
            self.given += len(receiver.escrow.owned()) > before

    def _step(self, process: Process, *, may_found: bool = False) -> None:
        escrow = process.escrow
        before = len(escrow.owned())
        if escrow.agreed(self._now):
            for other in escrow.view.living():
                self._agreed.add(frozenset((escrow.me, other)))
        escrow.step(self._now, may_found=may_found)
        self.taken += len(escrow.owned()) > before

    def _check(self) -> None:
        for permit in range(PERMITS):
            users = [
                process.life
                for process in self._procs.values()
                if permit in process.escrow.owned()
            ]
            if len(users) > 1:
                self.doubled = f"permit {permit} is used by {users}"

    def _heal(self) -> None:
        for _ in range(ROUNDS):
            self._now += 1.0
            for process in self._procs.values():
                for life in self._ended.values():
                    self._end_in(process, life)
            self._meet_all()
            self._check()

    def _meet_all(self) -> None:
        """Let everyone hear everyone, and look."""
        everyone = list(self._procs.values())
        told = [self._report(process, whole=True) for process in everyone]
        for each in told:
            for process in everyone:
                self._hand_over(replace(each, receiver=process.life.agent))
        for process in everyone:
            self._step(process)
