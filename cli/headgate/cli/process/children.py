"""Child processes that end when this one does, however it ends.

On an orderly exit `Children` stops them. After SIGKILL or a crash the kernel does, on
Linux, through PR_SET_PDEATHSIG. Each child leads its own process group, so a Ctrl-C at
the terminal reaches only the parent, which decides in which order to stop the others.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING

from headgate.cli.failure import Failure, one_line

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path
    from types import FrameType, TracebackType

PARENT_VARIABLE = "HEADGATE_PARENT_PID"
"""Tells a child which parent to follow."""

STOP_TIMEOUT_S = 5.0
"""From SIGTERM to SIGKILL: an agent needs far less to publish its leave."""

_PR_SET_PDEATHSIG = 1
"""From ``<linux/prctl.h>``."""

_LOOK_S = 0.02
"""Seconds between two checks for a file; 20 ms go unnoticed at a start."""

_LOG_TAIL_BYTES = 8192
"""Enough of the end of a log to hold the last line of a traceback."""


class ChildFailed(Failure):
    """A child ended or never got ready; names it and the last line of its log."""


class Child:
    """A child process, leader of its own process group."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._heard = b""

    @property
    def pid(self) -> int:
        """Id of the process and of its group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def line(self, timeout_s: float) -> str:
        """Return the next line of the child's stdout.

        Raises:
            ChildFailed: The child ended, or `timeout_s` passed, before there was one.
        """
        deadline = time.monotonic() + timeout_s
        stream = _pipe(self._process.stdout)
        while b"\n" not in self._heard:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([stream], [], [], left_s)[0]:
                raise ChildFailed(f"{self.name} is not ready after {timeout_s:g} s")
            fresh = os.read(stream.fileno(), 65536)
            if not fresh:
                self._process.wait(STOP_TIMEOUT_S)
                raise ChildFailed(self.epitaph())
            self._heard += fresh
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode(errors="replace")

    def file(self, path: Path, timeout_s: float) -> str:
        """Return the line that the child writes to `path`.

        Raises:
            ChildFailed: The child ended, or `timeout_s` passed, before there was one.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            if text.endswith("\n"):
                return text
            if self.returncode is not None:
                raise ChildFailed(self.epitaph())
            if time.monotonic() > deadline:
                raise ChildFailed(f"{self.name} is not ready after {timeout_s:g} s")
            time.sleep(_LOOK_S)

    def tell(self, line: str) -> None:
        """Write a line to the child's stdin.

        Raises:
            ChildFailed: The child has ended.
        """
        stream = _pipe(self._process.stdin)
        try:
            stream.write(line.encode() + b"\n")
            stream.flush()
        except OSError as error:
            raise ChildFailed(self.epitaph()) from error

    def epitaph(self) -> str:
        """Return how the child ended, with the last line of its log."""
        code = self.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
        return one_line(f"{self.name} ended with {how}: {self._last_words()}")

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def wait(self, timeout_s: float) -> bool:
        """Return whether the child has ended, waiting up to `timeout_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's group, if it still runs."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Close the pipes."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _last_words(self) -> str:
        try:
            tail = self.log.read_bytes()[-_LOG_TAIL_BYTES:]
        except OSError:
            tail = b""
        lines = tail.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"


class Children:
    """The processes that this one started; a context manager that stops them all."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(
        self, name: str, command: Sequence[str], *, log: Path, talks: bool = True
    ) -> Child:
        """Start `command`, its stderr appended to `log`.

        Args:
            name: Its name in messages.
            command: Program and arguments.
            log: File for its stderr.
            talks: Connect its stdin and stdout to pipes for `Child.tell` and
                `Child.line`; else its stdin is empty and its stdout goes to the log.

        Raises:
            ChildFailed: There is no such program.
        """
        piped = subprocess.PIPE
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        try:
            with log.open("ab") as stderr:
                process = subprocess.Popen(
                    command,
                    stdin=piped if talks else subprocess.DEVNULL,
                    stdout=piped if talks else stderr,
                    stderr=stderr,
                    env=environment,
                    process_group=0,
                )
        except OSError as error:
            raise ChildFailed(f"{name} could not be started: {error}") from error
        child = Child(name, process, log)
        self._children.append(child)
        return child

    def forget(self, child: Child) -> None:
        """Kill a child and stop watching it."""
        child.kill()
        child.close()
        self._children.remove(child)

    def check(self) -> None:
        """Check that every child runs or ended successfully.

        Raises:
            ChildFailed: One failed.
        """
        for child in self._children:
            if child.returncode:
                raise ChildFailed(child.epitaph())

    def stop(self) -> None:
        """Stop all, last started first, with SIGTERM and then SIGKILL."""
        with _ignoring_signals():
            for child in reversed(self._children):
                child.signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_TIMEOUT_S
            for child in self._children:
                if not child.wait(max(0.0, deadline - time.monotonic())):
                    child.kill()
                child.close()
            self._children.clear()

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def hold_to_parent() -> None:
    """End this process when the parent that started it through `Children` ends.

    Does nothing in a process that was started in another way.
    """
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if not parent.isdecimal():
        return
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(parent):  # the parent ended before prctl took effect
        os._exit(1)


@contextlib.contextmanager
def termination_as_interrupt() -> Generator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that everything is cleaned up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signals = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def _ignoring_signals() -> Generator[None]:
    """Ignore signals, so that a second Ctrl-C does not leave children behind."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "children are started with pipes"
    return stream
