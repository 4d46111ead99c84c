"""Bodies of bulk apply that could knock a parser over, and what YAML means."""

import json

import pytest
import yaml

from headgate.api.apply import parsing
from headgate.api.apply.parsing import (
    MAX_DEPTH,
    TooLarge,
    parse_json,
    parse_yaml,
)

DEEP = [
    b"- " * 30_000 + b"a",
    b"? " * 30_000 + b"a",
    b"[" * 20_000,
    b"{" * 20_000,
    b"{a: " * 20_000,
]


@pytest.mark.parametrize("raw", DEEP, ids=lambda raw: raw[:4].decode())
def test_deeply_nested_yaml_is_refused_while_it_is_read(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"levels of nesting|keys to be scalars"):
        parse_yaml(raw)


@pytest.mark.parametrize("raw", [b"[" * 20_000, b'{"a":' * 20_000])
def test_deeply_nested_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="levels of nesting"):
        parse_json(raw)


def test_both_languages_may_be_nested_equally_deep() -> None:
    for parse in (parse_json, parse_yaml):
        assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
        with pytest.raises(ValueError, match="levels of nesting"):
            parse(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MAX_NODES", 1000)
    monkeypatch.setattr(parsing, "MAX_YAML_NODES", 1000)
    for parse in (parse_json, parse_yaml):
        assert parse(b"[" + b"1," * 900 + b"1]") == [1] * 901
        with pytest.raises(TooLarge):
            parse(b"[" + b"1," * 1000 + b"1]")


@pytest.mark.parametrize(
    "text",
    [
        'a: 1\nb: [1.5, 0x10, no, ~, 2020-01-01, "1", !!str 1]',
        "",
        "---\n...",
        "# only a comment",
        "a: {b: {c: []}}",
        "- |\n  foo\n  bar\n- >\n  x",
        "! 3",
        "{1: 2, x: {}}",
    ],
)
def test_yaml_means_what_safe_load_says(text: str) -> None:
    assert parse_yaml(text.encode()) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x [1]\nb: *x", "line 2: expected no aliases"),
        ("a: 1\nb: 2\na: 3", "line 3: expected each key once, but 'a' is"),
        (
            "a:\n- {b: 1, c: 2,\n   b: 3}\nc: 4",
            "line 3: expected each key once, but 'b",
        ),
        ("{1: 2, 0x1: 3}", "line 1: expected each key once, but '0x1' is"),
        ("? [a]\n: b", "line 1: expected keys to be scalars"),
        ("a: 1\n---\nb: 2", "line 2: expected one document"),
        ("a: !!bool maybe", "line 1: expected no tag"),
        ("\n!!python/object:os.system [x]", "line 2: expected no tag"),
    ],
)
def test_yaml_that_could_be_misread_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        parse_yaml(text.encode())


def test_values_of_a_mapping_may_equal_its_keys_and_each_other() -> None:
    assert parse_yaml(b"{a: a, b: a, c: [a, a]}") == {
        "a": "a",
        "b": "a",
        "c": ["a"] * 2,
    }


@pytest.mark.parametrize("text", ["12:30", "-1:30.5", "1:2:3"])
def test_a_number_to_the_base_of_sixty_is_a_text(text: str) -> None:
    assert parse_yaml(text.encode()) == text


def test_one_value_in_each_language_is_the_same() -> None:
    content = {"attachments": [{"subject": {"tenant": "ä"}, "group": "g"}]}
    assert parse_json(json.dumps(content).encode()) == content
    assert parse_yaml(yaml.safe_dump(content).encode()) == content
