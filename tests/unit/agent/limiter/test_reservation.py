"""Costs that are known only afterwards: settled once, never, late, or twice."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING

import pytest
from tests.unit.agent.making import TOKENS, Clock, configuration, group, make

from headgate.agent.errors import AlreadySettled, InvalidCost, Throttled
from headgate.agent.limiter.reservation import MOST_OPEN_S, Estimate, Reservation
from headgate.coordinator.config.configuration import Group, Limit

if TYPE_CHECKING:
    from headgate.agent.enforcement.enforcer import Enforcer


def held(enforcer: Enforcer, clock: Clock) -> float:
    return enforcer.usage(clock.now)[0].tokens


def test_a_reservation_that_nobody_settles_is_returned_after_its_time() -> None:
    slow = replace(TOKENS, rate=1)  # its own refill would hide the return
    enforcer, clock = make(group(slow), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    reservation = limiter.reserve(tokens=1_600)
    assert held(enforcer, clock) == -600.0
    clock.now += MOST_OPEN_S / 10
    enforcer.counts(clock.now)
    assert held(enforcer, clock) == -594.0
    clock.now += MOST_OPEN_S
    enforcer.counts(clock.now)
    assert held(enforcer, clock) == 1_000.0
    assert enforcer.metrics()["reservations_returned"] == 1
    assert reservation.state == "returned"


def test_settled_reservations_do_not_crowd_out_an_open_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.agent.limiter.reservation.MOST_OPEN", 2_000)
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    stream = limiter.reserve(tokens=1)
    for _ in range(5_000):
        clock.now += 0.01  # all within the time of the first
        limiter.reserve(tokens=1).settle(1)
    assert stream.state == "open"
    assert enforcer.metrics()["reservations_open"] == 1


def test_of_too_many_open_reservations_the_first_due_are_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.agent.limiter.reservation.MOST_OPEN", 2_000)
    enforcer, clock = make(group(replace(TOKENS, rate=1e6, burst=1e6)), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    made: list[Reservation] = []
    for _ in range(10_000):
        clock.now += 0.001
        made.append(limiter.reserve(tokens=1))
    states = [reservation.state for reservation in made]
    assert states == sorted(states, reverse=True)  # "returned", then "open"
    assert 2_000 <= states.count("open") <= 4_000
    assert enforcer.metrics()["reservations_open"] == states.count("open")


def test_a_cost_that_is_given_twice_is_an_error() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    with pytest.raises(InvalidCost, match="tokens: expected an estimate or a cost"):
        limiter.reserve(estimate=Estimate("tokens", first=3), tokens=9)
    reservation = limiter.reserve(estimate=Estimate("tokens", first=3))
    with pytest.raises(InvalidCost, match="expected one actual cost, got 1 and tokens"):
        reservation.settle(1, tokens=2)
    assert reservation.state == "open"
    assert held(enforcer, clock) == 997.0


def test_a_settlement_that_comes_after_the_return_is_charged_none_the_less() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    reservation = enforcer.limiter(tenant="acme").reserve(tokens=500)
    clock.now += MOST_OPEN_S + 1
    enforcer.counts(clock.now)
    reservation.settle(700)
    assert held(enforcer, clock) == 300.0


def test_settling_twice_is_an_error_and_charges_nothing_more() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    reservation = enforcer.limiter(tenant="acme").reserve(tokens=500)
    reservation.settle(600)
    with pytest.raises(AlreadySettled, match="it was already settled"):
        reservation.settle(1)
    with pytest.raises(AlreadySettled, match="it was already settled"):
        reservation.cancel()
    assert held(enforcer, clock) == 400.0


def test_a_block_that_fails_returns_what_it_reserved() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")

    def fails() -> None:
        with limiter.reserve(tokens=500):
            raise KeyError("model")

    with pytest.raises(KeyError):
        fails()
    assert held(enforcer, clock) == 1_000.0


@pytest.mark.parametrize("wait_s", [None, 5])
def test_a_block_without_a_settlement_stands_as_reserved(wait_s: int | None) -> None:
    slow = replace(TOKENS, rate=1)  # its own refill would hide a return
    enforcer, clock = make(group(slow), acme=1)
    with enforcer.limiter(tenant="acme").reserve(tokens=500, wait_s=wait_s) as kept:
        pass
    assert held(enforcer, clock) == 500.0
    clock.now += MOST_OPEN_S
    enforcer.counts(clock.now)
    assert held(enforcer, clock) == 500.0 + MOST_OPEN_S
    assert (kept.state, enforcer.metrics()["reservations_returned"]) == ("kept", 0)


def test_a_charge_that_its_block_kept_can_be_settled_or_cancelled() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    with limiter.reserve(tokens=500) as later, limiter.reserve(tokens=100) as never:
        pass
    later.settle(300)
    assert held(enforcer, clock) == 600.0
    never.cancel()
    assert held(enforcer, clock) == 700.0


def test_a_refused_reservation_is_falsy_and_raises_only_as_a_context() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.reserve(tokens=1_500)
    refused = limiter.reserve(tokens=10)
    assert not refused
    assert refused.decision.delay_s == 5.0
    with pytest.raises(Throttled, match=r"retry in 5\.000 s"), refused:
        pass
    refused.cancel()
    assert held(enforcer, clock) == -500.0


@pytest.mark.parametrize("actual", [-1.0, nan, inf])
def test_a_settlement_that_is_no_quantity_is_an_error(actual: float) -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    reservation = enforcer.limiter(tenant="acme").reserve(tokens=500)
    with pytest.raises(InvalidCost, match="tokens: expected a finite cost"):
        reservation.settle(actual)
    with pytest.raises(InvalidCost, match="requests: expected"):
        reservation.settle(requests=1)
    assert held(enforcer, clock) == 500.0


def test_an_estimate_follows_what_was_settled() -> None:
    enforcer, _ = make(group(TOKENS, may_owe=True), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    estimate = Estimate("tokens", first=100.0)
    for _ in range(30):
        reservation = limiter.reserve(estimate=estimate)
        if reservation:
            reservation.settle(10)
    assert estimate.units == pytest.approx(10.0, abs=5.0)
    assert limiter.reserve(estimate=estimate).costs["tokens"] == estimate.units


def test_a_return_never_fills_a_bucket_above_its_burst() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    reservation = enforcer.limiter(tenant="acme").reserve(tokens=500)
    clock.now += 30.0
    reservation.cancel()
    assert held(enforcer, clock) == 1_000.0


def test_an_asynchronous_block_reserves_and_returns_as_the_other_does() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")

    async def run() -> None:
        async with limiter.reserve(tokens=600) as reservation:
            assert held(enforcer, clock) == 400.0
            reservation.settle(100)
        assert held(enforcer, clock) == 900.0
        with pytest.raises(RuntimeError, match="model failed"):
            async with limiter.reserve(tokens=600):
                raise RuntimeError("model failed")
        assert held(enforcer, clock) == 900.0

    asyncio.run(run())


def test_what_a_refused_block_is_told_names_the_limit_and_the_delay() -> None:
    enforcer, _ = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(tokens=1_200)

    async def run() -> None:
        async with limiter.reserve(tokens=600):
            pytest.fail("the block must not run")

    with pytest.raises(Throttled) as refused:
        asyncio.run(run())
    decision = refused.value.decision
    assert decision.limit is not None
    assert (decision.limit.group, decision.limit.dimension) == ("gold", "tokens")
    assert decision.delay_s == pytest.approx(2.0)
    assert str(refused.value) == (
        "refused by tokens of group 'gold' (tenant, node), retry in 2.000 s"
    )


def test_a_reservation_that_waits_charges_once_it_is_entered() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    waiting = limiter.reserve(tokens=600, wait_s=5)
    assert held(enforcer, clock) == 1_000.0
    with waiting as reservation:
        assert held(enforcer, clock) == 400.0
        reservation.settle(50)
    assert held(enforcer, clock) == 950.0


@pytest.mark.parametrize("wait_s", [None, 0.0])
def test_a_reservation_is_corrected_where_it_was_charged_and_nowhere_else(
    wait_s: float | None,
) -> None:
    slow = replace(TOKENS, rate=1e-9)
    trial = Group(id=2, name="trial", limits=(slow,), refusal="shadow", parent=1)
    enforcer, clock = make(group(slow), trial, acme=2)
    limiter = enforcer.limiter(tenant="acme")
    own, parent = (link.bucket for link in limiter.chain("tokens").links)
    own.charge_at(clock.now, 1_200)
    reservation = limiter.reserve(tokens=500, wait_s=wait_s)
    with reservation:
        assert reservation.decision.shadow
        assert (own.level_at(clock.now), parent.level_at(clock.now)) == (-200, 500)
        reservation.settle(10)
    assert (own.level_at(clock.now), parent.level_at(clock.now)) == (-200, 990)
    with pytest.raises(KeyError), limiter.reserve(tokens=500, wait_s=wait_s):
        raise KeyError("model")
    assert (own.level_at(clock.now), parent.level_at(clock.now)) == (-200, 990)


def test_a_reservation_that_waited_is_corrected_where_it_was_charged() -> None:
    async def main() -> None:
        lead = Group(id=2, name="lead", limits=(TOKENS,))
        enforcer, clock = make(group(TOKENS), lead, acme=1)
        enforcer.waiting.step_by_hand()
        limiter = enforcer.limiter(tenant="acme")
        old = limiter.chain("tokens").buckets[0]
        limiter.charge(tokens=1_100)

        async def work() -> None:
            async with limiter.reserve(tokens=500, wait_s=60) as reservation:
                reservation.settle(10)

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        clock.now += 1.0
        enforcer.waiting.tick_at(clock.now)  # admitted, but the task runs later
        changed = configuration(group(TOKENS), lead, revision=2, acme=2)
        enforcer.configure(changed, clock.now)
        await task
        assert old.level_at(clock.now) == pytest.approx(-10.0)
        assert limiter.chain("tokens").buckets[0].level_at(clock.now) == 1_000.0

    asyncio.run(main())


def test_a_task_waits_for_its_reservation_until_the_debt_is_paid() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    enforcer.waiting.step_by_hand()
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(tokens=1_200)
    got: list[float] = []

    async def reserve() -> None:
        async with limiter.reserve(tokens=300, wait_s=60) as reservation:
            got.append(clock.now)
            reservation.settle(0)

    async def run() -> None:
        task = asyncio.create_task(reserve())
        await asyncio.sleep(0)
        enforcer.waiting.tick_at(clock.now)
        await asyncio.sleep(0)
        assert not got
        clock.now += 2.0
        enforcer.waiting.tick_at(clock.now)
        await task

    asyncio.run(run())
    assert got == [102.0]
    assert held(enforcer, clock) == pytest.approx(0.0)


def test_a_thread_waits_for_its_reservation_until_the_debt_is_paid() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    enforcer.waiting.step_by_hand()
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(tokens=1_200)
    got: list[float] = []

    def reserve() -> None:
        with limiter.reserve(tokens=300, wait_s=60) as reservation:
            got.append(clock.now)
            reservation.settle(0)

    thread = threading.Thread(target=reserve)
    thread.start()
    while not len(enforcer.waiting) and thread.is_alive():
        thread.join(0)  # lets it run
    enforcer.waiting.tick_at(clock.now)
    assert len(enforcer.waiting) == 1
    clock.now += 2.0
    enforcer.waiting.tick_at(clock.now)
    thread.join()
    assert got == [102.0]
    assert held(enforcer, clock) == pytest.approx(0.0)


@pytest.mark.parametrize(("wait_s", "ends"), [(1.5, True), (1.7, False)])
def test_a_task_waits_for_its_reservation_no_longer_than_it_said(
    wait_s: float, ends: bool
) -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    enforcer.waiting.step_by_hand()
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(tokens=1_200)

    class Loop(asyncio.SelectorEventLoop):
        """Its time passes when the test says so."""

        def time(self) -> float:
            return clock.now

    async def reserve() -> None:
        async with limiter.reserve(tokens=300, wait_s=wait_s):
            pytest.fail("the block must not run")

    async def run() -> None:
        task = asyncio.create_task(reserve())
        await asyncio.sleep(0)
        clock.now += 1.6
        for _ in range(5):
            await asyncio.sleep(0)
        assert task.done() is ends
        task.cancel()
        error: type[BaseException] = Throttled if ends else asyncio.CancelledError
        with pytest.raises(error):
            await task

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(run())


def test_a_wait_that_ends_in_a_refusal_says_that_it_was_the_deadline() -> None:
    enforcer, _ = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(tokens=1_200)

    async def run() -> None:
        async with limiter.reserve(tokens=300, wait_s=0):
            pytest.fail("the block must not run")

    with pytest.raises(Throttled) as refused:
        asyncio.run(run())
    assert refused.value.decision.reason == "deadline"
    assert refused.value.decision.delay_s > 0.0
    assert enforcer.metrics()["waiting"] == 0


@pytest.mark.parametrize("change", ["moved", "strict", "none"])
def test_a_strict_group_gets_back_only_what_was_taken_from_it(change: str) -> None:
    """Not what was reserved before its group came inside, or before it was strict."""
    limit = Limit(dimension="tokens", rate=100.0, burst=100.0)
    around = Group(id=2, name="around", limits=(limit,), mode="strict")
    before = replace(around, mode="balanced") if change == "strict" else around
    # Its own bucket refuses nothing here.
    gold = Group(id=1, name="gold", limits=(replace(limit, rate=1e4, burst=1e4),))
    inside = replace(gold, parent=2)
    begun = gold if change == "moved" else inside
    enforcer, clock = make(before, begun, acme=1, bee=2)
    user, other = enforcer.limiter(tenant="acme"), enforcer.limiter(tenant="bee")

    def fill() -> None:
        for local in enforcer.locals():
            for bucket in filter(None, (local.bucket, local.allowance)):
                rate, burst = local.limit.rate / 100, local.limit.burst
                bucket.set_rate_at(clock.now, rate=rate, capacity=burst, credit=burst)

    fill()
    reservation = user.reserve(tokens=60)
    assert reservation
    enforcer.configure(configuration(around, inside, acme=1, bee=2), clock.now)
    if change != "none":
        fill()
    left = 40 if change == "none" else 100
    assert other.try_acquire(tokens=left)
    assert not other.try_acquire(tokens=1)
    reservation.cancel()
    assert bool(user.try_acquire(tokens=60)) is (change == "none")
