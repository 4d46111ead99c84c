"""Decorator and context manager, sync and async, on the real clock."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.integration.limiter.making import make, node_limit

from headgate.agent.errors import Throttled
from headgate.agent.integrations.calls import limited

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator


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


def test_a_decorated_asynchronous_generator_waits_without_stopping_the_loop() -> None:
    limiter = make(node_limit("requests", 4, 1)).limiter(tenant="acme")
    ended: list[str] = []

    @limited(limiter, wait_s=60)
    async def stream() -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
        finally:
            ended.append("stream")

    async def main() -> None:
        limiter.charge(requests=3)  # half a second
        reading = asyncio.ensure_future(anext(stream()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.append("others")
        assert not reading.done()
        assert await reading == 0
        limiter.charge(requests=1)
        assert [number async for number in stream()] == [0, 1, 2]
        assert ended[0] == "others"

    asyncio.run(main())
    assert ended.count("stream") == 2


def test_a_decorated_asynchronous_generator_that_is_refused_says_so_at_once() -> None:
    limiter = make(node_limit("requests", 0.01, 1)).limiter(tenant="acme")

    @limited(limiter)
    async def stream() -> AsyncIterator[int]:
        yield 1

    async def main() -> None:
        limiter.charge(requests=2)
        with pytest.raises(Throttled):
            stream()

    asyncio.run(main())


@pytest.mark.parametrize("wait_s", [None, 60.0])
def test_what_is_sent_to_or_raised_in_a_decorated_generator_reaches_it(
    wait_s: float | None,
) -> None:
    limiter = make(node_limit("requests", 1000, 10)).limiter(tenant="acme")
    said: list[object] = []

    @limited(limiter, wait_s=wait_s)
    async def stream() -> AsyncGenerator[int, str]:
        try:
            said.append((yield 1))
            yield 2
        except ValueError:
            said.append("rollback")
            yield 3
        finally:
            said.append("end")

    async def main() -> None:
        items = stream()
        assert await anext(items) == 1
        assert await items.asend("hi") == 2
        assert await items.athrow(ValueError()) == 3
        await items.aclose()

    asyncio.run(main())
    assert said == ["hi", "rollback", "end"]


def test_a_generator_that_is_decorated_twice_stops_the_loop_neither_time() -> None:
    enforcer = make(node_limit("requests", 4, 1))
    scarce, plenty = enforcer.limiter(tenant="acme"), enforcer.limiter(tenant="other")

    @limited(scarce, wait_s=60)
    @limited(plenty)
    async def stream() -> AsyncIterator[int]:
        yield 1

    async def main() -> None:
        scarce.charge(requests=2)
        reading = asyncio.ensure_future(anext(stream()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not reading.done()
        assert await reading == 1

    asyncio.run(main())


def test_a_generator_that_waited_in_vain_is_over() -> None:
    limiter = make(node_limit("requests", 0.01, 1)).limiter(tenant="acme")

    @limited(limiter, wait_s=0.01)
    async def stream() -> AsyncGenerator[int, None]:
        yield 1

    async def main() -> None:
        limiter.charge(requests=2)
        items = stream()
        with pytest.raises(Throttled):
            await anext(items)
        assert [item async for item in items] == []

    asyncio.run(main())
