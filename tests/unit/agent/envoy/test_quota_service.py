"""What an allocating server answers its data planes, one report after another."""

from __future__ import annotations

import asyncio
import gc
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, Unpack, cast

import pytest
from tests.unit.agent.envoy.explanations import seen
from tests.unit.agent.making import Clock, configuration, group, make

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import HeadgateError
from headgate.agent.integrations.envoy import quota_service
from headgate.agent.integrations.envoy.descriptors import read_domain
from headgate.agent.integrations.envoy.limits import DescriptorLimits
from headgate.agent.integrations.envoy.quota_service import LEASE_S, QuotaService
from headgate.agent.runtime import LOOK_S
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Limit,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from headgate.agent.agent import AgentStatus
    from headgate.agent.follow.subject import SubjectNames
    from headgate.agent.integrations.envoy.messages import (
        CallContext,
        UsageReports,
        WireMessage,
    )
    from headgate.agent.integrations.web.key_groups import KeyGroups
    from headgate.agent.limiter.limiter import Limiter
    from headgate.coordinator import Explanation

NODE = Limit(dimension="requests", rate=10, burst=5, scope="node")


class Alone:
    """An agent that has heard nobody: what it says of limits is its own."""

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer

    def limiter(self, **names: Unpack[SubjectNames]) -> Limiter:
        return self._enforcer.limiter(**names)

    def explain(self, group: str, dimension: str) -> Explanation:
        raise HeadgateError(f"{group} {dimension}: not counted yet")

    def status(self) -> AgentStatus:
        return cast("AgentStatus", SimpleNamespace(members=()))


class Plane:
    """A data plane: sends reports and collects what it is told."""

    def __init__(
        self,
        service: QuotaService,
        domain: str = "apis",
        *,
        peer: str = "ipv4:10.0.0.1:50000",
        node: str | None = None,
    ) -> None:
        self.service = service
        self.domain = domain
        self._context = calling(peer, node)
        self.told: list[list[object]] = []
        self._reports: asyncio.Queue[UsageReports | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._listen())

    async def report(
        self, *usages: tuple[dict[str, str], int, int], elapsed_s: int = 0
    ) -> None:
        say = self.service.messages
        message = say.reports(
            domain=self.domain,
            bucket_quota_usages=[
                {
                    "bucket_id": {"bucket": bucket},
                    "num_requests_allowed": allowed,
                    "num_requests_denied": denied,
                    "time_elapsed": {"seconds": elapsed_s},
                }
                for bucket, allowed, denied in usages
            ],
        )
        await self._reports.put(cast("UsageReports", message))
        await settled()

    async def turn(self) -> list[object]:
        """Let the service take a turn; return the actions that came of it."""
        self.told.clear()
        self.service.turn()
        await settled()
        return [action for one in self.told for action in one]

    async def leave(self) -> None:
        await self._reports.put(None)
        await self._task

    async def _listen(self) -> None:
        async def reports() -> AsyncIterator[UsageReports]:
            while (report := await self._reports.get()) is not None:
                yield report

        async for message in self.service.serve(reports(), self._context):
            self.told.append(getattr(message, "bucket_action"))  # noqa: B009


def calling(peer: str, node: str | None = None) -> CallContext:
    """Return the call of a data plane."""
    metadata = () if node is None else ((quota_service.NODE_HEADER, node),)
    context = SimpleNamespace(peer=lambda: peer, invocation_metadata=lambda: metadata)
    return cast("CallContext", context)


async def settled() -> None:
    """Let every task go on until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def service(limit: Limit, clock: Clock, *tenants: str) -> QuotaService:
    """Return a server whose tenants share one group."""
    enforcer, ticking = make(group(limit), **dict.fromkeys(tenants, 1))
    clock.now = ticking.now
    return served_by(enforcer, clock)


def served_by(
    enforcer: Enforcer, clock: Clock, agent: Alone | None = None
) -> QuotaService:
    domain = read_domain(b"domain: apis\nsubjects: {tenant: tenant, user: user}\n")
    agent = agent or Alone(enforcer)
    keys = cast("KeyGroups", SimpleNamespace())
    limits = DescriptorLimits({"apis": domain}, agent, keys)
    return QuotaService(limits, agent, keys, weight=1.0, clock=clock)


class _Strategy(Protocol):
    blanket_rule: int
    token_bucket: SimpleNamespace

    def HasField(self, field_name: str) -> bool: ...  # protobuf's name


class _Assignment(Protocol):
    rate_limit_strategy: _Strategy
    assignment_time_to_live: SimpleNamespace

    def HasField(self, field_name: str) -> bool: ...  # protobuf's name


class _Action(Protocol):
    quota_assignment_action: _Assignment


def assigned(action: object) -> _Assignment:
    return cast("_Action", action).quota_assignment_action


def rate(action: object) -> float:
    """Return the hits/s of an action's token bucket."""
    bucket = assigned(action).rate_limit_strategy.token_bucket
    return float(bucket.tokens_per_fill.value / bucket.fill_interval.seconds)


def at_once(action: object) -> int:
    """Return the hits that an action's token bucket admits after rest."""
    return int(assigned(action).rate_limit_strategy.token_bucket.max_tokens)


def blanket(action: object) -> int:
    strategy = assigned(action).rate_limit_strategy
    assert strategy.HasField("blanket_rule")
    return strategy.blanket_rule


BURSTING = Limit(dimension="requests", rate=100, burst=10_000)
SHARED = Limit(dimension="requests", rate=100, burst=100)
ACME = {"tenant": "acme"}


def test_two_data_planes_divide_a_limit_that_one_had_alone(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        first = Plane(served)
        await first.report((ACME, 1, 0))
        (alone,) = await first.turn()
        second = Plane(served)
        await second.report((ACME, 1, 0))
        (half,) = await first.turn()
        assert rate(half) == pytest.approx(rate(alone) / 2)
        await first.leave()
        await second.leave()

    asyncio.run(scenario())


def test_a_broken_streams_part_is_free_again_after_its_lease(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        first, second = Plane(served), Plane(served)
        await first.report((ACME, 1, 0))
        await second.report((ACME, 1, 0))
        (half,) = await second.turn()
        await first.leave()
        clock.now += LEASE_S - 1.0
        (still,) = await second.turn()
        assert rate(still) == pytest.approx(rate(half))
        clock.now += 1.0
        await second.report((ACME, 1_000, 0))
        (whole,) = await second.turn()
        assert rate(whole) == pytest.approx(2 * rate(half), rel=0.01)
        await second.leave()

    asyncio.run(scenario())


def test_a_data_plane_that_reconnects_goes_on_with_its_part(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        first, second = Plane(served), Plane(served)
        await first.report((ACME, 1, 0))
        await second.report((ACME, 1, 0))
        (half,) = await second.turn()
        await first.leave()
        clock.now += 1.0
        again = Plane(served, peer="ipv4:10.0.0.1:50999")
        await again.report((ACME, 1, 0))
        (mine,) = await again.turn()
        assert rate(mine) == pytest.approx(rate(half))
        # Another one takes over nothing: what is left is shared by all three.
        third = Plane(served)
        await third.report((ACME, 1, 0))
        (part,) = await third.turn()
        assert rate(part) == pytest.approx(rate(half) * 2 / 3, abs=0.05)
        for plane in (second, again, third):
            await plane.leave()

    asyncio.run(scenario())


def test_what_a_broken_stream_held_is_given_up_with_its_lease(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_service, "MOST_BUCKETS", 2)
    names = ("acme", "b", "c")

    async def scenario() -> None:
        served = service(SHARED, clock, *names)
        acme, b, c = (({"tenant": name}, 1, 0) for name in names)
        first = Plane(served)
        await first.report(acme, b)
        await first.turn()
        await first.leave()
        again = Plane(served)
        await again.report(acme)
        clock.now += LEASE_S
        await again.turn()
        await again.report(acme, b, c)
        assert len(await again.turn()) == 2
        assert served.counters["beyond_bound"] == 1
        await again.leave()

    asyncio.run(scenario())


async def come_and_go(served: QuotaService) -> None:
    """Let an Envoy report once and break off."""
    plane = Plane(served)
    await plane.report((ACME, 1, 0))
    await plane.turn()
    await plane.leave()


def test_a_data_plane_that_reconnects_for_ever_costs_no_memory(clock: Clock) -> None:
    async def scenario() -> int:
        served = service(SHARED, clock, "acme")
        for _ in range(50):
            await come_and_go(served)
            clock.now += LEASE_S / 2
        gc.collect()
        kept = [x for x in gc.get_objects() if type(x).__name__ == "_Stream"]
        assert served.counters["resumed"] == 49
        return len(kept)

    assert asyncio.run(scenario()) <= 4


@pytest.mark.parametrize(
    ("before", "after", "resumed"),
    [
        (("ipv4:10.0.0.1:1", None), ("ipv4:10.0.0.2:2", None), 0),
        (("ipv4:10.0.0.1:1", None), ("ipv4:10.0.0.1:2", None), 1),
        (("ipv6:[::1]:1", None), ("ipv6:[::1]:2", None), 1),
        (("unix:", None), ("unix:", None), 1),
        (("ipv4:10.0.0.1:1", "a"), ("ipv4:10.0.0.2:2", "a"), 1),
        (("ipv4:10.0.0.1:1", "a"), ("ipv4:10.0.0.1:2", "b"), 0),
        (("ipv4:10.0.0.1:1", "a"), ("ipv4:10.0.0.1:2", None), 0),
    ],
)
def test_a_data_plane_is_known_by_its_id_or_else_by_its_host(
    clock: Clock,
    before: tuple[str, str | None],
    after: tuple[str, str | None],
    resumed: int,
) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        first = Plane(served, peer=before[0], node=before[1])
        await first.report((ACME, 1, 0))
        await first.leave()
        again = Plane(served, peer=after[0], node=after[1])
        await again.report((ACME, 1, 0))
        assert served.counters["resumed"] == resumed
        await again.leave()

    asyncio.run(scenario())


def test_a_part_of_a_limit_has_the_same_part_of_its_burst(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(BURSTING, clock, "acme")
        planes = [Plane(served) for _ in range(2)]
        for plane in planes:
            await plane.report((ACME, 1, 0))
        served.turn()
        await settled()
        for plane in planes:
            ((told,),) = plane.told
            burst_s = BURSTING.burst / BURSTING.rate
            assert at_once(told) == pytest.approx(rate(told) * burst_s, rel=0.1)
            await plane.leave()

    asyncio.run(scenario())


@pytest.mark.parametrize("large_is_the_tenants", [False, True])
def test_the_smallest_burst_of_all_limits_counts(
    clock: Clock, large_is_the_tenants: bool
) -> None:
    async def scenario() -> None:
        small = group(NODE, name="small")
        many = Limit(dimension="requests", rate=1_000, burst=100_000, scope="node")
        large = group(many, name="large", id=2)
        ids = (2, 1) if large_is_the_tenants else (1, 2)
        enforcer = Enforcer(clock=clock)
        attachments = (
            Attachment((("tenant", "acme"),), ids[0]),
            Attachment((("user", "al"),), ids[1]),
        )
        enforcer.configure(
            Configuration(revision=1, groups=(small, large), attachments=attachments),
            clock.now,
        )
        plane = Plane(served_by(enforcer, clock))
        await plane.report(({"tenant": "acme", "user": "al"}, 1, 0))
        (told,) = await plane.turn()
        assert (rate(told), at_once(told)) == (10.0, 10)
        await plane.leave()

    asyncio.run(scenario())


def test_a_limit_larger_than_envoys_numbers_stops_no_other_assignment(
    clock: Clock,
) -> None:
    async def scenario() -> None:
        vast = Limit(dimension="requests", rate=1e9, burst=1e10, scope="node")
        groups = (group(NODE), group(vast, name="vast", id=2))
        enforcer, ticking = make(*groups, acme=1, rich=2)
        clock.now = ticking.now
        plane = Plane(served_by(enforcer, clock))
        await plane.report(({"tenant": "rich"}, 1, 0), (ACME, 1, 0))
        largest, usual = await plane.turn()
        most = 2**32 - 1
        assert (rate(largest), at_once(largest)) == (most / 10, most)
        assert rate(usual) == 10.0
        await plane.leave()

    asyncio.run(scenario())


def test_a_limit_that_is_set_or_lifted_is_sent_at_the_next_turn(clock: Clock) -> None:
    async def scenario() -> None:
        unlimited = Limit(dimension="requests", rate=inf, burst=inf, scope="node")
        enforcer, ticking = make(group(unlimited), acme=1)
        clock.now = ticking.now
        plane = Plane(served_by(enforcer, clock))
        await plane.report((ACME, 1, 0))
        (action,) = await plane.turn()
        assert blanket(action) == quota_service.ALLOW_ALL
        assert not await plane.turn()
        enforcer.configure(configuration(group(NODE), acme=1), clock.now)
        (action,) = await plane.turn()
        assert rate(action) == NODE.rate
        enforcer.configure(configuration(group(unlimited), acme=1), clock.now)
        (action,) = await plane.turn()
        assert blanket(action) == quota_service.ALLOW_ALL
        await plane.leave()

    asyncio.run(scenario())


def test_two_data_planes_with_one_id_are_two(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        first, twin = (Plane(served, node="a") for _ in range(2))
        await first.report((ACME, 1, 0))
        (alone,) = await first.turn()
        await twin.report((ACME, 1, 0))
        (half,) = await twin.turn()
        assert rate(half) == pytest.approx(rate(alone) / 2)
        await first.leave()
        await twin.leave()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("bucket", "rule"),
    [
        ({"region": "eu"}, quota_service.ALLOW_ALL),
        ({"tenant": "nobody"}, quota_service.ALLOW_ALL),
        ({"tenant": "x" * 10_000}, quota_service.DENY_ALL),
        ({"tenant": "x" * 20_000}, quota_service.DENY_ALL),
        ({"tenant": "a/b"}, quota_service.DENY_ALL),
    ],
)
def test_a_bucket_that_no_limit_knows_is_answered_by_a_rule(
    clock: Clock, bucket: dict[str, str], rule: int
) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        plane = Plane(served)
        await plane.report((bucket, 1, 0))
        at_once = [action for told in plane.told for action in told]
        (action,) = at_once + await plane.turn()
        assert blanket(action) == rule
        await plane.leave()

    asyncio.run(scenario())


def test_a_data_plane_of_an_unknown_domain_is_told_nothing(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        plane = Plane(served, "nowhere")
        await plane.report((ACME, 1, 0))
        await plane.report((ACME, 5, 0))
        assert await plane.turn() == []
        assert served.counters["unknown_domain"] == 1
        await plane.leave()

    asyncio.run(scenario())


def test_buckets_beyond_the_bound_get_no_assignment(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_service, "MOST_BUCKETS", 3)
    names = [f"t{number}" for number in range(5)]

    async def scenario() -> None:
        served = service(SHARED, clock, *names)
        plane = Plane(served)
        await plane.report(*(({"tenant": name}, 1, 0) for name in names))
        assert len(await plane.turn()) == 3
        assert served.counters["beyond_bound"] == 2
        await plane.leave()
        clock.now += LEASE_S
        served.turn()
        after = Plane(served)
        await after.report(*(({"tenant": name}, 1, 0) for name in names[:3]))
        assert len(await after.turn()) == 3  # a stream that is gone leaves room
        clock.now += quota_service.IDLE_S + 1.0
        assert len(await after.turn()) == 3  # abandoned
        await after.report(*(({"tenant": name}, 1, 0) for name in names))
        assert len(await after.turn()) == 3
        assert served.counters["beyond_bound"] == 4
        await after.leave()

    asyncio.run(scenario())


def test_a_stream_that_never_reads_costs_one_action_a_bucket(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(NODE, clock, "acme")
        reports: asyncio.Queue[UsageReports] = asyncio.Queue()

        async def sent() -> AsyncIterator[UsageReports]:
            while True:
                yield await reports.get()

        messages = served.serve(sent(), calling("ipv4:10.0.0.1:50000"))
        say = served.messages
        usage = {"bucket_id": {"bucket": ACME}, "num_requests_allowed": 7}
        report = say.reports(domain="apis", bucket_quota_usages=[usage])
        await reports.put(cast("UsageReports", report))
        unread = asyncio.ensure_future(messages.__anext__())
        await settled()
        served.turn()
        first = await unread
        for _ in range(50):  # from here on nobody reads
            clock.now += 5.0
            await reports.put(cast("UsageReports", report))
            await settled()
            served.turn()
        later = await messages.__anext__()
        assert len(actions(first)) == len(actions(later)) == 1
        await cast("AsyncGenerator[WireMessage]", messages).aclose()

    asyncio.run(scenario())


def actions(message: WireMessage) -> list[object]:
    return list(getattr(message, "bucket_action"))  # noqa: B009


def test_what_data_planes_let_through_is_charged_to_the_agents_bucket(
    clock: Clock,
) -> None:
    async def scenario() -> None:
        enforcer, ticking = make(group(NODE), acme=1)
        clock.now = ticking.now
        plane = Plane(served_by(enforcer, clock))
        for _ in range(100):
            await plane.report((ACME, 40, 60))
            for _ in range(5):
                clock.now += 1.0
                await plane.turn()
        (used,) = enforcer.usage(clock.now)
        assert used.admitted == pytest.approx(100 * 40, rel=0.03)
        assert used.refused == pytest.approx(100 * 5 * (20 - 10), rel=0.05)
        await plane.leave()

    asyncio.run(scenario())


def test_what_was_let_through_under_another_server_is_not_charged_again(
    clock: Clock,
) -> None:
    async def scenario() -> None:
        enforcer, ticking = make(group(NODE), acme=1)
        clock.now = ticking.now
        plane = Plane(served_by(enforcer, clock))
        await plane.report((ACME, 1_000, 0))  # of the time without a server
        await plane.turn()
        for _ in range(20):
            clock.now += 5.0
            await plane.report((ACME, 0, 0))
            await plane.turn()
        used = enforcer.usage(clock.now)
        assert sum(one.admitted for one in used) < 100
        await plane.leave()

    asyncio.run(scenario())


def test_a_closed_limit_denies_and_an_idle_bucket_is_abandoned(clock: Clock) -> None:
    async def scenario() -> None:
        closed = Limit(dimension="requests", rate=0, burst=0)
        served = service(closed, clock, "acme")
        plane = Plane(served)
        await plane.report((ACME, 1, 0))
        (action,) = await plane.turn()
        assert blanket(action) == quota_service.DENY_ALL
        clock.now += quota_service.IDLE_S + 1.0
        await plane.report((ACME, 0, 0))
        (action,) = await plane.turn()
        assert cast("WireMessage", action).HasField("abandon_action")
        assert await plane.turn() == []
        await plane.leave()

    asyncio.run(scenario())


def test_at_the_end_every_assignment_expires(clock: Clock) -> None:
    async def scenario() -> None:
        served = service(SHARED, clock, "acme")
        plane = Plane(served)
        await plane.report((ACME, 1, 0))
        await plane.turn()
        plane.told.clear()
        served.close()
        await settled()
        ((action,),) = plane.told
        assert assigned(action).HasField("assignment_time_to_live")
        assert assigned(action).assignment_time_to_live.seconds == 0
        await plane.leave()

    asyncio.run(scenario())


def test_a_report_of_too_many_hits_closes_a_limit_for_a_year_at_most(
    clock: Clock,
) -> None:
    async def scenario() -> float:
        enforcer, ticking = make(group(SHARED), acme=1)
        clock.now = ticking.now
        plane = Plane(served_by(enforcer, clock))
        await plane.report((ACME, 1, 0))
        await plane.turn()
        await plane.report((ACME, 2**63, 0))
        for _ in range(100):
            clock.now += 0.1
            await plane.turn()
        await plane.leave()
        (link,) = enforcer.limiter(tenant="acme").links({"requests": 1.0})
        return link.local.level_at(clock.now)

    level = asyncio.run(scenario())
    assert -100.0 * 3.2e7 < level < -100.0 * 3.0e7


class Counted(Alone):
    """An agent that has counted the limit of 100/s, and is at rest."""

    def __init__(self, enforcer: Enforcer, level: float) -> None:
        super().__init__(enforcer)
        self._level = level

    def explain(self, group: str, dimension: str) -> Explanation:
        return seen(self._level)


@pytest.mark.parametrize("planes", [1, 3])
def test_a_surplus_of_rate_is_none_of_burst(clock: Clock, planes: int) -> None:
    """A bucket at rest is shared out at 1.5 times its rate."""

    async def scenario() -> None:
        counting = Counting(clock, level=100.0)
        every = [Plane(counting.service, node=str(n)) for n in range(planes)]
        for plane in every:
            await plane.report((ACME, 0, 0))
        await every[0].turn()
        actions = [action for plane in every for one in plane.told for action in one]
        assert sum(map(rate, actions)) == pytest.approx(150.0, rel=0.01)
        assert 100 <= sum(map(at_once, actions)) < 100 + planes
        for plane in every:
            await plane.leave()

    asyncio.run(scenario())


class Counting:
    """A server of one tenant, and what it has charged since it was last asked."""

    def __init__(self, clock: Clock, level: float = 0.0) -> None:
        enforcer, ticking = make(group(SHARED), acme=1)
        clock.now = ticking.now
        self.service = served_by(enforcer, clock, Counted(enforcer, level))
        self._limiter = enforcer.limiter(tenant="acme")
        self._before = 0.0

    def charged(self) -> float:
        (link,) = self._limiter.links({"requests": 1.0})
        before, self._before = self._before, link.bucket.admitted
        return self._before - before


def test_a_new_share_is_expected_to_be_used_from_when_it_is_sent(clock: Clock) -> None:
    async def scenario() -> None:
        counting = Counting(clock)
        light, heavy = Plane(counting.service), Plane(counting.service)
        await light.report((ACME, 0, 0))
        await heavy.report((ACME, 0, 0))
        await light.turn()
        clock.now += 4.0
        await light.turn()
        await light.report((ACME, 4 * 44, 0))
        await heavy.report((ACME, 4 * 50, 4 * 950))
        assert not await heavy.turn()  # 48.4 and 51.6 instead of 50: not worth it
        counting.charged()
        clock.now += 0.5
        await light.turn()
        assert counting.charged() == pytest.approx(0.5 * (44.0 + 50.0))
        await light.leave()
        await heavy.leave()

    asyncio.run(scenario())


@pytest.mark.parametrize(("before_s", "burst"), [(0, 100.0), (20, 0.0)])
def test_who_was_not_limited_before_begins_with_a_burst(
    clock: Clock, before_s: int, burst: float
) -> None:
    async def scenario() -> None:
        counting = Counting(clock)
        plane = Plane(counting.service)
        await plane.report((ACME, 100 * before_s, 0), elapsed_s=before_s)
        await plane.turn()
        clock.now += 1.0
        await plane.turn()
        assert counting.charged() == pytest.approx(100.0 + burst)
        await plane.leave()

    asyncio.run(scenario())


def test_new_data_planes_are_answered_soon_and_all_are_charged_in_small_parts(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        counting = Counting(clock)
        plane = Plane(counting.service)
        running = asyncio.create_task(counting.service.run())
        await settled()
        clock.now += 0.01
        await plane.report((ACME, 0, 0))
        asked_s, answered_s = clock.now, 0.0
        charges: list[float] = []
        while clock.now < asked_s + 60.0:
            clock.now += slept[-1]
            wake.set()
            await settled()
            charges.append(counting.charged())
            if plane.told and not answered_s:
                answered_s = clock.now
        assert 0.0 < answered_s - asked_s <= LOOK_S
        # A tick of an agent may well have one charge more or less than the tick before.
        assert 0.0 < max(charges[200:]) <= 100.0 * LOOK_S
        running.cancel()
        await plane.leave()

    slept: list[float] = []
    wake = asyncio.Event()

    real = asyncio.sleep

    async def sleep(delay_s: float) -> None:
        if delay_s == 0.0:
            await real(0.0)
            return
        slept.append(delay_s)
        wake.clear()
        await wake.wait()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(scenario())
