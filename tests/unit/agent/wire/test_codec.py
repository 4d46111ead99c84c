"""Reports survive the wire, and nothing else gets through it."""

from __future__ import annotations

import re
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.unit.agent.wire.rows import ROW, floats, ids

from headgate.agent.bus.reports import used_of
from headgate.agent.wire.codec import (
    decode,
    encode,
)
from headgate.agent.wire.codec_columns import MAX_SUBJECTS
from headgate.coordinator.config.template_values import value_id
from headgate.coordinator.messages.report import (
    AgentLife,
    KnownLife,
    PermitRun,
    Permits,
    Report,
    Rows,
)
from headgate.proto import report_pb2 as wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).parents[4]

whole = st.integers(0, 1 << 53).map(float)
signed = st.integers(-(1 << 52), 1 << 52).map(float)
fractional = st.floats(0, 1e9)
names = st.text(min_size=1, max_size=256)
agents = st.text(
    st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=256
)  # the printable ones


def column(
    size: int, values: st.SearchStrategy[float]
) -> st.SearchStrategy[NDArray[np.float64]]:
    return arrays(np.float64, size, elements=values)


@st.composite
def all_rows(draw: st.DrawFn, counter: st.SearchStrategy[float] = whole) -> Rows:
    ids = draw(st.lists(st.integers(1, 1 << 40), unique=True, max_size=12))
    size = len(ids)
    with_level = size > 0 and draw(st.booleans())
    with_subjects = size > 0 and draw(st.booleans())
    with_inside = size > 0 and draw(st.booleans())
    with_counted = size > 0 and draw(st.booleans())
    with_own = size > 0 and draw(st.booleans())
    with_age = size > 0 and draw(st.booleans())
    with_before = size > 0 and draw(st.booleans())
    subjects = arrays(np.int64, size, elements=st.integers(0, MAX_SUBJECTS))
    return Rows(
        dimension=draw(st.from_regex(r"[a-z_]{1,20}", fullmatch=True)),
        group_ids=np.array(sorted(ids), np.int64),
        refused=draw(column(size, counter)),
        admitted=draw(column(size, counter)),
        demand=draw(column(size, st.just(0.0) | st.floats(1e-6, 1e13))),
        held=draw(column(size, st.floats(-1e9, 1e9))),
        cost=draw(column(size, st.just(1.0) | st.floats(1e-6, 1e13))),
        inside=draw(column(size, st.floats(0.0, 1e6))) if with_inside else None,
        counted=draw(column(size, st.floats(0.0, 1e9))) if with_counted else None,
        own=draw(column(size, st.floats(0.0, 1e9))) if with_own else None,
        age_s=draw(column(size, st.floats(0.0, 1e4))) if with_age else None,
        told_s=draw(column(size, st.floats(0.0, 1e4))) if with_age else None,
        before=draw(column(size, counter)) if with_before else None,
        level=draw(column(size, signed)) if with_level else None,
        subjects=draw(subjects) if with_subjects else None,
    )


def report(*rows: Rows, permits: tuple[Permits, ...] = ()) -> Report:
    return Report(
        cluster="default",
        agent="agent-1",
        incarnation=3,
        sequence=7,
        sent_at_s=1_790_000_000.25,
        revision=5,
        rows=rows,
        permits=permits,
    )


@pytest.mark.long
@given(st.lists(all_rows(), max_size=3, unique_by=lambda r: r.dimension), st.data())
def test_rows_of_groups_that_are_not_used_are_left_out_and_nothing_else_changes(
    rows: list[Rows], data: st.DataObject
) -> None:
    ids_ = data.draw(st.sets(st.integers(1, 60)))
    rows = [replace(one, group_ids=one.group_ids % 50 + 1) for one in rows]
    rows = [one for one in rows if (np.diff(one.group_ids) > 0).all()]
    used = np.zeros(max(ids_, default=0) + 2, dtype=np.bool_)
    used[list(ids_)] = True
    payload = encode(report(*rows))
    left_out = decode(payload, used).left_out
    told: set[int] = set() if left_out is None else set(left_out.tolist())
    assert told == {g for one in rows for g in one.group_ids.tolist()} - ids_
    for whole_, some in zip(
        decode(payload).rows, decode(payload, used).rows, strict=True
    ):
        at = np.flatnonzero([g in ids_ for g in whole_.group_ids.tolist()])
        assert some.dimension == whole_.dimension
        for name in ("group_ids", "refused", "admitted", "demand", "held"):
            assert getattr(some, name).tolist() == getattr(whole_, name)[at].tolist()
        for name in (
            "inside",
            "counted",
            "own",
            "age_s",
            "told_s",
            "before",
            "level",
            "subjects",
        ):
            there = getattr(whole_, name)
            assert (getattr(some, name) is None) == (there is None)
            if there is not None:
                assert getattr(some, name).tolist() == there[at].tolist()


@given(
    names,
    agents,
    st.integers(0, (1 << 63) - 1),
    st.booleans(),
    st.booleans(),
)
def test_the_header_survives_the_wire(
    cluster: str, agent: str, number: int, hello: bool, leave: bool
) -> None:
    sent = Report(
        cluster=cluster,
        agent=agent,
        incarnation=number,
        sequence=number,
        sent_at_s=-1.5,
        revision=number,
        hello=hello,
        leave=leave,
        keyframe=not leave,
        weight=number % 7 + 0.25,
        interval_s=number % 9 + 0.125,
    )
    got = decode(encode(sent))
    assert (got.cluster, got.agent, got.incarnation) == (cluster, agent, number)
    assert (got.sequence, got.sent_at_s, got.revision) == (number, -1.5, number)
    assert (got.hello, got.leave, got.keyframe) == (hello, leave, not leave)
    assert (got.weight, got.interval_s) == (sent.weight, sent.interval_s)


def test_an_agent_that_says_nothing_of_it_has_weight_one_and_a_second() -> None:
    message = wire.Report(format=1, cluster="c", agent="a")
    got = decode(message.SerializeToString())
    assert (got.weight, got.interval_s) == (1.0, 1.0)


@pytest.mark.long
@given(all_rows())
def test_whole_counters_are_exact(sent: Rows) -> None:
    got = decode(encode(report(sent))).rows[0]
    assert got.dimension == sent.dimension
    np.testing.assert_array_equal(got.group_ids, sent.group_ids)
    np.testing.assert_array_equal(got.refused, sent.refused)
    np.testing.assert_array_equal(got.admitted, sent.admitted)
    for mine, theirs in ((got.level, sent.level), (got.subjects, sent.subjects)):
        assert (mine is None) == (theirs is None)
    if sent.level is not None and got.level is not None:
        np.testing.assert_array_equal(got.level, sent.level)
    if sent.subjects is not None and got.subjects is not None:
        np.testing.assert_array_equal(got.subjects, sent.subjects)


@pytest.mark.long
@given(all_rows(counter=fractional))
def test_fractional_counters_are_kept_to_a_thousandth(sent: Rows) -> None:
    got = decode(encode(report(sent))).rows[0]
    np.testing.assert_allclose(got.refused, sent.refused, rtol=1e-15, atol=0.000501)
    np.testing.assert_allclose(got.admitted, sent.admitted, rtol=1e-15, atol=0.000501)


@pytest.mark.long
@given(all_rows())
def test_demand_is_kept_to_a_fifth_of_a_percent(sent: Rows) -> None:
    got = decode(encode(report(sent))).rows[0]
    np.testing.assert_allclose(got.demand, sent.demand, rtol=0.002)
    np.testing.assert_array_equal(got.demand == 0, sent.demand == 0)


@pytest.mark.long
@given(all_rows())
def test_held_is_kept_to_a_unit_or_better(sent: Rows) -> None:
    got = decode(encode(report(sent))).rows[0]
    largest = max(np.abs(sent.held).max(initial=0.0), 1.0)
    error = np.abs(got.held - sent.held).max(initial=0.0)
    assert error <= min(0.5, largest / 1600)


def test_a_level_of_which_the_sender_is_unsure_is_no_number() -> None:
    sent = encode(report(replace(ROW, level=floats(nan, 7.5))))
    # A reader of an earlier version takes any entry for a level.
    assert not wire.Report.FromString(sent).rows[0].level
    (rows,) = decode(sent).rows
    assert rows.level is not None
    np.testing.assert_array_equal(rows.level, [nan, 7.5])
    used = np.zeros(11, dtype=np.bool_)
    used[9] = True
    (rows,) = decode(sent, used).rows
    assert rows.level is not None
    assert rows.level.tolist() == [7.5]
    (rows,) = decode(encode(report(replace(ROW, level=floats(nan, nan))))).rows
    assert rows.level is None


def test_when_a_row_was_first_told_survives_the_wire_from_the_first_report_on() -> None:
    told_s = floats(1e-6, 0.75)
    (rows,) = decode(
        encode(report(replace(ROW, age_s=told_s + 1.0, told_s=told_s)))
    ).rows
    assert rows.told_s is not None
    np.testing.assert_allclose(rows.told_s, told_s, rtol=0.3, atol=0.0)
    assert rows.told_s[1] == pytest.approx(0.75, rel=0.002)


def test_a_demand_that_is_tiny_or_immense_stays_in_range() -> None:
    demand = floats(1e-300, np.inf)
    got = decode(encode(report(replace(ROW, demand=demand)))).rows[0].demand
    assert got[0] > 0
    assert np.isfinite(got[1])
    assert got[1] > 1e13


@pytest.mark.parametrize("units", [1.0, 5e12, 1e15, 2.0**53])
def test_the_largest_request_is_never_told_as_a_smaller_one(units: float) -> None:
    told = replace(ROW, largest=np.full(len(ROW.cost), units))
    (heard,) = decode(encode(report(told))).rows
    assert heard.largest is not None
    assert heard.largest[0] >= 0.995 * units


def test_counters_that_are_both_fractional_and_immense_lose_only_fractions() -> None:
    admitted = floats(0.5, 1e16)
    got = decode(encode(report(replace(ROW, admitted=admitted)))).rows[0].admitted
    np.testing.assert_allclose(got, floats(0, 2.0**53), atol=0.5)


def test_dimensions_with_the_same_rows_write_their_ids_once() -> None:
    size = 1000
    many = Rows(
        dimension="requests",
        group_ids=np.arange(1, size + 1),
        refused=np.zeros(size),
        admitted=np.ones(size),
        demand=np.ones(size),
        held=np.ones(size),
        cost=np.ones(len(np.arange(1, size + 1))),
    )
    other = replace(many, dimension="tokens", group_ids=many.group_ids.copy())
    message = wire.Report.FromString(encode(report(many, other)))
    assert len(message.group_id_deltas) == size
    assert not any(rows.group_id_deltas for rows in message.rows)
    both = decode(encode(report(many, other))).rows
    np.testing.assert_array_equal(both[0].group_ids, both[1].group_ids)


def test_dimensions_with_different_rows_keep_their_own_ids() -> None:
    other = replace(ROW, dimension="tokens", group_ids=ids(5, 6))
    none = floats()
    empty = Rows(
        dimension="none",
        group_ids=ids(),
        refused=none,
        admitted=none,
        demand=none,
        held=none,
        cost=np.ones(len(ids())),
    )
    got = decode(encode(report(ROW, other, empty))).rows
    assert [rows.group_ids.tolist() for rows in got] == [[4, 9], [5, 6], []]


def test_a_row_of_a_day_takes_thirteen_bytes() -> None:
    random = np.random.default_rng(1)
    size = 5000
    admitted = random.integers(0, 1 << 27, size).astype(float)
    rows = Rows(
        dimension="publish_messages",
        group_ids=np.arange(1, size + 1),
        refused=np.floor(admitted * random.random(size)),
        admitted=admitted,
        demand=random.lognormal(5, 2, size),
        held=np.floor(random.normal(20, 40, size)),
        cost=np.ones(len(np.arange(1, size + 1))),
    )
    assert len(encode(report(rows))) / size < 13.2


def test_permits_survive_the_wire_and_tokens_are_rounded_down() -> None:
    old, new = AgentLife("a", 1_700_000_000_000_001), AgentLife("a", 2**62)
    other, nobody = AgentLife("b", 7), AgentLife("", 0)
    sent = Permits(
        dimension="requests",
        runs=(
            PermitRun(3, 0, 1000, 1, old, nobody, 0.0),
            PermitRun(3, 1000, 24, 5, other, old, 450.25),
            PermitRun(8, 0, 1024, 2**40, new, new, 1e9),
        ),
        lives=(
            KnownLife(3, new, over=True, heard_s=1.5),
            KnownLife(3, other, settled=True, uses=True),
            KnownLife(8, other, settled=True),
        ),
    )
    assert decode(encode(report(ROW, permits=(sent,)))).permits == (sent,)


@pytest.mark.parametrize("tokens", [1 / 1024, 10 / 1024, 0.9999, 1.1, 123.456789, 1e9])
def test_tokens_arrive_to_a_billionth_and_never_grow(tokens: float) -> None:
    owner, giver = AgentLife("a", 1), AgentLife("b", 2)
    runs = (
        PermitRun(3, 0, 1000, 1, owner, giver, tokens),
        PermitRun(3, 1000, 24, 1, giver, owner, 0.0),
    )
    sent = Permits(dimension="requests", runs=runs, lives=())
    (got,) = decode(encode(report(ROW, permits=(sent,)))).permits
    assert 0.0 <= tokens - got.runs[0].tokens <= 3e-9
    assert got.runs[1].tokens == 0.0


def test_a_keyframe_of_twelve_agents_takes_less_than_a_kilobyte() -> None:
    lives = [AgentLife(f"agent-{i:02}", 1_700_000_000_000_000 + i) for i in range(12)]
    permits = Permits(
        dimension="requests",
        runs=tuple(
            PermitRun(1, 20 * i, 20, i + 1, lives[i % 12], lives[(i + 5) % 12], 3.5)
            for i in range(50)
        ),
        lives=tuple(KnownLife(1, life) for life in lives),
    )
    assert len(encode(report(permits=(permits,)))) < 1000


def test_what_a_newer_version_adds_is_ignored() -> None:
    message = wire.Report.FromString(encode(report(ROW)))
    message.ClearField("checksum")  # it is of the bytes as they were
    message.format = 9
    # Field 900, of the type "bytes", at the top and inside of the rows.
    extra = b"\xa2\x38\x05hello"
    message.rows[0].MergeFromString(extra)
    got = decode(message.SerializeToString() + extra)
    np.testing.assert_array_equal(got.rows[0].admitted, ROW.admitted)


def test_the_generated_code_runs_on_the_oldest_protobuf_that_is_declared() -> None:
    source = (ROOT / "proto/headgate/proto/report_pb2.py").read_text()
    written_by = re.search(r"# Protobuf Python Version: (\d+)\.(\d+)", source)
    declared = re.search(
        r'"protobuf>=(\d+)\.(\d+)', (ROOT / "pyproject.toml").read_text()
    )
    assert written_by
    assert declared
    assert tuple(map(int, written_by.groups())) <= tuple(map(int, declared.groups()))


def test_the_example_of_the_reference_is_what_agents_write_and_read() -> None:
    page = (ROOT / "docs/reference/reports.md").read_text()
    example = re.search(r"```hex\n(.+?)```", page, re.DOTALL)
    assert example
    payload = bytes.fromhex(example.group(1))
    got = decode(payload)
    assert encode(got) == payload
    assert (got.agent, got.incarnation, got.sequence) == ("a1", 7, 3)
    assert (got.sent_at_s, got.revision, got.keyframe) == (1_700_000_000.5, 4, True)
    requests, tokens = got.rows
    assert requests.group_ids.tolist() == tokens.group_ids.tolist() == [1, 3]
    assert requests.admitted.tolist() == [1000.0, 250.0]
    assert requests.demand.tolist() == [120.0, 3.5]
    assert requests.held.tolist() == [12.0, -2.5]
    assert tokens.admitted.tolist() == [0.5, 7.25]
    assert tokens.level is not None
    assert tokens.level.tolist() == [90.0, -1.5]
    assert tokens.subjects is not None
    assert tokens.subjects.tolist() == [2, 1]


@given(st.integers(1, 16383))
def test_the_formula_of_the_reference_is_that_of_the_codec(code: int) -> None:
    message = wire.Report.FromString(encode(report(ROW)))
    message.ClearField("checksum")  # it is of the bytes as they were
    message.rows[0].demand[:] = [code, 0]
    got = decode(message.SerializeToString()).rows[0].demand[0]
    assert got == (256 + code % 256) * 2.0 ** (code // 256 - 28)


def test_who_uses_a_value_of_a_template_leaves_out_other_groups_all_the_same() -> None:
    ids_ = np.array([2, 7, value_id(2, "alice")])
    ones = np.ones(3)
    rows = Rows(
        dimension="requests",
        group_ids=ids_,
        refused=ones,
        admitted=ones,
        demand=ones,
        held=ones,
        cost=ones,
    )
    got = decode(encode(report(rows)), used_of(ids_[[0, 2]]))
    assert got.rows[0].group_ids.tolist() == ids_[[0, 2]].tolist()
    assert got.left_out is not None
    assert got.left_out.tolist() == [7]
