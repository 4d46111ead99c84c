"""Output that is not UTF-8, and streams that the caller closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

if TYPE_CHECKING:
    from headgate.api import Addresses

GROUP = {"limits": [{"dimension": "requests", "rate": 1000}]}
NAME = "grün→金"


@pytest.fixture
def named(server: Addresses) -> str:
    """The URL of a server with a group whose name is not ASCII."""
    url = f"{server.api}/api/v1/groups/{NAME}"
    httpx.put(url, json=GROUP).raise_for_status()
    return server.api


def ended(
    url: str, *words: str, encoding: str = "utf-8", shell: str = ""
) -> tuple[int, str, str]:
    """Run the command in a process; return its exit code, stdout and stderr."""
    command = [sys.executable, "-m", "headgate.cli", *words]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *command],
        env={**os.environ, "HEADGATE_URL": url, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    said, error = done.stdout.decode(encoding), done.stderr.decode(encoding)
    return done.returncode, said, error


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_escaped(named: str, encoding: str) -> None:
    code, said, error = ended(named, "group", "list", encoding=encoding)
    assert (code, error) == (0, "")
    assert "\\u2192\\u91d1" in said
    limit = ("--limit", "requests=2k/s", "--dry-run")
    code, said, error = ended(named, "group", "update", NAME, *limit, encoding=encoding)
    assert (code, error) == (0, "")
    for form, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        code, said, error = ended(named, "export", "-o", form, encoding=encoding)
        assert (code, error) == (0, "")
        assert list(parse(said)["groups"]) == [NAME]


def test_a_closed_stream_is_empty(named: str) -> None:
    detach = ("detach", "--user", "alice")
    httpx.put(
        f"{named}/api/v1/attachments",
        json={"subject": {"user": "alice"}, "group": NAME},
    ).raise_for_status()
    code, said, error = ended(named, *detach, shell="<&-")
    assert (code, said) == (1, "")
    assert error.endswith("pass --yes to confirm\n")
    assert ended(named, "apply", "-f", "-", shell="<&-")[:2] == (
        0,
        "nothing to change\n",
    )
    assert ended(named, "export", shell=">&-") == (0, "", "")
    assert ended(named, "group", "show", "none", shell="2>&-")[0] == 1
    code, said, _ = ended(named, "group", "list", shell="2>&-")
    assert (code, NAME in said) == (0, True)
