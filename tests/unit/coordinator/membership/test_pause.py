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
def test_a_pause_that_nobody_answers_for_is_no_time_in_which_nobody_spent() -> None:
    world = World()
    world.group(1, rate=1000, burst=1000)
    for name in "abc":
        world.start(name)
        world.load(name, 1, admitted=333, refused=267)
    world.run(5)
    world.processes["b"].paused = True
    world.load("b", 1, admitted=0, refused=0)
    for name in "ac":
        world.load(name, 1, admitted=500, refused=100)
    world.run(15)
    for name in "ac":  # so busy that they do not hear the question
        world.processes[name].paused = name != "b"
    world.processes["b"].paused = False
    world.load("b", 1, admitted=333, refused=267)
    world.run(1)
    seen = world.processes["b"].coordinator.explain(1, "requests", world.now)
    assert seen.members == 3
    assert seen.level < 1.2 * seen.margin
    assert seen.share == pytest.approx(333, rel=0.15)
