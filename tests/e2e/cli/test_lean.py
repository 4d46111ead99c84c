"""A command imports what it needs and nothing else: start-up is counted in modules."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest
import typer
from tests.unit.cli.rigs import serving

from headgate.cli.app import COMMANDS

HEAVY = (
    "rich",
    "pydantic",
    "httpx",
    "yaml",
    "numpy",
    "ssl._ssl",
    "headgate.agent.agent",
    "asyncio",
)
"""Libraries that take a tenth of a second each, or nearly."""

PROGRAM = """
import json, sys
before = set(sys.modules)
from headgate.cli import main
code = main(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(set(sys.modules) - before)]))
"""


def imported(*command: str) -> list[str]:
    """Return the modules that a command which succeeds imports."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    return [str(name) for name in modules]


@pytest.mark.parametrize(
    ("command", "body"),
    [
        (("group", "list"), '{"items": []}'),
        (("tenant", "list", "-o", "json"), '{"items": []}'),
        (("status", "gold", "-o", "json", "--once"), "{}"),
        (("attachments", "-o", "name"), '{"items": []}'),
        (("audit",), '{"items": []}'),
    ],
)
def test_a_command_that_reads_imports_no_heavy_library(
    command: tuple[str, ...], body: str
) -> None:
    with serving((200, body)) as url:
        modules = imported(*command, "--url", url)
    roots = {name.partition(".")[0] for name in modules} | set(modules)
    assert roots.isdisjoint(HEAVY)
    ours = [name for name in modules if name.startswith("headgate.cli.commands.")]
    assert len(ours) == 1
    assert len(modules) < 260


@pytest.mark.parametrize("command", ["--help", "--version"])
def test_to_list_the_commands_none_of_them_is_imported(command: str) -> None:
    modules = imported(command)
    assert not [name for name in modules if name.startswith("headgate.cli.commands")]
    assert "pydantic" not in modules


def test_the_list_says_what_each_command_says_of_itself() -> None:
    for entry in COMMANDS.values():
        found = getattr(import_module(f"headgate.cli.{entry.module}"), entry.attribute)
        if not isinstance(found, typer.Typer):
            first, *_ = inspect.cleandoc(found.__doc__ or "").split("\n\n")
            assert " ".join(first.split()) == entry.help
