"""Permits that arrive where their tokens can't be used: they must not be kept."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.coordinator import Keys, KnownLife, PermitRun, Report, Settings
from headgate.coordinator.demand.local_buckets import LocalBuckets
from headgate.coordinator.escrow.holder import Held, Strict
from headgate.coordinator.membership.members import Members
from headgate.coordinator.messages.report import AgentLife, Permits
from headgate.coordinator.table.index import Table

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
        strict.retire(KEY, 1.0)
    strict.note(GIVER, 1.1)
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
    strict.note(GIVER, 1.1)
    strict.hear(gift(permits=100, tokens=0.5), 1.1)
    strict.step(1.2, local, heard_own=True)
    assert held.due == 0.0
    assert local.credit.tolist() == ([50.0] if own else [0.0, 0.0])
