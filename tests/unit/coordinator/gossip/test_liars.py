"""Reports that can't be true: ignored or charged as predicted, counted, said once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.scenarios.world import World

from headgate.coordinator import Report, Rows


def three() -> World:
    world = World()
    world.group(1, rate=1000, burst=1000)
    for name in ("a", "b", "c"):
        world.start(name)
    world.run(2.0)
    for name in ("a", "b", "c"):
        world.load(name, 1, 300, 200)
    world.run(5.0)
    return world


def shares(world: World) -> dict[str, float]:
    view = world.processes["a"].coordinator.explain(1, "requests", world.now)
    return {row.agent: row.share for row in view.agents}


def forged(world: World, **changes: float) -> Report:
    """Return what b might say next, with some columns changed."""
    process = world.processes["b"]
    last = process.sent[-1]
    columns = {
        "refused": process.refused[0],
        "admitted": process.admitted[0],
        "demand": 500.0,
        "held": 0.0,
        "cost": 1.0,
        **changes,
    }
    group = int(columns.pop("group", 1))
    arrays = {name: np.array([value]) for name, value in columns.items()}
    rows = Rows(dimension="requests", group_ids=np.array([group]), **arrays)
    return replace(last, sequence=last.sequence + 1, rows=(rows,), keyframe=False)


def level(world: World) -> float:
    return world.processes["a"].coordinator.explain(1, "requests", world.now).level


def test_a_demand_of_a_billion_buys_no_more_than_wanting_it_all() -> None:
    world = three()
    world.inject("a", forged(world, demand=1e9))
    view = world.processes["a"].coordinator.explain(1, "requests", world.now)
    # Twice what could pass within the age of information.
    most = 2.0 * (view.rate + view.burst / 0.09)
    assert {row.agent: row.demand for row in view.agents}["b"] <= most
    assert max(shares(world).values()) < 1.5 * min(shares(world).values())


@pytest.mark.parametrize("admitted", [1e12, 0.0])
def test_a_counter_that_jumps_or_falls_is_charged_as_predicted(
    admitted: float,
) -> None:
    world = three()
    before = level(world)
    world.inject("a", forged(world, admitted=admitted))
    assert level(world) == pytest.approx(before, abs=120)
    assert "disbelieved b" in world.processes["a"].noticed


def test_a_member_that_is_not_believed_keeps_its_share() -> None:
    world = three()
    before = shares(world)["b"]
    world.inject("a", forged(world, admitted=1e12))
    assert shares(world)["b"] == pytest.approx(before, rel=0.1)
    states = {
        m.agent: m.state for m in world.processes["a"].coordinator.members(world.now)
    }
    assert states["b"] == "disbelieved"


@pytest.mark.parametrize("held", [1e9, -1e9])
def test_tokens_held_are_bounded_by_the_burst(held: float) -> None:
    world = three()
    world.inject("a", forged(world, held=held))
    view = world.processes["a"].coordinator.explain(1, "requests", world.now)
    assert abs({row.agent: row.held for row in view.agents}["b"]) <= 1000.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_entered(value: float) -> None:
    world = three()
    before = shares(world)
    world.inject("a", forged(world, demand=value))
    assert shares(world) == pytest.approx(before, rel=1e-3)
    assert "not_a_number b" in world.processes["a"].noticed


def test_a_sequence_that_jumps_does_not_mute_its_owner() -> None:
    world = three()
    world.inject("a", replace(forged(world), sequence=1 << 60))
    assert "sequence_jump b" in world.processes["a"].noticed
    world.run(3.0)
    views = world.processes["a"].coordinator.members(world.now)
    assert {m.agent: m.age_s < 1.5 for m in views}["b"]


def test_an_unknown_group_is_ignored() -> None:
    world = three()
    before = shares(world)
    world.inject("a", forged(world, group=999_999_999_999))
    assert shares(world) == pytest.approx(before, rel=1e-3)


def test_a_report_of_another_cluster_is_not_heard() -> None:
    world = three()
    world.inject("a", replace(forged(world, demand=0.0), cluster="other", agent="x"))
    assert "x" not in shares(world)
    assert "foreign_cluster x" in world.processes["a"].noticed


def test_a_report_from_an_earlier_life_is_ignored() -> None:
    world = three()
    world.inject("a", replace(forged(world, admitted=5.0), incarnation=0))
    assert "older_incarnation b" in world.processes["a"].noticed


def test_a_life_that_never_was_mutes_its_owner_for_a_lease_at_most() -> None:
    world = three()
    world.inject("a", replace(forged(world), incarnation=1 << 40))
    world.run(6.0)
    members = world.processes["a"].coordinator.members(world.now)
    assert {m.agent: (m.state, m.incarnation) for m in members}["b"] == ("present", 1)
    rows = world.processes["a"].coordinator.explain(1, "requests", world.now).agents
    assert {row.agent: row.admitted for row in rows}["b"] > 1500.0


@pytest.mark.parametrize("sent_at_s", [1e12, -1e12])
def test_a_wrong_wall_clock_costs_at_most_a_heartbeat_of_a_share(
    sent_at_s: float,
) -> None:
    world = three()
    before = level(world)
    world.inject("a", replace(forged(world), sent_at_s=sent_at_s))
    assert level(world) == pytest.approx(before, abs=400)


def test_a_lie_is_logged_once_and_counted_each_time() -> None:
    world = three()
    heard = world.processes["a"]
    for _ in range(5):
        world.inject("a", replace(forged(world), cluster="other"))
    assert heard.noticed.count("foreign_cluster b") == 5


@pytest.mark.long
def test_one_liar_does_not_cost_the_others_a_quarter_of_the_quota() -> None:
    world = three()
    for _ in range(40):
        world.inject("a", forged(world, admitted=1e12, demand=1e9))
        world.run(0.25)
    shown = world.processes["a"].coordinator.explain(1, "requests", world.now)
    assert shown.available > 900
