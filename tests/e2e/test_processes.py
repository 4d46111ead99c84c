"""Children end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from headgate.cli.process.children import ChildFailed, Children

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 60.0
"""For what should take milliseconds, on a machine that may be busy."""

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]

PARENT = """
import sys, time
from pathlib import Path
from headgate.cli.process.children import Children, termination_as_interrupt

child = [sys.executable, "-c", '''
import time
from headgate.cli.process.children import hold_to_parent
hold_to_parent()
print("ready", flush=True)
time.sleep(600)
''']
with termination_as_interrupt(), Children() as children:
    started = [children.start(f"child {i}", child, log=Path(sys.argv[1])) for i in "ab"]
    for one in started:
        one.line(60.0)
    print(*(one.pid for one in started), flush=True)
    time.sleep(600)
"""


def _is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _await_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not all(_is_gone(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(
    "end",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        pytest.param(
            signal.SIGKILL,
            marks=pytest.mark.skipif(
                sys.platform != "linux", reason="the kernel's cord is Linux's own"
            ),
        ),
    ],
)
def test_no_child_outlives_its_parent(end: signal.Signals, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.send_signal(end)
    assert _await_gone(pids)


def test_a_child_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no more\\nwater')"]
    with Children() as children:
        child = children.start("the well", command, log=tmp_path / "log")
        with pytest.raises(ChildFailed, match="the well ended with status 1: water"):
            child.line(PATIENCE_S)
        with pytest.raises(ChildFailed, match="the well"):
            children.check()


def test_a_program_that_does_not_exist_is_a_failure_in_one_line(tmp_path: Path) -> None:
    with Children() as children, pytest.raises(ChildFailed, match="could not be"):
        children.start("nothing", ["/no/such/program"], log=tmp_path / "log")


def test_a_child_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    with Children() as children:
        child = children.start("sleeper", SLEEPER, log=tmp_path / "log")
        with pytest.raises(ChildFailed, match="sleeper is not ready after"):
            child.line(0.05)
        with pytest.raises(ChildFailed, match="sleeper is not ready after"):
            child.file(tmp_path / "never", 0.05)


def test_a_killed_child_that_was_forgotten_is_no_failure(tmp_path: Path) -> None:
    with Children() as children:
        child = children.start("sleeper", SLEEPER, log=tmp_path / "log")
        children.forget(child)
        assert child.returncode == -signal.SIGKILL
        children.check()


def test_a_child_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.cli.process.children.STOP_TIMEOUT_S", 0.2)
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('ready', flush=True); time.sleep(600)"
    )
    with Children() as children:
        child = children.start(
            "deaf", [sys.executable, "-c", deaf], log=tmp_path / "log"
        )
        child.line(PATIENCE_S)
    assert child.returncode == -signal.SIGKILL


def test_a_process_that_nobody_holds_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_PARENT_PID", raising=False)
    code = "from headgate.cli.process.children import hold_to_parent; hold_to_parent()"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    code = "from headgate.cli.process.children import hold_to_parent; hold_to_parent()"
    environment = {**os.environ, "HEADGATE_PARENT_PID": "999999999"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=60, check=False
    )
    assert done.returncode == 1
