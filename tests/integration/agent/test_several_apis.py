"""Several processes of the API behind one address, which know different agents."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from tests.integration.agent.rigs import Api, snapshot, until

from headgate.agent import connect
from headgate.agent.follow.watch import VOUCHED_GAP_S

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = 5


class Several(Api):
    """Each question is answered by a process that has another word on who lives.

    Attributes:
        asked_s: When it was asked who lives, monotonic seconds.
    """

    def __init__(self) -> None:
        self.asked_s: list[float] = []
        super().__init__(snapshot(None))

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer at once with a version that the caller does not know."""
        if "alive=" not in path:
            return super().answer(path)
        self.asked_s.append(time.monotonic())
        nobody = f'"version": {len(self.asked_s)}, "present": [], "gone": []'
        return HTTPStatus.OK, f'{{"alive": {{{nobody}}}}}'.encode()


def test_words_that_contradict_each_other_are_not_asked_for_in_a_loop(
    tmp_path: Path,
) -> None:
    api = Several()
    with connect(api.url, agent="a", snapshot_path=tmp_path / "a.json"):
        until(lambda: len(api.asked_s) >= QUESTIONS, "the questions")
    api.stop()
    took_s = api.asked_s[QUESTIONS - 1] - api.asked_s[0]
    assert took_s > (QUESTIONS - 1) * VOUCHED_GAP_S
