"""A function or a block under a limit: decorator and context manager in one.

::

    @limited(limiter, requests=1)
    async def handler(): ...

    with limited(limiter, tokens=500, wait_s=2.0):
        ...
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from functools import wraps
from math import inf
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast
from weakref import WeakSet

from headgate.agent.errors import Throttled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headgate.agent.decision import Decision
    from headgate.agent.limiter.limiter import Limiter

_STREAMING: WeakSet[Callable[..., object]] = WeakSet()
"""What `limited` made of asynchronous generators: functions that return one."""

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

        if inspect.isasyncgenfunction(function) or function in _STREAMING:
            make = cast("Callable[P, AsyncGenerator[object]]", function)

            @wraps(function)
            def streaming(*args: P.args, **kwargs: P.kwargs) -> object:
                if self._waits():
                    return _AfterWaiting(self._admit_async, make(*args, **kwargs))
                self._admit()
                return make(*args, **kwargs)

            _STREAMING.add(streaming)
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

    def _judge(self, decision: Decision) -> None:
        self.decision = decision
        if not decision:
            raise Throttled(decision)


class _AfterWaiting(AsyncGenerator[object, Any]):
    """An asynchronous generator that begins once its call is admitted."""

    def __init__(
        self, admit: Callable[[], Awaitable[None]], items: AsyncGenerator[object, Any]
    ) -> None:
        self._admit: Callable[[], Awaitable[None]] | None = admit
        self._items = items

    async def asend(self, value: Any) -> object:
        """Wait for admission first; a call that is refused has no items."""
        admit, self._admit = self._admit, None
        if admit is not None:
            try:
                await admit()
            except BaseException:
                await self._items.aclose()
                raise
        return await self._items.asend(value)

    async def athrow(self, *error: Any) -> object:
        """Raise in the generator, where it has come to."""
        return await self._items.athrow(*error)
