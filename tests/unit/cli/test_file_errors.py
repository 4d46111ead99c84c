"""A refused file is told with its line and its field."""

from __future__ import annotations

import sys

import pytest

from headgate.cli.client.file_errors import with_place
from headgate.cli.failure import RefusedByApi

FILE = b"""\
groups:
  gold.eu:
    limits:
      - {dimension: requests, rate: 1000}
      - dimension: tokens
        rate: -5
attachments:
  - {subject: {tenant: acme}, group: nope}
"""


def told(raw: bytes, refused: RefusedByApi, *, is_json: bool = False) -> str:
    return with_place("q.yaml", raw, refused, is_json=is_json)


def of_field(field: str) -> RefusedByApi:
    return RefusedByApi(f"{field}: bad", ((field, "bad"),))


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("groups.gold.eu.limits[1].rate", 6),
        ("groups.gold.eu.limits[0].rate", 4),
        ("groups.gold.eu.limits[7]", 4),  # the nearest there is
        ("groups.gold.eu.mood", 3),
        ("attachments[0].subject", 8),
        ("elsewhere", 1),
    ],
)
def test_a_field_is_told_with_its_line(field: str, line: int) -> None:
    assert told(FILE, of_field(field)) == f"q.yaml:{line}: {field}: bad"


def test_a_name_that_does_not_exist_is_found_in_the_file() -> None:
    refused = RefusedByApi("group 'nope' does not exist")
    assert told(FILE, refused) == f"q.yaml:8: attachments[0].group: {refused}"


def test_a_refusal_of_no_place_stays_as_it_is() -> None:
    assert told(FILE, RefusedByApi("ci (viewer) may not do this")) == (
        "ci (viewer) may not do this"
    )


@pytest.mark.parametrize(
    ("raw", "is_json", "said"),
    [
        (b"a: 1\nb: [1}\nc: 2\n", False, "q.yaml:2: expected YAML: "),
        (b"a: &x 1\nb: *x\n", False, "q.yaml:2: expected YAML without aliases"),
        (b"a: 1\nb: \xff\n", False, "q.yaml:2: expected UTF-8"),
        (b'{"a": 1,\n "b" 2}', True, "q.yaml:2: expected JSON: "),
        (b"a: \x00", False, "q.yaml:1: expected YAML: "),
    ],
)
def test_what_can_not_be_read_is_told_with_its_line(
    raw: bytes, is_json: bool, said: str
) -> None:
    assert told(raw, RefusedByApi("expected YAML"), is_json=is_json).startswith(said)


REPEATED = b'{"a": [{"b": 1}],\n "c": {"a": 1,\n "b": 2, "a": 3}}'


@pytest.mark.parametrize(
    ("raw", "refusal", "said"),
    [
        (b"a: 1\na: 2", "YAML: line 2: expected so", "q.yaml:2: expected so"),
        (b"- a", "YAML: expected so", "q.yaml: expected so"),
        (REPEATED, "JSON: expected so", "q.yaml:3: expected so"),
        (b'[[1, "a"]]', "JSON: expected so", "q.yaml: expected so"),
    ],
)
def test_a_file_that_the_api_can_not_read_is_named(
    raw: bytes, refusal: str, said: str
) -> None:
    is_json = refusal.startswith("JSON")
    assert told(raw, RefusedByApi(refusal), is_json=is_json) == said


def test_without_pyyaml_the_field_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert told(FILE, of_field("groups.x")) == "q.yaml: groups.x: bad"
