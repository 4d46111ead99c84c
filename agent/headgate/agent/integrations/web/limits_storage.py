"""A storage for `limits`: slowapi and flask-limiter run unchanged with another URI.

::

    import headgate.limits                     # registers the scheme

    Limiter(get_remote_address, app=app, storage_uri="headgate://127.0.0.1:8080")

"10 per minute" is then a token bucket of 10 that refills at 10 a minute, one for all
processes, whatever the strategy is called: fixed windows, moving windows and sliding
counters differ in how they approximate that.  Options, in the URI's query or as
`storage_options`: ``token``, of the role *operator*; ``ca_file``; ``agent``;
``most_keys``.  ``headgates://`` speaks TLS, ``async+headgate://`` is for `limits.aio`.

Everything is answered from memory; see `headgate.agent.integrations.web.key_groups`.
"""

from __future__ import annotations

import asyncio
import time
from math import floor
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage import SlidingWindowCounterSupport as AsyncSlidingSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.errors import ConfigurationError
from limits.limits import GRANULARITIES
from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage

from headgate.agent.bucket.costs import MOST_COST
from headgate.agent.errors import HeadgateError
from headgate.agent.follow.certificates import trusting
from headgate.agent.integrations import process_agents
from headgate.agent.integrations.web.key_groups import MOST_KEYS, KeyGroups, Quota

OPTIONS = ("token", "ca_file", "agent", "most_keys")


class HeadgateStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    """What `limits` calls, answered by one quota for each limit and key."""

    STORAGE_SCHEME: ClassVar[list[str]] = ["headgate", "headgates"]  # type: ignore[misc]  # pyright: ignore[reportIncompatibleVariableOverride]  # never changed

    def __init__(
        self, uri: str, wrap_exceptions: bool = False, **options: float | str | bool
    ) -> None:
        """Join the cluster of the API that the URI names.

        Raises:
            ConfigurationError: The URI or an option is wrong; says which.
        """
        super().__init__(uri, wrap_exceptions, **options)
        self.keys = _key_groups(uri, options)

    @property
    def base_exceptions(self) -> type[Exception]:
        """What may be raised, and is wrapped when the application says so."""
        return HeadgateError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Return a count within the limit when the cost is admitted, else above it."""
        return _incr(self.keys, key, amount)

    def get(self, key: str) -> int:
        """Return how much of the limit is used."""
        return _used(self.keys, key)

    def get_expiry(self, key: str) -> float:
        """Return when the next unit is available, or else all are, as Unix time."""
        return _expiry(self.keys, key)

    def check(self) -> bool:
        """Return whether the API answers; limits are kept while it does not."""
        return self.keys.reachable()

    def reset(self) -> int | None:
        """Not supported: what was used is in the memory of all processes.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_NO_RESET)

    def clear(self, key: str) -> None:
        """Not supported, like `reset`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_NO_RESET)

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Admit or refuse."""
        return _admits(self.keys, key, Quota(limit, expiry), amount)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return when the window began, as Unix time, and how much of it is used."""
        return _expiry(self.keys, key) - expiry, _used(self.keys, key)

    def acquire_sliding_window_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        """Admit or refuse."""
        return _admits(self.keys, key, Quota(limit, expiry), amount)

    def get_sliding_window(
        self, key: str, expiry: int
    ) -> tuple[int, float, int, float]:
        """Return 0 for the previous window, and how much of this one is used."""
        return 0, 0.0, _used(self.keys, key), _expiry(self.keys, key) - time.time()

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Not supported, like `reset`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_NO_RESET)


class AsyncHeadgateStorage(AsyncStorage, AsyncMovingWindowSupport, AsyncSlidingSupport):
    """`HeadgateStorage` for `limits.aio`."""

    STORAGE_SCHEME: ClassVar[list[str]] = ["async+headgate", "async+headgates"]  # type: ignore[misc]  # pyright: ignore[reportIncompatibleVariableOverride]  # never changed

    def __init__(
        self, uri: str, wrap_exceptions: bool = False, **options: float | str | bool
    ) -> None:
        """Join the cluster of the API that the URI names.

        Raises:
            ConfigurationError: The URI or an option is wrong; says which.
        """
        super().__init__(uri, wrap_exceptions, **options)
        self.keys = _key_groups(uri.removeprefix("async+"), options)

    @property
    def base_exceptions(self) -> type[Exception]:
        """What may be raised, and is wrapped when the application says so."""
        return HeadgateError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Return a count within the limit when the cost is admitted, else above it."""
        return _incr(self.keys, key, amount)

    async def get(self, key: str) -> int:
        """Return how much of the limit is used."""
        return _used(self.keys, key)

    async def get_expiry(self, key: str) -> float:
        """Return when the next unit is available, or else all are, as Unix time."""
        return _expiry(self.keys, key)

    async def check(self) -> bool:
        """Return whether the API answers; limits are kept while it does not."""
        return await asyncio.to_thread(self.keys.reachable)

    async def reset(self) -> int | None:
        """Not supported: what was used is in the memory of all processes.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_NO_RESET)

    async def clear(self, key: str) -> None:
        """Not supported, like `reset`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_NO_RESET)

    async def acquire_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        """Admit or refuse."""
        return _admits(self.keys, key, Quota(limit, expiry), amount)

    async def get_moving_window(
        self, key: str, limit: int, expiry: int
    ) -> tuple[float, int]:
        """Return when the window began, as Unix time, and how much of it is used."""
        return _expiry(self.keys, key) - expiry, _used(self.keys, key)

    async def acquire_sliding_window_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        """Admit or refuse."""
        return _admits(self.keys, key, Quota(limit, expiry), amount)

    async def get_sliding_window(
        self, key: str, expiry: int
    ) -> tuple[int, float, int, float]:
        """Return 0 for the previous window, and how much of this one is used."""
        return 0, 0.0, _used(self.keys, key), _expiry(self.keys, key) - time.time()

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Not supported, like `reset`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_NO_RESET)


_NO_RESET = (
    "a Headgate quota can't be reset, because all processes keep its use in memory;"
    " change the limit, or wait until it has refilled"
)


def _admits(keys: KeyGroups, key: str, quota: Quota, amount: int) -> bool:
    if not quota.amount:  # nothing that could be shared
        return False
    return bool(keys.try_acquire(key, quota, min(amount, MOST_COST)))


def _incr(keys: KeyGroups, key: str, amount: int) -> int:
    quota = quota_of(key)
    if _admits(keys, key, quota, amount):
        return min(_used(keys, key), int(quota.amount))
    return int(quota.amount) + amount


def _used(keys: KeyGroups, key: str) -> int:
    quota = quota_of(key)
    level = keys.level(key, quota)[0] if quota.amount else 0.0
    return int(quota.amount) - min(max(floor(level), 0), int(quota.amount))


def _expiry(keys: KeyGroups, key: str) -> float:
    quota = quota_of(key)
    if not quota.amount:
        return time.time() + quota.period_s
    level, delay_s = keys.level(key, quota)
    full_in_s = max(quota.amount - level, 0.0) * quota.period_s / quota.amount
    # Of a full bucket, as of a new window: if it has just refused a cost above the
    # limit, the client must not come back at once.
    return time.time() + (delay_s or full_in_s or quota.period_s)


def quota_of(key: str) -> Quota:
    """Return the limit that ends a key: ``LIMITER/127.0.0.1/10/1/minute``.

    For a fixed window, `limits` gives a storage only the key.

    Raises:
        ConfigurationError: The key does not end like that.
    """
    parts = key.rsplit("/", 3)
    try:
        _, amount, multiples, granularity = parts
        seconds = GRANULARITIES[granularity].GRANULARITY.seconds
        quota = Quota(int(amount), int(multiples) * seconds)
    except (ValueError, KeyError):
        quota = Quota(0.0, 0.0)
    if quota.amount < 0.0 or quota.period_s <= 0.0:
        raise ConfigurationError(
            "expected a key that ends with amount, multiples and unit, such as"
            f" .../10/1/minute, got {key[-60:]!r}"
        )
    return quota


def _key_groups(uri: str, given: dict[str, float | str | bool]) -> KeyGroups:
    parts = urlsplit(uri)
    options = {**dict(parse_qsl(parts.query)), **given}
    for name in options:
        if name not in OPTIONS:
            raise ConfigurationError(
                f"{parts.scheme}://: expected options among {', '.join(OPTIONS)}, got"
                f" {name!r:.40}"
            )
    scheme = "https" if parts.scheme == "headgates" else "http"
    url = f"{scheme}://{parts.netloc}{parts.path}"
    token, ca_file = str(options.get("token", "")), str(options.get("ca_file", ""))
    try:
        most_keys = int(options.get("most_keys", MOST_KEYS))
    except ValueError:
        most_keys = 0
    if most_keys <= 0:
        raise ConfigurationError(
            f"most_keys: expected a number > 0, got {options['most_keys']!r:.40}"
        )
    try:
        # The agent admits before its first configuration: until then the key's own
        # bucket of this process decides.
        keys = KeyGroups(
            process_agents.process_agent(
                {
                    "url": url,
                    "agent": str(options.get("agent", "")) or None,
                    "token": token or None,
                    "ca_file": ca_file or None,
                }
            ),
            url,
            token=token or None,
            trust=trusting(ca_file) if ca_file else None,
            most_keys=most_keys,
        )
    except HeadgateError as error:
        raise ConfigurationError(f"{parts.scheme}://: {error}") from error
    process_agents.before_close(keys.close)
    return keys
