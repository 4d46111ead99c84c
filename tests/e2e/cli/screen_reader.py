"""A program in a real pseudo-terminal, and what a person would read there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEADLINE_S = 60.0
"""For anything to appear, on a machine that may be busy."""

_WITH_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin the terminal that Ctrl-C and resizing come from, then the command."""

_TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|([^\x1b\r\n]+)")


class ScreenReader:
    """A child on a terminal of its own, with the picture that it has drawn."""

    def __init__(
        self, command: Sequence[str], *, env: dict[str, str], size: tuple[int, int]
    ) -> None:
        self._master, slave = pty.openpty()
        self._set_size(size)
        self._before = termios.tcgetattr(slave)
        self._slave = slave
        self.child = subprocess.Popen(
            [sys.executable, "-c", _WITH_A_TERMINAL, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", **env},
            start_new_session=True,
        )
        self.bytes = b""

    def lines(self) -> list[str]:
        """Return what stands on the screen, from its last full picture."""
        rows: dict[int, str] = {}
        row, text = 1, self.bytes.decode(errors="replace")
        for match in _TOKEN.finditer(text):
            numbers, verb, said = match.groups()
            if verb == "H":
                row = int((numbers or "1").split(";")[0])
                rows[row] = ""
                for beyond in [other for other in rows if row == 1 < other]:
                    del rows[beyond]  # a new picture begins
            elif match[0] == "\n":
                row += 1
            elif said:
                rows[row] = rows.get(row, "") + said
        return [
            rows.get(number, "").rstrip()
            for number in range(1, max(rows, default=0) + 1)
        ]

    def until(self, seen: Callable[[str], bool]) -> str:
        """Read until `seen` is true of the screen; return it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            shown = "\n".join(self.lines())
            if seen(shown):
                return shown
            assert time.monotonic() < deadline, f"it did not come:\n{shown}"
            self.read()

    def read(self) -> bool:
        """Take what the child has written; return whether there was anything."""
        ready = bool(select.select([self._master], [], [], 0.1)[0])
        if ready:
            self.bytes += os.read(self._master, 65536)
        return ready

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size, which tells the child so."""
        self._set_size((columns, rows))

    def is_as_before(self) -> bool:
        """Return whether the terminal is as the child found it."""
        return termios.tcgetattr(self._slave) == self._before

    def ended(self) -> int:
        """Return the child's exit code, once it has ended."""
        deadline = time.monotonic() + DEADLINE_S
        while self.child.poll() is None and time.monotonic() < deadline:
            self.read()
        code = self.child.wait(1.0)
        while self.read():  # its last words, said after the last look at it
            pass
        return code

    def _set_size(self, size: tuple[int, int]) -> None:
        columns, rows = size
        packed = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, packed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self._master)
        os.close(self._slave)
