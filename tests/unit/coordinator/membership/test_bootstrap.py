"""Asking for the levels of ledgers that come and go meanwhile."""

from __future__ import annotations

from collections import deque
from itertools import chain, product
from math import nan
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.scenarios.world import DIMENSION, World

from headgate.coordinator import Claim, Configured, Restored
from headgate.coordinator.allocation.conditions import FEWEST_AT_FIRST
from headgate.coordinator.membership import bootstrap
from headgate.coordinator.membership.bootstrap import (
    ANSWERS_MAX,
    OLDER_S,
    Answered,
    Bootstrap,
    Moves,
    Opened,
)

if TYPE_CHECKING:
    from tests.scenarios.world import Process

    from headgate.coordinator import Effect
    from headgate.coordinator.config.configuration import Mode


def asked(*numbers: int, answered: bool = True) -> Bootstrap:
    """A round of ledgers whose answers are due at 10 s."""
    joining = Bootstrap()
    for number in numbers:
        joining.begin(number, None)
    joining.asked(1, np.array(numbers), np.zeros(len(numbers)), 9.0)
    levels = np.array([float(number) for number in numbers])
    if answered:
        apart = levels - 1.0
        joining.answer(np.array(numbers), levels, apart, member=1, reported_at=9.5)
    joining.echoed(1, ready_at=10.0)
    return joining


def apart(joining: Bootstrap) -> list[float | None]:
    """By how much this agent's own level was lower, once the round is over."""
    return [known and known.apart for known in joining.finish(10.0).values()]


def test_a_ledger_that_went_away_in_the_middle_of_a_round_is_not_told() -> None:
    joining = asked(5, 7)
    joining.forget(5)
    assert joining.finish(10.0) == {7: Answered(7.0, 9.5, 6.0)}
    assert not joining


def test_a_new_ledger_of_an_old_number_is_asked_for_anew() -> None:
    joining = asked(5)
    joining.forget(5)
    joining.begin(5, None)
    assert joining.finish(10.0) == {}
    joining.asked(2, np.array([5]), np.zeros(1), 9.0)
    joining.echoed(2, ready_at=20.0)
    assert joining.finish(20.0) == {5: None}


def test_of_each_member_the_newest_answer_counts() -> None:
    joining = asked(5)
    for level in (-400.0, -390.0):
        joining.answer(
            np.array([5]),
            np.array([level]),
            np.array([level]),
            member=2,
            reported_at=9.6,
        )
    joining.answer(
        np.array([5]), np.array([-395.0]), np.array([9.0]), member=1, reported_at=9.6
    )
    expected = Answered(0.5 * (-395.0 - 390.0), 9.6, 0.5 * (9.0 - 390.0))
    assert joining.finish(10.0) == {5: expected}


def test_a_level_that_was_corrected_meanwhile_is_apart_by_so_much_less() -> None:
    joining = asked(5, 7)
    joining.moved(Moves(np.array([5]), np.array([3.0])))
    assert apart(joining) == [1.0, 6.0]


@pytest.mark.parametrize("over", [False, True], ids=["forgotten", "over"])
def test_what_moved_an_earlier_ledger_of_the_same_number_is_forgotten(
    over: bool,
) -> None:
    joining = asked(5, answered=False)
    joining.moved(Moves(np.array([5]), np.array([-40.0]), 30.0))
    if over:
        assert joining.finish(10.0) == {5: None}
    else:
        joining.forget(5)
    joining.begin(5, None)
    joining.asked(2, np.array([5]), np.zeros(1), 9.0)
    level = np.array([7.0])
    joining.answer(np.array([5]), level, level - 1.0, member=1, reported_at=19.0)
    joining.echoed(2, ready_at=20.0)
    assert joining.finish(20.0) == {5: Answered(7.0, 19.0, 6.0)}


def test_answers_count_in_a_round_that_never_ends() -> None:
    joining = asked(5, answered=False)
    joining.begin(6, None)  # a new value of a template, and so on
    for n in range(2 * ANSWERS_MAX):
        level = np.array([float(n)])
        joining.answer(np.array([6]), level, level, member=n, reported_at=0.01 * n)
    level = np.array([-3.0])
    joining.answer(np.array([5]), level, level, member=1, reported_at=9.9)
    assert joining.finish(10.0) == {5: Answered(-3.0, 9.9, -3.0)}


@pytest.mark.parametrize("came_first", [True, False])
@pytest.mark.parametrize(
    ("reported_at", "member", "knew"),
    [(9.4, 2, False), (9.5, 2, True), (9.2, 1, False), (9.3, 1, True)],
)
def test_an_answer_is_compared_with_what_its_sender_knew(
    reported_at: float, member: int, knew: bool, came_first: bool
) -> None:
    joining = asked(5, answered=False)
    moves = Moves(np.array([5, 6]), np.array([-40.0, 1.0]), np.full(2, 9.5), 1, 9.3)
    own = 100.0 if came_first else 60.0
    level = 60.0 if knew else 100.0
    if not came_first:
        joining.moved(moves)
    joining.answer(
        np.array([5]),
        np.array([level]),
        np.array([level - own]),
        member=member,
        reported_at=reported_at,
    )
    if came_first:
        joining.moved(moves)
    assert apart(joining) == [0.0]


FEW = 20
"""Answers and moves that are kept in a test."""


class Listed:
    """What a round keeps, one by one: answers and moves as dictionaries."""

    def __init__(self) -> None:
        self.answers: deque[list[dict[str, float]]] = deque(maxlen=FEW)
        self.moves: deque[list[dict[str, float]]] = deque(maxlen=FEW)

    @staticmethod
    def _concerns(
        answer: dict[str, float], move: dict[str, float]
    ) -> tuple[bool, bool]:
        own = answer["member"] == move["member"]
        knew = answer["at"] >= (move["at"] if own else move["known_at"])
        return answer["number"] == move["number"], knew

    def answer(self, rows: list[dict[str, float]]) -> None:
        for answer, move in product(rows, chain(*self.moves)):
            if self._concerns(answer, move) == (True, False):
                answer["apart"] += move["by"]
        self.answers.append(rows)

    def moved(self, rows: list[dict[str, float]]) -> None:
        for move, answer in product(rows, chain(*self.answers)):
            if self._concerns(answer, move) == (True, True):
                answer["apart"] -= move["by"]
        self.moves.append(rows)

    def forget(self, number: int) -> None:
        for rows in chain(self.answers, self.moves):
            rows[:] = [row for row in rows if row["number"] != number]

    def moved_by(self, number: int, until: float) -> float:
        known = [m for m in chain(*self.moves) if m["known_at"] <= until]
        return sum(move["by"] for move in known if move["number"] == number)

    def apart(self, number: int) -> float:
        newest = max(answer["at"] for answer in chain(*self.answers))
        fresh = [a for a in chain(*self.answers) if a["at"] > newest - OLDER_S]
        of = {a["member"]: a["apart"] for a in fresh if a["number"] == number}
        return median(of.values())


@pytest.mark.parametrize("seed", range(5))
def test_many_answers_and_moves_count_as_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than are kept, with a ledger that is forgotten meanwhile."""
    monkeypatch.setattr(bootstrap, "ANSWERS_MAX", FEW)
    random = np.random.default_rng(seed)
    joining, listed = asked(0, 1, 2, 3, answered=False), Listed()
    for step in range(200):
        at, member = 9.0 + step * 5e-3 - random.uniform(0.0, 0.2), step * step % 7
        of = random.permutation(4)[: random.integers(1, 5)]
        units = random.uniform(-9.0, 9.0, len(of)).round(3)
        known_at = at + random.uniform(0.0, 0.2, len(of))
        rows: list[dict[str, float]] = [
            {
                "number": n,
                "apart": u,
                "by": u,
                "known_at": k,
                "at": at,
                "member": member,
            }
            for n, u, k in zip(of, units, known_at, strict=True)
        ]
        if step % 2:
            joining.answer(of, units, units, member=member, reported_at=at)
            listed.answer(rows)
        else:
            joining.moved(Moves(of, units, known_at, member, at))
            listed.moved(rows)
        if step == 195:
            joining.forget(0)
            listed.forget(0)
            joining.begin(0, None)
    joining.asked(2, np.array([0]), np.zeros(1), 9.0)
    joining.echoed(2, 10.0)
    for number, until in product((0, 1), (9.9, 10.1)):
        moved = listed.moved_by(number, until)
        assert joining.moved_by(number, until) == pytest.approx(moved)
    found = joining.finish(99.0)
    for number in range(4):
        answered = found[number]
        assert answered is not None
        assert answered.apart == pytest.approx(listed.apart(number))


HOURLY = 1000.0 / 3600.0
"""Units per second of a quota of 1,000 an hour."""


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_what_is_spent_before_the_others_answer_is_charged_to_a_stored_level(
    late: bool,
) -> None:
    world = World()
    world.group(1, rate=HOURLY, burst=1000)
    world.start("a")
    process = world.processes["a"]
    stored = Restored(DIMENSION, np.array([1]), np.array([700.0]), age_s=36.0)
    if late:
        world.run(0.025)  # the ledger is there
    world.step(process, stored)
    world.use("a", 1, 40.0, 0.0)  # at once, before anybody could have answered
    world.run(10)
    level = process.coordinator.explain(1, DIMENSION, world.now).level
    assert level == pytest.approx(700.0 + 36.0 * HOURLY - 40.0 + 10.0 * HOURLY, abs=0.5)


@pytest.mark.parametrize(
    ("told", "age_s", "counted"),
    [(20.0, 0.5, nan), (18.0, 0.0, 1.0)],
    ids=["unknown to the API", "known to the API"],
)
def test_what_was_spent_before_the_api_told_a_level_is_charged_once(
    told: float, age_s: float, counted: float
) -> None:
    """A forked child looks at its buckets before the API has answered it."""
    world = World()
    world.group(1, rate=HOURLY, burst=20.0)
    for name in "ab":
        world.start(name)
        world.use_groups(name, [1])
        world.use(name, 1, 1.0, 0.0)
    world.run(0.1)
    level = Restored(
        DIMENSION, np.array([1]), np.array([told]), age_s, np.array([counted])
    )
    for name in "ab":
        world.step(world.processes[name], level)
    world.run(3)
    for process in world.processes.values():
        known = process.coordinator.explain(1, DIMENSION, world.now).level
        assert known == pytest.approx(18.0 + 3.0 * HOURLY, abs=0.1)


@pytest.mark.parametrize("due", [False, True])
def test_a_level_that_the_api_is_about_to_tell_is_awaited(due: bool) -> None:
    """A forked child knows the configuration before it has asked."""
    world = World()
    world.group(1, rate=HOURLY / 50, burst=20.0)
    world.start("child")
    child = world.processes["child"]
    world.step(child, Configured(world.configuration(), levels_due=due))
    world.use_groups("child", [1])
    world.use("child", 1, 1.0, 0.0)
    world.run(1.0)
    full = Restored(DIMENSION, np.array([1]), np.array([20.0]), age_s=2.0)
    world.step(child, full)
    world.run(3.0)
    known = child.coordinator.explain(1, DIMENSION, world.now).level
    assert known == pytest.approx(19.0, abs=0.1) if due else known < 1.0


def test_of_two_levels_that_the_api_tells_the_one_that_was_seen_later_counts() -> None:
    world = World()
    world.group(1, rate=HOURLY, burst=20.0)
    world.start("a")
    world.use_groups("a", [1])
    world.run(0.1)
    for level, age_s in ((7.0, 0.0), (20.0, 0.6)):
        told = Restored(DIMENSION, np.array([1]), np.array([level]), age_s=age_s)
        world.step(world.processes["a"], told)
    known = world.processes["a"].coordinator.explain(1, DIMENSION, world.now).level
    assert known == pytest.approx(7.0, abs=0.1)


def test_a_level_that_others_tell_is_better_than_a_stored_one() -> None:
    world = World()
    world.group(1, rate=HOURLY, burst=1000)
    world.start("a")
    world.run(1)
    world.use("a", 1, 300.0, 0.0)
    world.run(1)
    told = world.processes["a"].coordinator.explain(1, DIMENSION, world.now).level
    world.start("b")
    stored = Restored(DIMENSION, np.array([1]), np.array([900.0]))
    world.step(world.processes["b"], stored)
    world.run(10)
    world.step(world.processes["b"], stored)  # too late to matter
    level = world.processes["b"].coordinator.explain(1, DIMENSION, world.now).level
    assert level == pytest.approx(told + 10.0 * HOURLY, abs=0.5)


def reserve(world: World, name: str) -> float:
    return float(world.processes[name].ceilings[1].ceilings.reserve[0])


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("others", [2, 12])
def test_of_a_limit_that_is_set_while_nobody_is_heard_each_spends_a_part(
    others: int, kept: bool
) -> None:
    """Nobody's row was ever there, so each took itself for the only one.

    Buckets are `kept` where the group is part of another.
    """
    world = World()
    names = [f"agent-{number}" for number in range(1 + others)]
    if kept:
        world.group(1, rate=100.0, burst=100.0)
    for name in names:
        world.start(name)
    if kept:
        world.remove(1)
    world.run(3)
    world.apart += [{name} for name in names]
    world.run(3)
    world.group(1, rate=100.0, burst=100.0)
    for name in names:
        if not kept:
            world.use_groups(name, [1])
        world.load(name, 1, admitted=1.0, refused=100.0)
    world.run(3)
    assert 0.9 * 100.0 < sum(reserve(world, name) for name in names) <= 100.0 * 1.001


def test_who_starts_while_nobody_is_heard_takes_a_part_of_what_nobody_tells() -> None:
    world = World()
    world.group(1, rate=100.0, burst=100.0)
    world.apart.append({"a"})
    world.start("a")
    world.load("a", 1, admitted=1.0, refused=100.0)
    world.run(5)
    assert reserve(world, "a") == pytest.approx(100.0 / FEWEST_AT_FIRST)


def test_who_stood_still_during_an_outage_keeps_its_part_among_the_users() -> None:
    """It asks the others anew, and knows who used the limit before."""
    world = World()
    world.group(1, rate=100.0, burst=100.0)
    for name in "abcd":
        world.start(name)
    for name in "cd":
        world.use_groups(name, [])
    for name in "ab":
        world.load(name, 1, admitted=20.0, refused=100.0)
    world.run(20)
    world.apart += [{name} for name in "abcd"]
    world.processes["a"].paused = True
    world.run(5)
    world.processes["a"].paused = False
    world.run(3)
    assert "paused" in world.processes["a"].noticed
    assert reserve(world, "a") == reserve(world, "b") == pytest.approx(50.0)


def test_who_asks_anew_keeps_what_others_spent_since_a_ledger_began() -> None:
    joining = Bootstrap()
    joining.begin(5, Opened(level=100.0, at=8.0, until=10.0))
    spent = np.array([-30.0])
    joining.moved(Moves(np.array([5]), spent, known_at=9.0, member=1, reported_at=9.0))
    kept = joining.start_over([5], 9.5)
    assert kept == {5: Opened(level=70.0, at=8.0, until=10.0)}
    assert joining.moved_by(5) == 0.0


@pytest.mark.parametrize(
    ("answered_at", "heard_until", "known"),
    [(0.9, 0.9, 4.0), (1.05, 0.9, 10.0), (1.2, 0.9, 10.0), (1.2, 1.15, 90.0)],
)
def test_an_answer_knows_the_first_report_since_the_question_or_a_later_one(
    answered_at: float, heard_until: float, known: float
) -> None:
    joining, numbers, seen = Bootstrap(), np.array([9, 5]), np.array([3.0, 4.0])
    joining.asked(1, np.array([5]), np.array([1.0]), 0.5)
    joining.start_over([7, 5], 0.95)
    for number in (7, 5):
        joining.begin(number, None)
    joining.asked(2, np.array([5, 9]), np.array([10.0, 0.0]), 1.0)
    joining.asked(3, np.array([5]), np.array([90.0]), 1.1)
    found = joining.known_own(numbers, seen, answered_at, heard_until)
    assert found.tolist() == [3.0, known]
    joining.forget(5)
    found = joining.known_own(numbers, seen, answered_at, heard_until)
    assert found.tolist() == [3.0, 4.0]


class Asked(World):
    """A world that keeps the limits about which each process asks the API."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []

    def _perform(self, process: Process, effect: Effect) -> None:
        if isinstance(effect, Claim):
            self.asked += [(process.name, number) for _, number in effect.limits]
        super()._perform(process, effect)


@pytest.mark.parametrize("mode", ["balanced", "strict"])
def test_of_what_began_during_a_silence_the_api_is_asked_once_it_is_over(
    mode: Mode,
) -> None:
    """But a strict limit is claimed as ever: the answer would be a grant."""
    world = Asked()
    world.group(1, rate=10, burst=100)
    for name in "ab":
        world.start(name)
    world.run(5)
    world.apart = [{"a"}, {"b"}]
    world.run(5)
    world.group(2, rate=10, burst=100, mode=mode)
    world.use_groups("a", [1, 2])
    world.run(2)
    asked = world.asked.count(("a", 2))
    assert asked == 0
    world.apart = []
    world.run(3)
    assert world.asked.count(("a", 2)) == 1
    assert ("b", 1) not in world.asked
