"""Polling the API on its own thread, so that keys never wait for an answer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.cli.client.closeable import Closing
from headgate.cli.failure import Failure, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.cli.client.rest import JsonObject, Rest

END_S = 1.0
"""How long `close` waits for a call in progress; the thread dies with the process."""


@dataclass(frozen=True, slots=True)
class Question:
    """A path and its query."""

    path: str
    query: dict[str, str | int | float] = field(
        default_factory=dict[str, "str | int | float"]
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The newest answer.

    Attributes:
        question: What was asked.
        document: The API's answer to it, empty before the first.
        at_s: When it arrived, on the monotonic clock.
        failure: Why there is nothing newer; empty if all is well.
        is_away: The API does not answer at all.
    """

    question: Question
    document: JsonObject
    at_s: float
    failure: str = ""
    is_away: bool = False


class Feed(Closing):
    """Asks the newest question periodically; a context manager that stops doing so."""

    def __init__(
        self,
        rest: Rest,
        question: Question,
        *,
        every_s: float,
        tell: Callable[[], None],
    ) -> None:
        """Ask once, then start a thread that keeps asking.

        Args:
            rest: Connection to the API, not to be used by others meanwhile.
            question: The first question.
            every_s: Seconds between two calls.
            tell: Called on the thread after each answer.

        Raises:
            Failure: The API does not answer the first question, or refuses.
        """
        self._rest = rest
        self._every_s = every_s
        self._tell = tell
        self._question = question
        self._answer = Answer(question, self._call(question), time.monotonic())
        self._paused = False
        self._ended = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    @property
    def newest(self) -> Answer:
        """The newest answer, possibly to an earlier question."""
        return self._answer

    def ask(self, question: Question, *, paused: bool) -> None:
        """Ask `question` from now on, and at once if it is new."""
        changed = question != self._question or (self._paused and not paused)
        self._question, self._paused = question, paused
        if changed:
            self._woken.set()

    def close(self) -> None:
        """Stop the thread."""
        self._ended = True
        self._woken.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        while not self._ended:
            self._woken.wait(self._every_s)
            self._woken.clear()
            question = self._question
            if self._ended or (self._paused and question == self._answer.question):
                continue
            self._answer = self._asked(question)
            self._tell()

    def _asked(self, question: Question) -> Answer:
        """Return the answer; after a failure the previous one, with the reason."""
        try:
            return Answer(question, self._call(question), time.monotonic())
        except Failure as failure:
            known = self._answer
            same = known.question.path == question.path
            return Answer(
                question=question,
                document=known.document if same else {},
                at_s=known.at_s,
                failure=str(failure),
                is_away=isinstance(failure, Unreachable),
            )

    def _call(self, question: Question) -> JsonObject:
        return self._rest.call("GET", question.path, query=question.query)
