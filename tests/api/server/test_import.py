"""Importing the server: quick, and without a trace in the process that does it."""

import subprocess
import sys

import pytest

SAYS = """
import sys
import headgate.api
print(gc.isenabled(), gc.get_freeze_count() > 0, "psycopg" in sys.modules)
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "True False False"),
        ("gc.disable()", "False False False"),
        ("gc.freeze()", "True True False"),
    ],
)
def test_the_garbage_collector_is_left_as_it_was(before: str, told: str) -> None:
    program = f"import gc\n{before}\n{SAYS}"
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said.strip() == told
