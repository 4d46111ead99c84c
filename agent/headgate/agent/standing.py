"""How near a subject is to its tightest limit, for those who tell their callers."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.agent.chain import Link


@dataclass(frozen=True, slots=True)
class Standing:
    """What remains of a limit.

    Attributes:
        name: ``group.dimension``.
        quota: Units per window.
        window_s: The limit's period, seconds.
        remaining: Units that may be spent now; 0 while in debt.
        full_in_s: Seconds until as much is there as can be; infinite when never.
    """

    name: str
    quota: float
    window_s: float
    remaining: float
    full_in_s: float


def tightest(links: Iterable[Link], now: float) -> Standing | None:
    """Return the limit with the smallest part of its local bucket left.

    Limits that are unlimited, or decide by chance, have no such standing.
    """
    found: Standing | None = None
    least = inf
    for link in links:
        bucket, limit = link.bucket, link.local.limit
        if limit.rate == inf or (bucket.tokenless and limit.rate > 0.0):
            continue
        level = bucket.level_at(now) if limit.rate > 0.0 else 0.0
        part = level / bucket.capacity if bucket.capacity > 0.0 else 0.0
        if part < least:
            least = part
            full_in_s = (
                (bucket.capacity - level) / bucket.rate if bucket.rate > 0.0 else inf
            )
            found = Standing(
                f"{link.limit.group}.{link.limit.dimension}",
                limit.rate,
                limit.period_s,
                max(level, 0.0),
                full_in_s,
            )
    return found
