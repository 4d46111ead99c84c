"""What the API says of the agents' processes, as it reaches the coordinator."""

from __future__ import annotations

import pytest

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.liveness import LivenessFeed
from headgate.coordinator import ApiAnswers, Vouched


def told(
    version: int, *, present: tuple[str, ...] = (), gone: tuple[str, ...] = ()
) -> dict[str, object]:
    def named(agents: tuple[str, ...]) -> list[dict[str, object]]:
        return [{"agent": agent, "incarnation": 1} for agent in agents]

    return {
        "alive": {"version": version, "present": named(present), "gone": named(gone)}
    }


@pytest.fixture
def heard() -> list[Vouched | ApiAnswers]:
    return []


@pytest.fixture
def vouching(heard: list[Vouched | ApiAnswers]) -> LivenessFeed:
    return LivenessFeed(lambda: ("me", 7), heard.append)


def test_only_what_changed_is_passed_on(
    vouching: LivenessFeed, heard: list[Vouched | ApiAnswers]
) -> None:
    assert vouching.take(told(1, present=("me", "a", "b")))
    assert sorted(heard, key=str) == [Vouched("a", 1, True), Vouched("b", 1, True)]
    heard.clear()
    assert vouching.take(told(2, present=("me", "a"), gone=("b",)))
    assert heard == [Vouched("b", 1, False)]
    assert vouching.query() == {"agent": "me", "incarnation": "7", "alive": "2"}


def test_what_the_api_no_longer_says_is_taken_back(
    vouching: LivenessFeed, heard: list[Vouched | ApiAnswers]
) -> None:
    vouching.take(told(1, present=("a",)))
    vouching.take(told(2))
    assert heard[-1] == Vouched("a", 1, None)


def test_when_the_api_is_away_its_words_are_taken_back(
    vouching: LivenessFeed, heard: list[Vouched | ApiAnswers]
) -> None:
    vouching.take(told(3, gone=("a",)))
    vouching.withdraw()
    assert heard[:2] == [Vouched("a", 1, False), Vouched("a", 1, None)]
    assert vouching.query()["alive"] == "0"


def test_the_coordinator_learns_whether_the_api_answers_this_agent(
    vouching: LivenessFeed, heard: list[Vouched | ApiAnswers]
) -> None:
    vouching.answered()
    assert heard == []  # so it is unless it is told
    vouching.withdraw()
    vouching.withdraw()
    assert heard == [ApiAnswers(answers=False)]
    vouching.answered()
    vouching.answered()
    assert heard[1:] == [ApiAnswers(answers=True)]


def test_a_snapshot_beside_the_word_is_still_a_snapshot(
    vouching: LivenessFeed, heard: list[Vouched | ApiAnswers]
) -> None:
    assert not vouching.take({"revision": 4, **told(1, gone=("a",))})
    assert heard == [Vouched("a", 1, False)]
    assert not vouching.take({"revision": 5})


def test_a_malformed_word_is_refused_and_changes_nothing(
    vouching: LivenessFeed, heard: list[Vouched | ApiAnswers]
) -> None:
    with pytest.raises(MalformedSnapshot, match=r"alive\.version"):
        vouching.take({"alive": {"version": "new"}})
    assert heard == []
