"""Divides a node's share of a group among its topics, evenly or by use.

PIP-82 leaves open how a broker divides its share among the topics that it serves; both
of the ways it names are here.  The group's own bucket still bounds them together; the
parts only keep one topic from taking everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from headgate.agent.bucket.bucket import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

How = Literal["even", "proportional"]

NEWCOMER_PART = 0.1
"""Fraction of an even part that every topic gets at least, so that one that was silent
can show its use."""

DEAL_S = 1.0
"""How often the parts are recomputed: as often as shares."""

BURST_S = 1.0
"""A topic's burst, in seconds of its part."""

MOST_TOPICS = 100_000
"""Most topics of one split; more is a leak."""


def parts_of(
    rate: float, use: Mapping[Hashable, float], how: How
) -> dict[Hashable, float]:
    """Return each topic's part of a rate; they add up to it.

    Args:
        rate: Units/s to divide.
        use: Units/s that each topic attempts.
        how: ``even`` or ``proportional``.
    """
    if not use:
        return {}
    even = rate / len(use)
    total = sum(use.values())
    if how == "even" or total <= 0.0:
        return dict.fromkeys(use, even)
    least = even * NEWCOMER_PART
    rest = rate - least * len(use)
    return {topic: least + rest * units / total for topic, units in use.items()}


class TopicSplit:
    """The topics of one node that share one group's local rate.

    Not thread-safe: the owner of the topics calls it.
    """

    def __init__(
        self, rate_of: Callable[[], float], *, how: How, clock: Callable[[], float]
    ) -> None:
        """Begin without topics.

        Args:
            rate_of: Returns the local rate to divide, such as a usage's `rate`,
                units/s.
            how: ``even`` or ``proportional``.
            clock: Seconds, monotonic.
        """
        self._rate_of = rate_of
        self._how: How = how
        self._clock = clock
        self._buckets: dict[Hashable, Bucket] = {}
        self._counted: dict[Hashable, float] = {}
        self._dealt_s = clock()

    def parts(self) -> dict[Hashable, float]:
        """Return the present units/s of each topic."""
        return {topic: bucket.ceiling for topic, bucket in self._buckets.items()}

    def add(self, topic: Hashable) -> None:
        """Give a topic a part."""
        if topic not in self._buckets:
            if len(self._buckets) >= MOST_TOPICS:
                raise ValueError(f"expected at most {MOST_TOPICS} topics")
            self._buckets[topic] = Bucket(self._clock(), rate=1.0, capacity=1.0)
            self._counted[topic] = 0.0
            self._deal(self._clock())

    def remove(self, topic: Hashable) -> None:
        """Take a topic's part away."""
        if self._buckets.pop(topic, None) is not None:
            del self._counted[topic]
            self._deal(self._clock())

    def try_acquire(self, topic: Hashable, cost: float = 1.0) -> float:
        """Return 0 when a topic's part admits, else the delay in seconds."""
        now = self._clock()
        if now - self._dealt_s >= DEAL_S:
            self._deal(now)
        return self._buckets[topic].try_acquire_at(now, cost)

    def _deal(self, now: float) -> None:
        elapsed = max(now - self._dealt_s, 1e-9)
        use: dict[Hashable, float] = {}
        for topic, bucket in self._buckets.items():
            attempted = bucket.admitted + bucket.refused
            use[topic] = (attempted - self._counted[topic]) / elapsed
            self._counted[topic] = attempted
        self._dealt_s = now
        for topic, rate in parts_of(self._rate_of(), use, self._how).items():
            self._buckets[topic].set_rate_at(
                now, rate=rate, capacity=max(rate * BURST_S, 1.0)
            )
