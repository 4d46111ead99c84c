"""A report that was cut by group is one report again, and a lost part says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.bus.partitions import PATIENCE_S, Joiner, PartitionPlan, cut, join
from headgate.agent.wire.codec import decode, encode
from headgate.coordinator.messages.report import (
    AgentLife,
    KnownLife,
    PermitRun,
    Permits,
    Report,
    Rows,
)

if TYPE_CHECKING:
    from random import Random

groups = st.lists(st.integers(1, 60), unique=True, max_size=30).map(sorted)


def report(first: list[int], second: list[int], *, keyframe: bool = True) -> Report:
    """Return a report with rows of two dimensions, and permits."""

    def rows(dimension: str, ids: list[int]) -> Rows:
        column = np.array(ids, float)
        return Rows(
            dimension=dimension,
            group_ids=np.array(ids, np.int64),
            refused=column,
            admitted=2 * column,
            demand=np.ldexp(1.0, np.array(ids, np.int64) % 8),
            held=-column,
            cost=np.ones(len(np.array(ids, np.int64))),
            level=3 * column,
            subjects=np.array(ids, np.int64),
        )

    life = AgentLife("a", 1)
    permits = Permits(
        dimension="requests",
        runs=tuple(PermitRun(g, g, 2, 1, life, life, 0.5 * g) for g in first),
        lives=tuple(KnownLife(g, life, settled=True) for g in first),
    )
    return Report(
        cluster="c",
        agent="a",
        incarnation=1,
        sequence=7,
        sent_at_s=5.0,
        keyframe=keyframe,
        rows=tuple(
            rows(d, ids) for d, ids in (("x", first), ("y", second)) if len(ids)
        ),
        permits=(permits,) if first else (),
    )


def same(one: Report, other: Report) -> bool:
    """Return whether two reports say the same, in whatever order of dimensions."""

    def ordered(whole: Report) -> bytes:
        by_name = sorted(whole.rows, key=lambda rows: rows.dimension)
        return encode(replace(whole, rows=tuple(by_name)))

    return ordered(one) == ordered(other)


@pytest.mark.long
@given(groups, groups, st.integers(2, 9), st.randoms(use_true_random=False))
def test_parts_in_any_order_are_the_report_again(
    first: list[int], second: list[int], partitions: int, random: Random
) -> None:
    plan, whole = PartitionPlan(partitions), report(first, second)
    written = plan.of(np.array(first + second, np.int64))
    sent = [encode(part) for _, part in cut(whole, plan, written)]
    random.shuffle(sent)
    joiner = Joiner(clock=lambda: 0.0)
    for payload in sent:
        assert joiner.take() == []
        joiner.put(decode(payload), 1.0, plan.all)
    ((joined, received_wall_s),) = joiner.take()
    assert same(joined, whole)
    assert received_wall_s == 1.0
    assert joiner.wait_s(9.0) == 9.0


@given(groups, st.integers(2, 9), st.integers(1, 60))
def test_a_reader_gets_the_rows_of_the_groups_that_it_reads(
    used: list[int], partitions: int, mine: int
) -> None:
    plan, whole = PartitionPlan(partitions), report(used, [])
    read = plan.of(np.array([mine]))
    joiner = Joiner(clock=lambda: 0.0)
    for partition, part in cut(whole, plan, plan.of(np.array(used, np.int64))):
        if partition in read:
            joiner.put(part, 1.0, read)
    ((joined, _),) = joiner.take()
    got = set(joined.rows[0].group_ids.tolist()) if joined.rows else set[int]()
    place = plan.places(np.array([mine]))[0]
    assert got == {g for g in used if plan.places(np.array([g]))[0] == place}
    assert joined.keyframe


def test_a_group_always_goes_to_the_same_partition_and_never_to_the_lobby() -> None:
    places = PartitionPlan(5).places(np.arange(1, 1000))
    assert set(places.tolist()) == {1, 2, 3, 4}
    assert (places == PartitionPlan(5).places(np.arange(1, 1000))).all()


def test_without_partitions_a_report_stays_as_it_is() -> None:
    whole = report([1, 2], [3])
    assert list(cut(whole, PartitionPlan(), frozenset({0}))) == [(None, whole)]
    joiner = Joiner(clock=lambda: 0.0)
    joiner.put(whole, 2.0, frozenset({0}))
    assert joiner.take() == [(whole, 2.0)]


def test_a_part_that_was_lost_says_nothing() -> None:
    now = 0.0
    plan, whole = PartitionPlan(3), report([1, 2], [])
    parts = [part for _, part in cut(whole, plan, frozenset({0, 1, 2}))]
    assert len(parts) == 3
    joiner = Joiner(clock=lambda: now)
    for part in parts[:2]:
        joiner.put(part, 1.0, plan.all)
    assert joiner.take() == []
    assert joiner.wait_s(9.0) == PATIENCE_S
    now = PATIENCE_S
    ((joined, _),) = joiner.take()
    assert not joined.keyframe, "else the missing rows would be at rest"
    assert len(joined.rows[0].group_ids) == 1
    joiner.put(parts[1], 1.0, plan.all)  # a doubled one opens no report of its own
    now = 2 * PATIENCE_S
    assert all(not late.keyframe for late, _ in joiner.take())


def test_a_heartbeat_goes_to_the_lobby_alone_and_a_hello_to_all_that_are_used() -> None:
    plan, used = PartitionPlan(9), frozenset({0, 3, 5})
    beat = replace(report([], []), keyframe=False)
    assert [partition for partition, _ in cut(beat, plan, used)] == [0]
    asked = list(cut(beat, plan, used, hello=True))
    assert [partition for partition, _ in asked] == [0, 3, 5]
    assert all(part.hello for _, part in asked)


@pytest.mark.parametrize(
    "column", ["largest", "inside", "age_s", "told_s", "before", "level", "subjects"]
)
def test_a_column_that_some_parts_leave_out_stands_for_the_others(column: str) -> None:
    full, lacking = report([1, 2], []).rows[0], report([3], []).rows[0]
    zeros = ("largest", "inside", "age_s", "told_s", "before")
    costs: dict[str, Any] = dict.fromkeys(zeros, full.cost)
    full = replace(full, **costs)
    changes: dict[str, Any] = {**dict.fromkeys(zeros, lacking.cost), column: None}
    lacking = replace(lacking, **changes)
    joined = getattr(Rows.joined([full, lacking]), column)
    ended = [1.0, 1.0, 0.0]
    expected = {**dict.fromkeys(zeros, ended), "level": [3.0, 6.0, np.nan]}
    if column == "subjects":
        assert joined is None
    else:
        np.testing.assert_array_equal(joined, expected[column])
    assert getattr(Rows.joined([lacking, lacking]), column) is None


def test_a_group_that_several_parts_tell_of_is_there_once() -> None:
    whole = report([1, 2, 3], [])
    parts = [replace(whole, part=part, parts=(0, 1, 2)) for part in range(3)]
    (rows,) = join(parts, whole=True).rows
    assert rows.group_ids.tolist() == [1, 2, 3]
    assert rows.admitted.tolist() == [2.0, 4.0, 6.0]


def test_groups_that_are_used_elsewhere_are_known_from_all_parts() -> None:
    whole = report([1, 2, 3], [])
    ids = [np.array([4, 9]), None, np.array([2, 9])]
    parts = [
        replace(whole, part=part, parts=(0, 1, 2), left_out=left_out)
        for part, left_out in enumerate(ids)
    ]
    left_out = join(parts, whole=True).left_out
    assert left_out is not None
    assert left_out.tolist() == [2, 4, 9]
    assert join(parts[1:2], whole=True).left_out is None
