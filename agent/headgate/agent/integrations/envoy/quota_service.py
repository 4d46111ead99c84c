"""RLQS: `envoy.service.rate_limit_quota.v3`, an allocating server for data planes.

Each stream is one data plane.  Its first report of a bucket is a subscription, answered
at once; then it reports every five seconds, and is sent its share whenever that
changes.  How shares are found: `headgate.agent.integrations.envoy.quota_shares`.

Only the newest action per bucket is queued for a stream, so one that never reads holds
up nobody and costs no more than its buckets.

RLQS doesn't say who reports.  A data plane is identified by the metadata `NODE_HEADER`,
otherwise by the address of its host.  One that reconnects goes on with what its broken
stream had: its part isn't reserved a second time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TYPE_CHECKING, Protocol, cast

from headgate.agent.errors import HeadgateError, InvalidSubject
from headgate.agent.integrations.envoy.limits import charged_at_once
from headgate.agent.integrations.envoy.messages import quota_messages
from headgate.agent.integrations.envoy.quota_shares import (
    VirtualAgent,
    divide,
    server_rate,
    shared_out,
)
from headgate.agent.integrations.sources import LimiterSource
from headgate.agent.once_log import OnceLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from headgate.agent.agent import AgentStatus
    from headgate.agent.bucket.chain import Link
    from headgate.agent.integrations.envoy.descriptors import LimitDomain
    from headgate.agent.integrations.envoy.limits import DescriptorLimits
    from headgate.agent.integrations.envoy.messages import (
        BucketUsage,
        CallContext,
        UsageReports,
        WireMessage,
    )
    from headgate.agent.integrations.web.key_groups import KeyGroups, Quota
    from headgate.agent.limiter.limiter import Limiter
    from headgate.coordinator import Explanation

LEASE_S = 15.0
"""How long an assignment holds without another: three reports, since below two a limit
goes on and off.  A broken stream's share stays reserved for as long."""

RENEWED_S = 5.0
"""How often an assignment that didn't change is extended."""

TURN_S = 0.25
"""Time between two calculations of all shares."""

CHARGE_S = 0.025
"""Time between two charges, half of that between two looks of an agent: others see a
steady caller without lumps.  Subscriptions are gathered for as long."""

TURNING_PART = 0.15
"""Largest part of a core for these calculations: with very many buckets they come
less often."""

CHANGED = 0.05
"""Part by which a share changes before it is sent again."""

FILL_S = 10
"""Seconds of an assignment's fill interval.  Envoy truncates it to whole seconds, and
takes one below a second as unlimited; a long one costs nothing, as it refills
evenly."""

LONGEST_FILL_S = 86_400
"""Fill interval of the smallest share: one hit a day."""

LEVEL_S = 1.0
"""Seconds of its part of the quota that a data plane may hold at least: with less,
Envoy admits less than the rate."""

MOST_TOKENS = 2**32 - 1
"""The most tokens of a bucket or a fill: an unsigned integer of 32 bits on the wire."""

IDLE_S = 60.0
"""A bucket without hits for this long is abandoned; it subscribes again when hits
come."""

MOST_BUCKETS = 100_000
"""Most buckets of all streams; for more, `no_assignment_behavior` applies."""

MOST_ACTIONS = 1_000
"""Most actions in one message."""

MANY_HITS = 1e6
"""From this many hits in one report on, it is checked whether that can be true."""

LONGEST_ID = 16_384
"""Most characters of a bucket's id; a bucket with a longer one is refused."""

NODE_HEADER = "x-headgate-node"
"""gRPC metadata that tells the data planes of one host apart."""

LONGEST_NODE = 256
"""Characters of it that count."""

ALLOW_ALL, DENY_ALL = 0, 1
"""Blanket rules."""

BucketKey = tuple[tuple[str, str], ...]
"""A bucket's id: pairs of key and value, sorted."""


class QuotaAgent(LimiterSource, Protocol):
    """The agent, as an allocating server needs it."""

    def explain(self, group: str, dimension: str) -> Explanation:
        """Return a limit with its inputs."""
        ...

    def status(self) -> AgentStatus:
        """Return who else is in the cluster."""
        ...


@dataclass(slots=True, eq=False)
class _Bucket:
    """A bucket's id, and what limits it, for all streams that report it."""

    limiter: Limiter
    dimension: str
    rule_key: str | None = None
    quota: Quota | None = None

    def links(self) -> list[Link]:
        return self.limiter.links({self.dimension: 1.0})


@dataclass(slots=True, eq=False)
class _Held:
    """One bucket of one stream.

    Attributes:
        due: Its share without what is shared out beyond the quota, hits/s.
        burst: Its part of the burst, hits.
    """

    bucket: _Bucket
    agent: VirtualAgent
    used_s: float
    sent: float = -1.0
    sent_s: float = -inf
    due: float = 0.0
    burst: float = 0.0


@dataclass(slots=True, eq=False)
class _Stream:
    """One stream of a data plane, which `node` names.

    Attributes:
        before: The broken stream that it goes on from, if there is one.
        gone_s: When it broke.
    """

    domain: LimitDomain
    node: str
    before: _Stream | None = None
    held: dict[BucketKey, _Held] = field(default_factory=dict[BucketKey, _Held])
    queued: dict[BucketKey, WireMessage] = field(
        default_factory=dict[BucketKey, "WireMessage"]
    )
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    gone_s: float | None = None


class QuotaService:
    """Divides limits among the data planes that report.

    Attributes:
        messages: What RLQS is spoken in.
    """

    def __init__(
        self,
        limits: DescriptorLimits,
        agent: QuotaAgent,
        keys: KeyGroups,
        *,
        weight: float,
        clock: Callable[[], float],
    ) -> None:
        """Begin without streams.

        Args:
            limits: The domains.
            agent: The server's own agent.
            keys: Makes the groups of rules.
            weight: Of that agent.
            clock: Seconds, monotonic; the agent's.
        """
        self._limits = limits
        self._agent = agent
        self._keys = keys
        self._weight = weight
        self._clock = clock
        self.messages = quota_messages()
        self._streams: set[_Stream] = set()
        self._held = 0  # buckets of all streams
        self._buckets: dict[tuple[str, BucketKey], _Bucket] = {}
        self._charged_s = self._turned_s = clock()
        self._fresh = False  # a bucket waits for its first assignment
        self._closing = False
        self._log = OnceLog()

    @property
    def counters(self) -> Counter[str]:
        """Number of events, by name."""
        return self._log.counters

    async def serve(
        self, reports: AsyncIterator[UsageReports], context: CallContext
    ) -> AsyncIterator[WireMessage]:
        """Answer one data plane until its stream ends."""
        stream: _Stream | None = None
        reading: asyncio.Task[None] | None = None
        self.counters["streams"] += 1
        try:
            async for first in reports:
                domain = self._limits.domains.get(first.domain)
                if domain is None:
                    self._log.note(
                        "unknown_domain",
                        f"RLQS: no file describes domain {first.domain!r:.80}; its data"
                        " planes follow their no_assignment_behavior",
                    )
                    async for _ in reports:
                        pass
                    return
                stream = _Stream(domain, _node(context))
                stream.before = self._broken(stream, first)
                self._streams.add(stream)
                self.take(stream, first)
                break
            if stream is None:
                return
            reading = asyncio.create_task(self._read(stream, reports))
            while not reading.done() and not self._closing:
                await stream.wake.wait()
                stream.wake.clear()
                for message in self._drain(stream):
                    yield message
            for message in self._expired(stream) if self._closing else ():
                yield message
        finally:
            if reading is not None:
                reading.cancel()
            if stream is not None:
                self._leave(stream)

    async def run(self) -> None:
        """Charge, and take a turn when it is time or a new bucket waits."""
        while True:
            spent_s = -time.thread_time()
            try:
                if self._fresh or self._clock() - self._turned_s >= TURN_S:
                    self.turn()
                else:
                    self._charge(self._clock())
            except Exception as error:
                self._log.fault("failed_turns", error)
            spent_s += time.thread_time()
            await asyncio.sleep(max(CHARGE_S, spent_s / TURNING_PART))

    def close(self) -> None:
        """Let every assignment expire, and the streams end."""
        self._closing = True
        for stream in self._streams:
            stream.wake.set()

    def take(self, stream: _Stream, reports: UsageReports) -> None:
        """Take in what a data plane reports; the next turn answers new buckets."""
        now = self._clock()
        self.counters["reports"] += 1
        for usage in reports.bucket_quota_usages:
            key = _key(usage)
            held = stream.held.get(key)
            if held is None:
                held = self._subscribe(stream, key, now)
                if held is None:
                    continue
            allowed = _believed(float(usage.num_requests_allowed), held.bucket)
            denied = float(usage.num_requests_denied)
            if held.sent < 0.0:
                # Hits from before any assignment of this server were let through under
                # another's, which has charged them: a silent server is presumed to go
                # on as before.  So they only show what is wanted.
                elapsed_s = float(usage.time_elapsed.seconds)
                held.agent.begin(now, allowed + denied, elapsed_s)
            else:
                held.agent.report(now, allowed, denied)
            if allowed or denied:
                held.used_s = now

    def turn(self) -> None:
        """Charge what was let through, find all shares anew, and send what changed."""
        now = self._clock()
        self._turned_s, self._fresh = now, False
        for stream in [one for one in self._streams if one.gone_s is not None]:
            if now - cast("float", stream.gone_s) >= LEASE_S:
                self._streams.discard(stream)
                self._held -= len(stream.held)
        for stream in self._streams:
            if stream.before not in self._streams:
                stream.before = None  # its lease is over, and what it held given up
        self._charge(now)
        shares = self._shares()
        for stream in self._streams:
            if stream.gone_s is None:
                self._send(stream, now, shares)
        used = {id(h.bucket) for s in self._streams for h in s.held.values()}
        for key in [k for k, b in self._buckets.items() if id(b) not in used]:
            del self._buckets[key]

    async def _read(
        self, stream: _Stream, reports: AsyncIterator[UsageReports]
    ) -> None:
        try:
            async for report in reports:
                self.take(stream, report)
        finally:
            stream.wake.set()

    def _broken(self, stream: _Stream, first: UsageReports) -> _Stream | None:
        """Return the broken stream that a new one, and no other, goes on from.

        It is one of the same data plane; where several have broken behind one address,
        one that held what the new one reports.
        """
        ids = {_key(usage) for usage in first.bucket_quota_usages}
        taken = {id(one.before) for one in self._streams}
        for one in self._streams:
            if (
                one.gone_s is not None
                and one.node == stream.node
                and one.domain is stream.domain
                and id(one) not in taken
                and not ids.isdisjoint(one.held)
            ):
                self.counters["resumed"] += 1
                return one
        return None

    def _subscribe(self, stream: _Stream, key: BucketKey, now: float) -> _Held | None:
        """Return what is held for a new bucket; None if it is answered for good.

        An id that is too long or can't be a name is refused; one that no file knows is
        not limited.
        """
        if stream.before is not None and key in stream.before.held:
            held = stream.held[key] = stream.before.held.pop(key)
            held.agent.resume()
            held.sent_s = -inf  # its assignment is extended at once
            self._fresh = True
            return held
        if self._held >= MOST_BUCKETS:
            self._log.note(
                "beyond_bound",
                f"RLQS: more than {MOST_BUCKETS} buckets; the others follow"
                " no_assignment_behavior",
            )
            return None
        length = sum(len(name) + len(value) for name, value in key)
        try:
            if length > LONGEST_ID:
                raise InvalidSubject(f"expected at most {LONGEST_ID} characters")
            bucket = self._bucket(stream.domain, key)
        except InvalidSubject:
            self.counters["invalid_bucket"] += 1
            self._queue(stream, key, self._blanket(key, DENY_ALL))
            return None
        if bucket is None:
            self.counters["unknown_bucket"] += 1
            self._queue(stream, key, self._blanket(key, ALLOW_ALL))
            return None
        held = stream.held[key] = _Held(bucket, VirtualAgent(now), now)
        self._held += 1
        self._fresh = True
        return held

    def _bucket(self, domain: LimitDomain, key: BucketKey) -> _Bucket | None:
        known = self._buckets.get((domain.name, key))
        if known is not None:
            return known
        match = domain.match_any_order(dict(key))
        if match is not None and match.rule.requests_per_unit and not match.rule.shadow:
            limiter = self._keys.limiter(match.key, match.rule.quota)
            made = _Bucket(limiter, "requests", match.key, match.rule.quota)
        elif match is not None and not (match.rule.unlimited or match.rule.shadow):
            raise InvalidSubject("the rule lets nothing through")
        else:
            limiter_or_none = self._limits.limiter(domain, key)
            if match is not None or limiter_or_none is None:
                return None
            made = _Bucket(limiter_or_none, domain.dimension)
        self._buckets[domain.name, key] = made
        return made

    def _charge(self, now: float) -> None:
        """Charge the agent's buckets with what the data planes let through."""
        elapsed_s, self._charged_s = now - self._charged_s, now
        for stream in self._streams:
            for held in stream.held.values():
                charged, refused = held.agent.spend(now, elapsed_s)
                if held.bucket.rule_key is not None and held.bucket.quota is not None:
                    # Makes the group when it is new, and keeps it while it is used.
                    self._keys.try_acquire(held.bucket.rule_key, held.bucket.quota, 0.0)
                for link in held.bucket.links():
                    if charged > 0.0:
                        link.bucket.charge_at(now, charged)
                    if refused > 0.0:
                        link.bucket.count_refused(refused)

    def _shares(self) -> dict[int, float]:
        """Return the rate of each `_Held`, by its id: the least of all its limits."""
        by_limit: dict[int, tuple[Link, list[_Held]]] = {}
        rates: dict[int, float] = {}
        every = [held for one in self._streams for held in one.held.values()]
        sharing_bucket = Counter(id(held.bucket) for held in every)
        for held in every:
            links, quota = held.bucket.links(), held.bucket.quota
            rates[id(held)] = held.due = held.burst = inf
            if not links and quota is not None:  # its group is on the way
                holders = sharing_bucket[id(held.bucket)]
                held.due = quota.amount / quota.period_s / holders
                rates[id(held)], held.burst = held.due, 0.0
            for link in links:
                by_limit.setdefault(id(link.local), (link, []))[1].append(held)
        weights = {m.agent: m.weight for m in self._agent.status().members}
        for link, sharing in by_limit.values():
            limit = link.local.limit
            if limit.rate == inf:
                continue
            if limit.scope == "node" or limit.rate <= 0.0:
                most = limit.rate_per_s
                dealt = [most] * len(sharing)
            else:
                rate, most = self._rate(link, sharing, weights)
                dealt = divide(rate, [held.agent for held in sharing])
            for held, share in zip(sharing, dealt, strict=True):
                part = share / most if share else 0.0
                rates[id(held)] = min(rates[id(held)], share)
                held.due = min(held.due, limit.rate_per_s * part)
                held.burst = min(held.burst, limit.burst * part)
        return rates

    def _rate(
        self, link: Link, sharing: Sequence[_Held], weights: Mapping[str, float]
    ) -> tuple[float, float]:
        """Return the hits/s to divide, and those of all agents, at least the quota."""
        limit = link.local.limit
        try:
            seen = self._agent.explain(link.limit.group, limit.dimension)
        except HeadgateError:  # the agent has not counted it yet
            return min(link.local.spendable, limit.rate_per_s), limit.rate_per_s
        demand = sum(held.agent.demand for held in sharing)
        rate = server_rate(seen, demand, self._weight, weights)
        return rate, max(shared_out(seen), limit.rate_per_s)

    def _send(self, stream: _Stream, now: float, shares: Mapping[int, float]) -> None:
        for key, held in list(stream.held.items()):
            if now - held.used_s > IDLE_S:
                del stream.held[key]
                self._held -= 1
                self._queue(stream, key, self._abandoned(key))
                continue
            share = shares.get(id(held), held.agent.share)
            if inf in (share, held.sent):
                changed = share != held.sent
            else:
                changed = abs(share - held.sent) > CHANGED * max(held.sent, 0.0)
            if changed or now - held.sent_s >= RENEWED_S:
                # One that was limited before keeps the level of its token bucket.
                fresh = held.sent < 0.0 and held.agent.demand == inf
                held.sent, held.sent_s = share, now
                held.agent.assign(share if share < inf else 0.0, fresh=fresh)
                self._queue(stream, key, self._assigned(key, share, held))

    def _queue(self, stream: _Stream, key: BucketKey, action: WireMessage) -> None:
        stream.queued[key] = action
        stream.wake.set()

    def _drain(self, stream: _Stream) -> list[WireMessage]:
        actions, stream.queued = list(stream.queued.values()), {}
        return self._responses(actions)

    def _responses(self, actions: Sequence[WireMessage]) -> list[WireMessage]:
        return [
            self.messages.response(bucket_action=actions[at : at + MOST_ACTIONS])
            for at in range(0, len(actions), MOST_ACTIONS)
        ]

    def _expired(self, stream: _Stream) -> list[WireMessage]:
        say = self.messages
        return self._responses(
            [
                say.action(
                    bucket_id=say.bucket_id(bucket=dict(key)),
                    quota_assignment_action=say.assignment(
                        assignment_time_to_live=say.duration(seconds=0)
                    ),
                )
                for key in stream.held
            ]
        )

    def _leave(self, stream: _Stream) -> None:
        """Keep a stream's share until its data plane stops using it."""
        stream.gone_s = self._clock()
        stream.queued.clear()
        for held in stream.held.values():
            held.agent.gone = True

    def _abandoned(self, key: BucketKey) -> WireMessage:
        say = self.messages
        return say.action(
            bucket_id=say.bucket_id(bucket=dict(key)), abandon_action=say.abandon()
        )

    def _assigned(self, key: BucketKey, share: float, held: _Held) -> WireMessage:
        if share == inf:
            return self._blanket(key, ALLOW_ALL)
        per_fill, fill_s = min(round(share * FILL_S), MOST_TOKENS), FILL_S
        if per_fill < 1:
            if share * LONGEST_FILL_S < 1.0:
                return self._blanket(key, DENY_ALL)
            per_fill, fill_s = 1, ceil(1.0 / share)
        say = self.messages
        burst = min(max(held.burst, held.due * LEVEL_S), MOST_TOKENS)
        bucket = say.token_bucket(
            max_tokens=max(1, ceil(burst)),
            tokens_per_fill=say.whole(value=per_fill),
            fill_interval=say.duration(seconds=fill_s),
        )
        return self._action(key, say.strategy(token_bucket=bucket))

    def _blanket(self, key: BucketKey, rule: int) -> WireMessage:
        return self._action(key, self.messages.strategy(blanket_rule=rule))

    def _action(self, key: BucketKey, strategy: WireMessage) -> WireMessage:
        say = self.messages
        return say.action(
            bucket_id=say.bucket_id(bucket=dict(key)),
            quota_assignment_action=say.assignment(
                assignment_time_to_live=say.duration(seconds=round(LEASE_S)),
                rate_limit_strategy=strategy,
            ),
        )


def _believed(hits: float, bucket: _Bucket) -> float:
    """Return how many hits of a report count: they close no limit for over a year."""
    if hits < MANY_HITS:
        return hits
    return min([hits, *(charged_at_once(link) for link in bucket.links())])


def _key(usage: BucketUsage) -> BucketKey:
    return tuple(sorted(usage.bucket_id.bucket.items()))


def _node(context: CallContext) -> str:
    """Return who calls: what its metadata says, or else its host."""
    for name, value in context.invocation_metadata() or ():
        if name == NODE_HEADER:
            return f"node {value!s:.{LONGEST_NODE}}"
    return context.peer().rpartition(":")[0]
