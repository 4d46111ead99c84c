"""What is left of limits across the whole cluster, for callers that ask.

A local bucket holds this process's part of a limit, which may be next to nothing while
the group is idle; what a response says about the limit should be true for the cluster.
Integrations ask by putting a bucket into `LocalBucket.asked`; the agent's thread looks
at the ledger and notes the answer at the bucket, so the request path never waits.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.local import CommonLevel

if TYPE_CHECKING:
    from headgate.agent.bucket.local import LocalBucket

LOOK_S = 0.5
"""Time between two looks at one limit: about as often as agents report."""

MOST_LOOKS = 5
"""Most limits that are looked at in one tick, at 0.1 ms each; others take turns."""

KEEP_S = 10.0
"""Limits that nobody has asked about for this long are no longer looked at."""

LevelOf = Callable[[int, str], tuple[float, float, float] | None]
"""Maps group id and dimension to the units left across the cluster, the units/s that
other agents take, and the units admitted here that are already taken off; None if
unknown."""


def note_common_levels(asked: set[LocalBucket], now: float, level_of: LevelOf) -> None:
    """Look at the limits that callers ask about, the longest unseen first.

    Args:
        asked: Their buckets; those that nobody asks about any more are taken out.
        now: Seconds on the enforcer's clock.
        level_of: Returns what is left.
    """
    if not asked:
        return
    due = [local for local in tuple(asked) if _due_s(local) <= now]
    for local in nsmallest(MOST_LOOKS, due, key=_due_s):
        if local.common is not None and local.common.read_s < now - KEEP_S:
            asked.discard(local)
            continue
        found = level_of(local.group.id, local.limit.dimension)
        if found is not None:
            read_s = now if local.common is None else local.common.read_s
            local.common = CommonLevel(
                level=found[0],
                others_per_s=found[1],
                at_s=now,
                admitted=found[2],
                read_s=read_s,
            )


def _due_s(local: LocalBucket) -> float:
    return -inf if local.common is None else local.common.at_s + LOOK_S
