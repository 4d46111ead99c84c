"""Which rule a descriptor meets, as envoyproxy/ratelimit has it; wrong files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.agent.integrations.envoy.descriptors import (
    InvalidDescriptors,
    LimitDomain,
    read_domain,
)
from headgate.cli.envoy import read_domains
from headgate.cli.failure import Failure

TREE = b"""
domain: apis
subjects: {tenant: tenant, client_id: client, name: ~}
descriptors:
  - key: plan
    value: gold
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: user, value: vip, rate_limit: {unlimited: true}}
  - {key: plan, rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: path, value: "/a/*/z", rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: path, value: "/a/*", share_threshold: true,
     rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: status, value: 404, shadow_mode: true,
     rate_limit: {unit: week, requests_per_unit: 5, name: lost,
                  replaces: [{name: all}]}}
"""


@pytest.fixture
def apis() -> LimitDomain:
    return read_domain(TREE)


@pytest.mark.parametrize(
    ("entries", "hits", "unit"),
    [
        ([("plan", "gold"), ("user", "al")], 3, "minute"),
        ([("plan", "silver")], 7, "hour"),
        ([("path", "/a/b/z")], 1, "second"),
        ([("path", "/a/b/y")], 2, "day"),
        ([("status", "404")], 5, "week"),
    ],
)
def test_the_narrowest_rule_wins(
    apis: LimitDomain, entries: list[tuple[str, str]], hits: int, unit: str
) -> None:
    found = apis.match(entries)
    assert found is not None
    assert (found.rule.requests_per_unit, found.rule.unit) == (hits, unit)


@pytest.mark.parametrize(
    "entries",
    [
        [("plan", "gold")],  # the exact value has no limit, and hides the key's
        [("user", "al")],
        [("plan", "silver"), ("user", "al")],
        [("user", "al"), ("plan", "gold")],
        [],
    ],
)
def test_only_a_limit_at_the_last_entry_counts(
    apis: LimitDomain, entries: list[tuple[str, str]]
) -> None:
    assert apis.match(entries) is None


def test_each_value_of_a_key_has_a_bucket_and_a_shared_wildcard_has_one(
    apis: LimitDomain,
) -> None:
    def key(name: str, value: str) -> str:
        found = apis.match([(name, value)])
        assert found is not None
        return found.key

    assert key("plan", "silver") != key("plan", "bronze")
    assert key("path", "/a/b/z") != key("path", "/a/c/z")
    assert key("path", "/a/b/y") == key("path", "/a/c/y")


def test_a_very_long_value_makes_no_very_long_key(apis: LimitDomain) -> None:
    long, other = (apis.match([("plan", "x" * 10_000 + end)]) for end in "ab")
    assert long is not None
    assert other is not None
    assert len(long.key) <= 64
    assert long.key != other.key


def test_entries_without_an_order_meet_the_same_rule(apis: LimitDomain) -> None:
    found = apis.match_any_order({"user": "al", "plan": "gold"})
    assert found == apis.match([("plan", "gold"), ("user", "al")])
    assert found is not None
    assert apis.match_any_order({"user": "al"}) is None


def test_a_subject_is_named_only_if_every_key_is_mapped(apis: LimitDomain) -> None:
    both = [("tenant", "acme"), ("client_id", "c1"), ("name", "ignored")]
    assert apis.subject(both) == {"tenant": "acme", "client": "c1"}
    assert apis.subject([("tenant", "acme"), ("region", "eu")]) is None
    assert apis.subject([("name", "ignored")]) is None


def test_shadow_unlimited_and_replaces_are_read(apis: LimitDomain) -> None:
    vip = apis.match([("plan", "gold"), ("user", "vip")])
    lost = apis.match([("status", "404")])
    assert vip is not None
    assert lost is not None
    assert vip.rule.unlimited
    assert lost.rule.shadow
    assert lost.rule.replaces == {"all"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("descriptors: []", "domain"),
        ("domain: a\nlimit: 3", "limit"),
        ("domain: a\ndimension: 3 m", "dimension"),
        ("domain: a\nsubjects: {t: planet}", "subjects.t"),
        ("domain: a\nsubjects: {t: tenant, u: tenant}", "subjects.u"),
        ("domain: a\ndescriptors: {key: b}", "descriptors"),
        ("domain: a\ndescriptors: [{value: b}]", "descriptors[0].key"),
        ("domain: a\ndescriptors: [{key: b}, {key: b}]", "descriptors[1]"),
        (
            "domain: a\ndescriptors: [{key: b, share_threshold: true}]",
            "descriptors[0].share_threshold",
        ),
        (
            "domain: a\ndescriptors: [{key: b, rate_limit: {unit: eon}}]",
            "descriptors[0].rate_limit.unit",
        ),
        (
            "domain: a\ndescriptors: [{key: b, rate_limit:"
            " {unit: day, requests_per_unit: -1}}]",
            "descriptors[0].rate_limit.requests_per_unit",
        ),
        (
            "domain: a\ndescriptors: [{key: b, rate_limit:"
            " {unit: day, name: x, replaces: [{name: x}]}}]",
            "descriptors[0].rate_limit.replaces[0].name",
        ),
    ],
)
def test_a_wrong_field_is_named(text: str, where: str) -> None:
    with pytest.raises(InvalidDescriptors) as caught:
        read_domain(text.encode())
    assert caught.value.field == where


@pytest.mark.parametrize(
    "raw", [b"a: [", b"\xff\xfe\xfa", b"- 1", b"&a [*a]", b"[" * 10_000, b""]
)
def test_what_is_not_a_domain_in_yaml_is_said(raw: bytes) -> None:
    with pytest.raises(InvalidDescriptors, match=r"expected .*"):
        read_domain(raw)


def test_the_command_line_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("domain: apis\ndescriptors:\n  - key: plan\n    rate: 3\n")
    with pytest.raises(Failure, match=r"bad\.yaml:4: descriptors\[0\]\.rate: expected"):
        read_domains([file])


def test_two_files_of_one_domain_are_refused(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("domain: apis\n")
    with pytest.raises(
        Failure, match=r"b\.yaml: domain 'apis' is already in another file"
    ):
        read_domains([tmp_path / "a.yaml", tmp_path / "b.yaml"])


def test_the_example_is_a_domain() -> None:
    example = Path(__file__).parents[4] / "examples" / "envoy" / "limits.yaml"
    assert list(read_domains([example])) == ["apis"]
