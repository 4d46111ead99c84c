"""Decorator and context manager, sync and async, on the real clock."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.integration.limiter.making import make, node_limit

from headgate.agent.errors import Throttled
from headgate.agent.integrations.calls import limited


def test_a_decorated_function_raises_when_its_quota_is_used_up() -> None:
    limiter = make(node_limit("requests", 0.01, 2)).limiter(tenant="acme")

    @limited(limiter)
    def add(one: int, other: int) -> int:
        """Add."""
        return one + other

    assert [add(1, 2) for _ in range(3)] == [3, 3, 3]
    with pytest.raises(Throttled, match="retry in") as caught:
        add(1, 2)
    assert 90.0 < caught.value.decision.delay_s <= 100.0
    assert add.__doc__ == "Add."


def test_a_decorated_coroutine_waits_where_the_group_says_so() -> None:
    enforcer = make(node_limit("requests", 50, 1), refusal="wait")

    @limited(enforcer.limiter(tenant="acme"))
    async def one() -> int:
        return 1

    async def main() -> int:
        return sum(await asyncio.gather(*(one() for _ in range(10))))

    began = time.monotonic()
    assert asyncio.run(main()) == 10
    assert time.monotonic() - began >= 8 / 50


def test_a_block_waits_as_long_as_it_was_told() -> None:
    limiter = make(node_limit("tokens", 100, 10)).limiter(tenant="acme")
    with limited(limiter, tokens=20) as admitted:
        assert admitted.decision
    with limited(limiter, wait_s=5.0, tokens=1):
        pass
    limiter.charge(tokens=1_000)
    with (
        pytest.raises(Throttled, match="deadline"),
        limited(limiter, wait_s=0.05, tokens=1),
    ):
        pass


def test_an_asynchronous_block_waits_too() -> None:
    limiter = make(node_limit("tokens", 100, 10)).limiter(tenant="acme")

    async def main() -> None:
        async with limited(limiter, tokens=12):
            pass
        async with limited(limiter, wait_s=5.0, tokens=1) as admitted:
            assert admitted.decision

    asyncio.run(main())


def test_threads_that_wait_are_woken_in_their_turn() -> None:
    limiter = make(node_limit("requests", 100, 1)).limiter(tenant="acme")
    began = time.monotonic()
    assert limiter.try_acquire(requests=5)
    decisions = [limiter.wait(timeout_s=10.0, requests=1) for _ in range(5)]
    assert all(decisions)
    assert time.monotonic() - began >= 7 / 100
