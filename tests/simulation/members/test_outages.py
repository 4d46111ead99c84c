"""What is left of a bucket when agents that heard nothing hear each other again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.sample import thorough
from tests.simulation.members.flapping import Bucket, Flapping, levels
from tests.simulation.members.members import (
    Members,
    configured,
    family,
    limit,
    met,
)

from headgate.coordinator import Group, Limit, Restored
from headgate.coordinator.messages.report import AgentLife

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.coordinator.config.configuration import Period
    from headgate.coordinator.state import CoordinatorState

pytestmark = pytest.mark.long

RATE, BURST = 2.0, 300.0
CUT_S = 6.0
"""When the bus is lost."""


def started(number: int, users: tuple[int, ...]) -> Members:
    """Return agents that share another group; some have taken a unit of this one."""
    groups = [
        Group(id=n, name=name, limits=(limit(RATE, BURST),))
        for n, name in enumerate(("g", "h", "i"), 1)
    ]
    other = Group(id=4, name="other", limits=(limit(10.0),))
    members = Members(configured(*groups, other), number)
    for n in range(number):
        members.ask(n, "other")
    for n in users:
        members.ask(n, "g")
    members.run(3.0)
    return members


def lose_bus(members: Members, away_s: float) -> None:
    """Lose all reports for some time from `CUT_S` on."""

    def cut(*, lost: bool) -> None:
        members.cut = lost

    members.at(CUT_S, partial(cut, lost=True))
    members.at(CUT_S + away_s, partial(cut, lost=False))


def spend_around_an_outage(members: Members, group: str, away_s: float) -> None:
    """Let three agents take 3 units, one 200 before an outage, and one 50 during it."""
    for n in range(3):
        assert members.ask(n, group)
    members.run(3.0)
    assert members.ask(0, group, 200.0)
    lose_bus(members, away_s)
    members.run(CUT_S + 2.0)
    assert members.ask(1, group, 50.0)
    members.run(CUT_S + away_s + 1.0)


@pytest.mark.parametrize("away_s", [4.0, 40.0])
@pytest.mark.parametrize("number", [*thorough(2), 3])
@pytest.mark.parametrize("large", [*thorough(0.0), 200.0])
@pytest.mark.parametrize("per_s", [*thorough(0.0), 1.0])
def test_an_outage_of_the_bus_takes_nothing_of_a_burst(
    number: int, large: float, per_s: float, away_s: float
) -> None:
    """All asked for the level, nobody told one, and they went on at the margin."""
    users = tuple(range(number))
    members, bucket = started(number, users), Bucket(RATE, BURST)
    bucket.take(0.0, float(number))
    if large:
        assert members.ask(0, "g", large)
        bucket.take(members.now, large)
    lose_bus(members, away_s)

    def ask(n: int, chance: Random) -> None:
        if members.ask(n, "g"):
            bucket.take(members.now, 1.0)
        members.at(members.now + chance.expovariate(per_s), partial(ask, n, chance))

    for n in users if per_s else ():
        members.at(CUT_S + 0.1 * n, partial(ask, n, Random(n)))
    members.run(CUT_S + away_s + 1.0)
    bucket.take(members.now, 0.0)
    # What flows in while a bucket is full may be counted a little differently.
    assert levels(members, users) == pytest.approx(number * [bucket.level], abs=12.0)


@pytest.mark.parametrize(
    ("number", "large"),
    [
        (1, 6_000.0),
        (3, 6_000.0),
        (16, 3_000.0),
        *thorough((50, 3_000.0)),
    ],
)
def test_an_outage_takes_nothing_of_a_minutes_burst_of_any_number_of_agents(
    number: int, large: float
) -> None:
    """One of them has taken much at once; all ask often, throughout."""
    rate, burst, left = 100.0, 6_000.0, 6_000.0
    group = Group(id=1, name="g", limits=(limit(rate, burst),))
    members, last_s = Members(configured(group), number), 0.0

    def ask(n: int, units: float) -> None:
        nonlocal left, last_s
        if members.ask(n, "g", units):
            left = min(burst, left + rate * (members.now - last_s)) - units
            last_s = members.now

    def go_on(n: int, chance: Random) -> None:
        ask(n, 1.0)
        members.at(members.now + chance.expovariate(1.0), partial(go_on, n, chance))

    for n in range(number):
        members.at(0.01 * n, partial(go_on, n, Random(n)))
    members.at(4.0, partial(ask, 0, large))
    lose_bus(members, 5.0)
    members.run(CUT_S + 6.0)
    level = left + rate * (members.now - last_s)
    assert level < burst - large + 1_500.0
    found = levels(members, tuple(range(number)))
    assert found == pytest.approx(number * [level], abs=25.0)


@pytest.mark.parametrize("users", [*thorough(((),)), (2,)])
@pytest.mark.parametrize("large", [*thorough(30.0), 250.0])
@pytest.mark.parametrize("away_s", [5.0, 40.0])
def test_who_begins_during_an_outage_learns_the_level_and_is_charged(
    users: tuple[int, ...], large: float, away_s: float
) -> None:
    """What it took is charged, and its guess of the level counts for nothing.

    After 40 s a row was not new any more, although nobody had heard of it.
    """
    members, bucket = started(3, users), Bucket(RATE, BURST)
    bucket.take(0.0, float(len(users)))
    lose_bus(members, away_s)
    for n, at, units in ((0, 2.0, large), (1, 4.0, 1.0)):
        members.run(CUT_S + at)
        assert members.ask(n, "g", units)
        bucket.take(members.now, units)
    members.run(CUT_S + away_s + 1.5)
    bucket.take(members.now, 0.0)
    found = levels(members, (0, 1, *users))
    assert min(found) > bucket.level - RATE * away_s - 5.0
    assert max(found) < bucket.level + 5.0


@pytest.mark.parametrize(
    ("how", "seed"),
    [
        ("off", 16),
        ("deaf", 5),
        ("late", 5),
        *thorough(("off", 21), ("off", 25), ("deaf", 12), ("late", 6)),
    ],
)
def test_agents_that_are_cut_off_again_and_again_charge_all_of_it_once(
    how: str, seed: int
) -> None:
    """They took levels in which some requests were missing, and others twice."""
    assert max(map(abs, Flapping(seed, how).play())) < 250.0


@pytest.mark.parametrize(
    ("how", "seed"),
    [
        ("late", 1),
        ("late", 8),
        ("late", 11),
        ("deaf", 1),
        ("off", 26),
        *thorough(("late", 25)),
    ],
)
def test_agents_that_are_cut_off_while_much_is_spent_charge_all_of_it_once(
    how: str, seed: int
) -> None:
    """They trusted what was told before they asked, or by one as late as they.

    The bucket was full until then, so they can't know what it holds without the others.
    """
    world = Flapping(seed, how)
    apart = world.play(from_s=1.5)
    flows_in = 3.0 * world.bucket.rate  # in a silence, while it seems full
    assert -flows_in < min(apart)
    assert max(apart) < 250.0


def test_what_one_spent_and_told_while_another_heard_nothing_is_charged_once() -> None:
    """Its row was missing when levels were compared, and charged when it came."""
    members, bucket = started(3, (0, 1, 2)), Bucket(RATE, BURST)
    bucket.take(0.0, 3.0)

    def ask(member: int, units: float) -> None:
        assert members.ask(member, "g", units)
        bucket.take(members.now, units)

    ask(1, 200.0)
    members.run(6.0)
    members.all[0].off = True
    members.run(7.0)
    ask(2, 95.0)
    members.run(8.0)
    members.all[2].off = True
    members.run(11.0)
    members.all[0].off = False
    for n in range(12):  # levels are told and compared
        members.at(12.0 + 0.25 * n, partial(ask, 1, 1.0))
    members.run(16.0)
    bucket.take(members.now, 0.0)
    assert levels(members, range(2)) == pytest.approx(2 * [bucket.level], abs=5.0)
    members.all[2].off = False
    members.run(17.5)
    bucket.take(members.now, 0.0)
    assert levels(members, range(3)) == pytest.approx(3 * [bucket.level], abs=5.0)


def test_who_asks_is_told_the_level_although_own_reports_come_late() -> None:
    """Without an answer, who had asked charged all once more."""
    members = met(2, 20.0, 1_200.0)
    members.delay_s = 0.005
    assert members.ask(0, "g")
    members.run(7.0)
    assert members.ask(0, "g", 1_000.0)
    members.run(13.2)
    members.cut = True
    first = members.all[0]
    first.reported.clear()
    while not first.reported:  # its next report
        members.run(members.now + 0.005)
    members.cut = False
    members.run(members.now + 0.03)
    assert members.ask(1, "g")
    members.run(members.now + 0.5)
    left = 199.0 + 20.0 * (members.now - 7.0)
    assert levels(members, range(2)) == pytest.approx(2 * [left], abs=10.0)


@pytest.mark.parametrize("away", [False, True])
def test_who_begins_and_spends_while_another_hears_nothing_is_charged_once(
    *, away: bool
) -> None:
    """The level that was told included that, and was not taken."""
    members, bucket = started(4, (0, 1, 2)), Bucket(RATE, BURST)
    bucket.take(0.0, 3.0)
    spent = [(3.0, 1, 100.0), (7.0, 3, 1.0), (8.0, 3, 90.0)]

    def ask(member: int, units: float) -> None:
        assert members.ask(member, "g", units)
        bucket.take(members.now, units)

    for at, member, units in spent:
        members.at(at, partial(ask, member, units))
    members.run(6.0)
    members.all[0].deaf = True
    members.all[2].off = away
    members.run(10.5)
    members.all[0].deaf = False
    members.run(11.5)
    bucket.take(members.now, 0.0)
    assert levels(members, (0, 1, 3)) == pytest.approx(3 * [bucket.level], abs=5.0)
    members.all[2].off = False
    members.run(13.5)
    bucket.take(members.now, 0.0)
    assert levels(members, range(4)) == pytest.approx(4 * [bucket.level], abs=5.0)


@pytest.mark.parametrize("delay_s", [*thorough(0.02), 0.06])
@pytest.mark.parametrize("after_s", [0.02, *thorough(0.06), 0.1, *thorough(0.15)])
def test_a_large_request_right_after_a_silence_is_charged(
    after_s: float, delay_s: float
) -> None:
    """The level that others told had left before they heard of it."""
    members, bucket = started(3, (0, 1, 2)), Bucket(RATE, BURST)
    members.delay_s = delay_s
    bucket.take(0.0, 3.0)
    members.run(5.0)
    members.all[0].deaf = True
    members.run(11.0)
    members.all[0].deaf = False
    state: CoordinatorState = vars(members.all[0].coordinator)["_state"]
    while not state.bootstrap:
        members.run(members.now + 0.005)
    members.run(members.now + after_s)
    assert members.ask(0, "g", 270.0)
    bucket.take(members.now, 270.0)
    members.run(members.now + 2.0)
    bucket.take(members.now, 0.0)
    assert levels(members, (0, 1, 2)) == pytest.approx(3 * [bucket.level], abs=5.0)


@pytest.mark.parametrize(
    "back_s",
    [
        (5.0, 4.0, 6.0),
        (0.0, 4.0, 14.0),
        (4.0, 4.3, 4.6, 4.9, 5.2, 5.5),
        *thorough(
            ((4.0, 4.3, 4.6),),
            ((4.0, 5.0, 6.0),),
            ((4.0, 6.0, 8.0),),
            ((0.0, 4.0, 4.5),),
            ((0.0, 5.0, 6.0, 7.0, 8.0, 9.0),),
        ),
    ],
)
def test_agents_that_come_back_one_after_another_charge_all_of_it(
    back_s: tuple[float, ...],
) -> None:
    """Who is back first has not heard yet what the last one spent, nor its answer."""
    users = tuple(range(len(back_s)))
    members, bucket = started(len(back_s), users), Bucket(RATE, BURST)
    bucket.take(0.0, float(len(back_s)))
    members.run(CUT_S)
    for each, at in zip(members.all, back_s, strict=True):
        each.off = at > 0.0
        members.at(CUT_S + at, partial(setattr, each, "off", False))
    members.run(CUT_S + 3.0)
    large = BURST / len(back_s) - 12.0
    assert members.ask(users[-1], "g", large)
    bucket.take(members.now, large)
    members.run(CUT_S + max(back_s) + 2.0)
    bucket.take(members.now, 0.0)
    found = levels(members, users)
    least = bucket.level - RATE * max(back_s) - 2.0
    assert least < min(found)
    assert max(found) < bucket.level + 5.0


@pytest.mark.parametrize("far_s", [*thorough(0.0, 0.02), 0.05])
@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("per_s", [0.0, 20.0])
def test_who_is_far_from_the_bus_charges_what_it_spent_without_it_once(
    far_s: float, per_s: float, *, heard: bool
) -> None:
    """It began to use the group just then, so nobody else had heard of that."""
    members, bucket = started(3, (1, 2)), Bucket(RATE, BURST)
    bucket.take(0.0, 2.0)
    lone = members.all[0]
    lone.far_s = far_s
    members.run(CUT_S)
    lone.off, lone.deaf = not heard, heard

    def ask(units: float) -> None:
        if members.ask(0, "g", units):
            bucket.take(members.now, units)
        if per_s:
            members.at(members.now + 1.0 / per_s, partial(ask, 1.0))

    for at, units in ((0.5, 1.0), (3.0, 80.0)):
        members.run(CUT_S + at)
        ask(units)
    members.run(CUT_S + 4.0)
    lone.off = lone.deaf = False
    members.run(CUT_S + 7.0)
    bucket.take(members.now, 0.0)
    near = 5.0 + 2.0 * per_s * (0.1 + 2.0 * far_s)
    assert levels(members, (0, 1, 2)) == pytest.approx(3 * [bucket.level], abs=near)


@pytest.mark.parametrize("number", [2, 3])
def test_what_others_spend_after_the_api_told_a_level_without_the_bus_is_charged(
    number: int,
) -> None:
    """The API has heard nothing since, either, but says what its level includes."""
    users = tuple(range(1, number))
    members, bucket = started(number, users), Bucket(RATE, BURST)
    bucket.take(0.0, float(len(users)))
    lose_bus(members, 8.0)
    heard = {AgentLife(f"agent-{n}", 1): 1.0 for n in users}
    # Of others that it begins to use later, the API tells the levels, too.
    for group_id, name, at in ((1, "g", 0.5), (2, "h", 2.0), (3, "i", 6.9)):
        members.run(CUT_S + at)
        assert members.ask(0, name)
        members.run(CUT_S + at + 0.1)
        told = Restored(
            "requests",
            np.array([group_id]),
            np.array([BURST]),
            counted=np.array([0.0]),
            others=[heard],
        )
        members.step(members.all[0], told)
    bucket.take(CUT_S + 0.5, 1.0)
    members.run(CUT_S + 7.5)
    assert members.ask(1, "g", 90.0)
    bucket.take(members.now, 90.0)
    members.run(CUT_S + 9.0)
    bucket.take(members.now, 0.0)
    found = levels(members, tuple(range(number)))
    assert found == pytest.approx(number * [bucket.level], abs=RATE * 8.0 + 5.0)


@pytest.mark.parametrize("begins_s", [-1.0, 0.5, 2.5, 4.5])
@pytest.mark.parametrize("large", [1.0, 5_900.0])
def test_who_begins_around_an_outage_charges_what_the_level_of_the_api_lacks(
    large: float, begins_s: float
) -> None:
    """Levels that the API tells at first don't say what of others they include."""
    bucket = Bucket(200.0, 12_000.0)
    group = Group(id=1, name="g", limits=(limit(bucket.rate, bucket.burst),))
    members = Members(configured(group), 2)

    def ask(n: int, units: float) -> None:
        assert members.ask(n, "g", units)
        bucket.take(members.now, units)

    def told(others: list[Mapping[AgentLife, float] | None] | None = None) -> Restored:
        level = bucket.burst - 6_002.0 + bucket.rate * (members.now - 3.0)
        return Restored("requests", np.array([1]), np.array([level]), others=others)

    def answer() -> None:
        if late.claimed:  # the API has heard nothing since the bus was lost
            late.claimed.clear()
            heard = {AgentLife("agent-0", 1): 6_001.0, AgentLife("agent-1", 1): 1.0}
            members.step(late, told([heard]))
        members.at(members.now + 0.02, answer)

    for n in (0, 1):
        ask(n, 1.0)
    members.run(3.0)
    ask(0, 6_000.0)
    lose_bus(members, 5.0)
    members.at(CUT_S + 2.0, partial(ask, 1, large))
    members.run(CUT_S + begins_s)
    late = members.join()
    members.step(late, told())
    members.at(members.now + 0.1, partial(ask, 2, 1.0))
    answer()
    members.run(CUT_S + 7.0)
    bucket.take(members.now, 0.0)
    assert levels(members, range(3)) == pytest.approx(3 * [bucket.level], abs=25.0)


def test_agents_that_start_one_after_another_ask_each_other_and_not_the_api() -> None:
    """A thousand that are deployed at once would ask it three times each."""
    members = Members(configured(Group(id=1, name="g", limits=(limit(50.0),))), 1)

    def go_on(n: int) -> None:
        members.ask(n, "g")
        members.at(members.now + 0.2, partial(go_on, n))

    def begin() -> None:
        members.join()
        go_on(len(members.all) - 1)

    members.at(0.01, partial(go_on, 0))
    for n in range(12):
        members.at(0.05 + 0.08 * n, begin)
    members.run(5.0)
    assert not [each.name for each in members.all if each.claimed]


@pytest.mark.parametrize("away_s", [5.0, 40.0])
@pytest.mark.parametrize("period", ["minute", "hour"])
def test_an_outage_takes_nothing_of_a_calendar_quota(
    period: Period, away_s: float
) -> None:
    """It left nothing of it for the rest of the hour."""
    seconds = {"minute": 60.0, "hour": 3600.0}[period]
    quota = Limit(
        dimension="requests",
        rate=1000.0,
        burst=1000.0,
        period=period,
        period_s=seconds,
    )
    group = Group(id=1, name="g", limits=(quota,))
    members = Members(configured(group), 3)
    spend_around_an_outage(members, "g", away_s)
    assert levels(members, (0, 1, 2)) == pytest.approx(3 * [747.0], abs=1.0)


@pytest.mark.parametrize("away_s", [5.0, 20.0])
def test_an_outage_takes_nothing_of_groups_inside_each_other(away_s: float) -> None:
    parent, *inside = family(2, rate=RATE)
    limits = (limit(RATE, BURST),)
    groups = [replace(parent, limits=limits)]
    groups += [replace(group, limits=limits) for group in inside]
    members = Members(configured(*groups), 3)
    spend_around_an_outage(members, "c0", away_s)
    left = BURST - 250.0 + RATE * (members.now - 3.0)
    for group_id in (1, 2):
        found = [
            each.coordinator.explain(group_id, "requests", members.now).level
            for each in members.all
        ]
        assert found == pytest.approx(3 * [left], abs=RATE * away_s / 3.0 + 5.0)
