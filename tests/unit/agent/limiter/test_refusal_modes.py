"""What a refusal means: by group, by caller, and when nothing is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.agent.making import NODE, TOKENS, configuration, group, make

from headgate.coordinator.config.configuration import Group, Limit

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Refusal


def test_kip599_refused_callers_are_told_exactly_when_to_come_back() -> None:
    limit = Limit(dimension="mutations", rate=5, burst=500, scope="node")
    enforcer, clock = make(group(limit), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(mutations=560)
    refusal = limiter.try_acquire(mutations=1)
    assert not refusal
    assert refusal.throttle_time_ms == 12_000
    clock.now += 12.0
    assert limiter.try_acquire(mutations=1)


def test_delay_admits_charges_and_says_for_how_long_to_mute() -> None:
    enforcer, _ = make(group(refusal="delay"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=25).delay_s == 0.0
    muted = limiter.try_acquire(requests=10)
    assert muted
    assert muted.delay_s == pytest.approx(2.0)
    assert limiter.try_acquire(requests=1).delay_s == pytest.approx(3.0)
    (local,) = enforcer.locals()
    assert (local.bucket.admitted, local.bucket.refused) == (36.0, 0.0)


def test_kip599_an_old_client_is_accepted_and_muted_a_new_one_refused_and_muted() -> (
    None
):
    enforcer, _ = make(group(refusal="reject"), acme=1)
    new = enforcer.limiter(tenant="acme")
    old = new.refusing("delay")
    assert old.try_acquire(requests=25)
    refused, muted = new.try_acquire(requests=1), old.try_acquire(requests=1)
    assert not refused
    assert muted
    assert refused.throttle_time_ms == muted.throttle_time_ms == 2_000


def test_a_group_in_shadow_refuses_nobody_and_counts_whom_it_would_have() -> None:
    enforcer, clock = make(group(refusal="shadow"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    decisions = [limiter.try_acquire(requests=1) for _ in range(10)]
    assert all(decisions)
    assert [d.shadow for d in decisions] == [False] * 6 + [True] * 4
    (usage,) = enforcer.usage(clock.now)
    assert (usage.admitted, usage.shadow_refused, usage.tokens) == (6.0, 4.0, -1.0)


def test_one_firm_limit_is_enough_to_refuse_whatever_shadow_would_do() -> None:
    bytes_ = Limit(dimension="tokens", rate=1, burst=1, scope="node")
    enforcer, _ = make(
        group(refusal="shadow", limits=(NODE,)),
        Group(id=2, name="child", limits=(bytes_,), parent=1),
        acme=2,
    )
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=9, tokens=1)
    assert limiter.try_acquire(requests=1).shadow
    assert limiter.try_acquire(tokens=1)
    refusal = limiter.try_acquire(requests=1, tokens=1)
    assert not refusal
    assert refusal.limit is not None
    assert refusal.limit.group == "child"


@pytest.mark.parametrize("mode", ["reject", "delay", "wait", "shadow"])
def test_validate_foretells_the_answer_in_every_mode(mode: Refusal) -> None:
    enforcer, _ = make(group(refusal=mode), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(requests=25)
    foreseen = limiter.validate(requests=1)
    assert foreseen == limiter.try_acquire(requests=1)
    assert bool(foreseen) == (mode in ("delay", "shadow"))


def test_a_limit_in_shadow_makes_nobody_wait() -> None:
    enforcer, clock = make(group(refusal="shadow"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=25)
    decision = limiter.wait(requests=1, timeout_s=0.0)
    assert decision
    assert decision.shadow
    (usage,) = enforcer.usage(clock.now)
    assert (usage.admitted, usage.refused, usage.shadow_refused) == (25.0, 1.0, 1.0)


def test_who_waits_is_not_refused_again_at_each_turn_by_a_limit_in_shadow() -> None:
    tokens = Limit(dimension="tokens", rate=1, burst=1, scope="node")
    enforcer, clock = make(
        group(refusal="shadow"),
        Group(id=2, name="child", limits=(tokens,), parent=1, refusal="wait"),
        acme=2,
    )
    limiter = enforcer.limiter(tenant="acme")
    limiter.charge(requests=25, tokens=5)
    before = [usage.refused for usage in enforcer.usage(clock.now)]
    for _ in range(10):
        limiter.charge_quietly(clock.now, {"requests": 1.0, "tokens": 1.0}, {})
    assert [usage.refused for usage in enforcer.usage(clock.now)] == before


def test_the_mode_of_a_group_changes_live() -> None:
    enforcer, clock = make(group(refusal="reject"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=25)
    assert not limiter.try_acquire(requests=1)
    enforcer.configure(
        configuration(group(refusal="delay"), revision=2, acme=1), clock.now
    )
    assert limiter.try_acquire(requests=1).delay_s == pytest.approx(2.0)


def test_ably_suppression_admits_the_quota_out_of_what_is_attempted() -> None:
    limit = replace(NODE, rate=100, burst=100)
    enforcer, clock = make(group(limit, refusal="suppress"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    admitted = 0
    for step in range(5_000):  # 500/s for ten seconds
        passed = bool(limiter.try_acquire(requests=1))
        admitted += passed and step >= 1_000
        clock.now += 0.002
    assert admitted == pytest.approx(800, rel=0.1)


def test_ably_suppression_starves_nobody_who_asks_right_after_another() -> None:
    limit = replace(NODE, rate=100, burst=50)
    enforcer, clock = make(group(limit, refusal="suppress"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    admitted = [0, 0]
    for _ in range(5_000):  # 100/s each: the first alone would take everything
        for sender in (0, 1):
            admitted[sender] += bool(limiter.try_acquire(requests=1))
        clock.now += 0.01
    assert admitted == pytest.approx([2_500, 2_500], rel=0.1)


def test_ably_suppression_spends_the_burst_as_well() -> None:
    limit = Limit(dimension="requests", rate=1_000, burst=5_000, scope="node")
    enforcer, clock = make(group(limit, refusal="suppress"), acme=1)
    gate = enforcer.limiter(tenant="acme").handle()
    admitted = 0
    for _ in range(10_000):  # twice the rate for ten seconds
        admitted += bool(gate.try_acquire()) + bool(gate.try_acquire())
        clock.now += 0.001
    assert admitted == pytest.approx(10 * 1_000 + 5_000, rel=0.05)


@pytest.mark.long
def test_ably_suppression_keeps_to_the_burst_at_one_instant() -> None:
    limit = Limit(dimension="requests", rate=1_000, burst=1_000, scope="node")
    enforcer, _ = make(group(limit, refusal="suppress"), acme=1)
    gate = enforcer.limiter(tenant="acme").handle()
    admitted = sum(bool(gate.try_acquire()) for _ in range(100_000))
    assert admitted <= 1_000 + 1
    assert admitted > 900


def test_ably_suppression_keeps_to_rate_and_burst_in_every_window() -> None:
    limit = Limit(dimension="requests", rate=1_000, burst=200, scope="node")
    enforcer, clock = make(group(limit, refusal="suppress"), acme=1)
    gate = enforcer.limiter(tenant="acme").handle()
    depth = worst = total = 0.0  # of a bucket that is charged whatever is admitted
    for step in range(5_000):
        clock.now += 0.001
        depth = max(depth - 1.0, 0.0)
        # A storm of 20,000/s every other half second, silence in between.
        for _ in range(20 if step // 500 % 2 else 0):
            admitted = bool(gate.try_acquire())
            depth += admitted
            total += admitted
        worst = max(worst, depth)
    assert worst <= 200 + 1
    assert total > 0.9 * (1_000 * 0.5 + 200) * 5


def test_ably_a_well_behaved_sender_is_never_suppressed_no_matter_how_close() -> None:
    limit = replace(NODE, rate=100, burst=100)
    enforcer, clock = make(group(limit, refusal="suppress"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    for _ in range(2_000):
        assert limiter.try_acquire(requests=1)
        clock.now += 0.0101


def test_ably_a_suppressed_sender_is_told_by_whom_and_when_to_come_back() -> None:
    limit = replace(NODE, rate=1, burst=1)
    enforcer, _ = make(group(limit, refusal="suppress"), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    refusals = [d for _ in range(100) if not (d := limiter.try_acquire(requests=1))]
    assert len(refusals) > 80
    assert {str(d.limit) for d in refusals} == {
        "requests of group 'gold' (tenant, node)"
    }
    assert all(d.delay_s == 1.0 for d in refusals)


@pytest.mark.parametrize("refusal", ["reject", "suppress"])
def test_ably_a_fan_out_of_1001_is_counted_when_it_is_refused_as_well(
    refusal: Refusal,
) -> None:
    limit = Limit(dimension="messages", rate=1_000, burst=1_000, scope="node")
    enforcer, clock = make(group(limit, refusal), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(messages=1_001)
    assert not limiter.try_acquire(messages=1_001)
    (usage,) = enforcer.usage(clock.now)
    assert (usage.admitted, usage.refused) == (1_001.0, 1_001.0)


def test_kip599_validate_only_costs_nothing() -> None:
    enforcer, clock = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    for _ in range(100):
        assert limiter.validate(requests=1)
    limiter.try_acquire(requests=25)
    for _ in range(100):
        assert not limiter.validate(requests=1)
    (usage,) = enforcer.usage(clock.now)
    assert (usage.admitted, usage.refused) == (25.0, 0.0)
    assert limiter.validate(requests=1).throttle_time_ms == 2_000


def test_kip599_the_most_constraining_of_several_quotas_wins_and_is_named() -> None:
    slow = Limit(dimension="requests", rate=1, burst=1, scope="node")
    enforcer, _ = make(
        group(),
        Group(id=2, name="child", limits=(slow,), parent=1),
        acme=2,
    )
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=10)
    refusal = limiter.try_acquire(requests=1)
    assert refusal.delay_s == 9.0
    assert refusal.limit is not None
    assert refusal.limit.group == "child"


def test_above_the_soft_threshold_admissions_carry_a_warning() -> None:
    limit = replace(NODE, rate=100, burst=100)
    enforcer, clock = make(group(limit, soft_threshold=0.8), acme=1)
    limiter = enforcer.limiter(tenant="acme")

    def second(attempts: int) -> bool:
        for _ in range(attempts):
            assert limiter.try_acquire(requests=1)
            clock.now += 1 / attempts
        enforcer.counts(clock.now)
        return limiter.try_acquire(requests=1).warning

    enforcer.counts(clock.now)
    assert not second(50)
    assert second(85)
    assert limiter.handle().try_acquire().warning
    assert not second(50)


def test_a_reservation_is_settled_for_more_for_less_or_cancelled() -> None:
    enforcer, clock = make(group(TOKENS), acme=1)
    limiter = enforcer.limiter(tenant="acme")

    def held() -> float:
        return enforcer.usage(clock.now)[0].tokens

    with limiter.reserve(tokens=500) as reservation:
        assert held() == 500.0
        reservation.settle(734)
    assert held() == 266.0
    with limiter.reserve(tokens=200) as reservation:
        reservation.settle(50)
    assert held() == 216.0
    limiter.reserve(tokens=100).cancel()
    assert held() == 216.0
    assert enforcer.usage(clock.now)[0].admitted == 784.0


def test_two_costs_within_a_millisecond_are_told_two_delays() -> None:
    enforcer, _ = make(
        group(
            Limit(dimension="requests", rate=1, burst=100, scope="node"), may_owe=False
        ),
        acme=1,
    )
    limiter = enforcer.limiter(tenant="acme")
    limiter.try_acquire(requests=100)
    delays = [limiter.try_acquire(requests=cost).delay_s for cost in (1, 40, 2)]
    assert delays == pytest.approx([1.0, 40.0, 2.0])


def test_gate_is_the_older_name_of_handle() -> None:
    enforcer, _ = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    with pytest.warns(DeprecationWarning, match=r"Limiter\.handle"):
        assert limiter.gate() is limiter.handle()
