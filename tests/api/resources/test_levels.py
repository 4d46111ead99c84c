"""What agents are told of a limit: what is stored, what is seen, what was just left."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import cast

import pytest

from headgate.agent.observer import AgentUse, LimitUse
from headgate.api.levels import service
from headgate.api.levels.service import (
    MOST_OTHERS,
    Key,
    KnownLevel,
    LevelBook,
)
from headgate.api.live.snapshot import ClusterSnapshot, Use
from headgate.api.store import Store
from headgate.coordinator import Group, Limit

REVISION = 7
USE = Use(
    group_id=1,
    group="g",
    dimension="requests",
    rate=20.0,
    period_s=60.0,
    burst=20.0,
    level=-3.0,
    available_per_s=0.0,
)
PICTURE = ClusterSnapshot(at_s=100.0, number=1, revision=REVISION, uses=(USE,))
STORED = KnownLevel(group_id=1, dimension="requests", level=20.0, at_s=None)
LIMIT = Limit(dimension="requests", rate=20.0, burst=20.0, period_s=60.0)
LEFT = LimitUse(
    group=Group(id=1, name="g", limits=(LIMIT,)),
    limit=LIMIT,
    level=-9.0,
    available_per_s=0.0,
    theta_per_s=0.0,
    error_units=0.0,
    agents=(),
)
ASKS = AgentUse(
    agent="a",
    demand_per_s=0.0,
    share_per_s=0.0,
    ceiling_per_s=0.0,
    admitted_per_s=0.0,
    refused_per_s=0.0,
    held_units=0.0,
    subjects=1,
    age_s=0.0,
    state="present",
    counted_units=3.0,
    incarnation=7,
)


class Rig:
    """A book over a store, a picture and limits that were left, all given."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.5
        self.stored = [STORED]
        self.picture: ClusterSnapshot | None = PICTURE
        self.left: list[LimitUse] = []
        self.used: list[LimitUse] = []
        self.loads = 0
        patch.setattr(service, "load", self.load)
        patch.setattr("time.time", lambda: self.now_s)
        store = cast("Store", None)  # `load` is all that reads it
        self.book = LevelBook(
            store, lambda: self.picture, lambda: self.left, self.use_of
        )

    def use_of(self, limits: Iterable[Key], revision: int) -> list[LimitUse]:
        return self.used

    def load(self, store: Store, only: Iterable[Key] | None = None) -> list[KnownLevel]:
        self.loads += 1
        return self.stored

    def told(self, revision: int = REVISION) -> dict[str, object]:
        """Return the level and its age of the only limit, as agents get it."""
        (told,) = self.book.told(revision, {1}, watched=True)
        return told

    def asked_by(self, agent: str) -> list[dict[str, object]]:
        """Return what an agent is told that asks."""
        return self.book.of([(1, "requests")], REVISION, agent, watched=True)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_of_a_limit_in_use_what_was_seen_last_is_told(rig: Rig) -> None:
    assert (rig.told()["level"], rig.told()["age_s"]) == (-3.0, 0.5)
    rig.stored = [replace(STORED, level=4.0, at_s=100.2)]  # by another server, later
    rig.picture = replace(PICTURE, number=2)
    assert rig.told()["level"] == 4.0


def test_what_agents_have_just_left_is_told_as_it_is_now(rig: Rig) -> None:
    rig.left = [LEFT]
    assert (rig.told()["level"], rig.told()["age_s"]) == (-9.0, 0.0)
    assert rig.book.told(REVISION, {2}, watched=True) == []


def test_who_asks_is_told_what_is_left_now(rig: Rig) -> None:
    """Also of a limit that was first used since the last picture."""
    for picture in (PICTURE, replace(PICTURE, uses=())):
        rig.picture, rig.used = picture, [replace(LEFT, agents=(ASKS,))]
        (known,) = rig.asked_by("a")
        assert (known["level"], known["age_s"], known["counted"]) == (-9.0, 0.0, 3.0)
        assert known["others"] == []
        (known,) = rig.asked_by("b")
        assert known["counted"] is None
        assert known["others"] == [{"agent": "a", "incarnation": 7, "counted": 3.0}]
    rig.used = [replace(LEFT, agents=(replace(ASKS, incarnation=1 << 60),))]
    (known,) = rig.asked_by("b")
    assert known["others"] == []  # agents could not read it
    many = tuple(replace(ASKS, agent=str(n)) for n in range(MOST_OTHERS))
    rig.used = [replace(LEFT, agents=(ASKS, *many))]
    (known,) = rig.asked_by("a")
    assert known["others"] is not None
    (known,) = rig.asked_by("b")
    assert known["others"] is None


def test_a_limit_never_seen_in_use_was_full_before_the_last_picture(rig: Rig) -> None:
    """What was reported just before it may be missing there."""
    rig.picture = replace(PICTURE, uses=())
    for known in (rig.told(), *rig.asked_by("a")):
        assert (known["level"], known["age_s"]) == (20.0, 1.5)
    assert rig.book.of([(1, "requests")], REVISION, "a", watched=False) == []


def test_a_limit_that_is_set_again_is_full_whatever_the_last_picture_shows(
    rig: Rig,
) -> None:
    assert rig.told(REVISION + 1)["level"] == 20.0


def test_an_unlimited_one_has_no_level(rig: Rig) -> None:
    rig.picture = replace(PICTURE, uses=(replace(USE, rate=inf, level=-4e6),))
    rig.left = [replace(LEFT, limit=replace(LIMIT, rate=inf), level=-4e6)]
    rig.used = rig.left
    assert rig.told()["level"] == 20.0
    (known,) = rig.asked_by("a")
    assert known["level"] == 20.0


def test_a_thousand_that_ask_read_the_store_once(rig: Rig) -> None:
    for _ in range(1000):
        rig.told()
    assert rig.loads == 1
    rig.picture = replace(PICTURE, number=2)
    rig.told()
    assert rig.loads == 2, "what was left before this picture is in the store"
