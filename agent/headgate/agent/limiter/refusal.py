"""What happens to an attempt that some limit does not admit.

Each limit that refuses has a mode, its group's or the one that the caller chose:

``reject``, ``wait``  refuse; the caller comes back, or waits in the fair queue
``suppress``          refuses by chance (`headgate.agent.bucket.suppression`)
``delay``             admits and charges; the caller is to be muted for the delay
``shadow``            admits without charging; only counts

One limit that refuses is enough to refuse; only when all of them are lenient is
the attempt admitted after all.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.chain import NO_LIMITS, give_back_before
from headgate.agent.decision import Decision, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.chain import Chain, Link, Taken

RECONSIDERED_S = 1.0
"""Delay of a refusal by a bucket that does not refill at present although its limit
is not 0: shares are computed again with each report, once a second by default."""


def refuse(
    chain: Chain, dimension: str, now: float, cost: float, stopped: Bucket
) -> Decision:
    """Settle the refusal of a cost in one dimension; see `settle_refusal`.

    Args:
        chain: The limits of the dimension.
        dimension: What is counted.
        now: Seconds on the limiter's clock.
        cost: Units, charged to all buckets before `stopped`.
        stopped: The bucket that refused, and counted it.
    """
    give_back_before(chain.buckets, stopped, cost)
    return settle_refusal({dimension: chain}, now, {dimension: cost}, stopped)


def settle_refusal(  # noqa: C901  # a call for each limit would be a third of it
    chains: Mapping[str, Chain],
    now: float,
    costs: Mapping[str, float],
    stopped: Bucket,
    taken: Taken | None = None,
) -> Decision:
    """Count the attempt in the groups that refuse; the longest delay wins.

    A group that refuses counts it in all dimensions, because the coordinator knows how
    its limits block one another.  For other groups a blocked attempt is not demand, so
    they count nothing (docs/decisions/0013-which-limits-count-a-refusal.md).

    Args:
        chains: By dimension.
        now: Seconds on the limiter's clock.
        costs: Units by dimension, checked; none of them is charged now.
        stopped: The bucket that refused first, and counted it.
        taken: What is charged is added to it.
    """
    worst: Link | None = None
    worst_s = -1.0
    admitting: list[tuple[Link, float]] = []
    lenient: dict[int, float] = {}
    for dimension, cost in costs.items():
        for link in chains.get(dimension, NO_LIMITS).links:
            bucket = link.bucket
            if bucket.since_s <= now < bucket.ready_s:  # still in the same debt
                delay_s = max(bucket.clear_s - now, bucket.least_delay_s)
                if bucket is not stopped:
                    most = bucket.most_counted
                    bucket.refused += cost if cost < most else most
            elif now < bucket.look_s and bucket.spent <= bucket.headroom:
                admitting.append((link, cost))  # the same test as on the way in
                continue
            else:
                delay_s = _delay_s(bucket, now, cost, stopped)
                if delay_s <= 0.0:
                    admitting.append((link, cost))
                    continue
            if cost > link.hopeless_above:
                delay_s = inf
            # No delay helps against a debt that can never be paid.
            if link.lenient and (link.mode == "shadow" or delay_s < inf):
                lenient[id(bucket)] = -1.0 if link.mode == "shadow" else delay_s
            elif delay_s > worst_s:
                worst, worst_s = link, delay_s
    if worst is None:
        return _admit(chains, now, costs, lenient, taken)
    if admitting:
        _count_in_refusing_groups(chains, costs, admitting)
    bucket = worst.bucket
    if bucket.since_s <= now < bucket.ready_s and worst_s < inf:
        return worst.refuse(now, worst_s)
    # The delay depends on the cost, or on chance.
    if worst_s < inf:
        worst.local.throttle_s += worst_s
    return Refusal(worst_s, worst_s == inf, worst.limit)


def _count_in_refusing_groups(
    chains: Mapping[str, Chain],
    costs: Mapping[str, float],
    admitting: Sequence[tuple[Link, float]],
) -> None:
    """Count the attempt in the limits that admit, if another of their group refuses."""
    passed = {id(link) for link, _ in admitting}
    groups = {
        link.group_id
        for dimension in costs
        for link in chains.get(dimension, NO_LIMITS).links
        if id(link) not in passed
    }
    for link, cost in admitting:
        if link.group_id in groups:
            link.bucket.count_refused(cost)


def _delay_s(bucket: Bucket, now: float, cost: float, stopped: Bucket) -> float:
    """Return a bucket's delay, 0 if it admits; if it refuses, it has counted that."""
    if bucket is stopped:
        delay_s = bucket.retry_after_at(now, cost)
        return RECONSIDERED_S if delay_s == inf else delay_s
    # Trying and giving back is faster than asking, and counts a refusal.
    delay_s = bucket.try_acquire_at(now, cost)
    if delay_s == 0.0:
        bucket.give_back(cost)
    return RECONSIDERED_S if delay_s == inf else delay_s


def _admit(
    chains: Mapping[str, Chain],
    now: float,
    costs: Mapping[str, float],
    lenient: Mapping[int, float],
    taken: Taken | None,
) -> Decision:
    """Charge all but those in shadow; the longest of the others' delays mutes.

    Args:
        chains: By dimension.
        now: Seconds on the limiter's clock.
        costs: Units by dimension.
        lenient: By id of a bucket that would refuse: its delay, -1 in shadow.
        taken: What is charged is added to it.
    """
    muted: Link | None = None
    shadow: Link | None = None
    muted_s = 0.0
    for dimension, cost in costs.items():
        for link in chains.get(dimension, NO_LIMITS).links:
            delay_s = lenient.get(id(link.bucket))
            if delay_s is not None and delay_s < 0.0:
                link.local.shadow_refused += cost
                shadow = link
                continue
            link.bucket.charge_at(now, cost)
            if taken is not None:
                taken.setdefault(dimension, []).append(link.bucket)
            if delay_s is not None:
                link.bucket.uncount_refused(cost)
                link.local.throttle_s += delay_s
                if muted is None or delay_s > muted_s:
                    muted, muted_s = link, delay_s
    if muted is not None:
        return Decision(muted_s, limit=muted.limit)
    return Decision(limit=shadow.limit if shadow else None, shadow=shadow is not None)
