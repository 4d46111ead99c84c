"""A process that stood still, whatever it hears first when it goes on."""

from __future__ import annotations

import pytest
from tests.scenarios.world import World


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
    members = paused.coordinator._core.members  # pyright: ignore[reportPrivateUsage]
    assert members.loss == 0.0
    assert [member.loss for member in members.by_agent.values()] == [0.0, 0.0]
