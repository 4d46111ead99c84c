"""What the API says about agents, of which some never come back."""

from __future__ import annotations

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
