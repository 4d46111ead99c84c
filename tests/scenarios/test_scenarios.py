"""Text scenarios: prose, commands, and what they print.

A file is blocks apart by empty lines.  Lines that begin with # are prose; the others
are commands, up to a line of dashes; what follows is what the commands print.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.scenarios.commands import perform
from tests.scenarios.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent
DASHES = "----"

LONG = {"deaf", "halves", "silence", "vouched-alive"}
"""Scenarios that take a second or more."""


def replay(text: str) -> str:
    """Return the file with the output that its commands print now."""
    world = World()
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        before = block.split(f"\n{DASHES}")[0]
        commands = [line for line in before.splitlines() if not line.startswith("#")]
        printed = [out for line in commands if (out := perform(world, line))]
        if not commands:
            blocks.append(before)
        else:
            blocks.append("\n".join([before, DASHES, *printed]))
    return "\n\n".join(blocks) + "\n"


def files() -> Iterator[object]:
    """Yield each file, marked if it plays minutes."""
    for path in sorted(FOLDER.glob("*/*.txt")):
        marks = [pytest.mark.long] if path.stem in LONG else []
        yield pytest.param(path, marks=marks, id=path.stem)


@pytest.mark.parametrize("path", [*files()])
def test_text_scenario(path: Path, rewrite: bool) -> None:
    text = path.read_text(encoding="utf-8")
    now = replay(text)
    if rewrite:
        path.write_text(now, encoding="utf-8")
    assert now == text or rewrite


def test_there_are_scenarios_of_each_kind() -> None:
    kinds = {path.parent.name for path in FOLDER.glob("*/*.txt")}
    assert kinds >= {"ledger", "membership", "reporting"}
