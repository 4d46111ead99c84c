"""What commands make of a server that is no API of Headgate."""

from __future__ import annotations

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
