"""A bucket together with the limit that it enforces here, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.bucket.bucket import Bucket
    from headgate.coordinator.config.configuration import Group, Limit, Scope


OTHERS_S = 10.0
"""For how long the others are taken to go on as they were last seen, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The counters of one limit, cumulative since the process began to use it.

    Attributes:
        group: Name of the group.
        dimension: What is counted.
        scope: ``cluster`` or ``node``.
        rate: Units/s that the local bucket refills at; infinite when unlimited.
        share: Units/s allocated by the coordinator.
        tokens: Units held now; below zero, a debt.
        admitted: Units.
        refused: Units.
        shadow_refused: Units admitted only because the group is in shadow.
        throttle_s: Sum of the delays given to refused or muted callers.
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
class UsageWatch:
    """Attempted rate of one limit between two checks.

    Attributes:
        since_s: Time of the last check.
        attempted: Units admitted and refused until then.
        above: Whether the rate was above the soft threshold.
    """

    since_s: float
    attempted: float = 0.0
    above: bool = False


@dataclass(slots=True)
class CommonLevel:
    """What was left of a limit across the whole cluster, when it was last looked at.

    Attributes:
        level: Units left, those in the local buckets of all agents included.
        others_per_s: Units/s that the other agents took.
        at_s: When it was looked at.
        admitted: Units admitted here that `level` allows for.
        read_s: When it was last asked for.
    """

    level: float
    others_per_s: float
    at_s: float
    admitted: float
    read_s: float


@dataclass(slots=True, eq=False, weakref_slot=True)
class LocalBucket:
    """A bucket with the limit that it enforces here.

    Attributes:
        group: As configured now.
        limit: As configured now.
        bucket: Charged on the request path, never under a lock.
        share: Units/s allocated by the coordinator; the limit's rate for a node's.
        idle_since_s: When the last limiter released it; infinite while in use.
        shadow_refused: Units that passed only because the group is in shadow.
        throttle_s: Sum of the delays given to refused or muted callers.
        watch: Attempted rate, where the group has a soft threshold.
        asked: Where to put this bucket to have `common` kept up to date; None where
            the limit is this process's alone.
        common: What is left across the cluster; None while that is unknown.
        most_above: Largest cost that the groups above it ever admit.
        withheld: Units used beyond a calendar quota that was lowered, in this process.
        allowance: This process's part of a strict group with others inside, for its own
            callers and theirs; `bucket` holds what its own callers are due of it.
    """

    group: Group
    limit: Limit
    bucket: Bucket
    share: float
    idle_since_s: float = inf
    shadow_refused: float = 0.0
    throttle_s: float = 0.0
    watch: UsageWatch | None = None
    asked: set[LocalBucket] | None = None
    common: CommonLevel | None = None
    most_above: float = inf
    withheld: float = 0.0
    allowance: Bucket | None = None

    def level_at(self, now: float) -> float:
        """Return the units left of the limit, across all processes that share it.

        Below zero, it is a debt.
        Between two looks at the ledger, it is assumed that the limit refills, this
        process takes what it admits, and the others go on as before for `OTHERS_S`.
        Until the first look nobody else is known to take anything.
        """
        if self.asked is None:
            return self.bucket.level_at(now)
        self.asked.add(self)
        limit, common, admitted = self.limit, self.common, self.bucket.admitted
        if common is None:
            return limit.burst - admitted
        common.read_s = now
        passed_s = now - common.at_s
        others_s = min(passed_s, OTHERS_S)
        gained = limit.rate_per_s * passed_s - common.others_per_s * others_s
        refilled, taken = common.level + gained, admitted - common.admitted
        level = min(refilled - taken, limit.burst)
        if refilled <= limit.burst:
            return level
        # It may have been full before or after something was taken: that makes a
        # difference, which only the bucket here has followed.
        return min(max(self.bucket.level_at(now), limit.burst - taken), level)

    @property
    def spendable(self) -> float:
        """Units/s that may be spent here: the ceiling; infinite when unlimited."""
        return inf if self.limit.rate == inf else self.bucket.ceiling

    def usage_at(self, now: float) -> Usage:
        """Return the counters."""
        return Usage(
            group=self.group.name,
            dimension=self.limit.dimension,
            scope=self.limit.scope,
            rate=self.spendable,
            share=self.share,
            tokens=self.bucket.held_at(now),
            admitted=self.bucket.admitted,
            refused=self.bucket.refused,
            shadow_refused=self.shadow_refused,
            throttle_s=self.throttle_s,
        )

    @property
    def hopeless_above(self) -> float:
        """Cost above which the limit refuses for ever."""
        if self.limit.rate <= 0.0:
            return -inf
        return min(largest_cost(self.group, self.limit), self.most_above)


def largest_cost(group: Group, limit: Limit) -> float:
    """Return the cost above which a limit refuses for ever; infinite if there is none.

    If debt is allowed, a cost above the burst may pass.  A strict group keeps to Q·W +
    B in every window, which one such cost would break; an unlimited one has no burst.
    """
    owing = group.may_owe and group.mode != "strict"
    return inf if owing or limit.rate == inf else limit.burst
