"""Divides a node's share of a group among its topics, evenly or by use.

PIP-82 leaves open how a broker divides its share among the topics that it serves; both
ways that it names are here.  The group's own bucket still bounds them together; the
parts only keep one topic from taking everything.

`SplitBuckets` serves groups with `split`, and `TopicSplit` a broker that divides by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from headgate.agent.bucket.bucket import Bucket
from headgate.agent.bucket.local import LocalBucket
from headgate.agent.enforcement.retained_buckets import RetainedBuckets

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from headgate.coordinator.config.configuration import Group, Split

NEWCOMER_PART = 0.1
"""Fraction of an even part that every topic gets at least, so that one that was silent
can show its use."""

DEAL_S = 1.0
"""How often the parts are recomputed: as often as shares."""

BURST_S = 1.0
"""A topic's burst, in seconds of its part."""

MOST_TOPICS = 100_000
"""Most topics of one split; more is a leak."""

MOVED = 0.1
"""If the rate to divide moves by this fraction, the parts follow at once: as much as
makes a report urgent."""


def parts_of(
    rate: float, use: Mapping[Hashable, float], how: Split
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
        self, rate_of: Callable[[], float], *, how: Split, clock: Callable[[], float]
    ) -> None:
        """Begin without topics.

        Args:
            rate_of: Returns the local rate to divide, such as a usage's `rate`,
                units/s.
            how: ``even`` or ``proportional``.
            clock: Seconds, monotonic.
        """
        self._rate_of = rate_of
        self._how: Split = how
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
        """Remove a topic and its part."""
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


PartKey = tuple[int, str, str, str]
"""Group id, dimension, scope, topic."""


@dataclass(slots=True, eq=False, kw_only=True)
class TopicPart(LocalBucket):
    """One topic's part of what a process may spend of a limit.

    Attributes:
        whole: The bucket whose rate is divided; it is charged as well.
        counted: Units attempted until the parts were last dealt.
        use: Units/s attempted between the last two deals.
    """

    whole: LocalBucket
    counted: float = 0.0
    use: float = 0.0


class SplitBuckets:
    """The parts of the topics of one process, of all groups with `split`.

    A refusal by a part counts as demand of the group too, so the process's share does
    not shrink because one of its topics is held back.

    Not thread-safe: the enforcer holds its lock around every method.
    """

    def __init__(self) -> None:
        """Start without topics."""
        self._parts: WeakValueDictionary[PartKey, TopicPart] = WeakValueDictionary()
        self._kept = RetainedBuckets()
        self._dealt: dict[LocalBucket, float] = {}
        self._dealt_s = 0.0
        self._due = False

    def __iter__(self) -> Iterator[LocalBucket]:
        """Iterate over the buckets."""
        return iter(list(self._parts.values()))

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._parts)

    def get(
        self, whole: LocalBucket, topic: str | None, now: float
    ) -> LocalBucket | None:
        """Return a topic's part of a bucket; None if it has no part of its own."""
        group, limit = whole.group, whole.limit
        if (
            group.split is None
            or topic is None
            or limit.rate == inf
            or limit.period is not None
        ):
            return None
        key = (group.id, limit.dimension, limit.scope, topic)
        part = self._parts.get(key)
        if part is None:
            part = TopicPart(
                _of_topic(group, topic),
                replace(limit, scope="node"),
                Bucket(now, rate=0.0, capacity=0.0),
                0.0,
                whole=whole,
            )
            self._parts[key] = part
            beside = sum(each.whole is whole for each in self._parts.values())
            _set(part, _divided(whole) / beside, now)
            part.bucket.fill()
            self._due = True
        part.whole = whole
        self._kept.keep(part, now)
        return part

    def follow(self, groups: Mapping[int, Group], now: float) -> None:
        """Adopt a new configuration; buckets keep what they hold."""
        held = self._kept.take_all()  # kept alive until the end of this method
        for key, part in list(self._parts.items()):
            group = groups.get(key[0])
            limits = () if group is None or group.split is None else group.limits
            found = [x for x in limits if (x.dimension, x.scope) == key[1:3]]
            if group is None or not found or found[0].rate == inf:
                del self._parts[key]
            else:
                part.group = _of_topic(group, key[3])
                part.limit = replace(found[0], scope="node")
                self._kept.keep(part, now)
        self._due = True
        held.clear()

    def tick(self, now: float) -> None:
        """Drop what nobody uses; divide again when it is time."""
        self._kept.let_go(now)
        if not self._parts:
            return
        elapsed = now - self._dealt_s
        if not 0.0 <= elapsed < DEAL_S:
            self._measure(max(elapsed, 1e-9))
            self._dealt_s, self._due = now, True
        if self._due or any(_moved(*pair) for pair in self._dealt.items()):
            self._due = False
            self._deal(now)

    def _measure(self, elapsed: float) -> None:
        for part in list(self._parts.values()):
            attempted = part.bucket.admitted + part.bucket.refused
            part.use = (attempted - part.counted) / elapsed
            part.counted = attempted

    def _deal(self, now: float) -> None:
        topics: dict[LocalBucket, list[TopicPart]] = {}
        for part in list(self._parts.values()):
            topics.setdefault(part.whole, []).append(part)
        self._dealt = {}
        for whole, parts in topics.items():
            self._dealt[whole] = rate = _divided(whole)
            use: dict[Hashable, float] = {part: part.use for part in parts}
            divided = parts_of(rate, use, whole.group.split or "even")
            for part in parts:
                _set(part, divided[part], now)


def _divided(whole: LocalBucket) -> float:
    """Return the units/s to divide: the ceiling, or a strict group's share."""
    return max(whole.bucket.ceiling, whole.share)


def _moved(whole: LocalBucket, dealt: float) -> bool:
    return abs(_divided(whole) - dealt) > MOVED * dealt


def _set(part: TopicPart, rate: float, now: float) -> None:
    """Refill a part at a rate, with the same part of the limit's burst."""
    part.share = rate
    whole = part.limit.rate_per_s
    if rate > 0.0 and whole > 0.0:
        capacity = part.limit.burst * min(rate / whole, 1.0)
        part.bucket.set_rate_at(now, rate=rate, capacity=capacity)
    else:
        part.bucket.close_at(now)


def _of_topic(group: Group, topic: str) -> Group:
    """Return a group with the name that decisions and metrics use."""
    return replace(group, name=f"{group.name} of topic {topic}")
