"""Permits that arrive where their tokens can't be used: they must not be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.scenarios.world import STEP_S, Process, World

from headgate.coordinator import (
    Counted,
    Keys,
    KnownLife,
    PermitRun,
    Report,
    SetCeilings,
    Settings,
)
from headgate.coordinator.demand.local_buckets import LocalBuckets
from headgate.coordinator.escrow.holder import Held, Strict
from headgate.coordinator.membership.members import Members
from headgate.coordinator.messages.report import AgentLife, Permits
from headgate.coordinator.table.index import Table

if TYPE_CHECKING:
    from headgate.coordinator import Effect

KEY, CHILD = ("requests", 1), ("requests", 2)
GIVER, RECEIVER = AgentLife("a", 1), AgentLife("b", 1)


def strict_of(receiver: AgentLife, table: Table) -> tuple[Strict, Held]:
    """Return an agent's strict limits, of which it uses one."""
    strict = Strict(Settings(), table, Members(Settings(), 0.0))
    strict.begin(receiver.agent, receiver.incarnation, 0.0)
    strict.open(KEY, 0.0)
    held = strict._held[KEY]  # pyright: ignore[reportPrivateUsage]
    held.escrow.settled = True
    return strict, held


def gift(*, permits: int, tokens: float) -> Report:
    """Return the report of a giver that goes on using the limit."""
    run = PermitRun(1, 0, permits, 5, RECEIVER, GIVER, tokens)
    life = KnownLife(1, GIVER, settled=True, uses=True)
    permitted = Permits(dimension="requests", runs=(run,), lives=(life,))
    return Report(
        cluster="default",
        agent=GIVER.agent,
        incarnation=GIVER.incarnation,
        sequence=1,
        sent_at_s=1.0,
        permits=(permitted,),
    )


@pytest.mark.parametrize("late", [False, True])
def test_tokens_of_a_gift_are_used_now_or_never(late: bool) -> None:
    strict, held = strict_of(RECEIVER, Table())
    if late:
        strict.stop_using(KEY, 1.0)
    strict.note(gift(permits=100, tokens=0.5), 1.1)
    strict.hear(gift(permits=100, tokens=0.5), 1.1)
    assert len(held.escrow.owned()) == (0 if late else 100), "late ones go back"
    strict.open(KEY, 10.0)
    assert held.due == (0.0 if late else 50.0)


@pytest.mark.parametrize("own", [True, False])
def test_tokens_of_a_limit_without_a_bucket_here_are_lost(own: bool) -> None:
    table = Table()
    table.add(KEY)
    strict, held = strict_of(RECEIVER, table)
    group_id = KEY[1] if own else CHILD[1]
    keys = Keys((KEY[0],), np.zeros(1, np.int64), np.array([group_id]))
    local = LocalBuckets(keys, {CHILD: [KEY]}, {}, 0.0)
    strict.note(gift(permits=100, tokens=0.5), 1.1)
    strict.hear(gift(permits=100, tokens=0.5), 1.1)
    strict.step(1.2, local)
    assert held.due == 0.0
    assert local.credit.tolist() == ([50.0] if own else [0.0, 0.0])


class Clipping(World):
    """A world whose buckets are full, so that lowered capacities take tokens away."""

    def __init__(self) -> None:
        super().__init__()
        self.clipped: dict[str, float] = {}
        self.credited: dict[str, float] = {}

    def _counted(self, process: Process) -> Counted:
        size = len(process.keys.group_ids)
        clipped = np.full(size, self.clipped.get(process.name, 0.0))
        return replace(super()._counted(process), clipped=clipped)

    def _perform(self, process: Process, effect: Effect) -> None:
        if isinstance(effect, SetCeilings):
            name, before = process.name, process.ceilings.get(1)
            if before is not None:
                fell = before.ceilings.capacity[0] - effect.ceilings.capacity[0]
                taken = self.clipped.get(name, 0.0) + max(0.0, float(fell))
                self.clipped[name] = taken
            if effect.credit is not None:
                got = self.credited.get(name, 0.0) + float(effect.credit.sum())
                self.credited[name] = got
        super()._perform(process, effect)

    def tokens_flying(self, name: str) -> bool:
        """Return whether a gift of tokens to a process is on its way to it."""
        return any(
            run.owner.agent == name and run.tokens > 0.0
            for _, to, report in self.flying
            if to == name
            for permits in report.permits
            for run in permits.runs
        )


@pytest.mark.parametrize("drops", [False, True])
def test_a_gift_that_crosses_with_the_end_of_use_is_not_credited_at_the_next_use(
    drops: bool,
) -> None:
    world = Clipping()
    world.group(1, rate=100.0, burst=100.0, mode="strict")
    world.start("a")
    world.run(4.0)
    world.start("b")
    world.load("b", 1, admitted=10.0, refused=200.0)
    while not world.tokens_flying("b"):
        world.run(STEP_S)
        assert world.now < 20.0
    process = world.processes["b"]
    keys = process.keys
    if not drops:
        world.run(2.0)
        assert world.credited["b"] > 10.0
        return
    world.drop("b")
    world.run(2.0)
    world.apart = [{"b"}]  # no other gift
    process.keys = keys
    process.admitted, process.refused, process.held = np.zeros((3, 1))
    world.run(1.0)
    assert not world.credited
