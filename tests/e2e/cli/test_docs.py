"""What docs/cli.md shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def test_every_command_that_the_page_shows_works_in_its_order(
    headgate: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    file = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(file) == 1
    (tmp_path / "quotas.yaml").write_text(file[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 45
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "headgate"
        code, _, error = headgate(*arguments)
        assert (line, code, error) == (line, 0, "")
