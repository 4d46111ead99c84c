"""What the pages show in blocks can be pasted: every command of ours parses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from headgate.cli.app import application
from headgate.pipeline.command import app as pipeline
from headgate.simulation.command import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "headgate " in path.read_text(encoding="utf-8")
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^\$ ", re.MULTILINE)
SHELL = ("", "sh", "console")
HEADING_OF_TOP = "headgate top  http://"
"""Begins a picture of a terminal."""


def commands(page: Path) -> Iterator[str]:
    """Return the lines of the blocks that start with our command."""
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in SHELL:
            for line in PROMPT.sub("", block).replace("\\\n", "").splitlines():
                if line.startswith("headgate ") and HEADING_OF_TOP not in line:
                    yield line


def parse(words: list[str]) -> None:
    """Read the words as the command line does, and run nothing."""
    app = application(words)
    if words[0] == "pipeline":
        app, words = pipeline, words[1:]
    elif words[0] == "simulate":
        app, words = typer.Typer(), words[1:]
        app.command()(simulate)
    command = get_command(app)
    context = None
    while isinstance(command, TyperGroup):
        context = command.make_context(command.name, words, parent=context)
        rest = [*context._protected_args, *context.args]  # pyright: ignore[reportPrivateUsage]
        _, found, words = command.resolve_command(context, rest)
        assert found is not None
        command = found
    command.make_context(command.name, words, parent=context)


def test_the_pages_show_commands() -> None:
    shown = {page: len(list(commands(page))) for page in PAGES}
    assert sum(shown.values()) > 80
    for name in ("README.md", "docs/cli.md", "docs/pipeline.md"):
        assert shown[ROOT / name] > 0, name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_in_a_block_can_be_typed(page: Path) -> None:
    for line in commands(page):
        words = shlex.split(line.removesuffix("&"), comments=True)
        try:
            parse(words[1:])
        except typer.TyperException as misuse:
            pytest.fail(f"{line}: {misuse.format_message()}")
