"""What is written on the command line means what it says, or is refused in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.failure import Failure, Misused
from headgate.cli.options.bus_address import parse_bus
from headgate.cli.options.limits import (
    parse_key,
    parse_limit,
    parse_period,
    parse_quantity,
    show_period,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_limit_says_only_what_was_said_so_that_an_update_keeps_the_rest() -> None:
    assert parse_limit("requests=1000") == {"dimension": "requests", "rate": 1000.0}


def test_a_limit_can_say_everything() -> None:
    text = "publish_bytes=10M/m, burst=20Mi, scope=node, minimum=1k, maximum=unlimited"
    assert parse_limit(text) == {
        "dimension": "publish_bytes",
        "rate": 10e6,
        "period_s": 60.0,
        "burst": 20 * 2**20,
        "scope": "node",
        "minimum": 1000.0,
        "maximum": "unlimited",
    }


def test_kip599_a_burst_can_be_given_as_samples_and_window() -> None:
    assert parse_limit("mutations=5/s,samples=100,window=1s") == {
        "dimension": "mutations",
        "rate": 5.0,
        "period_s": 1.0,
        "samples": 100,
        "window_s": 1.0,
    }


@pytest.mark.parametrize(
    "text",
    [
        "requests=5,samples=x",
        "",
        "requests",
        "=5",
        "two words=5",
        "requests=",
        "requests=-1",
        "requests=nan",
        "requests=1e3x",
        "requests=2ki",
        "requests=5/",
        "requests=5/fortnight",
        "requests=5/0s",
        "requests=5,burst",
        "requests=5,burst=",
        "requests=5,depth=3",
        "requests=5,scope=galaxy",
        "requests=5,zone=Europe/Zurich",
        "requests=5/s,zone=Europe/Zurich",
        "requests=5,",
    ],
)
def test_a_limit_that_says_nothing_clear_is_a_misuse(text: str) -> None:
    with pytest.raises(Misused, match="expected"):
        parse_limit(text)


def test_a_limit_is_taken_away_by_its_key() -> None:
    assert parse_key("requests") == {"dimension": "requests", "rate": None}
    with pytest.raises(Misused, match="scope"):
        parse_key("requests,burst=3")
    with pytest.raises(Misused, match="scope"):
        parse_key("requests,scope=galaxy")


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1.5k", 1500.0),
        ("2Ki", 2048.0),
        ("3M", 3e6),
        ("1Mi", 2.0**20),
        ("1Ti", 2.0**40),
    ],
)
def test_multiples_are_decimal_or_binary(text: str, units: float) -> None:
    assert parse_quantity(text) == units


@given(number=st.integers(0, 2**53))
def test_a_whole_number_means_itself(number: int) -> None:
    assert parse_quantity(str(number)) == number


@given(seconds=st.integers(1, 10**7))
def test_a_period_is_shown_as_it_can_be_written(seconds: int) -> None:
    assert parse_period(show_period(float(seconds))) == seconds


@pytest.mark.parametrize(
    "address",
    [
        "",
        "rabbit",
        "kafka",
        "kafka://",
        "kafka://host",
        "kafka://host:9092/",
        "kafka://host:9092/a topic",
        "zeromq://host:1",
        "zeromq://host:a/b",
    ],
)
def test_a_bus_that_cannot_be_meant_is_a_misuse(address: str) -> None:
    with pytest.raises(Misused, match="expected zeromq"):
        parse_bus(address)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file or directory"),
        (b"{kind", "1: expected JSON: Expecting property name"),
        (b"{\n1}", "2: expected JSON: Expecting property name"),
        (b"\xff", "1: expected UTF-8"),
        (b"5", "expected a JSON object"),
    ],
)
def test_a_file_of_a_bus_that_can_not_be_read_is_named_once(
    tmp_path: Path, text: bytes | None, told: str
) -> None:
    file = tmp_path / "bus.json"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(Failure) as caught:
        parse_bus(str(file))
    assert str(caught.value).startswith(f"{file}:")
    assert told in str(caught.value)
    assert str(caught.value).count("bus.json") == 1


def test_the_embedded_bus_needs_no_settings() -> None:
    assert parse_bus("zeromq") is None
