"""The buckets of rate policies: one for each topic, subscription or consumer in use.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from headgate.agent.bucket.bucket import Bucket
from headgate.agent.bucket.chain import Link
from headgate.agent.bucket.local import LocalBucket
from headgate.agent.decision import LimitName
from headgate.agent.enforcement.retained_buckets import RetainedBuckets
from headgate.agent.follow.policies import NO_POLICIES, RULES, owner_of
from headgate.coordinator.config.configuration import Group, Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.agent.follow.policies import Kind, Level, Owner, Policies, RatePolicy
    from headgate.agent.follow.subject import Subject
    from headgate.coordinator.config.configuration import Refusal as RefusalMode

MEASURE_S = 1.0
"""How often publish rates are measured: as often as shares are dealt."""

MEASURE_WEIGHT = 0.3
"""Weight of the newest second in the average publish rate."""

Key = tuple["Kind", str, "Owner"]
"""Kind of policy, dimension, owner."""

MeterKey = tuple[str, str]
"""Dimension of publishing, topic."""


@dataclass(slots=True, eq=False)
class Meter(LocalBucket):
    """Counts what is published on one topic; limits nothing.

    Attributes:
        since_s: When the rate was measured last.
        units: Units published until then.
        published: Units/s; None before the first measurement.
    """

    since_s: float = 0.0
    units: float = 0.0
    published: float | None = None


class PolicyBuckets:
    """All buckets of policies in this process.

    Attributes:
        policies: The policies in force.
    """

    def __init__(self) -> None:
        """Begin without policies."""
        self.policies: Policies = NO_POLICIES
        self._buckets: WeakValueDictionary[Key, LocalBucket] = WeakValueDictionary()
        self._meters: WeakValueDictionary[MeterKey, Meter] = WeakValueDictionary()
        self._kept = RetainedBuckets()
        self._measured_s = -inf
        # The store's group ids are positive; these are negative, to differ.
        self._ids = count(-1, -1)

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._buckets)

    def __iter__(self) -> Iterator[LocalBucket]:
        """Iterate over the buckets."""
        return iter(list(self._buckets.values()))

    def links(
        self,
        subject: Subject,
        dimension: str,
        now: float,
        refusal: RefusalMode | None,
    ) -> list[Link]:
        """Return the links that policies add to a subject's chain of one dimension.

        Args:
            subject: Who asks.
            dimension: What is counted.
            now: Seconds on the enforcer's clock.
            refusal: The caller's mode; None for ``reject``.
        """
        found: list[Link] = []
        for kind, rule in RULES.items():
            if dimension in (rule.messages, rule.bytes):
                owner = owner_of(kind, subject)
                if owner is not None:
                    found += self._link(kind, dimension, owner, now, refusal)
        if dimension.startswith("publish_") and subject.topic is not None:
            meter = self._meter(dimension, subject.topic, now)
            if meter is not None:
                self._kept.keep(meter, now)
                name = LimitName(meter.group.name, dimension, "topic", "node")
                found.append(Link(name, meter, refusal))
        return found

    def follow(self, policies: Policies, now: float) -> None:
        """Adopt other policies; buckets keep what they hold."""
        self.policies = policies
        held = self._kept.take_all()  # kept alive until the end of this method
        for meter_key, meter in list(self._meters.items()):
            if self._relative(meter_key[1]):
                self._kept.keep(meter, now)
            else:
                del self._meters[meter_key]
        for key, local in list(self._buckets.items()):
            kind, dimension, owner = key
            found = self._winning(kind, owner)
            limit = None if found is None else _limit(kind, dimension, found[1])
            if limit is None:
                del self._buckets[key]
            else:
                local.limit = limit
                self._set_rate(key, local, now)
                self._kept.keep(local, now)
        held.clear()

    def tick(self, now: float) -> None:
        """Drop what nobody uses; measure the publish rates that policies need."""
        self._kept.let_go(now)
        if self._meters and not 0.0 <= now - self._measured_s < MEASURE_S:
            self._measured_s = now
            for meter in list(self._meters.values()):
                _measure(meter, now)
            for key, local in list(self._buckets.items()):
                self._set_rate(key, local, now, only_relative=True)

    def _link(
        self,
        kind: Kind,
        dimension: str,
        owner: Owner,
        now: float,
        refusal: RefusalMode | None,
    ) -> list[Link]:
        found = self._winning(kind, owner)
        limit = None if found is None else _limit(kind, dimension, found[1])
        if found is None or limit is None:
            return []
        key = (kind, dimension, owner)
        local = self._buckets.get(key)
        if local is None:
            local = self._buckets[key] = self._make(key, limit, now)
            self._set_rate(key, local, now)
            local.bucket.fill()
        self._kept.keep(local, now)
        name = LimitName(local.group.name, dimension, found[0], "node")
        link = Link(name, local, refusal)
        if found[1].relative_to_publish_rate:
            # A rate of 0 only means that nothing is published at present.
            link.hopeless_above = inf
        return [link]

    def _make(self, key: Key, limit: Limit, now: float) -> LocalBucket:
        kind, _, owner = key
        group = Group(
            id=next(self._ids),
            name=" ".join((f"{kind} policy", *(name for name in owner if name))),
            limits=(limit,),
            may_owe=RULES[kind].may_owe,
        )
        bucket = Bucket(now, rate=0.0, capacity=0.0, may_owe=group.may_owe)
        return LocalBucket(group, limit, bucket, limit.rate_per_s)

    def _set_rate(
        self, key: Key, local: LocalBucket, now: float, *, only_relative: bool = False
    ) -> None:
        """Refill at the policy's rate, plus the publish rate if the policy says so."""
        kind, dimension, owner = key
        found = self._winning(kind, owner)
        relative = found is not None and found[1].relative_to_publish_rate
        if only_relative and not relative:
            return
        limit = local.limit
        rate = limit.rate_per_s
        if relative and owner and owner[0] is not None:
            rate += self._published(dimension, owner[0])
        if rate > 0.0:
            capacity = rate * limit.period_s
            local.bucket.set_rate_at(now, rate=rate, capacity=capacity)
        else:
            local.bucket.close_at(now)
        local.share = rate

    def _published(self, dimension: str, topic: str) -> float:
        """Return the publish rate of a topic, units/s."""
        unit = dimension.rpartition("_")[2]
        meter = self._meters.get((f"publish_{unit}", topic))
        return 0.0 if meter is None else meter.published or 0.0

    def _meter(self, dimension: str, topic: str, now: float) -> Meter | None:
        """Return the meter of a topic's publishing, if a policy needs it."""
        if not self._relative(topic):
            return None
        meter = self._meters.get((dimension, topic))
        if meter is None:
            limit = Limit(dimension=dimension, rate=inf, burst=1.0, scope="node")
            group = Group(
                id=next(self._ids), name=f"published {topic}", limits=(limit,)
            )
            bucket = Bucket(now, rate=inf, capacity=inf)
            meter = Meter(group, limit, bucket, inf, since_s=now)
            self._meters[dimension, topic] = meter
        return meter

    def _relative(self, topic: str) -> bool:
        """Whether a topic has a policy relative to its publish rate."""
        kinds: tuple[Kind, ...] = (
            "dispatch",
            "subscription_dispatch",
            "replicator_dispatch",
        )
        found = (self.policies.winning(kind, topic) for kind in kinds)
        return any(f is not None and f[1].relative_to_publish_rate for f in found)

    def _winning(self, kind: Kind, owner: Owner) -> tuple[Level, RatePolicy] | None:
        return self.policies.winning(kind, owner[0] if owner else None)


def _limit(kind: Kind, dimension: str, policy: RatePolicy) -> Limit | None:
    """Return one dimension of a policy as a limit; None if unlimited."""
    messages = dimension == RULES[kind].messages
    rate = policy.messages if messages else policy.bytes
    if rate == inf:
        return None
    return Limit(
        dimension=dimension,
        rate=rate,
        burst=rate,
        period_s=policy.period_s,
        scope="node",
    )


def _measure(meter: Meter, now: float) -> None:
    """Include what was published since the last measurement in the average."""
    elapsed = now - meter.since_s
    if elapsed <= 0.0:
        meter.since_s = now  # the clock was set back
        return
    units = meter.bucket.admitted
    rate = max(units - meter.units, 0.0) / elapsed
    before = meter.published
    part = 1.0 if before is None else MEASURE_WEIGHT
    meter.published = (before or 0.0) * (1.0 - part) + rate * part
    meter.since_s, meter.units = now, units
