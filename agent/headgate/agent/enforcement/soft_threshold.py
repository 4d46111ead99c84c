"""Soft thresholds: admitted callers are warned while a limit's use is high."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.local import UsageWatch
from headgate.agent.decision import ADMITTED, Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.agent.bucket.chain import Chain
    from headgate.agent.bucket.local import LocalBucket
    from headgate.agent.limiter.limiter import Limiter

LEAST_WATCH_S = 0.2
"""Shortest time over which a rate is measured: urgent reports tick every 50 ms, and
over so short a time every burst would look like a high rate."""

CLUSTER_WATCH_S = 1.0
"""How often the use of a whole group is checked: as often as it is reported."""

MOST_LOOKS = 5
"""Most groups checked in one tick, at 0.1 ms each; if more are due, they take turns."""

UseOf = Callable[[int, str], float | None]
"""Maps group id and dimension to the units/s that the cluster attempts."""


def warn_above_soft_thresholds(
    registry: Iterable[LocalBucket],
    limiters: list[Limiter],
    now: float,
    use_of: UseOf | None = None,
) -> None:
    """Make limiters warn with each admission while use is high.

    For a cluster-scoped limit, the attempts of all agents, as the ledger knows them,
    are compared with the group's rate; for others, the attempts in this process with
    the local rate.  Neither costs the request path anything.

    Args:
        registry: All local buckets.
        limiters: All living limiters.
        now: Seconds on the enforcer's clock.
        use_of: Returns what the cluster attempts, or None if unknown.
    """
    changed = False
    due: list[LocalBucket] = []
    for local in registry:
        if local.group.soft_threshold is None:
            if local.watch is not None:
                changed |= local.watch.above
                local.watch = None
        elif use_of is None or local.limit.scope == "node" or local.watch is None:
            changed |= _look(local, local.group.soft_threshold, now)
        elif now - local.watch.since_s >= CLUSTER_WATCH_S:
            due.append(local)
    for local in nsmallest(MOST_LOOKS, due, key=_looked_at_s) if due else ():
        changed |= _look(local, local.group.soft_threshold or 1.0, now, use_of)
    if changed:
        for limiter in limiters:
            for chain in limiter.chains().values():
                chain.admitted = _answer(chain)


def _answer(chain: Chain) -> Decision:
    """Return the decision for an admitted caller."""
    for link in chain.links:
        if link.local.watch is not None and link.local.watch.above:
            return Decision(limit=link.limit, warning=True)
    return ADMITTED


def _looked_at_s(local: LocalBucket) -> float:
    return -inf if local.watch is None else local.watch.since_s


def _look(
    local: LocalBucket, threshold: float, now: float, use_of: UseOf | None = None
) -> bool:
    bucket = local.bucket
    attempted = bucket.admitted + bucket.refused
    watch = local.watch
    if watch is None:
        local.watch = UsageWatch(now, attempted)
        return False
    elapsed = now - watch.since_s
    if elapsed < LEAST_WATCH_S:
        return False
    if local.limit.period:
        return _look_at_rest(local, threshold, now, attempted)
    used = None if use_of is None else use_of(local.group.id, local.limit.dimension)
    if used is None:
        used, most = (attempted - watch.attempted) / elapsed, local.spendable
    else:
        most = local.limit.rate_per_s
    above = used >= threshold * most
    changed = above != watch.above
    local.watch = UsageWatch(now, attempted, above)
    return changed


def _look_at_rest(
    local: LocalBucket, threshold: float, now: float, attempted: float
) -> bool:
    """Look at what a calendar period has left: its rate says nothing about now."""
    left = local.level_at(now)
    above = left <= (1.0 - threshold) * local.limit.burst
    changed = local.watch is None or above != local.watch.above
    local.watch = UsageWatch(now, attempted, above)
    return changed
