"""What the API says about agents, of which some never come back."""

from __future__ import annotations

from tests.scenarios.world import World

from headgate.coordinator import Settings, Vouched
from headgate.coordinator.membership.members import SAID_MAX, Members


def test_of_very_many_ids_the_oldest_word_is_forgotten_first() -> None:
    members = Members(Settings(), 0.0)
    for i in range(SAID_MAX):
        members.vouch(Vouched(f"a{i}", 1, alive=False))
    members.vouch(Vouched("a0", 2, alive=True))
    members.vouch(Vouched("new", 1, alive=False))
    assert len(members.said) == SAID_MAX
    assert "a1" not in members.said
    assert members.said["a0"].alive


def test_a_word_that_is_withdrawn_is_forgotten() -> None:
    members = Members(Settings(), 0.0)
    members.vouch(Vouched("a", 1, alive=True))
    members.vouch(Vouched("a", 1, alive=None))
    assert not members.said


def test_an_agent_that_the_api_saw_before_it_was_heard_is_not_presumed_dead() -> None:
    world = World(Settings(presumed_dead_s=4.0))
    world.group(1, rate=100, burst=100)
    world.start("a")
    world.vouch("b", alive=True)
    world.vouch("c", alive=None)
    world.start("b")
    world.start("c")
    world.run(3.0)
    world.kill("b")
    world.kill("c")
    world.run(10.0)
    known = [view.agent for view in world.processes["a"].coordinator.members(world.now)]
    assert known == ["a", "b"]
