"""What can go wrong at the command line, and the exit code each has.

```
Failure              1: the command failed or was refused; the message says why
├── RefusedByApi     1: the API refused the request
├── Unreachable      1: the API can't be reached, or can't answer now
└── Misused          2: the command line is wrong
```
A failure is one line on stderr, never a traceback.
"""

from __future__ import annotations

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; 130 is what shells report for a process that Ctrl-C ended."""


class Failure(Exception):
    """The command failed or was refused.

    Attributes:
        exit_code: Exit code of the process.
    """

    exit_code = FAILED


class RefusedByApi(Failure):
    """The API refused the request.

    Attributes:
        problems: Pairs of field and reason; empty if no field is at fault.
    """

    def __init__(
        self, message: str, problems: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.problems = problems


class Unreachable(Failure):
    """The API can't be reached, or can't answer now; trying again may help."""


class Misused(Failure):
    """The command line is wrong: see the command's ``--help``."""

    exit_code = USAGE


def one_line(message: str) -> str:
    r"""Return `message` without line breaks.

    >>> one_line("first\n  second")
    'first second'
    """
    return " ".join(message.split())
