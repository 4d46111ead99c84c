"""What commands make of a server that is no API of Headgate."""

from __future__ import annotations

import json
import re

import pytest
import typer
from tests.unit.cli.rigs import serving

from headgate.cli import main
from headgate.cli.app import application
from headgate.cli.options.completers import group_names


@pytest.mark.parametrize(
    ("command", "body", "why"),
    [
        ("audit --follow", "{}", "expected 'revision'"),
        ("audit", '{"items": [{}]}', "expected 'revision'"),
        ("audit", '{"items": 5}', "'int' object is not iterable"),
        ("status --once", '{"rows": ["x"]}', "'str' object has no attribute 'get'"),
        ("status --once", '{"partitions": 2, "agents": ["x"]}', "string indices must"),
        ("top --once", '{"rows": [{}]}', "expected '"),
        ("group list", '{"items": [{}]}', "expected '"),
        ("token list", '{"items": [{}]}', "expected 'id'"),
    ],
)
def test_another_service_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], command: str, body: str, why: str
) -> None:
    with serving((200, body)) as url:
        assert main([*command.split(), "--url", url]) == 1
    said = capsys.readouterr().err
    told = f"headgate: {url} does not answer like a Headgate API: {why}"
    assert (said[: len(told)], said.count("\n")) == (told, 1)


def test_another_service_has_no_names_to_complete() -> None:
    with serving((200, '{"rows": [{}]}')) as url:
        context = typer.Context(typer.main.get_command(application([])))
        context.params = {"url": url}
        assert group_names(context, "") == []


def test_another_server_is_told_with_its_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving((404, "<h1>Not Found</h1>")) as url:
        assert main(["group", "list", "--url", url]) == 1
    assert capsys.readouterr().err == f"headgate: the API at {url} answered 404\n"


EXPLAINED = {
    **dict.fromkeys(
        (
            *("group", "dimension", "mode", "isolation", "revision", "level", "rate"),
            *("level_reported", "predicted", "burst", "margin", "horizon_s", "theta"),
            *("reserved", "available", "slack", "bound", "lease_s"),
        ),
        1,
    ),
    "lag_s": 0.025,
}


@pytest.mark.parametrize(
    ("loss", "members", "error", "told"),
    [
        (3.7e-42, 1, 1.0, ("1 agent", "0 % are lost", "1 unit over (+)")),
        (0.00009, 0, 0.0, ("0 agents", "0 % are lost", "0 units over (+)")),
        (0.0123, 2, -1.0, ("2 agents", "1.2 % are lost", "-1 unit over (+)")),
        (0.0005, 2, 1.5, ("2 agents", "0.05 % are lost", "1.5 units over (+)")),
    ],
)
def test_a_share_is_explained_in_words_that_go_with_its_figures(
    capsys: pytest.CaptureFixture[str],
    loss: float,
    members: int,
    error: float,
    told: tuple[str, ...],
) -> None:
    one = {**EXPLAINED, "loss": loss, "members": members, "error": error}
    uses = json.dumps({"uses": [{"dimension": "requests"}]})
    with serving((200, uses), (200, json.dumps(one))) as url:
        assert main(["explain", "gold", "--url", url]) == 0
    said = capsys.readouterr().out
    for words in told:
        assert f" {words}" in said


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ({"rate": 60.0, "period_s": 3600.0}, ["quota 60/h"]),
        (
            {"rate": 50.0, "period": "month", "period_s": 2_629_800.0, "level": 34.0},
            ["quota 50/month", "Of the 50 requests of this month, 34 are left."],
        ),
    ],
    ids=["hour", "month"],
)
def test_status_tells_a_limit_in_the_unit_in_which_it_was_set(
    capsys: pytest.CaptureFixture[str], limit: dict[str, object], told: list[str]
) -> None:
    agent = {"agent": "a", "demand": 0.0167, "admitted": 0.0167, "state": "present"}
    use = {"dimension": "requests", "agents": [agent], **limit}
    with serving((200, json.dumps({"uses": [use]}))) as url:
        assert main(["status", "gold", "--once", "--url", url]) == 0
    said = capsys.readouterr().out
    for words in [*told, "0.017"]:
        assert words in said


def test_a_wide_list_of_groups_has_all_that_is_shown_of_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = {
        "name": "each",
        "limits": [{"dimension": "requests", "rate": 5.0}],
        "mode": "strict",
        "refusal": "wait",
        "parent": "all",
        "per": "user",
        "slots": 21,
        "weight": 2.5,
        "isolation": "hold",
        "may_owe": True,
        "soft_threshold": 0.75,
        "split": "even",
        "per_partition": False,
        "owner": "acme",
        "offered_to": ["beta", "gamma"],
        "id": 41,
        "revision": 17,
    }
    page = json.dumps({"items": [one], "next": None})
    with serving((200, page)) as url:
        assert main(["group", "list", "-o", "wide", "--url", url]) == 0
    headings, _, row = capsys.readouterr().out.splitlines()
    told = dict(
        zip(re.split(r" {3,}", headings), re.split(r" {3,}", row), strict=False)
    )
    words = {"True": "yes", "False": "no", "['beta', 'gamma']": "beta, gamma"}
    for name, value in one.items():
        if name == "limits":
            continue
        heading = {"name": "group"}.get(name, name.replace("_", " "))
        assert told[heading] == words.get(str(value), str(value)), name
