"""What an integration needs of an agent, and the limiters that it holds ready."""

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
"""Limiters held ready by one integration: about 1 kB each.  One that is let go is made
again when its subject comes back; its buckets are kept while they hold a debt."""


class LimiterSource(Protocol):
    """An agent, or an enforcer."""

    def limiter(self, **names: Unpack[SubjectNames]) -> Limiter:
        """Return the limiter of a subject."""
        ...


class DispatchSource(LimiterSource, Protocol):
    """The same, and what the configuration says of dispatch."""

    @property
    def dispatch_options(self) -> DispatchOptions:
        """How dispatch is counted at present."""
        ...


class UsageSource(Protocol):
    """What can tell the counters of every limit."""

    def usage(self) -> list[Usage]:
        """Return the counters now."""
        ...


class SubjectCache(Generic[Held]):
    """What is held ready of the subjects that came last; thread-safe."""

    def __init__(
        self,
        source: LimiterSource,
        make: Callable[[Limiter], Held],
        *,
        most: int = MOST_LIMITERS,
    ) -> None:
        """Hold nothing yet.

        Args:
            source: Where limiters come from.
            make: From a subject's limiter to what is held.
            most: How many are held.
        """
        self._source = source
        self._make = make
        self._most = most
        self._lock = threading.Lock()
        self._held: dict[tuple[tuple[str, str | None], ...], Held] = {}

    def __len__(self) -> int:
        """Return how many are held."""
        return len(self._held)

    def get(self, subject: Mapping[str, str | None]) -> Held:
        """Return what is held of a subject, such as ``{"tenant": "acme"}``."""
        key = tuple(subject.items())
        # No lock and no bookkeeping where it matters: the oldest made goes first,
        # not the one that was used longest ago.
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
