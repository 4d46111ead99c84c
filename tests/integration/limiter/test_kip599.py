"""KIP-599's worked example, from REST to the decisions of a real agent."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import until
from tests.integration.limiter.making import agents_of_acme

from headgate.agent import HeadgateError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from headgate.agent import Agent, Limiter

ONE = {"mutations": 1.0}

LIMIT = {
    "dimension": "mutations",
    "rate": 5.0,
    "samples": 100,
    "window_s": 1.0,
}


@contextmanager
def limiters(tmp_path: Path, scope: str, names: str) -> Generator[list[Limiter]]:
    """Limiters of Q = 5/s, S = 100, W = 1 s, one of each agent."""
    with agents_of_acme(tmp_path, names, LIMIT | {"scope": scope}) as agents:
        found = [agent.limiter(tenant="acme") for agent in agents]
        if scope == "cluster":
            until(lambda: all(map(is_full, agents)), "all know the level")
        yield found


@pytest.fixture(params=["node", "cluster"])
def limiter(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Limiter]:
    """A limiter of an agent that is alone."""
    with limiters(tmp_path, request.param, "a") as (only,):
        # On a slow machine `connect` may not have waited for all answers.
        until(lambda: alone(only), "it knows that it is alone")
        yield only


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Limiter]]:
    """Limiters of three agents of one cluster, which know of each other."""
    with limiters(tmp_path, "cluster", "abc") as found:
        until(lambda: all(map(shares, found)), "all have heard of all")
        yield found


def is_full(agent: Agent) -> bool:
    """Whether an agent knows that all 500 are there; while it asks it assumes none."""
    return (
        is_looked_at(agent, "gold") and agent.explain("gold", "mutations").level > 499.0
    )


def is_looked_at(agent: Agent, group: str) -> bool:
    """Whether an agent's thread has a ledger of a group; it looks within a moment."""
    try:
        agent.explain(group, "mutations")
    except HeadgateError:
        return False
    return True


def alone(limiter: Limiter) -> bool:
    """Whether an agent knows that nobody else uses the group."""
    (link,) = limiter.links(ONE)
    return link.bucket.window == float("inf")


def owes(limiter: Limiter) -> bool:
    """Whether a limiter would refuse for more than 5 s."""
    (link,) = limiter.links(ONE)
    return link.bucket.level_at(time.monotonic()) < -25.0


def shares(limiter: Limiter) -> bool:
    """Whether an agent knows that others use the group, too."""
    (link,) = limiter.links(ONE)
    return link.bucket.window < 200.0


def test_kip599_the_first_requests_of_a_new_limiter_find_the_whole_bucket(
    tmp_path: Path,
) -> None:
    others = ("beta", "gamma")
    with agents_of_acme(tmp_path, "a", LIMIT, others=others) as (agent,):
        known = agent.limiter(tenant="acme")
        until(lambda: alone(known), "it knows that it is alone")
        beta, gamma = agent.limiter(tenant="beta"), agent.limiter(tenant="gamma")
        began_s = time.monotonic()
        admitted = [bool(beta.try_acquire(mutations=80)) for _ in range(7)]
        told = beta.try_acquire(mutations=80)
        partial = gamma.try_acquire_some(mutations=560)
        assert admitted == [True] * 7
        assert 11.0 < told.delay_s <= 12.0
        assert partial.admitted == 501.0
        # The agent's thread counts what was spent before it looked.
        until(lambda: is_looked_at(agent, "of-beta"), "its look")
        level = agent.explain("of-beta", "mutations").level
        earned = 5.0 * (time.monotonic() - began_s)
        assert -60.0 <= level <= -60.0 + earned


def test_kip599_a_burst_of_560_leaves_60_owed_and_12_s_to_wait(
    limiter: Limiter,
) -> None:
    assert limiter.try_acquire(mutations=560)
    refused = limiter.try_acquire(mutations=1)
    assert not refused
    assert 11.0 < refused.delay_s <= 12.0


def test_kip599_seven_batches_of_80_are_admitted_and_the_eighth_waits(
    limiter: Limiter,
) -> None:
    admitted = [bool(limiter.try_acquire(mutations=80)) for _ in range(8)]
    assert admitted == [True] * 7 + [False]


def test_kip599_501_of_a_batch_of_560_are_accepted(limiter: Limiter) -> None:
    partial = limiter.try_acquire_some(mutations=560)
    assert (partial.admitted, partial.refused) == (501.0, 59.0)
    assert not partial.decision


def test_kip599_a_rested_quota_admits_seven_batches_of_80_again(
    limiter: Limiter,
) -> None:
    (link,) = limiter.links(ONE)
    assert limiter.try_acquire(mutations=1)
    until(lambda: link.bucket.level_at(time.monotonic()) > 499.99, "a full bucket")
    admitted = [bool(limiter.try_acquire(mutations=80)) for _ in range(8)]
    assert admitted == [True] * 7 + [False]


def test_kip599_a_burst_of_one_of_three_agents_is_owed_by_all_three(
    three: list[Limiter],
) -> None:
    took_s = time.monotonic()
    assert three[0].try_acquire(mutations=560)
    # Until it has heard of the burst an agent has its own part of the 500.
    until(lambda: all(map(owes, three)), "the debt")
    passed_s = time.monotonic() - took_s
    for limiter in three:
        refused = limiter.try_acquire(mutations=1)
        assert 11.0 - passed_s < refused.delay_s <= 12.0


@pytest.mark.alone
def test_kip599_seven_batches_pass_one_of_three_agents_that_heeds_its_delays(
    three: list[Limiter],
) -> None:
    refusals = 0
    for _ in range(7):
        while not (decision := three[0].try_acquire(mutations=80)):
            # One bucket would admit it at once: twice that delay, and 0.3 s.
            assert decision.delay_s <= 0.3
            refusals += 1
            time.sleep(decision.delay_s)
    assert refusals <= 7
    assert not three[0].try_acquire(mutations=80)
