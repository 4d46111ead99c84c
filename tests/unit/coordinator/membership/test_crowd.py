"""Many agents that start at once: what they cost each other, and what they spend."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scenarios.world import STEP_S, World

CROWD = 30


@pytest.mark.long
def test_who_is_asked_over_and_over_answers_now_and_then() -> None:
    world = World()
    world.group(1, rate=1000, burst=1000)
    names = [f"agent-{number}" for number in range(CROWD)]
    for name in names:
        world.start(name)
    world.run(3)
    asked = world.processes[names[0]]
    question = world.processes[names[1]].sent[-1]
    asked.sent.clear()
    for number in range(1, 21):
        sequence = question.sequence + number
        world.inject(asked.name, replace(question, hello=True, sequence=sequence))
        world.run(2 * STEP_S)
    answers = [report for report in asked.sent if report.keyframe]
    # One at once, then one for every 10 ms of each other agent.
    assert 2 <= len(answers) <= 5


@pytest.mark.parametrize("told", [False, True])
def test_who_still_meets_others_keeps_to_a_tenth_of_the_level(told: bool) -> None:
    world = World()
    world.group(1, rate=1000, burst=1000)
    world.start("a")
    world.load("a", 1, admitted=10, refused=590)
    own = world.processes["a"].sent[-1] if world.processes["a"].sent else None
    world.run(STEP_S)
    own = own or world.processes["a"].sent[-1]
    for number in range(CROWD):
        stranger = replace(
            own, agent=f"x{number}", hello=False, keyframe=told, sent_at_s=world.now
        )
        world.inject("a", stranger)
        world.run(2 * STEP_S)
    seen = world.processes["a"].coordinator.explain(1, "requests", world.now)
    floor = max(seen.level, 0.0) / 10
    if told:  # each had told its rows: nobody is missing that is known
        assert seen.window > max(seen.level, 0.0) / (CROWD + 1)
    else:
        assert seen.window <= floor + 1e-9
