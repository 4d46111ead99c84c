"""What each limit of a process has counted: for status, metrics and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.agent.decision import ADMITTED, Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.agent.limiter import Limiter
    from headgate.agent.registry import LocalBucket
    from headgate.coordinator.configuration import Scope

LEAST_WATCH_S = 0.2
"""Shortest time over which a rate is measured: urgent reports tick each 50 ms, and
so short a look would call every burst a high rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One limit's counters, cumulative since the process began to use it.

    Attributes:
        group: Name of the group.
        dimension: What is counted.
        scope: ``cluster`` or ``node``.
        rate: Units/s that the local bucket refills at; infinite when unlimited.
        share: Units/s allocated by the coordinator.
        tokens: Units held now; below zero a debt.
        admitted: Units.
        refused: Units.
        shadow_refused: Units admitted only because the group is in shadow.
        throttle_s: Delays that refused or muted callers were told, added up.
    """

    group: str
    dimension: str
    scope: Scope
    rate: float
    share: float
    tokens: float
    admitted: float
    refused: float
    shadow_refused: float
    throttle_s: float


@dataclass(slots=True)
class Watch:
    """Attempted rate of one limit between two looks.

    Attributes:
        since_s: When the last look was.
        attempted: Units admitted and refused until then.
        above: Whether the rate was above the soft threshold.
    """

    since_s: float
    attempted: float = 0.0
    above: bool = False


def warn_above_soft_thresholds(
    registry: Iterable[LocalBucket], limiters: list[Limiter], now: float
) -> None:
    """Let limiters say a warning with each admission while use is high.

    What is compared is the rate attempted here with what may be spent here, so a
    warning costs the request path nothing.
    """
    changed = False
    for local in registry:
        if local.group.soft_threshold is not None:
            changed |= _look(local, local.group.soft_threshold, now)
        elif local.watch is not None:
            changed |= local.watch.above
            local.watch = None
    if changed:
        for limiter in limiters:
            for chain in limiter.chains().values():
                warning = next(
                    (
                        Decision(limit=link.limit, warning=True)
                        for link in chain.links
                        if link.local.watch is not None and link.local.watch.above
                    ),
                    ADMITTED,
                )
                chain.admitted = warning


def _look(local: LocalBucket, threshold: float, now: float) -> bool:
    bucket = local.bucket
    attempted = bucket.admitted + bucket.refused
    watch = local.watch
    if watch is None:
        local.watch = Watch(now, attempted)
        return False
    elapsed = now - watch.since_s
    if elapsed < LEAST_WATCH_S:
        return False
    rate = (attempted - watch.attempted) / elapsed
    above = rate >= threshold * local.spendable
    changed = above != watch.above
    local.watch = Watch(now, attempted, above)
    return changed
