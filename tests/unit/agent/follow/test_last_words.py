"""The API's words outlive the coordinator that they were told."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.integration.agent.rigs import snapshot, until

from headgate.agent import runtime as module
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.liveness import LastWords
from headgate.agent.runtime import Runtime, RuntimeOptions
from headgate.coordinator import Coordinator, Vouched

if TYPE_CHECKING:
    import pytest

    from headgate.coordinator import Effect, Event


def test_of_each_agent_the_last_word_is_kept_until_it_is_taken_back() -> None:
    words = LastWords()
    for agent, alive in (("a", True), ("b", True), ("a", False), ("b", None)):
        words.keep(Vouched(agent, 1, alive))
    assert list(words) == [Vouched("a", 1, False)]


def test_they_hold_for_the_coordinator_of_another_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[Coordinator, Vouched]] = []

    class Noting(Coordinator):
        def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
            effects = super().step(now, event, wall_s=wall_s)
            if isinstance(event, Vouched):
                told.append((self, event))
            return effects

    monkeypatch.setattr(module, "Coordinator", Noting)
    runtime = Runtime(Enforcer(clock=time.monotonic), RuntimeOptions(agent="me"))
    first = snapshot(None)
    runtime.follow(first)
    runtime.start()
    try:
        runtime.vouch(Vouched("gone", 1, False))
        runtime.vouch(Vouched("back", 1, False))
        runtime.vouch(Vouched("back", 1, None))
        until(lambda: len(told) == 3, "the words")
        runtime.follow(replace(first, report_interval_s=2.0))
        until(lambda: len(told) == 4, "the word that holds, once more")
    finally:
        runtime.close()
    assert told[3][1] == Vouched("gone", 1, False)
    assert told[3][0] is not told[2][0]
