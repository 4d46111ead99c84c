"""A typo must not mean "no limit" in silence."""

from __future__ import annotations

import logging

import pytest
from tests.unit.agent.making import Clock, configuration, group, make

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import NoLimitApplies
from headgate.agent.follow.policies import Policies, RatePolicy
from headgate.agent.integrations.web.key_groups import (
    Quota,
    template_name,
    user_name,
)


def said(enforcer: Enforcer, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the agent's thread logs next."""
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        enforcer.counts(enforcer.clock())
    return [record.getMessage() for record in caplog.records]


def strict() -> Enforcer:
    clock = Clock()
    enforcer = Enforcer(clock=clock, strict=True)
    enforcer.configure(configuration(group(), acme=1), clock.now)
    return enforcer


def test_a_dimension_that_no_limit_counts_is_said_once_with_a_suggestion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, _ = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    for _ in range(3):
        assert limiter.try_acquire(request=1)
    assert said(enforcer, caplog) == [
        "no limit of tenant acme (group 'gold') counts 'request' (did you mean"
        " 'requests'?); such attempts are not limited"
    ]
    assert limiter.handle("request").try_acquire()
    assert said(enforcer, caplog) == []
    assert enforcer.metrics()["dimensions_without_limit"] == 1


def test_a_name_cannot_add_a_line_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    enforcer, _ = make(group(), acme=1)
    enforcer.limiter(tenant="x\nERROR all is lost\x00").try_acquire(requests=1)
    (sentence,) = said(enforcer, caplog)
    assert "tenant x\\nERROR all is lost\\x00;" in sentence


def test_a_subject_that_no_group_knows_is_said_once_with_a_suggestion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, _ = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acmee")
    assert limiter.try_acquire(requests=1)
    assert limiter.try_acquire(tokens=1)
    assert said(enforcer, caplog) == [
        "no group is attached to tenant acmee (did you mean 'acme'?); its attempts"
        " are not limited"
    ]
    assert enforcer.metrics()["subjects_in_no_group"] == 1
    assert enforcer.metrics()["dimensions_without_limit"] == 0


def test_a_limit_by_key_that_is_not_in_force_yet_is_no_typo(
    caplog: pytest.LogCaptureFixture,
) -> None:
    user, client = user_name("alice"), template_name(Quota(10.0, 60.0))
    enforcer, _ = make(group(), acme=1)
    assert enforcer.limiter(user=user, client=client).try_acquire(requests=1)
    assert said(enforcer, caplog) == []
    assert enforcer.metrics()["subjects_in_no_group"] == 0
    assert strict().limiter(user=user, client=client).try_acquire(requests=1)


def test_an_attempt_without_any_cost_is_said_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, _ = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire()
    assert limiter.try_acquire()
    (sentence,) = said(enforcer, caplog)
    assert "without any cost" in sentence
    assert enforcer.metrics()["attempts_without_cost"] == 2


def test_a_cost_that_happens_to_be_zero_is_no_typo(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, _ = make(group(), acme=1)
    limiter = enforcer.limiter(tenant="acme")
    nothing = sum([0.0])
    assert limiter.try_acquire(requests=nothing)
    assert limiter.try_acquire(requests=0)
    assert said(enforcer, caplog) == []
    assert enforcer.metrics()["attempts_without_cost"] == 0


def test_what_pulsar_counts_is_spelt_right_even_without_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, clock = make(group(), acme=1)
    assert enforcer.limiter(tenant="acme").try_acquire(publish_bytes=1)
    enforcer.configure(
        configuration(),
        clock.now,
        Policies(namespace={"acme/orders": {"publish": RatePolicy(messages=5)}}),
    )
    assert enforcer.limiter(topic="acme/orders/new").try_acquire(publish_bytes=1)
    assert said(enforcer, caplog) == []


def test_a_storm_of_unknown_subjects_is_no_storm_of_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcer, _ = make(group(), acme=1)
    for number in range(200):
        enforcer.limiter(tenant=f"t{number}").try_acquire(requests=1)
    assert len(said(enforcer, caplog)) == 20
    assert enforcer.metrics()["subjects_in_no_group"] == 200


def test_strict_raises_for_each_of_the_three_every_time() -> None:
    enforcer = strict()
    limiter = enforcer.limiter(tenant="acme")
    assert limiter.try_acquire(requests=1)
    for _ in range(2):
        with pytest.raises(NoLimitApplies, match="did you mean 'requests'"):
            limiter.try_acquire(request=1)
        with pytest.raises(NoLimitApplies, match="did you mean 'acme'"):
            enforcer.limiter(tenant="acmee").try_acquire(requests=1)
        with pytest.raises(NoLimitApplies, match="without any cost"):
            limiter.try_acquire()


def test_strict_charges_nothing_when_one_of_two_dimensions_is_misspelt() -> None:
    limiter = strict().limiter(tenant="acme")
    with pytest.raises(NoLimitApplies):
        limiter.try_acquire(requests=5, tokns=1)
    admitted = [bool(limiter.try_acquire(requests=1)) for _ in range(6)]
    assert admitted == [True] * 6  # a burst of 5, and one into debt
    assert not limiter.try_acquire(requests=1)
