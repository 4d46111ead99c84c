"""The audit by the command line: filtered, followed, and gone back in."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pytest

    from headgate.api import Addresses


class Headgate(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


def test_the_audit_is_filtered_paged_and_gone_back_in(
    headgate: Headgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.cli.commands.audit.PAGE", 2)
    headgate("group", "create", "told", "--limit", "requests=1")
    newest = json.loads(headgate("audit", "-n", "1", "--json")[1])
    first = int(newest[0]["revision"])
    for rate in range(2, 7):
        headgate("group", "update", "told", "--limit", f"requests={rate}")
    of_it = ("audit", "--kind", "group", "--key", "told")
    entries = json.loads(headgate(*of_it, "--json")[1])
    assert [one["revision"] for one in entries] == list(range(first + 5, first - 1, -1))
    said = headgate(*of_it, "-n", "2")[1]
    assert "requests=5/s burst 5 → requests=6/s burst 6" in said
    assert "requests=3/s" not in said
    assert json.loads(headgate(*of_it, "--since", "1h", "--json")[1]) == entries
    between = (entries[2]["at_s"] + entries[3]["at_s"]) / 2
    moment = datetime.fromtimestamp(between, UTC).isoformat()
    for option, part in (("--since", entries[:3]), ("--until", entries[3:])):
        assert json.loads(headgate(*of_it, option, moment, "--json")[1]) == part
    assert headgate("audit", "--follow", "--until", "1h")[0] == 2
    assert json.loads(headgate("audit", "--author", "nobody", "--json")[1]) == []
    one = headgate("audit", str(first))[1]
    assert one.startswith(f"revision {first}  ")
    assert "+ group told  requests=1/s burst 1" in one
    code, said, _ = headgate("rollback", str(first + 1), "--yes")
    assert (code, "done: 0 created, 1 changed, 0 deleted" in said) == (0, True)
    shown = json.loads(headgate("group", "show", "told", "--json")[1])
    assert [limit["rate"] for limit in shown["limits"]] == [2.0]


def test_the_audit_is_followed_until_ctrl_c(
    server: Addresses, headgate: Headgate
) -> None:
    command = [sys.executable, "-m", "headgate.cli", "audit", "--follow", "-n", "1"]
    headgate("tenant", "create", "followed-0")
    process = subprocess.Popen(
        [*command, "--json", "--url", server.api], stdout=subprocess.PIPE, text=True
    )

    def told() -> object:
        assert process.stdout is not None
        return json.loads(process.stdout.readline())["changes"][0]["key"]

    with process:
        try:
            assert told() == "followed-0"
            for number in (1, 2):
                headgate("tenant", "create", f"followed-{number}")
            assert [told(), told()] == ["followed-1", "followed-2"]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
