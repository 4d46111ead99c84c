"""A parent's counters while children and buckets come and go: they only grow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.scenarios.world import World

from headgate.coordinator import Configured, Keys

OLD, NEW, CHILD, SIBLING = 1, 2, 3, 4


def place(world: World, group_id: int, parent: int) -> None:
    """Put a group under another, in force everywhere at once."""
    world.groups[group_id] = replace(world.groups[group_id], parent=parent)
    world.revision += 1
    for process in world.processes.values():
        world.step(process, Configured(world.configuration()))


def keep(world: World, name: str, group_ids: list[int]) -> None:
    """Let a process have buckets for these groups only, counting on from before."""
    process = world.processes[name]
    known = process.keys.group_ids.tolist()
    ids = np.array(group_ids, dtype=np.int64)
    for column in ("admitted", "refused", "held"):
        before = dict(zip(known, getattr(process, column).tolist(), strict=True))
        after = [before.get(g, 0.0) for g in group_ids]
        setattr(process, column, np.array(after))
    dimension = np.zeros(len(ids), dtype=np.int64)
    process.keys = Keys(process.keys.dimensions, dimension, ids)


def family() -> World:
    world = World()
    for group_id in (OLD, NEW, CHILD, SIBLING):
        world.group(group_id, rate=1000, burst=1000)
    for group_id, parent in ((CHILD, OLD), (SIBLING, NEW)):
        world.groups[group_id] = replace(world.groups[group_id], parent=parent)
    for name in ("a", "b"):
        world.start(name)
        world.load(name, CHILD, 300, 0)
        world.load(name, SIBLING, 10, 0)
    world.run(20.0)
    return world


def told(world: World, name: str, group_id: int) -> list[float]:
    """Return what a process has told of a group's counter, report by report."""
    return [
        float(rows.admitted[rows.group_ids.tolist().index(group_id)])
        for report in world.processes[name].sent
        for rows in report.rows
        if group_id in rows.group_ids.tolist()
    ]


def disbelieved(world: World) -> list[str]:
    return [n for p in world.processes.values() for n in p.noticed if "disb" in n]


@pytest.mark.long
def test_a_child_that_is_moved_takes_its_past_to_no_other_parent() -> None:
    world = family()
    place(world, CHILD, NEW)
    world.run(2.0)
    assert disbelieved(world) == []
    for group_id in (OLD, NEW):
        counters = told(world, "a", group_id)
        assert counters == sorted(counters)
    assert told(world, "a", NEW)[-1] == pytest.approx(22 * 10 + 2 * 300, abs=330)
    level = world.processes["a"].coordinator.explain(NEW, "requests", world.now).level
    assert level > 0


@pytest.mark.long
def test_a_child_that_is_moved_and_comes_back_is_believed() -> None:
    world = family()
    for parent in (NEW, OLD):
        place(world, CHILD, parent)
        world.run(1.0)
    assert disbelieved(world) == []
    assert told(world, "a", OLD)[-1] == pytest.approx(21 * 300, abs=330)


@pytest.mark.long
def test_a_bucket_that_is_dropped_and_comes_back_counts_on() -> None:
    world = family()
    process = world.processes["a"]
    world.load("a", CHILD, 0, 0)
    world.run(1.0)
    counted = float(process.admitted[process.keys.group_ids.tolist().index(CHILD)])
    del process.rates[CHILD]
    keep(world, "a", [OLD, NEW, SIBLING])
    world.run(1.0)
    keep(world, "a", [OLD, NEW, CHILD, SIBLING])
    process.admitted[2] = counted
    world.load("a", CHILD, 300, 0)
    world.run(1.0)
    assert disbelieved(world) == []
    explained = process.coordinator.explain(CHILD, "requests", world.now)
    assert explained.demand == pytest.approx(300, rel=0.2)
    counters = told(world, "a", OLD)
    assert counters == sorted(counters)
    assert counters[-1] == pytest.approx(counted + 300, abs=100)
