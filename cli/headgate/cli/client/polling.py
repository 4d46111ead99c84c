"""Polling until Ctrl-C, through outages of the API."""

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
    """Yield an answer every `every_s` seconds, or why there is none, endlessly.

    Raises:
        Failure: The API does not answer the first request, or refuses one.
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
    """Yield answers as `again` does; each outage is reported on stderr, as is its end.

    Raises:
        Failure: As for `again`.
    """
    is_away = False
    for answer in again(ask, every_s=every_s):
        if isinstance(answer, Unreachable):
            if not is_away:
                _tell(f"{answer}; retrying until it is back")
            is_away = True
            continue
        if is_away:
            _tell("the API is back")
        is_away = False
        yield answer


def _tell(line: str) -> None:
    sys.stderr.write(f"headgate: {line}\n")
    sys.stderr.flush()
