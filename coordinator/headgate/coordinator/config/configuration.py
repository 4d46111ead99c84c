"""What an operator decides: groups, their limits, and what is attached to them.

These values are frozen and free of I/O.  The store of the API produces them, an
agent receives them as a snapshot, the coordinator and the limiter read them.
Source of the words: PIP-82 (resource groups), KIP-599 (quotas with debt).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, isfinite, isinf, isnan
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Scope = Literal["cluster", "node"]
Mode = Literal["balanced", "strict"]
Isolation = Literal["fair", "hold", "closed", "open"]
ISOLATIONS: tuple[Isolation, ...] = ("fair", "hold", "closed", "open")
"""All isolations; one that is kept as a number is an index into this."""

FAIR, HOLD, CLOSED, OPEN = range(4)

Refusal = Literal["reject", "delay", "wait", "suppress", "shadow"]
Period = Literal["minute", "hour", "day", "week", "month", "year"]

NOMINAL_PERIOD_S: dict[Period, float] = {
    "minute": 60.0,
    "hour": 3_600.0,
    "day": 86_400.0,
    "week": 604_800.0,
    "month": 2_629_800.0,
    "year": 31_557_600.0,
}
"""Mean length of each calendar period, seconds."""

TRICKLE = 1e-18
"""Fraction of a calendar limit's rate that flows in each second: next to nothing, even
in a year, but not 0, which would mean a closed limit."""

Split = Literal["even", "proportional"]

Per = Literal["tenant", "namespace", "topic", "subscription", "user", "client"]
"""The part of a subject whose values a template group's limits apply to."""

UNLIMITED = inf
"""The rate of a limit that refuses nothing (−1 on Pulsar's paths)."""

LEAST_UNITS = 1e-9
"""Smallest rate (units per period) and burst (units) above zero: far below one in a
lifetime, and far above what underflows to zero when it is multiplied by others."""

LEAST_PERIOD_S = 1e-6
"""Shortest length of a period, seconds: with a far shorter one, what flows in within a
second would be infinite."""

IN_FLIGHT = "slots_in_flight"
"""Used in place of a dimension where a group's `slots` are meant; no limit can have
this dimension."""

MOST_SLOTS = 1_000_000
"""Largest number of slots in flight of one group: more than any cluster serves."""

SUBJECT_KINDS = (
    "cluster",
    "tenant",
    "namespace",
    "topic",
    "subscription",
    "user",
    "client",
)
"""What can be attached to a group, from the widest to the narrowest."""


class InvalidConfiguration(ValueError):
    """A value given by an operator can't be accepted; names the field and the reason.

    Attributes:
        field: Path of the offending field, such as ``limits[0].rate``.
        reason: What was expected.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One dimension's limit of one group.

    Attributes:
        dimension: What is counted; a Python identifier such as ``requests``.
        rate: Units per period; 0 lets nothing through, `UNLIMITED` everything.
        burst: Units that may pass at once after a quiet time; the bucket's size B.
        period_s: Length of the period that `rate` counts for, seconds.
        period: A calendar period: `rate` units may pass between one boundary and the
            next, and the burst is as large.  None for a bucket that refills evenly.
        time_zone: IANA name of the zone in which calendar periods begin.
        begins_at_s: When the present calendar period began, wall clock; 0 until the
            calendar was consulted.
        scope: ``cluster`` shares the limit among all agents, ``node`` gives all of it
            to each.
        minimum: Units per period set aside inside the parent group.
        maximum: Units per period that the group may take from its parent.
    """

    dimension: str
    rate: float
    burst: float
    period_s: float = 1.0
    period: Period | None = None
    time_zone: str = "UTC"
    begins_at_s: float = 0.0
    scope: Scope = "cluster"
    minimum: float = 0.0
    maximum: float = UNLIMITED

    def __post_init__(self) -> None:
        if not self.dimension.isidentifier():
            raise InvalidConfiguration(
                "dimension", f"expected an identifier, got {self.dimension!r}"
            )
        if self.dimension == IN_FLIGHT:
            raise InvalidConfiguration(
                "dimension", f"expected a name other than {IN_FLIGHT}; use slots"
            )
        for name in ("rate", "burst", "minimum", "maximum"):
            value = getattr(self, name)
            if isnan(value) or value < 0:
                raise InvalidConfiguration(name, f"expected ≥ 0, got {value}")
            if 0 < value < LEAST_UNITS:
                raise InvalidConfiguration(
                    name, f"expected 0 or at least {LEAST_UNITS}, got {value}"
                )
        if self.rate > 0 and self.burst <= 0:
            raise InvalidConfiguration("burst", "expected > 0, got 0")
        if not (isfinite(self.period_s) and self.period_s >= LEAST_PERIOD_S):
            raise InvalidConfiguration(
                "period_s",
                f"expected a finite number ≥ {LEAST_PERIOD_S}, got {self.period_s}",
            )
        if self.minimum > self.maximum:
            raise InvalidConfiguration("minimum", "expected ≤ maximum")
        if self.period is not None and self.burst != self.rate:
            raise InvalidConfiguration(
                "burst", f"expected the rate, {self.rate:g}, with a calendar period"
            )

    @property
    def rate_per_s(self) -> float:
        """Q: what flows in, units per second; next to nothing in a calendar period."""
        return self.rate * TRICKLE if self.period else self.rate / self.period_s

    @property
    def ends_at_s(self) -> float:
        """When the present calendar period ends, wall clock; infinite without one."""
        return self.begins_at_s + self.period_s if self.period else inf

    def renewed(
        self, level: float, before: Limit | None = None, withheld: float = 0.0
    ) -> tuple[float, float]:
        """Return the level of this calendar limit, and what it withholds from now on.

        A new period begins full, less what is owed.  Within a period, what was used
        stays used when the limit changes, but creates no debt: what is beyond a lowered
        quota is withheld if that is raised again before the period ends.

        Args:
            level: Units, before.
            before: The limit that `level` belonged to; None for an earlier period of
                this one.
            withheld: Units that it withheld.
        """
        debt = min(level, 0.0)
        if before is None or self.begins_at_s > before.begins_at_s:
            return self.burst + debt, 0.0
        left = level - withheld + self.burst - before.burst
        return max(left, debt), max(debt - left, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A named set of limits shared by everything attached to it (PIP-82).

    Attributes:
        id: Small positive integer given by the store, never used again.
        name: Unique, at most 256 characters.
        limits: At most one per (dimension, scope).
        parent: Id of the group that this one is part of, or None.
        weight: Of this group among its siblings; > 0.
        mode: ``strict`` never exceeds Q·W + B, at a price in utilisation.
        may_owe: Admit while level ≥ 0 and then charge (KIP-599), rather than
            only while level ≥ cost.
        isolation: What an agent that is cut off may spend; see
            `headgate.coordinator.allocation.reserves`.
        refusal: What happens to a caller by default when the group is exhausted.
        soft_threshold: Part of the rate (0–1] above which callers are warned.
        per_partition: Each partition of a topic under the group has the node-scoped
            limits to itself; cluster-scoped ones stay shared.
        split: How each process divides what it may spend among its topics; with None,
            one topic may take everything.
        slots: How many requests may be in flight at once, across the whole cluster; 0
            lets none begin, None is no limit.
        per: Makes this a template: each value of that part of a subject has the limits
            to itself; None for one group whose limits are shared by all.
        template: Id of the template whose limits this group has for one value; None
            for a group of the configuration.
    """

    id: int
    name: str
    limits: tuple[Limit, ...]
    parent: int | None = None
    weight: float = 1.0
    mode: Mode = "balanced"
    may_owe: bool = True
    isolation: Isolation = "fair"
    refusal: Refusal = "reject"
    soft_threshold: float | None = None
    per_partition: bool = False
    split: Split | None = None
    slots: int | None = None
    per: Per | None = None
    template: int | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight > 0):
            raise InvalidConfiguration(
                "weight", f"expected a finite number > 0, got {self.weight}"
            )
        if self.slots is not None and not 0 <= self.slots <= MOST_SLOTS:
            raise InvalidConfiguration(
                "slots", f"expected 0 to {MOST_SLOTS}, got {self.slots}"
            )
        keys = [(limit.dimension, limit.scope) for limit in self.limits]
        if len(set(keys)) < len(keys):
            raise InvalidConfiguration(
                "limits", "expected at most one per dimension and scope"
            )
        if self.mode == "strict" and any(limit.period for limit in self.limits):
            raise InvalidConfiguration(
                "mode", "expected balanced: strict groups have no calendar periods"
            )
        if self.per is not None and (self.mode == "strict" or self.slots is not None):
            raise InvalidConfiguration(
                "per", "expected null with mode strict, and with slots"
            )


@dataclass(frozen=True, slots=True)
class Attachment:
    """Attaches a subject to a group.

    Attributes:
        subject: Pairs of (kind, name) in the order of `SUBJECT_KINDS`; a name of
            None stands for the default of that kind.  ``(("tenant", "acme"),)``,
            ``(("namespace", "acme/orders"),)``, Kafka's
            ``(("user", "alice"), ("client", None))``.
        group: Id of the group.
    """

    subject: tuple[tuple[str, str | None], ...]
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One revision of everything that the operator decided.

    Attributes:
        revision: Number of this state; grows by one with each change.
        cluster: Name of the cluster; reports of other clusters are ignored.
        groups: All groups, any order.
        attachments: All attachments, at most one per subject.
    """

    revision: int = 0
    cluster: str = "default"
    groups: tuple[Group, ...] = ()
    attachments: tuple[Attachment, ...] = field(default=(), repr=False)


def limits_in_force(groups: Iterable[Group]) -> dict[int, Group]:
    """Return groups by id, with the limits that they are held to.

    An unlimited cluster-wide limit, inside a group that is limited in the same
    dimension, takes the rate and the burst of the nearest such group.  A maximum is a
    rate: the level remembers what was used of it.  Where neither the group nor one that
    it is in has a limit, the burst is one period of the maximum.
    """
    by_id = {group.id: group for group in groups}
    held: dict[int, Group] = {}
    for group in by_id.values():
        for each in reversed([group, *ancestry_of(group, by_id)]):
            if each.id not in held:
                above = [held.get(a.id, a) for a in ancestry_of(each, by_id)]
                held[each.id] = _bounded(each, above)
    return {group: held[group] for group in by_id}


def _bounded(group: Group, above: list[Group]) -> Group:
    if group.parent is None:
        return group
    limits = tuple(_in_force(limit, above) for limit in group.limits)
    return group if limits == group.limits else replace(group, limits=limits)


def _in_force(limit: Limit, above: list[Group]) -> Limit:
    if limit.scope == "node":
        return limit
    if isinf(limit.rate):
        limit = _nearest(limit, above)
    if limit.period or isinf(limit.maximum):
        return limit
    burst = limit.maximum if isinf(limit.rate) else limit.burst
    rate = min(limit.rate, limit.maximum)
    return replace(limit, rate=rate, burst=burst, maximum=UNLIMITED)


def _nearest(limit: Limit, above: list[Group]) -> Limit:
    for ancestor in above:
        for other in ancestor.limits:
            same = other.dimension == limit.dimension and other.scope == limit.scope
            if same and isfinite(other.rate):
                scale = other.period_s / limit.period_s
                return replace(
                    other, minimum=limit.minimum * scale, maximum=limit.maximum * scale
                )
    return limit


def ancestry_of(group: Group, by_id: Mapping[int, Group]) -> list[Group]:
    """Return the groups above one, nearest first; stop where they form a loop."""
    found: dict[int, Group] = {}
    above = group.parent
    while above is not None and above in by_id and above not in (group.id, *found):
        found[above] = by_id[above]
        above = by_id[above].parent
    return list(found.values())
