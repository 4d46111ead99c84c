"""The folder of a run of the demo: new each time, never mixed with other files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from headgate.cli.demo.folder import run_folder
from headgate.cli.failure import Failure

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_that_is_there_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    said = re.escape(f"--keep {tmp_path}: expected a folder that does not exist")
    with pytest.raises(Failure, match=said), run_folder(tmp_path):
        pass
    assert not any(tmp_path.iterdir())
