"""Answers to descriptors, from memory: one bucket per key, or a subject's chain.

Each descriptor is counted by itself, as envoyproxy/ratelimit does: one that is over its
limit doesn't keep the others from being charged.  A rule's buckets are groups made as
the keys come (`headgate.agent.integrations.web.key_groups`); a subject's are the groups
to which it is attached.

**Costs that are known afterwards.**  Envoy's `apply_on_stream_done` reports what a
request has cost when it is over.  Nothing in the message tells such a call from one
that may still be refused.  But only a caller that first asked with 0 hits, as Envoy's
filter then does on the request path, can be reporting afterwards.  So a bucket that was
asked about with 0 hits in the last `CHECKED_S` is charged with every cost that a call
names, whatever is left: refusing it would make that usage free.  Everywhere else a
refused call costs nothing; it would otherwise keep an overloaded bucket empty for ever.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from math import ceil, floor, inf
from typing import TYPE_CHECKING, cast

from headgate.agent.bucket.costs import MOST_COST
from headgate.agent.decision import ADMITTED, Refusal
from headgate.agent.errors import InvalidSubject
from headgate.agent.integrations.envoy.descriptors import DescriptorRule, MatchedRule
from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.limiter.ratelimit_headers import ratelimit_headers, tightest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headgate.agent.bucket.chain import Link
    from headgate.agent.decision import Decision
    from headgate.agent.integrations.envoy.descriptors import Entries, LimitDomain
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.integrations.web.key_groups import KeyGroups
    from headgate.agent.limiter.limiter import Limiter
    from headgate.agent.limiter.ratelimit_headers import Header

MOST_REMAINING = 2**32 - 1
"""The largest `limit_remaining`: an unsigned integer of 32 bits on the wire."""

CHECKED_S = 3_600.0
"""How long a call with 0 hits means that costs come afterwards: no stream is longer."""

MOST_CHECKED = 100_000
"""Most buckets for which that is remembered; of more, those asked about last."""

LEAST_COST = 1e-9
"""The cost that a check asks for, to find out whether the bucket is below zero."""

UNTIL_S = 31_536_000.0
"""A year: no reset is reported as further away, and no cost is owed for longer."""


@dataclass(frozen=True, slots=True)
class AskedDescriptor:
    """One descriptor of a request.

    Attributes:
        entries: Keys and values, in order.
        hits: What it costs; 0 asks whether the bucket is below zero.
        override: The limit that the request brings along, or None.
        named: The call says what it costs; otherwise it is 1.
    """

    entries: Entries
    hits: float = 1.0
    override: DescriptorRule | None = None
    named: bool = False


@dataclass(frozen=True, slots=True)
class DescriptorAnswer:
    """The answer to one descriptor.

    Attributes:
        over: Refused.
        rule: The limit that was counted; None where none is known by name.
        remaining: Whole hits left.
        reset_s: Seconds until the bucket is full again.
        retry_s: Seconds until a retry is sensible; 0 if admitted, infinite for never.
        headers: RateLimit headers, where a subject's limits decided.
    """

    over: bool = False
    rule: DescriptorRule | None = None
    remaining: int = 0
    reset_s: float = 0.0
    retry_s: float = 0.0
    headers: tuple[Header, ...] = ()


NO_LIMIT = DescriptorAnswer()
"""The answer to descriptors that no limit counts."""

NO_NAME = DescriptorAnswer(over=True, retry_s=inf)
"""The answer to descriptors whose value can't be a name, such as one of 10 kB: a caller
must not escape the limits by inventing one."""


class DescriptorLimits:
    """Decides on descriptors.

    Attributes:
        domains: By name.
        counters: How many requests named an unknown domain, a descriptor that nothing
            limits, or a subject that can't exist.
    """

    def __init__(
        self,
        domains: Mapping[str, LimitDomain],
        source: LimiterSource,
        keys: KeyGroups,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Decide by these domains.

        Args:
            domains: By name.
            source: The agent, for subjects.
            keys: Makes the groups of rules.
            clock: Seconds, monotonic.
        """
        self.domains = domains
        self.counters = Counter[str]()
        self._clock = clock
        self._checked: dict[str | Entries, float] = {}
        self._limiters = limiter_cache(source)
        self._keys = keys

    def decide(
        self, domain: str, asked: Sequence[AskedDescriptor]
    ) -> tuple[bool, list[DescriptorAnswer]]:
        """Return whether to refuse, and the answer to each descriptor.

        Never waits, and refuses nothing because the domain or a descriptor is unknown.
        """
        known = self.domains.get(domain)
        if known is None:
            self.counters["unknown_domain"] += 1
            return False, [NO_LIMIT] * len(asked)
        matches = [_matched(known, one) for one in asked]
        replaced = frozenset[str]().union(*(m.rule.replaces for m in matches if m))
        answers = [
            self._by_rule(match, one, replaced)
            if match is not None
            else self._by_subject(known, one)
            for match, one in zip(matches, asked, strict=True)
        ]
        return _refuses(answers), answers

    def limiter(self, domain: LimitDomain, entries: Entries) -> Limiter | None:
        """Return the limiter of the subject that entries name; None if they name none.

        Raises:
            InvalidSubject: A value can't be a name.
        """
        names = domain.subject(entries)
        if names is None:
            return None
        return self._limiters.get(cast("Mapping[str, str | None]", names))

    def _by_rule(
        self, match: MatchedRule, one: AskedDescriptor, replaced: frozenset[str]
    ) -> DescriptorAnswer:
        rule = match.rule
        if rule.unlimited:
            return DescriptorAnswer(remaining=MOST_REMAINING)
        # A check counts as one even if another rule replaces this one.
        afterwards = self._afterwards(match.key, one)
        if rule.name and rule.name in replaced:
            return NO_LIMIT
        if rule.requests_per_unit == 0:
            return DescriptorAnswer(not rule.shadow, rule, retry_s=inf)
        quota, cost = rule.quota, min(one.hits, MOST_COST)
        if afterwards:
            most = quota.amount + quota.amount / quota.period_s * UNTIL_S
            self._keys.charge(match.key, quota, min(cost, most))
            level, _ = self._keys.level(match.key, quota)
            over, retry_s = level < 0.0, -level * quota.period_s / quota.amount
        else:
            decision = self._keys.try_acquire(match.key, quota, cost)
            level, _ = self._keys.level(match.key, quota)
            over, retry_s = not decision, decision.delay_s
        lack = max(quota.amount - level, 0.0)
        return DescriptorAnswer(
            over=over and not rule.shadow,
            rule=rule,
            remaining=0 if over else floor(max(level, 0.0)),
            reset_s=ceil(min(lack * quota.period_s / quota.amount, UNTIL_S)),
            retry_s=retry_s if over else 0.0,
        )

    def _by_subject(
        self, domain: LimitDomain, one: AskedDescriptor
    ) -> DescriptorAnswer:
        try:
            limiter = self.limiter(domain, one.entries)
        except InvalidSubject:
            self.counters["invalid_subject"] += 1
            return NO_NAME
        if limiter is None:
            self.counters["unknown_descriptor"] += 1
            return NO_LIMIT
        cost = min(one.hits, MOST_COST)
        costs = {domain.dimension: cost}
        links = limiter.links(costs)
        if self._afterwards((*one.entries, ("", domain.name)), one):
            most = min([cost, *(charged_at_once(link) for link in links)])
            limiter.charge(**{domain.dimension: most})
            decision = limiter.validate(**{domain.dimension: LEAST_COST})
        else:
            never = _never_held(links, cost)
            decision = limiter.try_acquire(**costs) if never is None else never
        now = limiter.clock()
        link = tightest(links, now)
        if link is None:
            return DescriptorAnswer(not decision, retry_s=decision.delay_s)
        level = max(link.local.level_at(now), 0.0)
        reset_s = _full_in_s(link, now)
        if decision.delay_s < inf:  # it may be full only as far as known here
            reset_s = max(reset_s, min(decision.delay_s, UNTIL_S))
        return DescriptorAnswer(
            over=not decision,
            rule=_shown(link),
            remaining=min(floor(level), MOST_REMAINING) if decision else 0,
            reset_s=reset_s,
            retry_s=decision.delay_s,
            headers=tuple(ratelimit_headers([link], now)),
        )

    def _afterwards(self, key: str | Entries, one: AskedDescriptor) -> bool:
        """Return whether to charge a cost whatever is left; 0 hits cost nothing.

        Args:
            key: Equal for descriptors that share a bucket.
            one: What is asked.
        """
        if one.hits <= 0.0:
            self._checked.pop(key, None)  # the newest are at the end
            if len(self._checked) >= MOST_CHECKED:
                del self._checked[next(iter(self._checked))]
            self._checked[key] = self._clock()
            return True
        if not one.named or not self._checked:
            return False
        return self._clock() - self._checked.get(key, -inf) < CHECKED_S


def _matched(domain: LimitDomain, one: AskedDescriptor) -> MatchedRule | None:
    if one.override is None:
        return domain.match(one.entries)
    parts = [f"{key}_{value}" for key, value in one.entries]
    return domain.counted(one.override, parts)


def _refuses(answers: Sequence[DescriptorAnswer]) -> bool:
    """Return whether a limit refuses; those in quota mode only all together."""
    quota = [one.over for one in answers if one.rule and one.rule.quota_mode]
    others = [one.over for one in answers if not (one.rule and one.rule.quota_mode)]
    return any(others) or (bool(quota) and all(quota))


def retry_in_s(answers: Sequence[DescriptorAnswer]) -> float:
    """Return when a refused request may be tried again, seconds; infinite for never.

    Every ordinary limit must admit, but of those in quota mode one is enough.
    """
    over = [one for one in answers if one.over]
    others = [one.retry_s for one in over if not (one.rule and one.rule.quota_mode)]
    quota = [one.retry_s for one in over if one.rule and one.rule.quota_mode]
    return max([*others, min(quota, default=0.0)])


def _shown(link: Link) -> DescriptorRule | None:
    """Return a subject's limit as RLS can express it, or None."""
    limit = link.local.limit
    units = {1.0: "second", 60.0: "minute", 3_600.0: "hour", 86_400.0: "day"}
    unit = units.get(limit.period_s)
    if unit is None or not 0.0 <= limit.rate <= MOST_REMAINING:
        return None
    return DescriptorRule(
        requests_per_unit=floor(limit.rate), unit=unit, name=link.limit.group
    )


def _never_held(links: Sequence[Link], cost: float) -> Decision | None:
    """Return the answer to a cost above what a limit ever holds; None to any other.

    It is counted but not charged, as under a rule: a group that may owe would be closed
    for as long as the debt takes.  A single hit is none: a burst may be below one.
    Limits in shadow decide only where no other bounds the cost.
    """
    if cost <= 1.0:
        return None
    limited = [link for link in links if link.local.limit.rate < inf]
    firm = [link for link in limited if link.mode != "shadow"]
    beyond = [
        link
        for link in firm or limited
        if cost > max(link.local.limit.burst, link.bucket.capacity)
    ]
    if not beyond:
        return None
    for link in beyond:
        link.bucket.count_refused(cost)
    return Refusal(inf, True) if firm else ADMITTED


def charged_at_once(link: Link) -> float:
    """Return the largest cost that is charged without asking: a debt of a year.

    One of 2**53, which an Envoy may report by mistake, would be owed for ever, and
    other agents wouldn't believe such a count.
    """
    limit = link.local.limit
    return limit.burst + limit.rate / limit.period_s * UNTIL_S


def _full_in_s(link: Link, now: float) -> float:
    limit = link.local.limit
    if limit.rate_per_s <= 0.0:
        return 0.0
    full_in_s = (limit.burst - link.local.level_at(now)) / limit.rate_per_s
    return float(ceil(min(full_in_s, link.bucket.renewed_s - now, UNTIL_S)))
