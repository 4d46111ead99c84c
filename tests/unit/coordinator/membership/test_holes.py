"""Reports that are missing: by chance, or because of an outage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scenarios.world import World

from headgate.coordinator.config.constants import Settings
from headgate.coordinator.gossip.schedule import ROUND_INTERVALS, ReportSchedule
from headgate.coordinator.membership.members import Member, Members


def met(members: Members, count: int) -> list[Member]:
    """Return members that have reported everything, of which this agent heard 1."""
    found: list[Member] = []
    for number in range(count):
        member = Member(number + 1, f"agent-{number}", 1, 0, 0.0, 0.0)
        members.by_agent[member.agent] = member
        members.note_sequence(member, 1)
        member.whole = True
        found.append(member)
    return found


@pytest.mark.parametrize("count", [1, 2, 8, 49])
def test_an_outage_that_all_return_from_in_turn_is_noticed_with_each(
    count: int,
) -> None:
    members = Members(Settings(), 0.0)
    first, *rest = met(members, count)
    members.note_sequence(first, 3)  # one report is missing, which may be chance
    assert first.whole
    assert all(members.note_sequence(member, 4).hidden for member in rest)
    assert not any(member.whole for member in rest)


@pytest.mark.parametrize(("each", "chance", "outage"), [(10, 5, 6), (5, 7, 8)])
def test_the_more_is_lost_the_longer_a_hole_is_chance(
    each: int, chance: int, outage: int
) -> None:
    members = Members(Settings(), 0.0)
    (member,) = met(members, 1)
    member.usual_loss = 1.0 / each
    assert not members.note_sequence(member, member.sequence + chance + 1).hidden
    member.usual_loss = 1.0 / each
    assert members.note_sequence(member, member.sequence + outage + 1).hidden


def test_sequence_numbers_of_any_size_are_judged() -> None:
    members = Members(Settings(), 0.0)
    (member,) = met(members, 1)
    assert members.note_sequence(member, (1 << 64) - 1).hidden


def test_a_question_after_an_outage_waits_for_the_round_before() -> None:
    schedule = ReportSchedule(Settings(), phase=0.5, now=0.0)
    schedule.round_at = 100.0
    schedule.wonder(101.0, 0.25, patient=True)
    assert not schedule.wonders(101.0 + 0.25)
    assert schedule.wonders(100.0 + ROUND_INTERVALS)
    schedule.wonder(101.0, 0.25)  # a stranger is asked at once
    assert schedule.wonders(101.25)


@pytest.mark.parametrize("another_asked", [False, True])
def test_agents_that_miss_the_same_rows_ask_for_them_in_turn(
    another_asked: bool,
) -> None:
    world = World()
    world.group(1, rate=1000, burst=1000)
    for name in "abc":
        world.start(name)
    for name in "abc":
        world.load(name, 1, admitted=10, refused=0)
    world.run(8)
    a, b, c = (world.processes[name] for name in "abc")
    if another_asked:
        question = replace(c.sent[-1], hello=True, sequence=c.sent[-1].sequence + 1)
        world.inject("a", question)
    missed = replace(b.sent[-1], sequence=b.sent[-1].sequence + 40)
    a.sent.clear()
    world.inject("a", missed)
    world.run(3)
    assert any(report.hello for report in a.sent) is not another_asked
    world.run(ROUND_INTERVALS)
    assert any(report.hello for report in a.sent)
