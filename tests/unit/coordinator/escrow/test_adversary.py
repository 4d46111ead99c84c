"""The rule of escrow holds against the adversary, and each part of it is needed.

Each broken class below leaves out one part of the rule; the adversary must find that
permits are then used twice.  Else it would mean little that it breaks no correct one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.coordinator.escrow.adversary import PERMITS, Adversary

from headgate.coordinator.escrow.lives import NEVER
from headgate.coordinator.escrow.permits import Escrow, Section

if TYPE_CHECKING:
    from headgate.coordinator.escrow.lives import Newest
    from headgate.coordinator.messages.report import AgentLife, PermitRun

SEEDS = range(60)
MORE_SEEDS = range(100)


class WithoutFence(Escrow):
    """Hears lives that it knows to be over."""

    def _is_fenced(self, sender: AgentLife) -> bool:
        return False


class Credulous(Escrow):
    """Takes a gift for its own, whoever reports it."""

    def _accepts(self, run: PermitRun, sender: AgentLife) -> bool:
        return run.owner == self.me and self.settled


class Unsettled(Escrow):
    """Owns permits before all have agreed."""

    def _accepts(self, run: PermitRun, sender: AgentLife) -> bool:
        return run.owner == self.me and run.giver == sender


class Blind(Escrow):
    """Does not care whether others know of the ends that it knows of."""

    def _covers(self, by: dict[str, Newest], now: float) -> bool:
        return by.get(self.me.agent, NEVER) >= (self.me.incarnation, False)


class Unknown(Escrow):
    """Does not care whether others know its own life."""

    def _covers(self, by: dict[str, Newest], now: float) -> bool:
        own: dict[str, Newest] = {self.me.agent: (self.me.incarnation, False)}
        return super()._covers(by | own, now)


class Impatient(Escrow):
    """Waits for no id that it never heard."""

    def _agrees(self, life: AgentLife, now: float) -> bool:
        return life.agent not in self._words or super()._agrees(life, now)


class Forgetful(Escrow):
    """Forgets hearsay of gifts to itself, and takes what others know was given on."""

    def hear(
        self, sender: AgentLife, told: Section, now: float, *, whole: bool
    ) -> float:
        known = [
            run
            for run in told.runs
            if run.owner != self.me or self._accepts(run, sender)
        ]
        return super().hear(sender, Section(known, told.lives), now, whole=whole)


@pytest.mark.long
def test_no_permit_is_used_twice_and_in_the_end_all_are_used() -> None:
    taken = given = crashed = 0
    for seed in SEEDS:
        run = Adversary(Escrow, seed)
        run.run()
        assert run.doubled == "", f"seed {seed}"
        assert run.owned() == PERMITS, f"seed {seed}"
        taken, given = taken + run.taken, given + run.given
        crashed += run.crashed
    assert min(taken, given, crashed) > 3 * len(SEEDS)  # it does try


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [WithoutFence, Credulous, Unsettled, Blind, Unknown, Impatient, Forgetful],
)
def test_the_adversary_finds_what_is_left_out_of_the_rule(broken: type[Escrow]) -> None:
    for seed in MORE_SEEDS:
        run = Adversary(broken, seed)
        run.run()
        if run.doubled:
            return
    pytest.fail(f"{len(MORE_SEEDS)} runs found nothing wrong with {broken.__name__}")
