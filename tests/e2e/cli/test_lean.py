"""A command imports what it needs and nothing else: start-up is counted in modules."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.unit.cli.rigs import serving

HEAVY = (
    "rich",
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
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command, "--url", url],
            capture_output=True,
            text=True,
            check=True,
        )
    code, modules = json.loads(done.stderr)
    assert code == 0
    roots = {name.partition(".")[0] for name in modules} | set(modules)
    assert roots.isdisjoint(HEAVY)
    ours = [name for name in modules if name.startswith("headgate.cli.commands.")]
    assert len(ours) == 1
    assert len(modules) < 260
