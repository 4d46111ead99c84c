"""The local buckets of one process, and what is known about each.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.bucket import Bucket
from headgate.agent.bucket.local import LocalBucket, largest_cost
from headgate.agent.bucket.suppression import AttemptedRate
from headgate.agent.bucket.terms import SharedTerms
from headgate.coordinator.config.configuration import Group, Limit, ancestry_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headgate.coordinator.config.configuration import Scope

FIRST_FLOOR = 0.01
"""Fraction of a cluster-scoped limit at which a new bucket refills until the
coordinator has spoken, a tick later at most: a hundred agents that start at once spend
Q together.  The bucket starts empty, and may owe, so one request passes at once."""

FIRST_LOOK_S = 0.1
"""Delay that a new bucket gives until then: the refill above says nothing about when
the limit has something left."""

FIRST_TERMS_S = 1.0
"""How long a new bucket uses what was known about its limit when it was made, if the
agent's thread doesn't get to look."""

BURSTS_COUNTED = 2.0
"""Bursts, or seconds of the rate, that one attempt counts as at most.  More can't be
admitted for a while, so shares should not follow it as demand; a fan-out that is just
above the limit still counts in full."""

LEAST_COUNTED = 1.0
"""Unit of the smallest limit, and of one that is closed."""

MOST_RETIRED = 1 << 16
"""Dropped buckets whose counters are remembered: values of templates come and go."""

VALUE_RETAIN_S = 10.0
"""How long the full bucket of a template's value is kept without use: it is as good as
a new one, so this only saves a limiter made per request from making it each time."""

IDLE_LOOK_S = 1.0
"""Time between two looks for buckets that may be dropped."""

BucketKey = tuple[int, str, str]
"""Group id, dimension, scope."""

FirstTerms = Callable[[Group, str], tuple[float, float] | None]
"""Returns the level and window of a group's limit on a dimension, units, if known."""


class Registry:
    """All local buckets by group, dimension and scope."""

    def __init__(
        self,
        seed: int,
        asked: set[LocalBucket] | None = None,
        *,
        first_terms: FirstTerms | None = None,
    ) -> None:
        """Make an empty registry.

        Args:
            seed: Seed of its buckets' random numbers.
            asked: Where the bucket of a shared limit puts itself when a caller wants to
                know the common level; None if nobody looks there.
            first_terms: Says what the new bucket of a shared limit may do.
        """
        self._seed = seed
        self._asked = asked
        self._first_terms = first_terms
        self._buckets: dict[BucketKey, LocalBucket] = {}
        self._groups: Mapping[int, Group] = {}
        self._parents: set[int | None] = set()
        # Cumulative counters must never fall within an incarnation, so a bucket
        # that was dropped and comes back goes on counting from here.
        self._retired: dict[BucketKey, tuple[float, float]] = {}
        self._idle_since_s = inf  # no later than that of any bucket
        self._looks_at_s = -inf  # when to look for idle buckets again
        self._calendar_s = 0.0

    def __iter__(self) -> Iterator[LocalBucket]:
        """Iterate over the buckets, oldest first."""
        return iter(self._buckets.values())

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._buckets)

    def get(
        self, group: Group, dimension: str, scope: Scope, now: float
    ) -> LocalBucket | None:
        """Return the bucket of a limit, making it when it is first asked for."""
        local = self._buckets.get((group.id, dimension, scope))
        if local is not None:
            return local
        limit = limit_of(group, dimension, scope)
        return None if limit is None else self._add(group, limit, now)

    def use(self, group: Group, limit: Limit, now: float) -> None:
        """Make the bucket of a limit, or keep it from being dropped."""
        local = self.get(group, limit.dimension, limit.scope, now)
        if local is not None:
            local.idle_since_s = inf

    def debts(self, now: float) -> Mapping[BucketKey, float]:
        """Return the levels below zero of limits that all agents share, units."""
        levels = {
            key: local.bucket.level_at(now)
            for key, local in self._buckets.items()
            if local.limit.scope == "cluster"
            and local.limit.rate > 0.0
            and local.group.mode != "strict"
        }
        return {key: level for key, level in levels.items() if level < 0.0}

    def owe(self, debts: Mapping[BucketKey, float], now: float) -> None:
        """Begin with these debts, rather than let a first request pass."""
        for key in debts.keys() & self._buckets.keys():
            share_first(self._buckets[key], debts[key], 0.0, now)

    def mark_idle(self, users: Mapping[int, int], now: float) -> None:
        """Note which buckets nobody uses from now on.

        Args:
            users: Number of limiters by group id.
            now: Seconds on the enforcer's clock.
        """
        for local in self:
            if local.group.id in users:
                local.idle_since_s = inf
            elif local.idle_since_s == inf:
                local.idle_since_s = now
                self._idle_since_s = min(now, self._idle_since_s)

    def follow(
        self, groups: dict[int, Group], now: float, calendar_s: float = 0.0
    ) -> None:
        """Adopt a new configuration: rates, refusals, limits that are gone.

        Args:
            groups: By id.
            now: Seconds on the enforcer's clock.
            calendar_s: The wall clock less the enforcer's.
        """
        self._calendar_s = calendar_s
        self._groups = groups
        self._parents = {group.parent for group in groups.values()}
        for key, local in list(self._buckets.items()):
            group = groups.get(key[0])
            limit = limit_of(group, key[1], key[2]) if group is not None else None
            if group is None or limit is None:
                self._drop(key)
            else:
                local.most_above = self._most_above(group, limit)
                follow_limit(local, group, limit, now)
                end_period(local, calendar_s)
        for local in list(self):
            self._stand_inside(local, now)
        for key in [key for key in self._retired if key[0] not in groups]:
            del self._retired[key]  # ids are never used again

    def drop_idle(self, now: float, retain_s: float) -> bool:
        """Drop what nobody has used for `retain_s`, unless it holds a debt.

        If no agent remembers the level of a template's value, nobody does, so its
        bucket is dropped only once it is full.

        Returns:
            Whether any was dropped.
        """
        idle_s = now - self._idle_since_s
        if not idle_s > min(retain_s, VALUE_RETAIN_S) or now < self._looks_at_s:
            return False
        self._looks_at_s = now + IDLE_LOOK_S
        idle = [
            key
            for key, local in self._buckets.items()
            if now - local.idle_since_s > _retained_s(local, retain_s)
            and _forgettable(local, now)
        ]
        for key in idle:
            self._drop(key)
        left = (local.idle_since_s for local in self)
        self._idle_since_s = min(left, default=inf)
        return bool(idle)

    def _add(self, group: Group, limit: Limit, now: float) -> LocalBucket:
        key = (group.id, limit.dimension, limit.scope)
        self._seed += 1
        most_above = self._most_above(group, limit)
        local = make_local(group, limit, now, seed=self._seed, most_above=most_above)
        end_period(local, self._calendar_s)
        if limit.scope == "cluster":
            local.asked = self._asked
        counted = self._retired.pop(key, None)
        if counted is not None:
            local.bucket.folded, local.bucket.refused = counted
        if limit.scope == "cluster" and self._first_terms is not None:
            terms = self._first_terms(group, limit.dimension)
            if terms is not None and 0.0 < limit.rate < inf:
                share_first(local, *terms, now)
        self._buckets[key] = local
        self._stand_inside(local, now)
        if group.id in self._parents and _binds_inside(local):
            for other in list(self):
                above = ancestry_of(other.group, self._groups)
                if any(each.id == group.id for each in above):
                    self._stand_inside(other, now)
        return local

    def _stand_inside(self, local: LocalBucket, now: float) -> None:
        """Let a shared limit's bucket ask the strict groups above it, too.

        Each of them is asked by its own callers as well, so that this process admits no
        more there than its permits allow.
        """
        if local.limit.scope == "node":
            return
        if local.group.mode != "strict":
            local.allowance = None
        asked = [local.bucket]
        if local.allowance is not None:
            asked.append(local.allowance)
        for each in ancestry_of(local.group, self._groups):
            outer = self.get(each, local.limit.dimension, "cluster", now)
            if outer is not None and _binds_inside(outer):
                if outer.allowance is None:
                    outer.allowance = allowance_of(outer, now)
                    outer.bucket.stand_inside(outer.allowance)
                asked.append(outer.allowance)
        above = None
        for bucket in reversed(asked):
            bucket.stand_inside(above)
            above = bucket

    def _most_above(self, group: Group, limit: Limit) -> float:
        """Return the largest cost that a shared limit's groups above ever admit."""
        if limit.scope == "node":
            return inf  # all limits of a node have buckets of their own
        most = inf
        for each in ancestry_of(group, self._groups):
            above = limit_of(each, limit.dimension, "cluster")
            if above is not None and each.refusal != "shadow":
                most = min(most, largest_cost(each, above))
        return most

    def _drop(self, key: BucketKey) -> None:
        bucket = self._buckets.pop(key).bucket
        self._retired[key] = (bucket.admitted, bucket.refused)
        if len(self._retired) > MOST_RETIRED:
            del self._retired[next(iter(self._retired))]


def unconfigured(*, admit: bool) -> LocalBucket:
    """Return the bucket that decides every attempt until there is a configuration."""
    limit = Limit(dimension="any", rate=inf if admit else 1.0, burst=1.0, scope="node")
    group = Group(id=0, name="(no configuration)", limits=(limit,))
    bucket = Bucket(0.0, rate=inf if admit else 0.0, capacity=0.0)
    return LocalBucket(group, limit, bucket, limit.rate)


def first_rate(limit: Limit) -> float:
    """Return the units/s of a cluster-scoped bucket that doesn't know its share yet."""
    return limit.rate_per_s if limit.rate == inf else limit.rate_per_s * FIRST_FLOOR


def _most_counted(limit: Limit) -> float:
    """Return the units that one attempt counts as at most in demand and mean cost."""
    return BURSTS_COUNTED * max(limit.burst, limit.rate_per_s, LEAST_COUNTED)


def _suppress(bucket: Bucket, group: Group, now: float) -> None:
    suppressed = group.refusal == "suppress"
    if suppressed != (bucket.attempted is not None):
        bucket.suppress(AttemptedRate(now) if suppressed else None)


def limit_of(group: Group, dimension: str, scope: str) -> Limit | None:
    """Return a group's limit of a dimension and a scope, if it has one."""
    for limit in group.limits:
        if limit.dimension == dimension and limit.scope == scope:
            return limit
    return None


def _may_owe(group: Group, *, node: bool, new: bool = False) -> bool:
    """Whether a local bucket may owe; a part of a strict group never does.

    One request passes before the coordinator has spoken: the bucket is `new`.
    """
    if group.mode == "strict" and not node:
        return False
    return group.may_owe or (new and not node)


def _largest(group: Group, limit: Limit, most_above: float) -> float:
    """Return the cost above which a bucket refuses for ever."""
    node = limit.scope == "node"
    return min(inf if node else largest_cost(group, limit), most_above)


def make_local(
    group: Group, limit: Limit, now: float, *, seed: int, most_above: float = inf
) -> LocalBucket:
    """Return the new bucket of a limit: full, or empty where others have a part.

    Args:
        group: The limit's group.
        limit: What it enforces.
        now: Seconds on the enforcer's clock.
        seed: Seed of its random numbers.
        most_above: Largest cost that the groups above ever admit.
    """
    node = limit.scope == "node"
    rate = limit.rate_per_s
    bucket = Bucket(
        now,
        rate=rate if node else first_rate(limit),
        capacity=limit.burst if node else limit.burst * FIRST_FLOOR,
        level=inf if node else 0.0,
        may_owe=_may_owe(group, node=node, new=True),
        maximum_cost=_largest(group, limit, most_above),
        seed=seed,
    )
    if not node and bucket.quota > 0.0:
        # A first request passes; how long it takes to pay for is known after the look.
        bucket.quota, bucket.least_delay_s = inf, FIRST_LOOK_S
    bucket.most_counted = _most_counted(limit)
    _suppress(bucket, group, now)
    share = rate if node else bucket.rate
    return LocalBucket(group, limit, bucket, share, most_above=most_above)


def _binds_inside(local: LocalBucket) -> bool:
    """Return whether callers of groups inside a limit's must have its permits.

    One in shadow refuses nobody, and a closed one closes those inside it.
    """
    group, rate = local.group, local.limit.rate
    return group.mode == "strict" and group.refusal != "shadow" and 0.0 < rate < inf


def allowance_of(local: LocalBucket, now: float) -> Bucket:
    """Return a bucket that holds what a strict group's bucket has held until now."""
    own = local.bucket
    level, room = own.level_at(now), own.room - own.spent
    allowance = Bucket(
        now,
        rate=own.rate,
        capacity=own.capacity,
        # Where agents share the level, a strict group's process has only its part.
        level=min(level, room),
        may_owe=False,
        maximum_cost=own.maximum_cost,
    )
    allowance.clipped, allowance.whole_rate = own.clipped, own.whole_rate
    allowance.quota, allowance.least_delay_s = own.quota, own.least_delay_s
    allowance.deadline_s, allowance.reserve = own.deadline_s, own.reserve
    return allowance


def share_first(local: LocalBucket, level: float, window: float, now: float) -> None:
    """Set a new bucket of a shared limit to what is known about it before the look.

    Args:
        local: The bucket.
        level: E, units.
        window: a, units that this agent may spend unseen; infinite if it is alone.
        now: Seconds on the enforcer's clock.
    """
    limit, alone = local.limit, window == inf
    part = 1.0 if alone else window / limit.burst
    local.bucket.share_at(
        now,
        SharedTerms(
            ceiling=part * limit.rate_per_s,
            level=level,
            rate=limit.rate_per_s,
            capacity=limit.burst,
            room=window,
            window=window,
            expected_rate=0.0,
            room_cap=inf,
            cautious=not alone,
            quota=limit.rate_per_s,
            least_delay_s=0.0 if alone else FIRST_LOOK_S,
            reserve=first_rate(limit),
        ),
        as_of_s=now,
        counted=local.bucket.admitted,
        burst=limit.burst,
        may_owe=local.group.may_owe,
        deadline_s=now + FIRST_TERMS_S,
    )


def end_period(local: LocalBucket, calendar_s: float) -> None:
    """Cap delays at the end of the calendar period.

    Args:
        local: The bucket of a limit.
        calendar_s: The wall clock less the enforcer's.
    """
    local.bucket.renewed_s = local.limit.ends_at_s - calendar_s


def follow_limit(local: LocalBucket, group: Group, limit: Limit, now: float) -> None:
    """Adopt a limit's new configuration; what is held or owed stays."""
    old = local.limit
    bucket = local.bucket
    node = limit.scope == "node"
    local.group, local.limit = group, limit
    largest = _largest(group, limit, local.most_above)
    bucket.set_policy(may_owe=_may_owe(group, node=node), maximum_cost=largest)
    if local.allowance is not None:
        local.allowance.set_policy(may_owe=False, maximum_cost=largest)
    bucket.most_counted = _most_counted(limit)
    _suppress(bucket, group, now)
    credit = 0.0
    if node and limit.period and old.rate < inf:
        held = bucket.level_at(now)
        level, local.withheld = limit.renewed(held, old, local.withheld)
        credit = level - held
    else:
        local.withheld = 0.0
    if node and limit.rate > 0.0:
        bucket.set_rate_at(
            now, rate=limit.rate_per_s, capacity=limit.burst, credit=credit
        )
        local.share = limit.rate_per_s
        return
    for each in (bucket, local.allowance):
        if each is not None:
            _follow_rate(local, each, old, now)


def _follow_rate(local: LocalBucket, bucket: Bucket, old: Limit, now: float) -> None:
    """Adopt the rate and burst of a shared limit, or of one that is closed."""
    limit = local.limit
    if limit.rate <= 0.0:
        bucket.close_at(now)
    elif limit.rate == inf:
        bucket.set_rate_at(now, rate=limit.rate_per_s, capacity=limit.burst)
        local.share = limit.rate_per_s
    elif old.rate <= 0.0 or old.rate == inf or (old.period and not limit.period):
        # Nothing that it had before is a rate to go on at until the first look.
        floor = first_rate(limit)
        bucket.set_rate_at(now, rate=floor, capacity=limit.burst * FIRST_FLOOR)
        bucket.quota, bucket.least_delay_s = inf, FIRST_LOOK_S
        local.share = floor
    elif limit.rate_per_s < old.rate_per_s or limit.burst < old.burst:
        # A lowered limit applies at once; the coordinator computes new parts
        # within a tick.  A raised one waits for it.
        bucket.lower_at(
            now,
            rate_part=min(1.0, limit.rate_per_s / old.rate_per_s),
            burst_part=min(1.0, limit.burst / old.burst),
            capacity=limit.burst,
        )


def _retained_s(local: LocalBucket, retain_s: float) -> float:
    return retain_s if local.group.template is None else VALUE_RETAIN_S


def _forgettable(local: LocalBucket, now: float) -> bool:
    """Whether dropping the bucket loses nothing that anyone owes."""
    held = local.bucket.level_at(now)
    if local.limit.scope == "node" or local.group.template is not None:
        return held >= local.bucket.capacity
    if local.allowance is not None:
        held = min(held, local.allowance.level_at(now))
    return held >= 0.0  # what was spent is in the ledger
