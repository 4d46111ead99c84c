"""What an integration needs from an agent, and its cache of limiters."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headgate.agent.bucket.local import Usage
    from headgate.agent.follow.policies import DispatchOptions
    from headgate.agent.follow.subject import SubjectNames
    from headgate.agent.limiter.limiter import Limiter

Held = TypeVar("Held")

MOST_LIMITERS = 10_000
"""Most limiters cached by one integration, at about 1 kB each.  An evicted one is made
again when its subject returns; its buckets are kept while they are in debt."""


class LimiterSource(Protocol):
    """An agent, or an enforcer."""

    def limiter(self, **names: Unpack[SubjectNames]) -> Limiter:
        """Return the limiter of a subject."""
        ...


class DispatchSource(LimiterSource, Protocol):
    """A source that also knows how the configuration counts dispatch."""

    @property
    def dispatch_options(self) -> DispatchOptions:
        """How dispatch is counted at present."""
        ...


class UsageSource(Protocol):
    """Anything that knows the counters of every limit."""

    def usage(self) -> list[Usage]:
        """Return the counters now."""
        ...


class SubjectCache(Generic[Held]):
    """A cache by subject, of the newest subjects; thread-safe."""

    def __init__(
        self,
        source: LimiterSource,
        make: Callable[[Limiter], Held],
        *,
        most: int = MOST_LIMITERS,
    ) -> None:
        """Begin empty.

        Args:
            source: Where limiters come from.
            make: Makes the cached object from a subject's limiter.
            most: Most cached objects.
        """
        self._source = source
        self._make = make
        self._most = most
        self._lock = threading.Lock()
        self._held: dict[tuple[tuple[str, str | None], ...], Held] = {}

    def __len__(self) -> int:
        """Return the number of cached objects."""
        return len(self._held)

    def get(self, subject: Mapping[str, str | None]) -> Held:
        """Return the cached object of a subject, such as ``{"tenant": "acme"}``."""
        key = tuple(subject.items())
        # No lock and no bookkeeping on the fast path, so the oldest entry is evicted,
        # not the least recently used.
        held = self._held.get(key)
        if held is None:
            held = self._make(self._source.limiter(**subject))
            with self._lock:
                while len(self._held) >= self._most:
                    del self._held[next(iter(self._held))]
                self._held[key] = held
        return held


def limiter_cache(source: LimiterSource) -> SubjectCache[Limiter]:
    """Return a cache of limiters."""
    return SubjectCache(source, lambda limiter: limiter)
