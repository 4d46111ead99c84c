"""What can go wrong at the command line, and the exit code each has.

```
Failure              1: it was refused, or it failed; the message says which and why
├── RefusedByApi     1: the API understood it, and refuses
├── Unreachable      1: no API answers at the URL, or it can't now
└── Misused          2: the command was not understood
```
A failure is told in one line on stderr, never as a traceback.
"""

from __future__ import annotations

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; 130 is what shells give to a process that Ctrl-C ended."""


class Failure(Exception):
    """It was refused, or it failed.

    Attributes:
        exit_code: Of the process.
    """

    exit_code = FAILED


class RefusedByApi(Failure):
    """The API understood it, and refuses.

    Attributes:
        problems: Pairs of field and reason; empty when it is no field's fault.
    """

    def __init__(
        self, message: str, problems: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.problems = problems


class Unreachable(Failure):
    """No API answers at the URL, or it can't now: this may pass by itself."""


class Misused(Failure):
    """The command was not understood: see its ``--help``."""

    exit_code = USAGE


def one_line(message: str) -> str:
    r"""Return `message` without line breaks.

    >>> one_line("first\n  second")
    'first second'
    """
    return " ".join(message.split())
