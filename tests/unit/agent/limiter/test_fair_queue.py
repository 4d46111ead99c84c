"""The fair queue, stepped by hand: order, deadlines, bounds, cancellation."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING

import pytest
from tests.unit.agent.making import NODE, TOKENS, Clock, configuration, group, make

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import InvalidSetting, NoLimitApplies
from headgate.coordinator.config.configuration import Attachment, Configuration, Group

if TYPE_CHECKING:
    from headgate.agent.decision import Decision
    from headgate.agent.limiter.limiter import Limiter

SLOW = replace(NODE, rate=1, burst=1)


class Line:
    """Tasks that wait, and the order in which they were admitted."""

    def __init__(self, enforcer: Enforcer, clock: Clock) -> None:
        self.enforcer = enforcer
        self.clock = clock
        self.order: list[str] = []
        self.answers: dict[str, Decision] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def join(self, name: str, limiter: Limiter, cost: float = 1.0) -> None:
        async def caller() -> None:
            self.answers[name] = await limiter.wait_async(requests=cost)
            self.order.append(name)

        self.tasks[name] = asyncio.create_task(caller())
        await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.enforcer.waiting.tick_at(self.clock.now)
        for _ in range(3):
            await asyncio.sleep(0)


def stepped(enforcer: Enforcer) -> None:
    """Let no thread tick: the test does."""
    enforcer.waiting.step_by_hand()


def test_within_a_tenant_the_first_to_come_is_the_first_to_go() -> None:
    async def main() -> None:
        enforcer, clock = make(group(SLOW), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        line = Line(enforcer, clock)
        assert limiter.try_acquire(requests=2)
        for index in range(5):
            await line.join(str(index), limiter)
        assert line.order == []
        await line.pass_time(1.0)
        assert line.order == ["0"]
        await line.pass_time(10.0)
        assert line.order == ["0", "1", "2"]  # burst 1: two, as the last may owe
        await line.pass_time(2.0)
        assert line.order == ["0", "1", "2", "3", "4"]
        assert all(line.answers.values())

    asyncio.run(main())


def test_a_small_cost_does_not_overtake_a_large_one_of_the_same_tenant() -> None:
    async def main() -> None:
        strict = group(replace(SLOW, burst=5), may_owe=False)
        enforcer, clock = make(strict, acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        line = Line(enforcer, clock)
        assert limiter.try_acquire(requests=5)
        await line.join("large", limiter, 5)
        await line.join("small", limiter, 1)
        await line.pass_time(2.0)
        assert line.order == []
        await line.pass_time(3.0)
        assert line.order == ["large"]
        await line.pass_time(1.0)
        assert line.order == ["large", "small"]

    asyncio.run(main())


def test_pip322_tenants_take_turns_however_many_wait_of_one() -> None:
    async def main() -> None:
        clock = Clock()
        enforcer = Enforcer(clock=clock, seed=1)
        shared = Group(id=1, name="shared", limits=(SLOW,))
        enforcer.configure(
            Configuration(
                revision=1,
                groups=(shared,),
                attachments=tuple(
                    Attachment((("tenant", tenant),), 1) for tenant in ("a", "b")
                ),
            ),
            clock.now,
        )
        stepped(enforcer)
        first, second = enforcer.limiter(tenant="a"), enforcer.limiter(tenant="b")
        assert first.try_acquire(requests=2)
        line = Line(enforcer, clock)
        for index in range(6):
            await line.join(f"a{index}", first)
        await line.join("b0", second)
        await line.join("b1", second)
        for _ in range(6):
            await line.pass_time(1.0)
        assert line.order[:4] in (
            ["a0", "b0", "a1", "b1"],
            ["b0", "a0", "b1", "a1"],
        )
        for task in line.tasks.values():
            task.cancel()
        await asyncio.gather(*line.tasks.values(), return_exceptions=True)

    asyncio.run(main())


def test_pip322_tenants_take_turns_within_one_tick_of_many_tokens() -> None:
    async def main() -> None:
        clock = Clock()
        enforcer = Enforcer(clock=clock, seed=1)
        shared = Group(id=1, name="shared", limits=(replace(SLOW, burst=10),))
        tenants = ("a", "b", "c")
        attached = tuple(Attachment((("tenant", name),), 1) for name in tenants)
        enforcer.configure(
            Configuration(revision=1, groups=(shared,), attachments=attached), clock.now
        )
        stepped(enforcer)
        limiters = {name: enforcer.limiter(tenant=name) for name in tenants}
        limiters["a"].charge(requests=11)
        line = Line(enforcer, clock)
        for name, callers in (("a", 9), ("b", 3), ("c", 3)):
            for index in range(callers):
                await line.join(f"{name}{index}", limiters[name])
        await line.pass_time(9.0)  # eight tokens and one that is owed, at once
        assert len(line.order) == 9
        for turn in range(3):
            served = line.order[3 * turn : 3 * turn + 3]
            assert sorted(served) == [f"{name}{turn}" for name in tenants]
        for task in line.tasks.values():
            task.cancel()
        await asyncio.gather(*line.tasks.values(), return_exceptions=True)

    asyncio.run(main())


def test_a_cancelled_caller_loses_no_tokens_and_nobodys_place() -> None:
    async def main() -> None:
        enforcer, clock = make(group(SLOW), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        line = Line(enforcer, clock)
        assert limiter.try_acquire(requests=2)
        for name in "abcd":
            await line.join(name, limiter)
        line.tasks["a"].cancel()  # while it waits
        await asyncio.sleep(0)
        await line.pass_time(1.0)
        assert line.order == ["b"]
        clock.now += 1.0
        enforcer.waiting.tick_at(clock.now)
        line.tasks["c"].cancel()  # admitted, but not yet told
        await asyncio.gather(line.tasks["c"], return_exceptions=True)
        assert line.tasks["c"].cancelled()
        await line.pass_time(0.0)
        assert line.order == ["b", "d"]
        (usage,) = enforcer.usage(clock.now)
        assert usage.admitted == 4.0
        assert usage.tokens == -1.0
        assert len(enforcer.waiting) == 0

    asyncio.run(main())


def test_a_cancelled_caller_gives_back_to_the_limit_that_it_was_charged_by() -> None:
    async def main() -> None:
        lead = replace(group(SLOW), id=2, name="lead")
        enforcer, clock = make(group(SLOW), lead, acme=1, other=2)
        stepped(enforcer)
        limiter, other = (enforcer.limiter(tenant=name) for name in ("acme", "other"))
        line = Line(enforcer, clock)
        assert limiter.try_acquire(requests=2)
        assert other.try_acquire(requests=2)
        await line.join("a", limiter)
        clock.now += 2.0
        enforcer.waiting.tick_at(clock.now)  # admitted, but not yet told
        enforcer.configure(
            configuration(group(SLOW), lead, acme=2, other=2, revision=2), clock.now
        )
        limiter.handle()  # resolves the chain again: it is lead's now
        line.tasks["a"].cancel()
        await asyncio.gather(line.tasks["a"], return_exceptions=True)
        admitted = {usage.group: usage.admitted for usage in enforcer.usage(clock.now)}
        assert admitted == {"gold": 2.0, "lead": 2.0}

    asyncio.run(main())


def test_a_deadline_ends_the_wait_and_says_so() -> None:
    async def main() -> None:
        enforcer, _ = make(group(SLOW), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        assert limiter.try_acquire(requests=10)
        decision = await limiter.wait_async(timeout_s=0.0, requests=1)
        assert not decision
        assert decision.reason == "deadline"
        assert decision.delay_s == 9.0
        assert len(enforcer.waiting) == 0

    asyncio.run(main())


def test_a_full_queue_turns_callers_away() -> None:
    async def main() -> None:
        clock = Clock()
        enforcer = Enforcer(clock=clock, seed=1, most_waiters=2)
        enforcer.configure(make_configuration(), clock.now)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        assert limiter.try_acquire(requests=2)
        line = Line(enforcer, clock)
        for name in "abc":
            await line.join(name, limiter)
        assert line.answers["c"].reason == "queue full"
        assert not line.answers["c"]
        assert enforcer.metrics()["turned_away"] == 1
        await line.pass_time(1.0)
        await line.pass_time(1.0)
        assert line.order == ["c", "a", "b"]

    asyncio.run(main())


def make_configuration() -> Configuration:
    return Configuration(
        revision=1,
        groups=(group(SLOW),),
        attachments=(Attachment((("tenant", "acme"),), 1),),
    )


def test_what_can_never_be_admitted_does_not_wait() -> None:
    async def main() -> None:
        enforcer, _ = make(group(SLOW, may_owe=False), acme=1)
        stepped(enforcer)
        decision = await enforcer.limiter(tenant="acme").wait_async(requests=2)
        assert decision.never
        assert len(enforcer.waiting) == 0

    asyncio.run(main())


@pytest.mark.parametrize("change", ["burst lowered", "may owe no more"])
def test_what_a_change_makes_impossible_is_refused_and_holds_nobody_up(
    change: str,
) -> None:
    async def main() -> None:
        may_owe = change == "may owe no more"
        before = group(replace(SLOW, burst=4), may_owe=may_owe)
        enforcer, clock = make(before, acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        limiter.charge(requests=8)
        large = 6 if may_owe else 3
        waiting = [
            asyncio.create_task(limiter.wait_async(requests=cost))
            for cost in (large, 1)
        ]
        await asyncio.sleep(0)
        burst = 4 if may_owe else 2
        after = group(replace(SLOW, burst=burst), may_owe=False)
        enforcer.configure(configuration(after, revision=2, acme=1), clock.now)
        clock.now += 8.0
        enforcer.waiting.tick_at(clock.now)
        refused, admitted = await asyncio.gather(*waiting)
        assert refused.never
        assert admitted
        assert len(enforcer.waiting) == 0
        (usage,) = enforcer.usage(clock.now)
        assert usage.refused == large

    asyncio.run(main())


def test_a_caller_whose_group_is_gone_holds_nobody_up() -> None:
    async def main() -> None:
        clock = Clock()
        enforcer = Enforcer(clock=clock, seed=1, strict=True)
        gold, lead = group(SLOW), Group(id=2, name="lead", limits=(SLOW,))
        both = configuration(gold, lead, acme=1, zoo=2)
        enforcer.configure(both, clock.now)
        stepped(enforcer)
        limiters = [enforcer.limiter(tenant=name) for name in ("acme", "zoo")]
        for limiter in limiters:
            limiter.charge(requests=2)
        waiting = [
            asyncio.create_task(limiter.wait_async(timeout_s=60, requests=1))
            for limiter in reversed(limiters)
        ]
        await asyncio.sleep(0)
        enforcer.configure(configuration(lead, revision=2, zoo=2), clock.now)
        clock.now += 2.0
        enforcer.waiting.tick_at(clock.now)
        assert await waiting[0]
        with pytest.raises(NoLimitApplies, match="no group is attached to tenant acme"):
            await waiting[1]
        assert len(enforcer.waiting) == 0

    asyncio.run(main())


def test_a_cost_of_nothing_waits_for_no_limit_and_behind_nobody() -> None:
    async def main() -> None:
        enforcer, clock = make(group(limits=(SLOW, TOKENS)), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        assert limiter.try_acquire(requests=10)
        line = Line(enforcer, clock)
        await line.join("waits", limiter)
        assert await limiter.wait_async(timeout_s=0.0, requests=0)
        assert limiter.wait(timeout_s=0.0, requests=0.0)
        assert limiter.wait(timeout_s=0.0)
        assert line.order == []
        await line.pass_time(20.0)
        assert limiter.try_acquire(requests=10)
        assert limiter.wait(timeout_s=0.0, requests=0, tokens=1)

    asyncio.run(main())


def test_a_caller_that_waits_counts_as_demand_once() -> None:
    async def main() -> None:
        enforcer, clock = make(group(SLOW), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        assert limiter.try_acquire(requests=2)
        line = Line(enforcer, clock)
        for name in "abc":
            await line.join(name, limiter)
        for _ in range(50):
            await line.pass_time(0.016)
        (usage,) = enforcer.usage(clock.now)
        assert (usage.admitted, usage.refused) == (2.0, 3.0)
        for _ in range(3):
            await line.pass_time(1.0)
        (usage,) = enforcer.usage(clock.now)
        assert (usage.admitted, usage.refused) == (5.0, 0.0)

    asyncio.run(main())


def test_threads_and_tasks_stand_in_the_same_queue() -> None:
    async def main() -> None:
        enforcer, clock = make(group(SLOW), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        line = Line(enforcer, clock)
        assert limiter.try_acquire(requests=2)

        def caller() -> None:
            line.answers["thread"] = limiter.wait(requests=1)
            line.order.append("thread")

        await line.join("first", limiter)
        thread = threading.Thread(target=caller)
        thread.start()
        for _ in range(100_000):
            if len(enforcer.waiting) == 2:
                break
            await asyncio.sleep(0)
        await line.join("last", limiter)
        await line.pass_time(1.0)
        clock.now += 1.0
        enforcer.waiting.tick_at(clock.now)
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        await line.pass_time(1.0)
        assert line.order == ["first", "thread", "last"]

    asyncio.run(main())


def test_a_wait_longer_than_threads_can_measure_waits_for_ever() -> None:
    enforcer, clock = make(group(SLOW), acme=1)
    stepped(enforcer)
    limiter = enforcer.limiter(tenant="acme")
    while limiter.try_acquire(requests=1):
        pass
    answers: list[Decision] = []

    def caller() -> None:
        answers.append(limiter.wait(timeout_s=1e300, requests=1))

    thread = threading.Thread(target=caller, daemon=True)
    thread.start()
    while thread.is_alive() and not len(enforcer.waiting):
        thread.join(0.01)
    clock.now += 10.0
    enforcer.waiting.tick_at(clock.now)
    thread.join()
    assert [bool(answer) for answer in answers] == [True]


@pytest.mark.parametrize("seconds", [nan, "5", 10**400])
def test_a_time_that_is_no_number_is_refused_by_name(seconds: float) -> None:
    enforcer, _ = make(group(SLOW), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    wrong = "expected a number of seconds, got "
    with pytest.raises(InvalidSetting, match=f"^timeout_s: {wrong}"):
        limiter.wait(timeout_s=seconds, requests=1)
    with pytest.raises(InvalidSetting, match=f"^timeout_s: {wrong}"):
        _ = limiter.wait_async(timeout_s=seconds, requests=1)
    with pytest.raises(InvalidSetting, match=f"^timeout_s: {wrong}"):
        limiter.reserve(timeout_s=seconds, requests=1)
    with pytest.raises(InvalidSetting, match=f"^timeout_s: {wrong}"):
        limiter.slot(timeout_s=seconds)
    with pytest.raises(InvalidSetting, match=f"^lease_s: {wrong}"):
        limiter.try_slot(lease_s=seconds)
    with pytest.raises(InvalidSetting, match=f"^wait_s: {wrong}"):
        limiter.reserve(wait_s=seconds, requests=1)
    assert limiter.try_acquire(requests=1)  # nothing was charged


def test_pip322_a_tick_hands_out_all_the_tokens_of_16_ms_at_once() -> None:
    async def main() -> None:
        fast = replace(NODE, rate=1_000, burst=1)
        enforcer, clock = make(group(replace(fast, burst=100)), acme=1)
        stepped(enforcer)
        limiter = enforcer.limiter(tenant="acme")
        line = Line(enforcer, clock)
        assert limiter.try_acquire(requests=101)
        for index in range(40):
            await line.join(str(index), limiter)
        await line.pass_time(0.0161)
        assert len(line.order) == 16
        await line.pass_time(0.016)
        assert len(line.order) == 32
        await line.pass_time(0.016)
        assert line.order == [str(index) for index in range(40)]

    asyncio.run(main())
