"""Commands that go on until Ctrl-C, also while the API is away or out of order."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypeVar

from headgate.cli.failure import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = TypeVar("Answer")


def again(
    ask: Callable[[], Answer], *, every_s: float
) -> Iterator[Answer | Unreachable]:
    """Yield an answer each `every_s`, or why there is none; it never ends.

    Raises:
        Failure: The API does not answer the first question, or refuses any.
    """
    yield ask()
    while True:
        time.sleep(every_s)
        try:
            answer = ask()
        except Unreachable as failure:
            yield failure
        else:
            yield answer


def answers(ask: Callable[[], Answer], *, every_s: float) -> Iterator[Answer]:
    """Yield answers as `again` does; an outage is a line on stderr at either end.

    Raises:
        Failure: As `again`.
    """
    is_away = False
    for answer in again(ask, every_s=every_s):
        if isinstance(answer, Unreachable):
            if not is_away:
                _tell(f"{answer}; this goes on when it is back")
            is_away = True
            continue
        if is_away:
            _tell("the API is back")
        is_away = False
        yield answer


def _tell(line: str) -> None:
    sys.stderr.write(f"headgate: {line}\n")
    sys.stderr.flush()
