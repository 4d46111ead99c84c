"""Several buckets that must all admit: charged one by one, given back on a refusal.

Looking at all and then charging all would let two threads both look before either
paid.  Pure, and compiled together with the bucket.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.level import LULL_S
from headgate.agent.decision import ADMITTED, Decision, LimitName, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.costs import Number
    from headgate.agent.bucket.local import LocalBucket
    from headgate.coordinator.config.configuration import Refusal as RefusalMode


class Link:
    """One limit of a chain; recreated with each configuration.

    Attributes:
        bucket: Charged on the request path.
        limit: What a decision names.
        local: The limit as configured now, and what is counted of its refusals.
        group_id: Id of the limit's group.
        mode: What a refusal by it means to this caller.
        lenient: The mode admits what it would refuse.
        hopeless_above: Cost above which it refuses for ever.
        refusal: The last one by the short way; it is repeated for a lull, so a caller
            may wait that much longer than it must.
        refusal_since_s: When it was made.
        refusal_until_s: When another is made.
        label: Its name as a header field, once one was sent.
        told: The headers that integrations sent last.
        told_since_s: When they were made.
        told_until_s: When new ones are made.
    """

    __slots__ = (
        "bucket",
        "group_id",
        "hopeless_above",
        "label",
        "lenient",
        "limit",
        "local",
        "mode",
        "refusal",
        "refusal_since_s",
        "refusal_until_s",
        "told",
        "told_since_s",
        "told_until_s",
    )

    def __init__(
        self, limit: LimitName, local: LocalBucket, chosen: RefusalMode | None = None
    ) -> None:
        """Join a name and a bucket.

        Args:
            limit: What a decision names.
            local: The limit.
            chosen: The caller's mode; None for the group's own.
        """
        self.bucket: Bucket = local.bucket
        self.limit = limit
        self.local = local
        self.group_id: int = local.group.id
        self.mode: str = chosen or local.group.refusal
        self.lenient: bool = self.mode in ("shadow", "delay")
        self.hopeless_above: float = local.hopeless_above
        self.refusal: Decision = ADMITTED
        self.refusal_since_s: float = 0.0
        self.refusal_until_s: float = -inf
        self.label: bytes = b""
        self.told: list[tuple[bytes, bytes]] = []
        self.told_since_s: float = 0.0
        self.told_until_s: float = -inf

    def refuse_again(self, now: float, cost: float) -> Decision:
        """Refuse, by the short way, what a bucket still in debt would refuse."""
        bucket = self.bucket
        bucket.refused += cost if cost < bucket.most_counted else bucket.most_counted
        delay_s = bucket.clear_s - now
        least_s = bucket.least_delay_s
        return self.refuse(now, delay_s if delay_s > least_s else least_s)

    def refuse(self, now: float, delay_s: float) -> Decision:
        """Return a refusal by a bucket that is in debt, whatever the cost."""
        if not self.refusal_since_s <= now < self.refusal_until_s:
            self.refusal = Refusal(delay_s, False, self.limit)
            self.refusal_since_s = now
            # A delay shorter than a lull is computed each time.
            self.refusal_until_s = now + LULL_S if delay_s > LULL_S else now
        refusal = self.refusal
        self.local.throttle_s += refusal.delay_s
        return refusal


class Chain:
    """The limits of one dimension that apply to a subject; replaced, not changed.

    Attributes:
        buckets: One per limit.
        links: The same with their names, in the same order.
        only: The link, if it is the only one, its refusal is firm (``reject`` or
            ``wait``), and it may owe; otherwise None.
        waits: Whether a group would rather have its callers wait.
        admitted: The answer to an admitted caller; a warning past a soft threshold.
    """

    __slots__ = ("admitted", "buckets", "links", "only", "waits")

    def __init__(self, links: tuple[Link, ...] = ()) -> None:
        """Keep the links."""
        self.links = links
        self.buckets: tuple[Bucket, ...] = tuple(link.bucket for link in links)
        self.admitted: Decision = ADMITTED
        self.only: Link | None = None
        self.waits: bool = False
        for link in links:
            self.waits = self.waits or link.mode == "wait"
            if len(links) == 1 and link.mode in ("reject", "wait"):
                self.only = link if link.hopeless_above == inf else None


NO_LIMITS = Chain()
"""A chain that admits everything."""

Taken = dict[str, list["Bucket"]]
"""The buckets that an admitted attempt charged, by dimension: all of its limits but
those in shadow that would have refused it."""


def charge_chain_at(
    chain: tuple[Bucket, ...], now: float, cost: float
) -> Bucket | None:
    """Charge buckets one after another until one refuses.

    The one that refuses counts the attempt.  The caller gives back what was charged
    before it and lets the others that would refuse count the attempt too.

    Args:
        chain: The buckets of one dimension.
        now: Seconds on the caller's monotonic clock.
        cost: Units, > 0 and finite.

    Returns:
        The bucket that refused; None when the cost is admitted by all.
    """
    for bucket in chain:
        # No call, no backward jump from the comparison to the store.
        if now < bucket.look_s and bucket.spent <= bucket.headroom:
            bucket.spent += cost
        elif bucket.try_acquire_at(now, cost) > 0.0:
            return bucket
    return None


def give_back_before(
    chain: tuple[Bucket, ...], stopped: Bucket | None, cost: float
) -> None:
    """Give back what was charged to the buckets before the one that refused.

    Args:
        chain: The buckets of one dimension.
        stopped: The one that refused; None gives back to all.
        cost: Units.
    """
    for bucket in chain:
        if bucket is stopped:
            return
        bucket.give_back(cost)


def give_back(taken: Taken, costs: Mapping[str, float]) -> None:
    """Give back what an attempt charged.

    Args:
        taken: The buckets that it charged.
        costs: Units by dimension.
    """
    for dimension, buckets in taken.items():
        for bucket in buckets:
            bucket.give_back(costs[dimension])


def give_back_to(
    until: str, chains: Mapping[str, Chain], costs: Mapping[str, Number]
) -> None:
    """Give back what was charged in the dimensions before one.

    Args:
        until: The dimension whose limits refused.
        chains: By dimension.
        costs: Units by dimension, in the order in which they were charged; those
            from `until` on may be anything.
    """
    for dimension, cost in costs.items():
        if dimension == until:
            return
        chain = chains.get(dimension) or NO_LIMITS
        give_back_before(chain.buckets, None, float(cost + 0.0))
