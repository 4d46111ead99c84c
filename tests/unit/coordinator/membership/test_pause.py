"""A process that stood still, whatever it hears first when it goes on."""

from __future__ import annotations

import pytest
from tests.scenarios.world import World


@pytest.mark.long
@pytest.mark.parametrize("heard_first", [False, True])
def test_an_own_pause_is_no_loss(heard_first: bool) -> None:
    world = World()
    world.group(1, rate=1000, burst=1000)
    for name in "abc":
        world.start(name)
    for name in "ac":
        world.load(name, 1, admitted=400, refused=600)
    world.run(5)
    paused = world.processes["b"]
    paused.paused = True
    world.run(15)
    paused.paused = False
    paused.sent.clear()
    if heard_first:
        for name in "ac":
            world.inject("b", world.processes[name].sent[-1])
    world.run(1)
    assert paused.noticed == ["paused"]
    assert paused.sent[0].hello
    members = paused.coordinator._state.members  # pyright: ignore[reportPrivateUsage]
    assert members.loss == 0.0
    assert [member.loss for member in members.by_agent.values()] == [0.0, 0.0]


@pytest.mark.long
def test_after_a_pause_that_nobody_answers_for_an_agent_keeps_to_an_even_part() -> None:
    """What the others spent meanwhile is charged once they report again."""
    world = World()
    world.group(1, rate=1000, burst=1000)
    for name in "abc":
        world.start(name)
        world.load(name, 1, admitted=333, refused=267)
    world.run(5)
    paused = world.processes["b"]
    paused.paused = True
    world.load("b", 1, admitted=0, refused=0)
    for name in "ac":
        world.load(name, 1, admitted=500, refused=100)
    world.run(15)
    for name in "ac":  # so busy that they do not hear the question
        world.processes[name].paused = True
    paused.paused = False
    world.load("b", 1, admitted=0, refused=600)
    for _ in range(8):
        world.run(0.25)
        seen = paused.coordinator.explain(1, "requests", world.now)
        assert seen.members == 3
        assert seen.window < 0.4 * seen.level
    for name in "ac":
        world.processes[name].paused = False
        world.load(name, 1, admitted=333, refused=267)
    world.load("b", 1, admitted=333, refused=267)
    world.run(3)
    levels = [
        each.coordinator.explain(1, "requests", world.now).level
        for each in world.processes.values()
    ]
    assert levels == pytest.approx(3 * [levels[0]], abs=100)
