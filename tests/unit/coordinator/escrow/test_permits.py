"""Strict groups: whatever happens to reports and agents, permits are used once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scenarios.world import DELAY_S, STEP_S, Process, World

from headgate.coordinator import ApiAnswers, Keys, Vouched
from headgate.coordinator.escrow.lives import (
    END_NEEDED_S,
    END_TOLD_S,
    NOBODY,
    Sightings,
    View,
)
from headgate.coordinator.escrow.permits import LEARNT_MAX, Escrow, Section
from headgate.coordinator.escrow.registers import Registers
from headgate.coordinator.escrow.targets import gifts
from headgate.coordinator.messages.report import PERMITS, AgentLife, PermitRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.coordinator import Report

KEY = "requests", 1
A, B, C = (AgentLife(name, 1) for name in "abc")


def strict_world(names: Iterable[str], *, wanted: float = 0.0) -> World:
    world = World()
    found_strict(world, names, wanted=wanted)
    return world


def found_strict(world: World, names: Iterable[str], *, wanted: float) -> None:
    world.group(1, rate=1000, burst=1000, mode="strict")
    for name in names:
        world.start(name)
        world.load(name, 1, 0.5 * wanted, 0.5 * wanted)


def owned(world: World) -> dict[str, float]:
    return {
        name: float(process.ceilings[1].ceilings.ceiling[0])
        for name, process in world.processes.items()
        if 1 in process.ceilings
    }


def watch(world: World, seconds: float, *, step_s: float = 0.25) -> None:
    """Let time pass; at each step the ceilings sum to at most the rate."""
    until = world.now + seconds
    while world.now < until - 1e-9:
        world.run(step_s)
        assert sum(owned(world).values()) <= 1000.0 + 1e-6, f"at {world.now} s"


@pytest.mark.long
def test_ceilings_of_a_strict_group_sum_to_at_most_the_rate_at_every_moment() -> None:
    world = strict_world("abc")
    for i in range(400):
        world.run(0.025)
        assert sum(owned(world).values()) <= 1000.0 + 1e-6
        if i % 80 == 40:
            busy = "abc"[i // 80 % 3]
            for name in "abc":
                world.load(name, 1, 500 if name == busy else 10, 0)
    assert sum(owned(world).values()) > 950.0


def test_nothing_may_be_spent_before_a_limit_is_founded() -> None:
    world = strict_world("ab")
    world.run(1.0)
    assert sum(owned(world).values()) == 0.0


@pytest.mark.long
def test_the_permits_of_a_killed_agent_come_back_with_its_next_life() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 7.0)
    lost = owned(world)["c"]
    world.kill("c")
    watch(world, 10.0)
    assert sum(owned(world).values()) <= 1000.0 - lost + 1e-6
    world.start("c", incarnation=2)
    world.load("c", 1, 200, 200)
    watch(world, 1.0)
    assert sum(owned(world).values()) > 999.0


def test_a_next_life_that_does_not_use_the_limit_ends_the_earlier_one() -> None:
    world = strict_world("abc")
    watch(world, 4.0)
    world.kill("c")
    world.start("c", incarnation=2)
    world.drop("c")
    watch(world, 4.0)
    assert sum(owned(world).values()) > 999.0


def test_permits_of_a_limit_that_is_strict_no_longer_are_not_reported() -> None:
    world = strict_world("ab")
    watch(world, 4.0)
    told = [process.sent for process in world.processes.values()]
    assert all(sent[-1].permits for sent in told)
    world.group(1, rate=1000, burst=1000)
    before = [len(sent) for sent in told]
    world.run(4.0)
    assert all(len(sent) > at for sent, at in zip(told, before, strict=True))
    later = [sent[at:] for sent, at in zip(told, before, strict=True)]
    assert not any(report.permits for reports in later for report in reports)


def test_an_agent_that_leaves_gives_all_away() -> None:
    world = strict_world("abc")
    watch(world, 4.0)
    world.stop("c")
    watch(world, 1.0)
    assert sum(owned(world).values()) > 999.0


def test_the_permits_of_a_process_that_the_api_saw_end_are_taken_by_one() -> None:
    world = strict_world("abc")
    watch(world, 4.0)
    world.kill("c")
    world.vouch("c", alive=False)
    watch(world, 2.0)
    assert sum(owned(world).values()) > 999.0


@pytest.mark.long
def test_the_word_that_an_agent_is_gone_counts_only_once_it_is_silent() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    before = owned(world)["c"]
    world.vouch("c", alive=False)  # its connection to the API broke, nothing else
    watch(world, 10.0)
    assert owned(world)["c"] == pytest.approx(before, rel=0.05)


@pytest.mark.long
def test_one_that_reads_that_it_is_over_stops_and_begins_a_new_life() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    world.apart.append({"c"})
    world.vouch("c", alive=False)
    world.run(6.0)  # its permits are taken, and it goes on: that was no true word
    world.apart.clear()
    world.run(3.0)
    assert "renamed" in world.processes["c"].noticed
    watch(world, 6.0)
    assert sum(owned(world).values()) > 999.0


@pytest.mark.long
def test_halves_that_do_not_hear_each_other_never_own_more_than_the_rate() -> None:
    world = strict_world("abcd")
    watch(world, 4.0)
    world.apart.append({"a", "b"})
    world.load("a", 1, 400, 600)
    world.load("c", 1, 400, 600)
    watch(world, 50.0)


@pytest.mark.long
def test_one_that_starts_where_few_hear_it_owns_nothing_until_all_agree() -> None:
    world = strict_world("abcd", wanted=400)
    watch(world, 4.0)
    world.apart.append({"a", "b"})
    world.kill("b")
    watch(world, 3.0)
    world.start("b", incarnation=2)
    world.load("b", 1, 200, 200)
    watch(world, 14.0)
    assert owned(world)["b"] == 0.0
    assert world.processes["b"].noticed.count("strict_waits c") == 1
    world.apart.clear()
    watch(world, 6.0)
    assert owned(world)["b"] > 200.0


def use_groups(world: World, name: str, *groups: int) -> None:
    """Let a process have buckets for these of the groups 1 and 2, from now on."""
    process = world.processes[name]
    process.keys = Keys(
        dimensions=(KEY[0],),
        dimension=np.zeros(len(groups), dtype=np.int64),
        group_ids=np.array(groups, dtype=np.int64),
    )
    process.admitted, process.refused, process.held = np.zeros((3, len(groups)))
    process.rates = {}
    process.ceilings = {g: c for g, c in process.ceilings.items() if g in groups}


@pytest.mark.long
def test_who_has_no_bucket_any_more_leaves_all_to_those_who_have() -> None:
    world = strict_world("abc", wanted=400)
    world.group(2, rate=1000, burst=1000)
    for name in "abc":
        use_groups(world, name, 1, 2)
        world.load(name, 1, 200, 200)
    watch(world, 6.0)
    use_groups(world, "c", 2)
    watch(world, 2.0)
    assert sum(owned(world).values()) > 999.0
    use_groups(world, "c", 1, 2)
    world.load("c", 1, 200, 200)
    watch(world, 5.0)
    assert owned(world)["c"] == pytest.approx(333.0, rel=0.1)


def test_the_last_one_keeps_all_for_whoever_comes_back_first() -> None:
    world = strict_world("ab")
    world.group(2, rate=1000, burst=1000)
    watch(world, 6.0)
    for name in "ab":
        use_groups(world, name, 2)
        watch(world, 6.0)
    use_groups(world, "a", 1, 2)
    world.load("a", 1, 300, 400)
    watch(world, 3.0)
    assert owned(world)["a"] > 999.0


@pytest.mark.thorough
@pytest.mark.long
def test_a_hundred_agents_settle_and_each_can_own_its_part() -> None:
    lives = [AgentLife(f"n{i:03}", 1) for i in range(100)]
    agents = [
        Escrow(life, 0.0, interval_s=1.0, sightings=Sightings()) for life in lives
    ]
    for agent in agents:
        agent.uses = True
    for now in range(4):
        told = [agent.tell(1, float(now), whole=True) for agent in agents]
        for agent in agents:
            for life, section in zip(lives, told, strict=True):
                if life != agent.me:
                    agent.hear(life, section, float(now), whole=True)
            agent.step(float(now), may_found=now > 1)
    assert all(agent.settled for agent in agents)
    first = agents[0]
    assert len(first.owned()) == PERMITS
    lacking = np.full(100, PERMITS // 100)
    for life, count in zip(lives[1:], gifts(PERMITS, lacking)[1:], strict=True):
        mine = first.registers.to_give(first.owned(), int(count), life)
        first.registers.write(mine, life, first.me, 5.0)
    section = first.tell(1, 5.0, whole=True)
    for agent in agents[1:]:
        agent.hear(first.me, section, 5.0, whole=True)
    assert min(len(agent.owned()) for agent in agents) == PERMITS // 100


def test_permits_that_come_before_this_life_may_own_any_are_taken_when_told_again() -> (
    None
):
    escrow = Escrow(B, 0.0, interval_s=1.0, sightings=Sightings(), permits=8)
    gift = PermitRun(1, 0, 4, 2, B, A, 0.5)
    others = PermitRun(1, 4, 4, 1, A, NOBODY, 0.0)
    told = Section([gift, others], [])
    assert escrow.hear(A, told, 0.0, whole=False) == 0.0
    assert not len(escrow.owned())
    escrow.settled = True
    assert escrow.hear(A, told, 0.1, whole=False) == 2.0
    assert escrow.owned().tolist() == [0, 1, 2, 3]
    assert escrow.hear(A, told, 0.2, whole=False) == 0.0


def test_runs_that_are_told_again_are_remembered_and_change_nothing() -> None:
    escrow = Escrow(B, 0.0, interval_s=1.0, sightings=Sightings(), permits=8)
    old, new = (PermitRun(1, 0, 8, epoch, A, NOBODY, 0.0) for epoch in (1, 2))
    taken = PermitRun(1, 0, 2, 3, C, A, 0.0)
    for run in (old, new, taken, old, new):
        escrow.hear(A, Section([run], []), 0.0, whole=False)
    assert escrow.registers.counts([C, A]).tolist() == [2, 6]
    for epoch in range(4, 4 + 2 * LEARNT_MAX):
        run = PermitRun(1, 7, 1, epoch, A, C, 0.0)
        escrow.hear(C, Section([run], []), 0.0, whole=False)
    learnt = escrow._learnt  # pyright: ignore[reportPrivateUsage]
    assert len(learnt) <= LEARNT_MAX
    escrow.hear(A, Section([old, taken], []), 0.0, whole=False)
    assert escrow.registers.epoch[7] == 3 + 2 * LEARNT_MAX
    assert escrow.registers.counts([C]).tolist() == [2]


# Registers and views.

steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 2), st.integers(0, 7)),
    max_size=40,
)


@pytest.mark.long
@given(steps, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_copies_that_heard_the_same_are_the_same_in_whatever_order(
    todo: list[tuple[bool, int, int, int]], random: np.random.Generator
) -> None:
    writer = Registers(8)
    writer.write(np.arange(8), A, NOBODY, 0.0)
    runs: list[PermitRun] = []
    for _, giver, owner, permit in todo:
        to, by = (A, B, C)[owner], (A, B, C)[giver]
        writer.write(np.array([permit]), to, by, 0.0, tokens=permit)
        runs += writer.runs(1, np.ones(8, dtype=np.bool_))
    copies = [Registers(8), Registers(8)]
    for copy in copies:
        random.shuffle(runs)
        for run in runs + runs:
            copy.merge([run], NOBODY)
    everything = np.ones(8, dtype=np.bool_)
    assert list(copies[0].runs(1, everything)) == list(copies[1].runs(1, everything))
    if runs:
        assert list(copies[0].runs(1, everything)) == list(writer.runs(1, everything))


def test_names_that_nothing_points_to_are_dropped() -> None:
    registers = Registers(4)
    for number in range(1, 10_000):
        registers.write(np.arange(4), AgentLife("a", number), A, 0.0)
    assert len(registers.names) <= 4096
    assert registers.counts([AgentLife("a", 9_999)]).tolist() == [4]


def test_stretches_beside_the_receivers_are_given_first_then_short_ones() -> None:
    registers = Registers(16)
    mine = np.array([0, 1, 2, 3, 9, 11, 12, 14, 15])
    registers.write(mine, A, A, 0.0)

    def given(count: int) -> list[int]:
        chosen: list[int] = registers.to_give(mine, count, B).tolist()
        return chosen

    assert given(4) == [9, 11, 12, 15]
    assert given(9) == mine.tolist()
    registers.write(np.array([4, 5]), B, A, 0.0)
    assert given(1) == [3]
    assert given(5) == [0, 1, 2, 3, 9]
    registers.write(np.array([13]), B, A, 0.0)
    # The cut is made where the stretch does not touch the receiver's.
    assert given(1) == [12]
    assert given(3) == [11, 12, 14]
    # The last permit has no neighbour that comes before the first one.
    registers.write(np.array([15]), B, A, 0.0)
    assert registers.to_give(np.array([0, 1, 9]), 1, B).tolist() == [9]


@given(st.integers(0, PERMITS), st.lists(st.integers(-50, 50), max_size=20))
def test_gifts_are_neither_more_than_the_surplus_nor_than_what_lacks(
    surplus: int, lacking: list[int]
) -> None:
    given_now = gifts(surplus, np.array(lacking, dtype=np.int64))
    assert given_now.sum() == min(surplus, sum(max(n, 0) for n in lacking))
    assert all(g <= max(n, 0) for g, n in zip(given_now.tolist(), lacking, strict=True))


def test_a_view_only_grows() -> None:
    view = View()
    assert view.learn(A, over=False, now=0.0)
    assert view.learn(A, over=True, now=0.0)
    assert not view.learn(A, over=False, now=0.0)
    assert view.is_gone("a")
    assert view.learn(AgentLife("a", 2), over=False, now=0.0)
    assert view.is_over(A)
    assert not view.is_gone("a")


def test_an_end_is_needed_for_less_long_than_it_is_told() -> None:
    view = View()
    view.learn(A, over=True, now=0.0)

    def told(now: float, *named: str) -> bool:
        return any(view.known(now, END_TOLD_S, named))

    assert list(view.known(END_NEEDED_S, END_NEEDED_S))
    assert not list(view.known(END_NEEDED_S + 1.0, END_NEEDED_S))
    assert told(END_TOLD_S)
    assert not told(END_TOLD_S + 1.0)
    assert told(END_TOLD_S + 1.0, "a")  # a permit names it


def test_an_earlier_life_that_is_heard_delays_the_younger_one() -> None:
    sightings = Sightings()
    escrow = Escrow(AgentLife("b", 2), 0.0, interval_s=1.0, sightings=sightings)
    settled = Escrow(A, 0.0, interval_s=1.0, sightings=Sightings())
    settled.view.learn(AgentLife("b", 2), over=False, now=0.0)
    settled.settled = True
    sightings.note(AgentLife("b", 2), 0.0)
    sightings.note(B, 10.0)
    escrow.hear(A, settled.tell(1, 10.0, whole=True), 10.0, whole=True)
    assert not escrow.agreed(11.0)
    assert escrow.agreed(11.6)


def test_what_ended_lives_say_is_dropped_and_hearsay_makes_no_owner() -> None:
    escrow = Escrow(B, 0.0, interval_s=1.0, sightings=Sightings(), permits=8)
    escrow.settled = True
    gift = Section([PermitRun(1, 0, 8, 2, B, A, 1.5)], [])
    assert escrow.hear(C, gift, 0.0, whole=False) == 0.0
    assert len(escrow.owned()) == 0
    assert escrow.hear(A, gift, 0.0, whole=False) == 12.0
    assert len(escrow.owned()) == 8
    assert escrow.hear(A, gift, 0.0, whole=False) == 0.0  # once
    fenced = Escrow(B, 0.0, interval_s=1.0, sightings=Sightings(), permits=8)
    fenced.settled = True
    fenced.view.learn(A, over=True, now=0.0)
    fenced.hear(A, gift, 0.0, whole=False)
    assert len(fenced.owned()) == 0


def test_what_came_in_many_gifts_is_told_in_one_run() -> None:
    escrow = Escrow(A, 0.0, interval_s=1.0, sightings=Sightings())
    for first in range(0, PERMITS, 64):
        at = np.arange(first, first + 64)
        escrow.registers.write(at, A, NOBODY, 0.0, by=1 + first, tokens=0.5)
    before = escrow.owned()
    escrow.tidy(1.0, spare=PERMITS)
    assert len(escrow.tell(1, 1.0, whole=True).runs) == PERMITS // 64
    escrow.tidy(1.0, spare=8)
    (run,) = escrow.tell(1, 1.0, whole=True).runs
    assert (run.size, run.owner, run.giver, run.tokens) == (PERMITS, A, A, 0.0)
    assert escrow.owned().tolist() == before.tolist()


def api_is_away(world: World, name: str, *, away: bool = True) -> None:
    """Tell a process whether the API answers it."""
    world.step(world.processes[name], ApiAnswers(not away))


@pytest.mark.long
def test_one_that_can_reach_nobody_stops_before_others_may_think_it_gone() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    world.apart.append({"c"})
    api_is_away(world, "c")
    world.vouch("c", alive=False)  # its connection broke, as that of a killed one does
    watch(world, 6.0, step_s=STEP_S)
    assert owned(world)["c"] == 0.0
    assert sum(owned(world).values()) > 999.0
    world.apart.clear()
    api_is_away(world, "c", away=False)
    world.vouch("c", alive=True)
    watch(world, 10.0)
    assert "renamed" in world.processes["c"].noticed
    assert min(owned(world).values()) > 200.0


@pytest.mark.parametrize("without", ["bus", "api"])
def test_one_that_can_reach_the_bus_or_the_api_goes_on(without: str) -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    before = owned(world)["c"]
    if without == "bus":
        world.apart.append({"c"})
    else:
        api_is_away(world, "c")
        world.vouch("c", alive=False)
    watch(world, 6.0)
    assert owned(world)["c"] == pytest.approx(before, rel=0.05)


@pytest.mark.long
def test_one_that_did_not_hear_the_bus_itself_believes_nobody_gone() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    world.apart += [{"a"}, {"b"}]  # have lost the bus, and c the API
    api_is_away(world, "c")
    world.vouch("c", alive=False)
    watch(world, 3.0)
    world.apart.clear()
    watch(world, 3.0)
    assert "renamed" not in world.processes["c"].noticed


@pytest.mark.long
@pytest.mark.parametrize("back", ["bus", "api", "both"])
def test_those_that_were_all_cut_off_go_on_once_they_hear_each_other(back: str) -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    world.apart += [{name} for name in "abc"]
    for name in "abc":
        api_is_away(world, name)
    watch(world, 4.0, step_s=STEP_S)
    assert sum(owned(world).values()) == 0.0
    if back != "bus":
        for name in "abc":
            api_is_away(world, name, away=False)
    if back == "api":
        watch(world, 2.0, step_s=STEP_S)
        assert sum(owned(world).values()) == 0.0, "others may have ended any of them"
    world.apart.clear()
    watch(world, 2.0, step_s=STEP_S)
    assert sum(owned(world).values()) > 999.0


@pytest.mark.long
def test_one_that_only_the_api_answers_again_may_not_go_on() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    world.apart.append({"c"})
    api_is_away(world, "c")
    world.vouch("c", alive=False)
    watch(world, 4.0, step_s=STEP_S)
    api_is_away(world, "c", away=False)
    for name in "ab":  # by an API of its own, that lost them
        world.step(world.processes["c"], Vouched(name, 1, alive=False))
    watch(world, 6.0, step_s=STEP_S)
    assert owned(world)["c"] == 0.0


@pytest.mark.long
def test_one_that_stopped_does_not_wait_for_those_that_nobody_hears() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    before = owned(world)["c"]
    world.apart.append({"c"})
    api_is_away(world, "c")
    world.run(2.0)
    world.kill("b")
    world.apart.clear()
    watch(world, 8.0, step_s=STEP_S)
    assert owned(world)["c"] == pytest.approx(before, rel=0.05)


@pytest.mark.long
def test_the_word_that_one_is_gone_ends_with_its_being_heard() -> None:
    """It may ask another process of the API, which says nothing about it here."""
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    before = owned(world)["c"]
    world.vouch("c", alive=False)
    watch(world, 4.0)
    world.apart.append({"c"})
    watch(world, 5.0, step_s=STEP_S)
    assert owned(world)["c"] == pytest.approx(before, rel=0.05)


@pytest.mark.long
def test_one_that_can_reach_nobody_stops_in_time() -> None:
    world = strict_world("abc", wanted=400)
    watch(world, 4.0)
    sent = world.processes["c"].sent
    before = len(sent)
    while len(sent) == before:
        world.run(STEP_S)
    left_at_s = world.now
    world.run(2.0 * DELAY_S)
    world.apart.append({"c"})
    api_is_away(world, "c")
    world.run(left_at_s + 1.5 - world.now)  # half a lease: others may think it gone
    assert owned(world)["c"] == 0.0
    noticed = world.processes["c"].noticed
    assert noticed.count("strict_stopped") == 1
    world.apart.clear()
    api_is_away(world, "c", away=False)
    world.run(5.0)
    assert owned(world)["c"] > 0.0
    assert noticed.count("strict_goes_on") == noticed.count("strict_stopped") == 1


class LateForOne(World):
    """A world in which what the others tell one process arrives late."""

    late = ""

    def _send(self, process: Process, report: Report) -> None:
        before = len(self.flying)
        super()._send(process, report)
        self.flying[before:] = [
            (at + (name == self.late != process.name), name, each)
            for at, name, each in self.flying[before:]
        ]


@pytest.mark.long
def test_one_that_stopped_waits_for_the_word_of_the_others() -> None:
    """It hears itself a second earlier than them."""
    world = LateForOne()
    found_strict(world, "abc", wanted=400)
    watch(world, 4.0)
    world.apart.append({"c"})
    api_is_away(world, "c")
    world.vouch("c", alive=False)
    watch(world, 4.0)
    world.late = "c"
    world.apart.clear()
    watch(world, 6.0, step_s=STEP_S)
    assert "renamed" in world.processes["c"].noticed
