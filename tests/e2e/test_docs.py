"""What docs/cli.md shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_every_command_that_the_page_shows_works_in_its_order(
    headgate: Callable[..., tuple[int, str, str]],
) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 20
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "headgate"
        code, _, error = headgate(*arguments)
        assert (line, code, error) == (line, 0, "")
