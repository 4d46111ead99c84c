"""Whole answers of RLS, from a request to the response that Envoy gets."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, cast

import pytest
from tests.unit.agent.making import Clock, group, make

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.integrations.envoy import limits
from headgate.agent.integrations.envoy.descriptors import override, read_domain
from headgate.agent.integrations.envoy.limits import (
    CHECKED_S,
    AskedDescriptor,
    DescriptorAnswer,
    DescriptorLimits,
)
from headgate.agent.integrations.envoy.rate_limit_service import RateLimitService
from headgate.agent.integrations.web.key_groups import KeyGroups, template_name
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from headgate.agent.integrations.envoy.descriptors import MatchedRule

FILE = b"""
domain: apis
descriptors:
  - {key: all, rate_limit: {unit: minute, requests_per_unit: 2, name: all}}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 3, name: vip,
                            replaces: [{name: all}]}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: all}]}}
  - {key: seen, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: next, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: shut, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
"""

RULES = ("all", "vip", "seen", "soft", "next")


def in_force(*matches: MatchedRule | None) -> Configuration:
    """Return a configuration in which the templates of some rules are made already."""
    quotas = {match.rule.quota for match in matches if match is not None}
    groups = [
        Group(
            id=number,
            name=template_name(quota),
            limits=(
                Limit(
                    dimension="requests",
                    rate=quota.amount,
                    burst=quota.amount,
                    period_s=quota.period_s,
                    scope="node",
                ),
            ),
            per="user",
            may_owe=False,
        )
        for number, quota in enumerate(quotas, 1)
    ]
    return Configuration(
        revision=1,
        groups=tuple(groups),
        attachments=tuple(
            Attachment((("user", None), ("client", one.name)), one.id) for one in groups
        ),
    )


def ask_nobody(*_: object) -> None:
    pass


class Rls:
    """The service with the limits of `FILE`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, grouped: bool) -> None:
        domain = read_domain(FILE)
        self.clock = Clock()
        enforcer = Enforcer(clock=self.clock, seed=1)
        matches = [domain.match([(rule, "x")]) for rule in RULES] if grouped else []
        if grouped:
            for hits, unit in ((1, "hour"), (5, "day")):
                matches.append(domain.counted(override(hits, unit), ["all_x"]))
        enforcer.configure(in_force(*matches), self.clock.now)
        keys = KeyGroups(enforcer, "http://localhost", clock=self.clock)
        # No API makes groups here: what isn't made already is limited alone.
        monkeypatch.setattr(keys, "_ask_for", ask_nobody)
        decides = DescriptorLimits({"apis": domain}, enforcer, keys, self.clock)
        self._service = RateLimitService(decides)

    def ask(
        self, *descriptors: dict[str, object] | str, **fields: object
    ) -> dict[str, object]:
        """Return the whole response; a text is a descriptor of that key."""
        request = {
            "domain": "apis",
            "descriptors": [
                entry(one) if isinstance(one, str) else one for one in descriptors
            ],
            **fields,
        }
        refused, text = self._service.answer_json(json.dumps(request).encode())
        answer = cast("dict[str, object]", json.loads(text))
        assert refused == (answer["overallCode"] == "OVER_LIMIT")
        return answer


@pytest.fixture(params=[True, False], ids=["grouped", "alone"])
def rls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Rls:
    """A service whose keys have their groups, or are limited by the process alone."""
    return Rls(monkeypatch, grouped=bool(request.param))


def entry(key: str, **fields: object) -> dict[str, object]:
    return {"entries": [{"key": key, "value": "x"}], **fields}


def status(
    hits: int,
    unit: str,
    remaining: int,
    reset_s: int,
    *,
    name: str = "",
    code: str = "OK",
) -> dict[str, object]:
    """Return a status as JSON has it: without what is 0 or empty."""
    limit: dict[str, object] = {"unit": unit}
    limit |= {"requestsPerUnit": hits} if hits else {}
    limit |= {"name": name} if name else {}
    made: dict[str, object] = {"code": code, "currentLimit": limit}
    made |= {"limitRemaining": remaining} if remaining else {}
    return made | {"durationUntilReset": f"{reset_s}s"}


def ok(*statuses: dict[str, object]) -> dict[str, object]:
    return {"overallCode": "OK", "statuses": list(statuses)}


def over(retry_s: int, *statuses: dict[str, object]) -> dict[str, object]:
    headers = [{"key": "retry-after", "value": str(retry_s)}]
    return {
        "overallCode": "OVER_LIMIT",
        "statuses": list(statuses),
        "responseHeadersToAdd": headers,
    }


NONE: dict[str, object] = {"code": "OK"}
"""The status of a descriptor that no limit counts."""


def test_a_limit_counts_down_and_refuses_until_a_hit_is_back(rls: Rls) -> None:
    assert rls.ask("all") == ok(status(2, "MINUTE", 1, 30, name="all"))
    assert rls.ask("all") == ok(status(2, "MINUTE", 0, 60, name="all"))
    refused = status(2, "MINUTE", 0, 60, name="all", code="OVER_LIMIT")
    assert rls.ask("all") == over(30, refused)
    rls.clock.now += 30.0
    assert rls.ask("all") == ok(status(2, "MINUTE", 0, 60, name="all"))


def test_a_replaced_limit_neither_counts_nor_refuses(rls: Rls) -> None:
    for remaining in (2, 1, 0):
        vip = status(3, "HOUR", remaining, 3_600 - 1_200 * remaining, name="vip")
        assert rls.ask("all", "vip") == ok(NONE, vip)
    refused = status(3, "HOUR", 0, 3_600, name="vip", code="OVER_LIMIT")
    assert rls.ask("vip", "all") == over(1_200, refused, NONE)
    assert rls.ask("all") == ok(status(2, "MINUTE", 1, 30, name="all"))


def test_an_unlimited_rule_replaces_as_well(rls: Rls) -> None:
    unlimited: dict[str, object] = {"code": "OK", "limitRemaining": 2**32 - 1}
    for _ in range(5):
        assert rls.ask("free", "all") == ok(unlimited, NONE)


def test_a_limit_in_shadow_mode_counts_and_admits(rls: Rls) -> None:
    spent = status(1, "MINUTE", 0, 60)
    for _ in range(3):
        assert rls.ask("seen") == ok(spent)
    assert rls.ask("shut") == ok(status(0, "DAY", 0, 0))


def test_limits_in_quota_mode_refuse_only_together(rls: Rls) -> None:
    soft, last = status(1, "MINUTE", 0, 60), status(2, "MINUTE", 0, 60)
    gone = status(1, "MINUTE", 0, 60, code="OVER_LIMIT")
    all_gone = status(2, "MINUTE", 0, 60, code="OVER_LIMIT")
    assert rls.ask("soft", "next") == ok(soft, status(2, "MINUTE", 1, 30))
    assert rls.ask("soft", "next") == ok(gone, last)
    # One of them is enough, so a retry makes sense when the first has a hit again.
    assert rls.ask("soft", "next") == over(30, gone, all_gone)
    assert rls.ask("soft") == over(60, gone)
    # A descriptor that no limit counts is no limit that admits.
    assert rls.ask("soft", "none") == over(60, gone, NONE)


def test_a_limit_of_the_ordinary_kind_refuses_beside_one_in_quota_mode(
    rls: Rls,
) -> None:
    rls.ask("all", hitsAddend=2)
    soft = status(1, "MINUTE", 0, 60)
    refused = status(2, "MINUTE", 0, 60, name="all", code="OVER_LIMIT")
    assert rls.ask("soft", "all") == over(30, soft, refused)


def test_a_limit_of_the_request_replaces_that_of_the_file(rls: Rls) -> None:
    hourly = entry("all", limit={"requestsPerUnit": 1, "unit": "HOUR"})
    daily = entry("all", limit={"requestsPerUnit": 5, "unit": "DAY"})
    assert rls.ask(hourly) == ok(status(1, "HOUR", 0, 3_600))
    assert rls.ask(hourly) == over(
        3_600, status(1, "HOUR", 0, 3_600, code="OVER_LIMIT")
    )
    assert rls.ask(daily) == ok(status(5, "DAY", 4, 17_280))
    assert rls.ask("all") == ok(status(2, "MINUTE", 1, 30, name="all"))
    shut = entry("all", limit={"requestsPerUnit": 0, "unit": "YEAR"})
    assert rls.ask(shut) == over(3_600, status(0, "YEAR", 0, 0, code="OVER_LIMIT"))


def test_a_limit_of_the_request_knows_no_names_modes_and_replacements(
    rls: Rls,
) -> None:
    hourly = entry("all", limit={"requestsPerUnit": 1, "unit": "HOUR"})
    vip = status(3, "HOUR", 2, 1_200, name="vip")
    assert rls.ask(hourly, "vip") == ok(status(1, "HOUR", 0, 3_600), vip)


def test_hits_are_those_of_the_descriptor_or_else_of_the_request(rls: Rls) -> None:
    three = status(3, "HOUR", 1, 2_400, name="vip")
    one = status(1, "MINUTE", 0, 60)
    own = entry("soft", hitsAddend="1")
    assert rls.ask(own, "vip", hitsAddend=2) == ok(one, three)
    refused = status(3, "HOUR", 0, 2_400, name="vip", code="OVER_LIMIT")
    assert rls.ask("vip", hitsAddend=2) == over(1_200, refused)
    assert rls.ask("vip", hitsAddend=0) == ok(status(3, "HOUR", 0, 3_600, name="vip"))


def test_no_hits_ask_without_being_charged(rls: Rls) -> None:
    asks = entry("all", hitsAddend="0")
    for _ in range(3):
        assert rls.ask(asks, hitsAddend=7) == ok(status(2, "MINUTE", 2, 0, name="all"))


def test_a_cost_that_is_known_afterwards_is_charged_whatever_is_left(rls: Rls) -> None:
    check = entry("all", hitsAddend="0")
    assert rls.ask(check) == ok(status(2, "MINUTE", 2, 0, name="all"))
    # Two requests were let through; what they have cost comes when they are over.
    assert rls.ask(entry("all", hitsAddend="2")) == ok(
        status(2, "MINUTE", 0, 60, name="all")
    )
    # Empty, but nothing is owed: envoyproxy/ratelimit lets the next one pass as well.
    assert rls.ask(check) == ok(status(2, "MINUTE", 0, 60, name="all"))
    owing = status(2, "MINUTE", 0, 120, name="all", code="OVER_LIMIT")
    assert rls.ask(entry("all", hitsAddend="2")) == over(60, owing)
    deeper = status(2, "MINUTE", 0, 180, name="all", code="OVER_LIMIT")
    assert rls.ask("all", hitsAddend=2) == over(120, deeper)
    assert rls.ask(check) == over(120, deeper)
    rls.clock.now += 120.0
    assert rls.ask(check) == ok(status(2, "MINUTE", 0, 60, name="all"))


def test_a_refused_call_that_names_no_cost_is_never_charged(rls: Rls) -> None:
    rls.ask(entry("all", hitsAddend="0"))
    assert rls.ask(entry("all", hitsAddend="2"))["overallCode"] == "OK"
    refused = status(2, "MINUTE", 0, 60, name="all", code="OVER_LIMIT")
    for _ in range(3):
        assert rls.ask("all") == over(30, refused)


def test_a_check_is_forgotten_after_an_hour(rls: Rls) -> None:
    rls.ask(entry("all", hitsAddend="0"))
    rls.clock.now += CHECKED_S
    refused = status(2, "MINUTE", 0, 0, name="all", code="OVER_LIMIT")
    assert rls.ask(entry("all", hitsAddend="3")) == over(3_600, refused)


def test_of_very_many_checks_the_oldest_are_forgotten(
    rls: Rls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_CHECKED", 2)
    for key in ("all", "vip", "next"):
        rls.ask(entry(key, hitsAddend="0"))
    assert rls.ask(entry("all", hitsAddend="3"))["overallCode"] == "OVER_LIMIT"
    assert rls.ask(entry("vip", hitsAddend="4"))["overallCode"] == "OVER_LIMIT"
    assert rls.ask("all")["overallCode"] == "OK"
    assert rls.ask("vip")["overallCode"] == "OVER_LIMIT"


def test_a_check_of_a_rule_that_another_replaces_is_one(rls: Rls) -> None:
    assert rls.ask(entry("all", hitsAddend="0"), "vip")["overallCode"] == "OK"
    owing = status(2, "MINUTE", 0, 150, name="all", code="OVER_LIMIT")
    assert rls.ask(entry("all", hitsAddend="5")) == over(90, owing)


def test_no_cost_is_owed_for_much_longer_than_a_year(rls: Rls) -> None:
    rls.ask(entry("vip", hitsAddend="0"))
    year = 31_536_000
    owing = status(3, "HOUR", 0, year, name="vip", code="OVER_LIMIT")
    assert rls.ask(entry("vip", hitsAddend=str(2**64 - 1))) == over(3_600, owing)
    rls.clock.now += year + 3_600.0
    assert rls.ask("vip")["overallCode"] == "OK"


def test_a_limit_of_none_refuses_a_check(rls: Rls) -> None:
    shut = entry("all", hitsAddend="0", limit={"requestsPerUnit": 0, "unit": "DAY"})
    assert rls.ask(shut)["overallCode"] == "OVER_LIMIT"


class Acme:
    """The decisions about a subject, the tenant acme of some groups."""

    def __init__(self, *groups: Group) -> None:
        self.enforcer, self.clock = make(*groups, acme=groups[-1].id)
        domain = read_domain(b"domain: apis\nsubjects: {tenant: tenant}\n")
        keys = KeyGroups(self.enforcer, "http://localhost", clock=self.clock)
        self._decides = DescriptorLimits(
            {"apis": domain}, self.enforcer, keys, self.clock
        )

    def answer(self, hits: float, *, named: bool = True) -> DescriptorAnswer:
        asked = [AskedDescriptor([("tenant", "acme")], hits, named=named)]
        refused, (answer,) = self._decides.decide("apis", asked)
        assert refused == answer.over
        return answer

    def ask(self, hits: float, *, named: bool = True) -> tuple[bool, int]:
        """Return whether it is refused, and what remains."""
        answer = self.answer(hits, named=named)
        return answer.over, answer.remaining


FIVE = Limit(dimension="requests", rate=60, burst=5, period_s=60, scope="node")
"""Five requests, one a second."""

DAILY = Limit(
    dimension="requests",
    rate=5,
    burst=5,
    period_s=86_400,
    period="day",
    begins_at_s=1.0,
    scope="node",
)

UNLIMITED = Limit(dimension="requests", rate=inf, burst=1, scope="node")

TOKENS = Limit(dimension="tokens", rate=1, burst=1, scope="node")


def test_a_subjects_costs_are_charged_afterwards_as_well() -> None:
    acme = Acme(group(FIVE))
    ask, clock = acme.ask, acme.clock
    assert ask(0) == (False, 5)
    assert ask(4) == (False, 1)
    assert ask(4) == (True, 0)
    assert ask(4) == (True, 0)  # owed: 7
    assert ask(0) == (True, 0)
    assert ask(1, named=False) == (True, 0)
    clock.now += 6.0
    assert ask(0)[0]
    clock.now += 1.5
    assert ask(0) == (False, 0)


def test_no_limit_of_a_subject_is_owed_for_much_longer_than_a_year() -> None:
    year = 31_536_000.0
    outer = replace(FIVE, rate=6_000, burst=5_000)
    for above in (outer, UNLIMITED):
        acme = Acme(group(above), group(FIVE, id=2, name="inner", parent=1))
        acme.ask(0)
        assert acme.answer(2.0**64).retry_s == pytest.approx(year)
    acme = Acme(group(DAILY))
    acme.ask(0)
    acme.ask(2.0**64)
    (owing,) = acme.enforcer.usage()
    assert owing.tokens == pytest.approx(-5 * 365)


def test_more_hits_than_the_limit_are_never_admitted(rls: Rls) -> None:
    refused = status(2, "MINUTE", 0, 0, name="all", code="OVER_LIMIT")
    for hits in ("3", str(2**64 - 1)):
        assert rls.ask(entry("all", hitsAddend=hits)) == over(3_600, refused)
    assert rls.ask("all") == ok(status(2, "MINUTE", 1, 30, name="all"))


@pytest.mark.parametrize(
    "groups",
    [
        [group(FIVE)],
        [group(FIVE, refusal="delay")],
        [group(DAILY)],
        [replace(group(FIVE), limits=(TOKENS, FIVE))],
        [group(FIVE), group(UNLIMITED, id=2, name="inner", parent=1)],
        [group(UNLIMITED), group(FIVE, id=2, name="inner", parent=1)],
        [group(replace(FIVE, burst=50)), group(FIVE, id=2, name="inner", parent=1)],
        [group(FIVE), group(replace(FIVE, burst=50), id=2, name="inner", parent=1)],
        [group(FIVE, refusal="shadow"), group(FIVE, id=2, name="inner", parent=1)],
    ],
)
def test_more_hits_than_a_subjects_limit_are_never_admitted(
    groups: list[Group],
) -> None:
    acme = Acme(*groups)
    for hits in (6.0, 4e9, 2.0**64):
        refused = acme.answer(hits)
        assert (refused.over, refused.retry_s) == (True, inf)
    assert sum(one.refused for one in acme.enforcer.usage()) > 0.0
    assert acme.ask(1) == (False, 4)
    assert acme.ask(5) == (False, 0)  # the group may owe: only its burst counts


def test_a_single_hit_is_admitted_where_the_burst_is_below_one() -> None:
    acme = Acme(group(replace(FIVE, burst=0.5)))
    assert not acme.answer(1).over
    assert acme.answer(1).over


def test_more_hits_than_an_unlimited_subjects_are_admitted() -> None:
    assert not Acme(group(UNLIMITED)).answer(2.0**64).over


def test_more_hits_than_a_limit_in_shadow_are_admitted_and_not_charged() -> None:
    acme = Acme(group(FIVE, refusal="shadow"))
    assert acme.ask(4e9) == (False, 5)
    assert acme.ask(1) == (False, 4)


def test_a_refusal_before_the_first_look_is_not_reset_at_once() -> None:
    acme = Acme(group(replace(FIVE, scope="cluster")))
    (link,) = acme.enforcer.limiter(tenant="acme").links({"requests": 1.0})
    link.local.asked = set()  # what is left across the cluster is not known yet
    link.bucket.free = -3.0  # spent by others
    answer = acme.answer(1)
    assert answer.over
    assert answer.reset_s >= answer.retry_s > 0.0
