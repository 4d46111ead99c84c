"""The demo passes its own summary, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from headgate.cli.demo.broker import check_bus
from headgate.cli.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

WITH_A_FOLDER = """
import sys, time
from pathlib import Path
from headgate.cli.demo.folder import run_folder
from headgate.cli.failure import Failure

with run_folder(None) as folder:
    print(folder, flush=True)
    sys.stdin.readline()
    raise Failure("it went wrong")
"""

DEMO = [sys.executable, "-m", "headgate.cli", "demo", "--seconds", "20"]

PATIENCE_S = 60.0
"""For all parts to start, or to end, on a machine that may be busy."""


@pytest.mark.alone
@pytest.mark.parametrize("bus", ["zeromq", "kafka"])
def test_one_quota_is_held_over_five_processes(bus: str) -> None:
    try:
        check_bus(bus)
    except Failure as failure:
        pytest.skip(str(failure))
    command = [*DEMO, "--bus", bus, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["faults"] == []
    assert 0.97 <= summary["ratio"] <= 1.02
    assert min(agent["part"] for agent in summary["agents"]) >= 0.9
    assert summary["attempted"] > 25_000
    # Dividing the quota evenly is what all this is better than.
    assert summary["divided"] < 0.8 * summary["central"]


def test_a_few_large_requests_share_one_quota_over_four_gateways() -> None:
    command = [*DEMO[:-1], "60", "--shape", "tokens", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["faults"] == []
    assert 0.97 <= summary["ratio"] <= 1.02
    over = summary["debt_units"] - summary["central_debt_units"]
    assert over <= 4 * summary["largest_cost"]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo whose agents are running, on an encrypted bus."""
    process = subprocess.Popen(
        [*DEMO, "--bus", "curve"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        told = any("of 20 s" in line for line in process.stdout)
        assert told, process.communicate(timeout=PATIENCE_S)
        yield process
        process.kill()


def _parts(demo: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(demo.pid).children(recursive=True)


def _left_behind(parts: list[psutil.Process]) -> list[psutil.Process]:
    deadline = time.monotonic() + PATIENCE_S
    while left := [one for one in parts if _runs(one)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left


def _runs(one: psutil.Process) -> bool:
    try:
        return one.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_ended_leaves_no_process_behind(
    demo: subprocess.Popen[str], end: signal.Signals
) -> None:
    parts = _parts(demo)
    assert len(parts) == 7  # the server, five agents, and the second life of one
    demo.send_signal(end)
    assert _left_behind(parts) == []
    _, error = demo.communicate(timeout=PATIENCE_S)
    if end is not signal.SIGKILL:
        assert (demo.returncode, error) == (130, "")


@pytest.mark.parametrize("part", ["up", "agent-3"])
def test_a_crash_of_one_part_ends_the_demo_in_one_line(
    demo: subprocess.Popen[str], part: str
) -> None:
    parts = _parts(demo)
    crashed = next(one for one in parts if part in one.cmdline())
    crashed.kill()
    _, error = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 1
    assert error.count("\n") == 1
    assert "ended with signal 9" in error
    assert _left_behind(parts) == []


def test_the_next_run_deletes_the_folder_of_a_killed_one_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pipe = subprocess.PIPE
    processes: list[subprocess.Popen[str]] = []

    def started() -> Path:
        process = subprocess.Popen(
            [sys.executable, "-c", WITH_A_FOLDER],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        return Path(process.stdout.readline().strip())

    killed, failed, running = started(), started(), started()
    assert killed.parent == tmp_path
    processes[0].kill()
    processes[0].wait()
    processes[1].communicate("end\n", timeout=PATIENCE_S)  # its logs are needed
    assert killed.is_dir()
    own = started()
    assert sorted(tmp_path.iterdir()) == sorted([failed, running, own])
    for process in processes:
        process.kill()
        process.communicate()
