"""A function or a block under a limit: decorator and context manager in one.

::

    @limited(limiter, requests=1)
    async def handler(): ...

    with limited(limiter, tokens=500, wait_s=2.0):
        ...
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, cast

from headgate.agent.errors import Throttled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
        self._wait_s = wait_s
        self._costs = costs or {"requests": 1.0}
        self.decision: Decision | None = None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Apply the limit to a function or coroutine function."""
        if inspect.iscoroutinefunction(function):
            call = cast("Callable[P, Awaitable[object]]", function)

            @wraps(function)
            async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> object:
                await self._admit_async()
                return await call(*args, **kwargs)

            return cast("Callable[P, R]", asynchronous)

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

    def _admit(self) -> None:
        limiter, costs = self._limiter, self._costs
        if self._wait_s is not None:
            decision = limiter.wait(timeout_s=self._wait_s, **costs)
        elif limiter.waits(costs):
            decision = limiter.wait(**costs)
        else:
            decision = limiter.try_acquire(**costs)
        self._judge(decision)

    async def _admit_async(self) -> None:
        limiter, costs = self._limiter, self._costs
        if self._wait_s is not None:
            decision = await limiter.wait_async(timeout_s=self._wait_s, **costs)
        elif limiter.waits(costs):
            decision = await limiter.wait_async(**costs)
        else:
            decision = limiter.try_acquire(**costs)
        self._judge(decision)

    def _judge(self, decision: Decision) -> None:
        self.decision = decision
        if not decision:
            raise Throttled(decision)
