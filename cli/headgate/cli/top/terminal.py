"""The terminal that `top` runs in: its keys, its size, suspending and resuming."""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING

from headgate.cli.client.closeable import Closing

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console, RenderableType

ESCAPE_S = 0.05
"""How long to wait for the rest of an escape sequence: a terminal sends it at once,
while a person's next key comes later."""

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[7~": "home",
    "\x1b[8~": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
}


class Terminal(Closing):
    """A full-screen terminal that reads keys; closing it restores the previous state.

    Pictures go to the alternate screen, if the terminal has one.
    """

    def __init__(self, console: Console) -> None:
        """Take over stdin and the terminal of `console`."""
        self._console = console
        self._input = sys.stdin.fileno()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._before = termios.tcgetattr(self._input)
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._to_stop = False
        self._handlers = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._on_resize),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._on_stop),
        }
        self._enter()

    def wake(self) -> None:
        """Make `keys` return; may be called on any thread."""
        try:
            os.write(self._wake, b".")
        except (BlockingIOError, OSError):  # already woken, or closed
            return

    def show(self, picture: RenderableType) -> None:
        """Fill the terminal with `picture`."""
        self._console.update_screen(picture)

    def size(self) -> tuple[int, int]:
        """Return the current number of columns and rows."""
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        self._console.size = (columns or 80, rows or 24)  # 0 means unknown
        return self._console.size.width, self._console.size.height

    def keys(self, wait_s: float) -> list[str] | None:
        """Return the keys that were pressed, by name; None if the terminal is gone.

        Waits for a key, for `wake`, or `wait_s` seconds.
        """
        ready, _, _ = select.select([self._input, self._woken], [], [], wait_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._to_stop:
            self._stop()
        if self._input not in ready:
            return []
        text = self._read()
        while text and _is_begun(text) and self._more():
            text += self._read()
        return keys_of(text) if text else None

    def close(self) -> None:
        """Restore the terminal."""
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wake)

    def _enter(self) -> None:
        tty.setcbreak(self._input)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _leave(self) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def _read(self) -> str:
        try:
            return self._decoder.decode(os.read(self._input, 1024))
        except OSError:  # the terminal was closed
            return ""

    def _more(self) -> bool:
        return bool(select.select([self._input], [], [], ESCAPE_S)[0])

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        self.wake()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._to_stop = True
        self.wake()

    def _stop(self) -> None:
        """Suspend on Ctrl-Z with the terminal restored; take it over on resuming."""
        self._to_stop = False
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()


def keys_of(text: str) -> list[str]:
    r"""Return the names of the keys in `text`, as sent by a terminal.

    >>> keys_of("j\x1b[B\x1b[6~\r\x1b")
    ['j', 'down', 'page down', 'enter', 'escape']
    """
    keys: list[str] = []
    while text:
        sequence = _first(text)
        text = text[len(sequence) :]
        plain = sequence.replace("\x1bO", "\x1b[", 1)
        if plain in _SEQUENCES:
            keys.append(_SEQUENCES[plain])
        elif len(sequence) == 1:
            keys.append(sequence)
    return keys


def _first(text: str) -> str:
    """Return the first key's sequence: one character, or a whole escape sequence."""
    if text[0] != "\x1b" or text[1:2] not in {"[", "O"}:
        return text[0]
    for index in range(2, len(text)):
        if "@" <= text[index] <= "~":
            return text[: index + 1]
    return text


def _is_begun(text: str) -> bool:
    """Return whether `text` ends within an escape sequence."""
    last = text[text.rfind("\x1b") :] if "\x1b" in text else ""
    if last in {"\x1b", "\x1b[", "\x1bO"}:
        return True
    return last.startswith("\x1b[") and not "@" <= last[-1] <= "~"
