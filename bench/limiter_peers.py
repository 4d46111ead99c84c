"""The other rate limiters of Python, each behind `attempt(key) -> admitted`.

Each is set up as its own documentation shows for a limit in memory, in the cheapest
way that it offers.  Their newest releases are in the extra ``bench``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Module = Any
"""The peers have few type hints."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One library.

    Attributes:
        name: Name of the package.
        keyed: Has limits per key; else `attempt` ignores it.
        make: From (rate per second, burst) to `attempt`.
    """

    name: str
    keyed: bool
    make: Callable[[int, int], Callable[[str], bool]]

    @property
    def version(self) -> str:
        """Version of the installed release, or empty."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return ""


def _limits(rate: int, _: int) -> Callable[[str], bool]:
    limits: Module = import_module("limits")
    strategies: Module = import_module("limits.strategies")
    storage: Module = import_module("limits.storage")
    limiter = strategies.FixedWindowRateLimiter(storage.MemoryStorage())
    item = limits.RateLimitItemPerSecond(rate)
    return lambda key: bool(limiter.hit(item, key))


def _throttled(rate: int, burst: int) -> Callable[[str], bool]:
    throttled: Module = import_module("throttled")
    throttle = throttled.Throttled(
        using=throttled.RateLimiterType.TOKEN_BUCKET.value,
        quota=throttled.per_sec(rate, burst=burst),
        store=throttled.MemoryStore(options={"MAX_SIZE": 200_000}),
    )
    return lambda key: not throttle.limit(key).limited


def _pyrate(rate: int, _: int) -> Callable[[str], bool]:
    pyrate: Module = import_module("pyrate_limiter")
    limiter = pyrate.Limiter(pyrate.Rate(rate, pyrate.Duration.SECOND))
    return lambda key: bool(limiter.try_acquire(key, blocking=False))


def _token_bucket(rate: int, burst: int) -> Callable[[str], bool]:
    token_bucket: Module = import_module("token_bucket")
    limiter = token_bucket.Limiter(rate, burst, token_bucket.MemoryStorage())
    return lambda key: bool(limiter.consume(key))


def _ratelimit(rate: int, _: int) -> Callable[[str], bool]:
    ratelimit: Module = import_module("ratelimit")
    limited = ratelimit.RateLimitDecorator(calls=rate, period=1, raise_on_limit=False)(
        lambda: True
    )
    return lambda _: limited() is not None


def _aiolimiter(rate: int, burst: int) -> Callable[[str], bool]:
    """Ask `has_capacity`, which doesn't wait, and acquire only if there is some.

    Its `acquire` is a coroutine; driven by hand it needs no event loop.
    """
    aiolimiter: Module = import_module("aiolimiter")
    limiter = aiolimiter.AsyncLimiter(burst, burst / rate)
    limiter._event_loop = asyncio.new_event_loop()  # only asked for the time

    def attempt(_: str) -> bool:
        if not limiter.has_capacity():
            return False
        try:
            limiter.acquire().send(None)
        except StopIteration:
            return True
        return False

    return attempt


PEERS = (
    Peer("limits", True, _limits),
    Peer("throttled-py", True, _throttled),
    Peer("pyrate-limiter", False, _pyrate),
    Peer("token-bucket", True, _token_bucket),
    Peer("ratelimit", False, _ratelimit),
    Peer("aiolimiter", False, _aiolimiter),
)
