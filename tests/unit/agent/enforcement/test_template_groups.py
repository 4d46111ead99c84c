"""Template groups: a bucket for each value, made without asking anybody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.agent.making import Clock
from tests.unit.agent.turns import Turns

from headgate.agent.enforcement import template_groups
from headgate.agent.enforcement.bucket_registry import VALUE_RETAIN_S
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    InvalidConfiguration,
    Limit,
)
from headgate.coordinator.config.template_values import (
    VALUES_BELOW,
    VALUES_FROM,
    value_id,
)

if TYPE_CHECKING:
    from headgate.agent.limiter.limiter import Limiter

LIMIT = Limit(dimension="requests", rate=3, burst=3, scope="node")
EACH = Group(id=7, name="each", limits=(LIMIT,), per="user", may_owe=False)


def configured(
    *groups: Group, kind: str = "user", revision: int = 1, clock: Clock | None = None
) -> tuple[Enforcer, Clock]:
    """Return an enforcer in which everyone of a kind falls under the first group."""
    clock = clock or Clock()
    enforcer = Enforcer(clock=clock, seed=1)
    enforcer.configure(configuration(*groups, kind=kind, revision=revision), clock.now)
    return enforcer, clock


def configuration(
    *groups: Group, kind: str = "user", revision: int = 1
) -> Configuration:
    attached = (Attachment(((kind, None),), groups[0].id),)
    return Configuration(revision=revision, groups=groups, attachments=attached)


def admitted(limiter: Limiter, attempts: int = 10) -> int:
    return sum(bool(limiter.try_acquire(requests=1)) for _ in range(attempts))


def names(enforcer: Enforcer) -> set[str]:
    return {use.group for use in enforcer.usage()}


def test_each_user_has_the_limit_for_himself() -> None:
    enforcer, _ = configured(EACH)
    alice, bob = enforcer.limiter(user="alice"), enforcer.limiter(user="bob")
    assert admitted(alice) == 3
    assert admitted(bob) == 3
    refused = alice.try_acquire(requests=1)
    assert not refused
    assert refused.limit is not None
    assert refused.limit.group == "each[alice]"
    # By another way to the same user: client and user.
    assert admitted(enforcer.limiter(user="alice", client="phone")) == 0


def test_an_id_is_the_same_in_every_process_and_of_no_group_of_the_store() -> None:
    assert value_id(7, "alice") == 4200304489793819780
    ids = {value_id(template, str(n)) for template in (7, 8) for n in range(10_000)}
    assert len(ids) == 20_000
    assert all(VALUES_FROM <= one < VALUES_BELOW for one in ids)


def test_who_names_no_value_falls_under_the_templates_own_bucket() -> None:
    enforcer, _ = configured(EACH, kind="tenant")
    unnamed = enforcer.limiter(tenant="acme")
    assert admitted(unnamed) == 3
    assert admitted(enforcer.limiter(tenant="other")) == 0
    assert admitted(enforcer.limiter(tenant="acme", user="alice")) == 3


def test_partitions_are_one_topic() -> None:
    enforcer, _ = configured(replace(EACH, per="topic"), kind="tenant")
    first = enforcer.limiter(topic="acme/orders/new-partition-0")
    second = enforcer.limiter(topic="acme/orders/new-partition-1")
    assert admitted(first) + admitted(second) == 3
    assert admitted(enforcer.limiter(topic="acme/orders/old")) == 3


def test_values_follow_their_template() -> None:
    enforcer, clock = configured(EACH)
    alice = enforcer.limiter(user="alice")
    assert admitted(alice) == 3
    more = replace(EACH, limits=(replace(LIMIT, rate=20, burst=20),))
    enforcer.configure(configuration(more, revision=2), clock.now)
    assert admitted(alice) == 0, "what was used stays used"
    clock.now += 1.0
    assert admitted(alice, 30) == 20
    shared = replace(EACH, per=None)
    enforcer.configure(configuration(shared, revision=3), clock.now)
    alice.try_acquire(requests=1)
    assert "each[alice]" not in names(enforcer)
    assert enforcer.metrics()["template_values"] == 0


def test_a_value_is_forgotten_when_it_is_idle_and_full() -> None:
    slow = replace(EACH, limits=(replace(LIMIT, period_s=60.0),))
    enforcer, clock = configured(slow)
    limiter: Limiter | None = enforcer.limiter(user="alice")
    assert limiter is not None
    assert admitted(limiter) == 3
    clock.now += 100.0
    enforcer.counts(clock.now)
    assert names(enforcer) == {"each[alice]"}, "a limiter uses it"
    assert admitted(limiter) == 3
    limiter = None
    enforcer.counts(clock.now)
    clock.now += VALUE_RETAIN_S + 2.0
    enforcer.counts(clock.now)
    assert names(enforcer) == {"each[alice]"}, "a new bucket would be full"
    clock.now += 60.0
    enforcer.counts(clock.now)
    assert names(enforcer) == set()
    assert enforcer.metrics()["template_values"] == 0
    assert admitted(enforcer.limiter(user="alice")) == 3


@pytest.mark.long
def test_a_shared_value_is_forgotten_only_when_it_is_full() -> None:
    turns = Turns(Limit(dimension="requests", rate=0.1, burst=3.0), per="tenant")
    turns.run(2.0)
    assert admitted(turns.limiter) >= 3
    del turns.limiter
    turns.run(VALUE_RETAIN_S + 4.0)
    assert names(turns.enforcer) == {"gold[acme]"}, "a new bucket would be full"
    turns.run(40.0)
    assert names(turns.enforcer) == set()


def test_values_beyond_the_bound_share_the_templates_bucket_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_groups, "MOST_VALUES", 2)
    enforcer, clock = configured(EACH)
    held = {name: enforcer.limiter(user=name) for name in ("a", "b", "c", "d")}
    assert [admitted(held[name]) for name in ("a", "b", "c", "d")] == [3, 3, 3, 0]
    assert enforcer.metrics()["template_values"] == 2
    assert enforcer.metrics()["template_values_turned_away"] >= 2
    del held["a"], held["b"]
    enforcer.counts(clock.now)
    clock.now += VALUE_RETAIN_S + 2.0
    enforcer.counts(clock.now)
    assert [admitted(held[name]) for name in ("c", "d")] == [3, 3]
    assert {"each[c]", "each[d]"} <= names(enforcer)


def test_what_has_the_id_of_another_value_shares_the_templates_bucket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def same(template: Group, value: str) -> Group:
        return replace(
            template, id=VALUES_FROM, name=value, per=None, template=template.id
        )

    monkeypatch.setattr(template_groups, "value_group", same)
    enforcer, _ = configured(EACH)
    assert admitted(enforcer.limiter(user="alice")) == 3
    assert admitted(enforcer.limiter(user="bob")) == 3
    assert names(enforcer) == {"alice", "each"}


@pytest.mark.parametrize("other", [{"mode": "strict"}, {"slots": 3}])
def test_neither_strict_groups_nor_slots_are_templates(
    other: dict[str, object],
) -> None:
    with pytest.raises(InvalidConfiguration, match="per: expected null with mode"):
        replace(EACH, **other)  # type: ignore[arg-type]
