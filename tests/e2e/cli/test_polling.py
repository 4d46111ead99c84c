"""`headgate status` and `audit --follow` go on when the API goes and comes back."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pytest
from tests.e2e.cli.test_top import Api

from headgate.cli.client.rest import Rest
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
HEADGATE = [sys.executable, "-m", "headgate.cli"]

PICTURE = "no group is in use"

OLD = "not updated: "


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Children() as children:
        yield Api(children, tmp_path_factory.mktemp("lasting"))


@contextmanager
def running(url: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run a command that goes on, its output in pipes."""
    command = [*HEADGATE, *arguments, "--url", url]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(stream: IO[str] | None) -> str:
    """Return the next line; the test's own time limit bounds the wait."""
    assert stream is not None
    return stream.readline()


def test_who_follows_is_told_of_an_outage_once_and_goes_on_after_it(api: Api) -> None:
    audit = ("audit", "--follow", "-n", "1", "--json")
    status = ("status", "--json", "--every", "0.1")
    with running(api.url, *audit) as followed, running(api.url, *status) as shown:
        assert json.loads(line(followed.stdout))["revision"] == 1
        assert line(shown.stdout) == "{\n"
        api.kill()
        for process in (followed, shown):
            said = line(process.stderr)
            assert said.startswith(f"headgate: no API answers at {api.url}")
            assert said.endswith("; retrying until it is back\n")
        api.start()
        with Rest(api.url) as rest:
            rest.call("PUT", "/api/v1/tenants/later", body={})
        assert json.loads(line(followed.stdout))["changes"][0]["key"] == "later"
        for process in (followed, shown):
            assert line(process.stderr) == "headgate: the API is back\n"
        while line(shown.stdout).strip(" ,\n") != '"revision": 2':
            pass
        shown.send_signal(signal.SIGINT)
        assert shown.communicate(timeout=60)[1] == ""
        assert shown.returncode == 130


def test_the_live_table_stays_and_says_that_it_is_old(api: Api) -> None:
    ours, theirs = pty.openpty()
    command = [*HEADGATE, "status", "--every", "0.1", "--url", api.url]
    told = ""

    def until(seen: Callable[[str], bool]) -> None:
        nonlocal told
        while not seen(told):
            told += os.read(ours, 4096).decode(errors="replace")

    with subprocess.Popen(command, stdin=theirs, stdout=theirs) as process:
        os.close(theirs)
        try:
            until(lambda told: PICTURE in told)
            api.kill()
            until(lambda told: f"{OLD}no API answers at {api.url}" in told)
            api.start()
            until(
                lambda told: (
                    len(pictures := told.split(PICTURE)) > 3
                    and OLD not in "".join(pictures[-3:])
                )
            )
        finally:
            process.kill()
    os.close(ours)


@pytest.mark.parametrize("arguments", [("status",), ("audit", "--follow")])
def test_who_can_not_begin_ends(arguments: tuple[str, ...]) -> None:
    with running("http://127.0.0.1:1", *arguments) as process:
        _, said = process.communicate(timeout=60)
        assert said.startswith("headgate: no API answers at")
        assert said.count("\n") == 1
        assert process.returncode == 1
