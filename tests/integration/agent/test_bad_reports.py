"""What a lying or confused reporter says is ignored and counted; the quota holds."""

from __future__ import annotations

import time
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.integration.agent.rigs import (
    PATIENCE_S,
    Load,
    explained,
    rates,
    settle,
    until,
)

from headgate.agent.bus.open import open_bus
from headgate.agent.wire.codec import encode
from headgate.coordinator import Report, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster

    from headgate.agent import Agent
    from headgate.agent.bus.port import Bus


def report(
    sequence: int,
    *,
    agent: str = "liar",
    cluster: str = "default",
    incarnation: int = 1_000,
    admitted: float = 0.0,
    demand: float = 10.0,
    group: int = 1,
    sent_at_s: float | None = None,
) -> bytes:
    """Return the bytes of one report on gold."""
    one = np.ones(1)
    rows = Rows(
        dimension="requests",
        group_ids=np.array([group]),
        refused=0 * one,
        admitted=admitted * one,
        demand=demand * one,
        held=0 * one,
        cost=np.ones(len(np.array([group]))),
    )
    return encode(
        Report(
            cluster=cluster,
            agent=agent,
            incarnation=incarnation,
            sequence=sequence,
            sent_at_s=time.time() if sent_at_s is None else sent_at_s,
            rows=(rows,),
            keyframe=True,
        )
    )


def until_heard(agent: Agent, liar: Bus, made: Callable[[int], bytes]) -> None:
    """Publish reports until the agent has heard of the liar, and ten at least."""
    sequences = count(1)

    def heard() -> bool:  # again and again: the first ones find nobody connected
        sequence = next(sequences)
        liar.publish(made(sequence))
        liar.receive(0.2)
        members = {member.agent for member in agent.status().members}
        return sequence > 10 and "liar" in members

    until(heard, "the other to be heard")


@pytest.fixture
def liar(cluster: Cluster) -> Iterator[Bus]:
    """A bus in the hands of somebody who lies."""
    bus = open_bus(cluster.bus)
    yield bus
    bus.close()


def _falling(sequence: int) -> bytes:
    return report(sequence, admitted=max(50.0 - sequence, 0.0))


def _immense(sequence: int) -> bytes:
    return report(sequence, admitted=sequence * 1e12)


def _older_life(sequence: int) -> bytes:
    return report(sequence, incarnation=1_000 - (sequence > 1))


def _jumping(sequence: int) -> bytes:
    return report(sequence * 1_000_000)


def _foreign(sequence: int) -> bytes:
    return report(sequence, cluster="another")


@pytest.mark.parametrize(
    ("lie", "counter"),
    [
        (_falling, "agent_disbelieved"),
        (_immense, "agent_disbelieved"),
        (_older_life, "agent_older_incarnation"),
        (_jumping, "agent_sequence_jump"),
        (_foreign, "agent_foreign_cluster"),
    ],
)
def test_what_can_not_be_true_is_counted_and_nothing_else_changes(
    join: Join, liar: Bus, lie: Callable[[int], bytes], counter: str
) -> None:
    agent = join("honest")
    with Load(agent.limiter(tenant="acme"), 2000) as load:
        until(lambda: rates([load], 0.5)[0] > 900, "the quota to be used")
        deadline_s = time.monotonic() + PATIENCE_S
        sequence = 0
        while agent.metrics().get(counter, 0) < 2:
            assert time.monotonic() < deadline_s, agent.metrics()
            sequence += 1
            liar.publish(lie(sequence))
            liar.receive(0.2)
        # A member that is not believed is present: it keeps a part, of at most half.
        settle([load], least=400, most=inf)
    assert agent.metrics().get("agent_failed_turns", 0) == 0


@pytest.mark.parametrize("sent_at_s", [0.0, 4e12])
def test_a_wrong_clock_harms_nobody(join: Join, liar: Bus, sent_at_s: float) -> None:
    agent = join("honest")
    with Load(agent.limiter(tenant="acme"), 2000) as load:
        until(lambda: rates([load], 0.5)[0] > 900, "the quota to be used")
        until_heard(agent, liar, lambda n: report(n, sent_at_s=sent_at_s + n * 0.2))
        # Of 1,000; the other may use 10 of them until its silence is noticed.
        until(lambda: rates([load], 2.0)[0] > 900, "all but the other's part")
    assert agent.metrics().get("agent_failed_turns", 0) == 0


def test_rows_of_an_unknown_group_are_left_alone(join: Join, liar: Bus) -> None:
    agent = join("honest")
    agent.limiter(tenant="acme").try_acquire(requests=1)
    until_heard(agent, liar, lambda n: report(n, group=77))
    assert [row.agent for row in explained(agent).agents] == ["honest"]
    assert agent.metrics().get("agent_failed_turns", 0) == 0
