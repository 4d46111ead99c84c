"""Several processes of the API behind one address, which know different agents."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from itertools import cycle
from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import Api, snapshot, until

from headgate.agent import connect
from headgate.agent.follow.snapshot import snapshot_to_json
from headgate.agent.follow.watch import REPEATED_GAP_S

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
        self.rested = False
        super().__init__(snapshot(None))

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer at once with a version that the caller does not know."""
        if "alive=" not in path:
            return super().answer(path)
        self.asked_s.append(time.monotonic())
        self.rested |= "rest_s=1" in path
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
    assert took_s > (QUESTIONS - 1) * REPEATED_GAP_S
    assert api.rested, "the API is asked to wait, too"


class Impatient(Api):
    """Never waits for a newer revision, as a proxy that caches answers.

    Attributes:
        revisions: What it answers, in turn; nothing new if it is empty.
        asked_s: When it was asked for something newer, monotonic seconds.
    """

    def __init__(self, *revisions: int) -> None:
        self.asked_s: list[float] = []
        self._revisions = cycle(revisions) if revisions else None
        super().__init__(snapshot(None))

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer at once."""
        if "revision=" not in path:
            return super().answer(path)
        self.asked_s.append(time.monotonic())
        if self._revisions is None:
            return HTTPStatus.NOT_MODIFIED, b""
        told = snapshot(None, revision=next(self._revisions))
        return HTTPStatus.OK, json.dumps(snapshot_to_json(told)).encode()


@pytest.mark.parametrize("revisions", [(), (1,), (2, 1)])
def test_an_api_that_does_not_wait_is_not_asked_in_a_loop(
    revisions: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    api = Impatient(*revisions)
    with connect(api.url, agent="a", keep_snapshot=False):
        until(lambda: len(api.asked_s) >= 2 * QUESTIONS, "the questions")
    api.stop()
    took_s = api.asked_s[2 * QUESTIONS - 1] - api.asked_s[0]
    assert took_s > (QUESTIONS - 1) * REPEATED_GAP_S
    assert caplog.text.count("the API went back") <= 1
