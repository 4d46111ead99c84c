"""What is no report is refused by name, whatever bytes the bus brings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.agent.turns import Turns
from tests.unit.agent.wire.rows import ROW, floats, ids

from headgate.agent.errors import MalformedReport
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES
from headgate.agent.wire.codec import EXACT, decode, encode
from headgate.agent.wire.codec_columns import MAX_GROUP_ID, MAX_ROWS, MAX_SUBJECTS
from headgate.coordinator import Heard
from headgate.coordinator.messages.report import Report, Rows
from headgate.proto import report_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Callable


def report(*rows: Rows) -> Report:
    return Report(
        cluster="default",
        agent="agent-1",
        incarnation=3,
        sequence=7,
        sent_at_s=1_790_000_000.25,
        rows=rows,
    )


@given(st.binary(max_size=300))
@example(b"")
@example(b"\x08\x01")
@example(b"\xff" * 50)
def test_garbage_is_refused_and_says_so(garbage: bytes) -> None:
    with pytest.raises(MalformedReport, match=r".+"):
        decode(garbage)


@given(st.data())
def test_a_report_with_flipped_bytes_is_a_report_or_malformed(
    data: st.DataObject,
) -> None:
    payload = bytearray(encode(report(ROW, replace(ROW, dimension="tokens"))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place] = data.draw(st.integers(0, 255))
    try:
        got = decode(bytes(payload))
    except MalformedReport:
        return
    for rows in got.rows:
        assert np.isfinite(rows.demand).all()
        assert np.isfinite(rows.admitted).all()
        assert (np.diff(rows.group_ids) > 0).all()
        assert len(rows.group_ids) == len(rows.admitted) == len(rows.held)


@given(st.integers(0, 60))
def test_a_report_that_is_cut_off_has_whole_rows_or_none(cut: int) -> None:
    payload = encode(report(ROW))
    try:
        got = decode(payload[: max(len(payload) - 1 - cut, 0)])
    except MalformedReport:
        return
    for rows in got.rows:
        np.testing.assert_array_equal(rows.admitted, ROW.admitted)
        np.testing.assert_array_equal(rows.held, ROW.held)


def _no_format(message: wire.Report) -> None:
    message.format = 0


def _agent_of_two_lines(message: wire.Report) -> None:
    message.agent = "a\nb"


def _no_agent(message: wire.Report) -> None:
    message.agent = ""


def _long_cluster(message: wire.Report) -> None:
    message.cluster = "c" * 257


def _huge_sequence(message: wire.Report) -> None:
    message.sequence = 1 << 63


def _nan_weight(message: wire.Report) -> None:
    message.weight = float("nan")


def _year_long_interval(message: wire.Report) -> None:
    message.interval_ms = 1 << 31


def _short_column(message: wire.Report) -> None:
    message.rows[0].refused.pop()


def _long_level(message: wire.Report) -> None:
    message.rows[0].level.extend([1, 2, 3])


def _long_subjects(message: wire.Report) -> None:
    message.rows[0].subjects.extend([1])


def _absurd_subjects(message: wire.Report) -> None:
    message.rows[0].subjects.extend([1, MAX_SUBJECTS + 1])


def _unsorted(message: wire.Report) -> None:
    message.group_id_deltas[1] = 0


def _id_zero(message: wire.Report) -> None:
    message.group_id_deltas[0] = 0


def _huge_id(message: wire.Report) -> None:
    message.group_id_deltas[1] = MAX_GROUP_ID + 1


def _overflowing_ids(message: wire.Report) -> None:
    message.group_id_deltas[:] = [MAX_GROUP_ID] * 4


def _absurd_scale(message: wire.Report) -> None:
    message.rows[0].counter_scale = 1 << 31


def _level_of_no_row(message: wire.Report) -> None:
    message.rows[0].sure.append(2)
    message.rows[0].sure_level.append(5)


def _level_told_twice(message: wire.Report) -> None:
    message.rows[0].sure.extend([1, 1])
    message.rows[0].sure_level.extend([5, 5])


def _sure_of_no_level(message: wire.Report) -> None:
    message.rows[0].sure.append(1)


def _absurd_demand(message: wire.Report) -> None:
    message.rows[0].demand[0] = 1 << 14


def _two_of_one_dimension(message: wire.Report) -> None:
    message.rows.append(message.rows[0])


def _no_identifier(message: wire.Report) -> None:
    message.rows[0].dimension = "a b"


def _many_rows(message: wire.Report) -> None:
    message.group_id_deltas[:] = [1] * (MAX_ROWS + 1)


def _many_dimensions(message: wire.Report) -> None:
    for _ in range(65):
        message.rows.add()


def _permits(message: wire.Report) -> wire.Permits:
    """Add one register and one life, both sound."""
    return message.permits.add(
        dimension="a",
        agents=["b"],
        life_agent=[0],
        life_incarnation=[1],
        run_group_deltas=[1],
        run_first=[1000],
        run_count=[24],
        run_epoch=[1],
        run_owner=[0],
        run_giver=[1],
        run_tokens=[0],
        known_group_deltas=[1],
        known_life=[0],
        known_state=[0],
        known_heard_ms=[0],
    )


def _permits_beyond_the_last(message: wire.Report) -> None:
    _permits(message).run_count[:] = [25]


def _no_permits(message: wire.Report) -> None:
    _permits(message).run_count[:] = [0]


def _no_epoch(message: wire.Report) -> None:
    _permits(message).run_epoch[:] = [0]


def _unknown_owner(message: wire.Report) -> None:
    _permits(message).run_owner[:] = [1]


def _unknown_giver(message: wire.Report) -> None:
    _permits(message).run_giver[:] = [2]


def _unknown_life(message: wire.Report) -> None:
    _permits(message).known_life[:] = [1]


def _life_of_no_agent(message: wire.Report) -> None:
    _permits(message).life_agent[:] = [1]


def _life_without_a_number(message: wire.Report) -> None:
    _permits(message).life_incarnation[:] = []


def _nameless_life(message: wire.Report) -> None:
    _permits(message).agents[:] = [""]


def _huge_life(message: wire.Report) -> None:
    _permits(message).life_incarnation[:] = [1 << 63]


def _short_run(message: wire.Report) -> None:
    _permits(message).run_tokens[:] = []


def _long_rest(message: wire.Report) -> None:
    _permits(message).run_tokens_rest[:] = [1, 1]


def _whole_rest(message: wire.Report) -> None:
    _permits(message).run_tokens_rest[:] = [1_000_000]


def _short_known(message: wire.Report) -> None:
    _permits(message).known_state[:] = []


def _permits_twice(message: wire.Report) -> None:
    _permits(message)
    _permits(message)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_no_format, "format: expected ≥ 1, got 0"),
        (_agent_of_two_lines, r"agent: expected printable characters, got 'a\nb'"),
        (_no_agent, "agent: expected 1 to 256 characters, got 0"),
        (_long_cluster, "cluster: expected 1 to 256 characters, got 257"),
        (_huge_sequence, "sequence, revision: expected < 2⁶³"),
        (_nan_weight, "weight: expected 0 to 1e+06"),
        (_year_long_interval, "interval_ms: expected ≤ 3600000"),
        (
            _short_column,
            "requests.refused: expected 2 entries, one per group id, got 1",
        ),
        (_long_level, "requests.level: expected 2 entries, one per group id, got 3"),
        (
            _long_subjects,
            "requests.subjects: expected 2 entries, one per group id, got 1",
        ),
        (_absurd_subjects, "requests.subjects: expected ≤"),
        (_unsorted, "report: expected group ids > 0 in ascending order"),
        (_id_zero, "report: expected group ids > 0 in ascending order"),
        (_huge_id, "report: expected group ids ≤"),
        (_overflowing_ids, "report: expected group ids ≤"),
        (_absurd_scale, "requests: expected a scale ≤ 1000000, got 2147483648"),
        (_absurd_demand, "requests.demand: expected codes ≤ 16383"),
        (_level_of_no_row, "requests.sure: expected ascending indexes < 2"),
        (_level_told_twice, "requests.sure: expected ascending indexes < 2"),
        (_sure_of_no_level, "requests.sure_level: expected 1 entries, one per index"),
        (_two_of_one_dimension, "rows: expected each dimension at most once"),
        (_no_identifier, "rows: expected an identifier, got 'a b'"),
        (_many_rows, "report: expected at most 262144 rows, got 262145"),
        (_many_dimensions, "rows: expected at most 64 dimensions"),
        (_permits_beyond_the_last, "permits.a.run_count: expected 1 to 1024 permits"),
        (_no_permits, "permits.a.run_count: expected 1 to 1024 permits"),
        (_no_epoch, "permits.a.run_epoch: expected 1 to 2⁶²"),
        (_unknown_owner, "permits.a.run_owner: expected indexes < 1"),
        (_unknown_giver, "permits.a.run_giver: expected indexes < 2"),
        (_unknown_life, "permits.a.known_life: expected indexes < 1"),
        (_life_of_no_agent, "permits.a.life_agent: expected indexes < 1"),
        (
            _life_without_a_number,
            "permits.a.life_agent: expected 0 entries, one per life_incarnation, got 1",
        ),
        (_nameless_life, "permits.a.agents: expected 1 to 256 characters"),
        (_huge_life, "permits.a.life_incarnation: expected < 2⁶³"),
        (_short_run, "permits.a.run: expected 1 entries, one per group id, got 0"),
        (_long_rest, "permits.a.run_tokens_rest: expected 1 entries"),
        (_whole_rest, "permits.a.run_tokens_rest: expected numbers below 10⁶"),
        (_short_known, "permits.a.known: expected 1 entries, one per group id, got 0"),
        (_permits_twice, "permits: expected each dimension at most once"),
    ],
)
def test_what_no_agent_writes_is_refused_by_name(
    spoil: Callable[[wire.Report], None], says: str
) -> None:
    message = wire.Report.FromString(encode(report(ROW)))
    message.ClearField("checksum")  # it is of the bytes as they were
    spoil(message)
    with pytest.raises(MalformedReport, match=re.escape(says)):
        decode(message.SerializeToString())


def test_the_largest_number_of_subjects_is_one_that_the_coordinator_can_hold() -> None:
    turns = Turns()
    row = replace(
        ROW,
        **{
            name: getattr(ROW, name)[:1]
            for name in ("refused", "admitted", "demand", "held", "cost")
        },
        group_ids=ids(1),
        subjects=ids(MAX_SUBJECTS),
    )
    heard = decode(encode(replace(report(row), sequence=1, keyframe=True)))
    turns.runtime._step(Heard((heard,)))  # pyright: ignore[reportPrivateUsage]
    turns.run(1.0)
    rows = turns.runtime.explain(1, "requests").agents
    assert max(each.subjects for each in rows) == MAX_SUBJECTS


def test_a_payload_beyond_the_bound_is_not_even_parsed() -> None:
    with pytest.raises(MalformedReport, match="at most 4194304"):
        decode(bytes(MAX_PAYLOAD_BYTES + 1))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (replace(ROW, admitted=floats(np.nan, 1)), "admitted: expected finite"),
        (replace(ROW, refused=floats(-1, 1)), "refused: expected finite numbers ≥ 0"),
        (replace(ROW, held=floats(np.inf, 1)), "held: expected finite numbers"),
        (replace(ROW, demand=floats(np.nan, 1)), "demand: expected numbers ≥ 0"),
        (replace(ROW, group_ids=ids(9, 4)), "group_ids: expected ids > 0"),
    ],
)
def test_an_agent_does_not_publish_nonsense_of_its_own(rows: Rows, says: str) -> None:
    with pytest.raises(MalformedReport, match=says):
        encode(report(rows))


def test_a_debt_that_no_report_can_tell_does_not_silence_the_agent() -> None:
    deep = floats(-3e16, 1)
    heard = decode(encode(report(replace(ROW, held=deep, level=deep))))
    assert heard.rows[0].held.tolist() == [-EXACT, 1.0]
    assert heard.rows[0].level is not None
    assert heard.rows[0].level.tolist() == [-EXACT, 1.0]


def test_a_report_that_is_too_large_is_refused_when_it_is_written() -> None:
    size = 300_000
    column = np.full(size, 1e15)
    rows = Rows(
        dimension="bytes",
        group_ids=np.arange(1, size + 1),
        refused=column,
        admitted=column,
        demand=column,
        held=column,
        cost=np.ones(len(np.arange(1, size + 1))),
    )
    with pytest.raises(MalformedReport, match="at most 4194304"):
        encode(report(rows))


def test_a_report_without_a_time_is_refused_when_it_is_written() -> None:
    with pytest.raises(MalformedReport, match="sent_at_s"):
        encode(replace(report(ROW), sent_at_s=float("nan")))


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_a_flipped_byte_is_noticed(at: int) -> None:
    payload = bytearray(encode(report(ROW)))
    payload[at] ^= 0x20
    with pytest.raises(MalformedReport):
        decode(bytes(payload))


def test_a_report_without_a_checksum_is_taken_as_it_is() -> None:
    message = wire.Report.FromString(encode(report(ROW)))
    message.ClearField("checksum")
    assert decode(message.SerializeToString()).agent == report(ROW).agent
