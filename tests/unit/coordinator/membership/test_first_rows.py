"""Which counters of a row that was just heard of have been charged already."""

from __future__ import annotations

from math import inf

import pytest
from tests.scenarios.world import STEP_S, World

SPENT = 400.0


def world_of(*others: str) -> World:
    """Return a world where a younger agent than the others has spent 400 units."""
    world = World()
    world.group(1, rate=1.0, burst=1000.0)
    for name in others:
        world.start(name)
    world.run(30)
    world.start("a")
    world.run(1)
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(1)
    return world


def level(world: World, name: str) -> float:
    process = world.processes[name]
    return process.coordinator.explain(1, "requests", world.now).level


def test_a_row_says_when_it_was_told_for_the_first_time() -> None:
    world = World()
    world.group(1, rate=1.0, burst=1000.0)
    world.start("a")

    def spend() -> tuple[list[float], list[float]]:
        """Return when it reported then, from the first time on, and what it says."""
        sent = world.processes["a"].sent
        sent.clear()
        world.use("a", 1, admitted=SPENT, refused=0)
        world.run(1.0)
        reports = [report for report in sent if report.rows]
        told = [report.rows[0].told_s for report in reports]
        since_s = [report.sent_at_s - reports[0].sent_at_s for report in reports]
        return since_s, [0.0 if each is None else float(each[0]) for each in told]

    since_s, told_s = spend()
    assert len(told_s) > 1
    assert told_s[0] > 0.0
    assert told_s == pytest.approx(since_s, abs=1e-5)
    world.group(1, rate=inf, burst=inf)
    world.run(1)
    world.group(1, rate=1.0, burst=1000.0)
    since_s, told_s = spend()
    assert told_s[0] > 0.0
    assert told_s == pytest.approx(since_s, abs=1e-5)
    world.run(20)
    assert set(spend()[1]) == {0.0}


def test_a_report_without_new_rows_does_not_say_how_new_they_are() -> None:
    world = World()
    for number in (1, 2):
        world.group(number, rate=100.0, burst=1000.0)
    world.start("a")
    world.use_groups("a", [1])
    world.run(20)
    world.use_groups("a", [1, 2])
    world.use("a", 2, admitted=1.0, refused=0)
    world.run(1)
    sent = world.processes["a"].sent
    sent.clear()
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(0.2)
    (rows,) = sent[0].rows
    assert rows.group_ids.tolist() == [1]
    assert (rows.age_s, rows.told_s, rows.before) == (None, None, None)
    assert rows.level is not None


def test_an_agent_that_leaves_its_id_to_another_is_not_charged_again() -> None:
    world = world_of("b")
    before = level(world, "b")
    world.start("c", agent="a", incarnation=2)
    world.run(3)
    assert "renamed" in world.processes["a"].noticed
    for name in "abc":
        assert abs(level(world, name) - before) < 50.0


def test_what_others_spent_before_an_agent_began_is_not_charged_to_it() -> None:
    world = world_of()
    world.start("b")
    world.run(STEP_S)
    known = level(world, "a")
    world.stop("a")  # its goodbye is all that b hears
    world.run(1.0)
    assert level(world, "b") == pytest.approx(known + 1.0, abs=2.0)


def test_what_nobody_heard_before_an_id_was_left_is_charged() -> None:
    world = world_of("b")
    world.apart.append({"d"})
    world.start("d", agent="e")
    world.run(1)
    world.use("d", 1, admitted=SPENT, refused=0)
    world.run(0.2)
    before = level(world, "b")
    world.start("f", agent="e", incarnation=2)
    world.apart.clear()
    world.run(3)
    assert "renamed" in world.processes["d"].noticed
    assert level(world, "b") < before - 0.8 * SPENT


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("age_s", [0.0, 1.0, 25.0, 300.0])
def test_the_first_request_of_a_process_is_charged_however_old_it_is(
    age_s: float, lost: bool
) -> None:
    world = World()
    world.group(1, rate=1.0, burst=100.0)
    world.start("a")
    world.use_groups("a", [])
    world.run(age_s)
    world.start("b")
    world.use("b", 1, admitted=1.0, refused=0)
    world.run(3)
    before = level(world, "b")
    if lost:
        world.apart.append({"a"})
    world.use_groups("a", [1])
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(0.3)
    world.apart.clear()
    world.run(3)
    for name in "ab":
        assert level(world, name) == pytest.approx(before - SPENT, abs=8.0)


def test_what_it_had_admitted_before_it_rested_is_not_charged_again() -> None:
    world = World()
    world.group(1, rate=100.0, burst=1000.0)
    world.start("a")
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(10)
    world.use_groups("a", [])
    world.run(10)
    world.start("b")
    world.use("b", 1, admitted=1.0, refused=0)
    world.run(3)
    world.group(1, rate=1.0, burst=1000.0)
    before = level(world, "b")
    world.use_groups("a", [1])
    world.use("a", 1, admitted=50.0, refused=0)
    world.run(3)
    for name in "ab":
        assert level(world, name) == pytest.approx(before - 50.0, abs=8.0)


def removed_and_set_again() -> World:
    """Return a world whose limit was away for three seconds; `a` used it before."""
    world = World()
    world.group(1, rate=1.0, burst=1000.0)
    world.start("a")
    world.start("b")
    world.run(3)
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(3)
    assert level(world, "b") < 1000.0 - 0.9 * SPENT
    world.remove(1)
    world.run(3)
    world.group(1, rate=1.0, burst=1000.0)
    return world


def test_a_limit_that_is_set_again_does_not_charge_what_was_spent_before() -> None:
    world = removed_and_set_again()
    world.use("a", 1, admitted=10.0, refused=0)
    world.run(3)
    for name in "ab":
        assert 985.0 < level(world, name) < 995.0


def test_nor_what_nobody_had_reported_when_it_was_removed() -> None:
    world = World()
    world.group(1, rate=1000.0, burst=1000.0)
    world.start("a")
    world.start("b")
    world.load("a", 1, admitted=900.0, refused=0)
    world.run(5)
    a = world.processes["a"]
    told = [rows.admitted[0] for report in a.sent for rows in report.rows][-1]
    assert a.admitted[0] - told > 100.0  # all expect that much
    world.load("a", 1, admitted=0, refused=0)
    world.remove(1)
    world.run(3)
    world.group(1, rate=1.0, burst=5000.0)
    world.use("a", 1, admitted=10.0, refused=0)
    world.run(3)
    for name in "ab":
        assert 4975.0 < level(world, name) < 5000.0


def test_a_new_life_counts_from_0_in_a_limit_that_was_set_again() -> None:
    world = removed_and_set_again()
    world.start("a", incarnation=2)
    world.run(2)
    world.use("a", 1, admitted=50.0, refused=0)
    world.run(3)
    assert 945.0 < level(world, "b") < 960.0
    assert not world.processes["b"].noticed


def test_of_a_limit_that_an_agent_did_not_use_before_it_charges_nothing_old() -> None:
    world = World()
    world.group(2, rate=1.0, burst=1000.0)
    world.start("b")
    world.group(1, rate=1.0, burst=1000.0)
    world.start("a")
    world.run(3)
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(3)
    world.remove(1)
    world.use_groups("b", [1, 2])
    world.run(3)
    world.group(1, rate=1.0, burst=1000.0)
    world.use("a", 1, admitted=10.0, refused=0)
    world.run(3)
    assert 985.0 < level(world, "b") <= 1000.0


def test_who_started_while_a_limit_was_removed_charges_nothing_old() -> None:
    world = World()
    world.group(1, rate=1.0, burst=1000.0)
    world.start("a")
    world.run(3)
    world.use("a", 1, admitted=SPENT, refused=0)
    world.run(3)
    world.remove(1)
    world.start("b")
    world.run(3)
    world.group(1, rate=1.0, burst=1000.0)
    world.use("a", 1, admitted=10.0, refused=0)
    world.use("b", 1, admitted=1.0, refused=0)
    world.run(3)
    for name in "ab":
        assert 980.0 < level(world, name) <= 1000.0
