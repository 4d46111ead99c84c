"""A function or a block under a limit: decorator and context manager in one.

::

    @limited(limiter, requests=1)
    async def handler(): ...

    with limited(limiter, tokens=500, wait_s=2.0):
        ...
"""

from __future__ import annotations

import inspect
from contextlib import aclosing
from functools import wraps
from math import inf
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, cast

from headgate.agent.errors import Throttled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from headgate.agent.decision import Decision
    from headgate.agent.limiter.limiter import Limiter

P = ParamSpec("P")
R = TypeVar("R")


class limited:  # noqa: N801 RUF100  # read as a word: `@limited(...)`, `with limited(...)`
    """Admits a call or a block, or raises `Throttled`.

    Attributes:
        decision: The decision of the last attempt.
    """

    def __init__(
        self, limiter: Limiter, *, wait_s: float | None = None, **costs: float
    ) -> None:
        """Charge `costs` before each call or block.

        Args:
            limiter: Its limits apply.
            wait_s: Longest wait in the fair queue before raising; with None, only
                groups in mode ``wait`` wait, without a limit.
            costs: Units by dimension; one unit of ``requests`` by default.
        """
        self._limiter = limiter
        self._always_waits = wait_s is not None
        self._wait_s = inf if wait_s is None else wait_s
        self._costs = costs or {"requests": 1.0}
        self.decision: Decision | None = None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Apply the limit to a function, also one that is asynchronous or a generator.

        A call that may wait must not hold up the event loop, so an asynchronous
        generator waits when its first item is asked for; otherwise it raises when it is
        called.
        """
        if inspect.iscoroutinefunction(function):
            call = cast("Callable[P, Awaitable[object]]", function)

            @wraps(function)
            async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> object:
                await self._admit_async()
                return await call(*args, **kwargs)

            return cast("Callable[P, R]", asynchronous)

        if inspect.isasyncgenfunction(function):
            make = cast("Callable[P, AsyncGenerator[object]]", function)

            @wraps(function)
            def streaming(*args: P.args, **kwargs: P.kwargs) -> object:
                if self._waits():
                    return self._stream_after_waiting(make(*args, **kwargs))
                self._admit()
                return make(*args, **kwargs)

            return cast("Callable[P, R]", streaming)

        @wraps(function)
        def synchronous(*args: P.args, **kwargs: P.kwargs) -> R:
            self._admit()
            return function(*args, **kwargs)

        return synchronous

    def __enter__(self) -> Self:
        """Admit the block, or raise `Throttled`."""
        self._admit()
        return self

    def __exit__(self, *_: object) -> None:
        """Return nothing: what was admitted has been used."""

    async def __aenter__(self) -> Self:
        """Admit the block, or raise `Throttled`."""
        await self._admit_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Return nothing: what was admitted has been used."""

    def _waits(self) -> bool:
        return self._always_waits or self._limiter.waits(self._costs)

    def _admit(self) -> None:
        limiter, costs = self._limiter, self._costs
        if self._waits():
            decision = limiter.wait(timeout_s=self._wait_s, **costs)
        else:
            decision = limiter.try_acquire(**costs)
        self._judge(decision)

    async def _admit_async(self) -> None:
        limiter, costs = self._limiter, self._costs
        if self._waits():
            decision = await limiter.wait_async(timeout_s=self._wait_s, **costs)
        else:
            decision = limiter.try_acquire(**costs)
        self._judge(decision)

    async def _stream_after_waiting(
        self, items: AsyncGenerator[object]
    ) -> AsyncGenerator[object]:
        await self._admit_async()
        async with aclosing(items):
            async for item in items:
                yield item

    def _judge(self, decision: Decision) -> None:
        self.decision = decision
        if not decision:
            raise Throttled(decision)
