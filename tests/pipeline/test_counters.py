"""Differences of cumulative counters: exact totals, whole units, right windows."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.agent.bus.partitions import PartitionPlan, cut
from headgate.agent.bus.signed import signed
from headgate.agent.errors import MalformedReport
from headgate.agent.wire.checksum import sealed, stripped
from headgate.agent.wire.codec import encode
from headgate.agent.wire.signing import Key, Signer
from headgate.coordinator.messages.report import Report, Rows
from headgate.pipeline.counters.clock import Stamp, event_time_us, reference_us
from headgate.pipeline.counters.evidence import ClosedLives, checked, signing_of
from headgate.pipeline.counters.incarnation import (
    ImpossibleReport,
    Incarnation,
    LifeOutcome,
    Times,
    conclude,
)
from headgate.pipeline.counters.state import pack, unpack
from headgate.pipeline.settings import WrongSettings
from headgate.proto import report_pb2 as wire

if TYPE_CHECKING:
    from headgate.pipeline.counters.counters import Part

SECOND = 1_000_000
WINDOW = 10 * SECOND
EPOCH = 1_700_000_000 * SECOND
FOREVER = 1 << 61

TIMES = Times(
    window_us=WINDOW,
    floor_us=EPOCH,
    watermark_us=EPOCH,
    silence_us=FOREVER,
    keep_us=FOREVER,
)


def report_of(
    sequence: int,
    counters: dict[int, tuple[int, int]],
    *,
    at_us: int,
    incarnation: int = 1,
    leave: bool = False,
) -> Report:
    """A report of one dimension; counters are (refused, admitted) by group."""
    ids = sorted(counters)
    rows = Rows(
        dimension="requests",
        group_ids=np.array(ids, np.int64),
        refused=np.array([counters[g][0] for g in ids], np.float64),
        admitted=np.array([counters[g][1] for g in ids], np.float64),
        demand=np.zeros(len(ids)),
        held=np.ones(len(ids)),
        cost=np.ones(len(np.array(ids, np.int64))),
    )
    return Report(
        cluster="c",
        agent="a",
        incarnation=incarnation,
        sequence=sequence,
        sent_at_s=at_us / 1e6,
        leave=leave,
        rows=(rows,),
    )


def stamp(at_us: int) -> Stamp:
    return Stamp(at_us, at_us, by_broker=False)


def absorb(life: Incarnation, report: Report, times: Times = TIMES) -> int:
    return life.absorb(report, stamp(round(report.sent_at_s * 1e6)), times)


def closed(lives: dict[int, Incarnation], times: Times) -> list[Part]:
    return conclude(lives, times).closed.get("requests", [])


def admitted(parts: list[Part]) -> float:
    return float(sum(part.admitted.sum() for part in parts))


class ScalarTwin:
    """The same, one group at a time, in plain Python."""

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        self.heard_us = 0
        self.windows: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])

    def absorb(self, counters: dict[int, tuple[int, int]], at_us: int) -> None:
        for group, (refused, total) in counters.items():
            old_refused, old_total, since_us = self._before(group, at_us)
            for which, units in ((0, refused - old_refused), (1, total - old_total)):
                self._spread(group, which, units, since_us, at_us)
            self.last[group] = (refused, total)
            self.since[group] = at_us
        self.heard_us = at_us

    since: dict[int, int]

    def _before(self, group: int, at_us: int) -> tuple[int, int, int]:
        if not hasattr(self, "since"):
            self.since = {}
        refused, total = self.last.get(group, (0, 0))
        return refused, total, self.since.get(group, self.heard_us or at_us)

    def _spread(
        self, group: int, which: int, units: int, since_us: int, at_us: int
    ) -> None:
        gone, window = 0, since_us // WINDOW * WINDOW
        while True:
            end = min(window + WINDOW, at_us)
            length = max(at_us - since_us, 1)
            upto = units if end >= at_us else int(units * ((end - since_us) / length))
            self.windows[window if end < at_us else at_us // WINDOW * WINDOW, group][
                which
            ] += upto - gone
            gone = upto
            if end >= at_us:
                return
            window += WINDOW


@pytest.mark.parametrize("seed", range(5))
def test_what_is_vectorised_equals_a_scalar_twin(seed: int) -> None:
    random, twin, life = Random(seed), ScalarTwin(), Incarnation("a", 1)
    truth: dict[int, tuple[int, int]] = {}
    at_us = EPOCH
    for sequence in range(1, 40):
        at_us += random.randrange(1, 7_000_000)
        for group in random.sample(range(1, 30), random.randrange(1, 20)):
            refused, total = truth.get(group, (0, 0))
            truth[group] = refused + random.randrange(9), total + random.randrange(50)
        # Only some rows are sent: the rest are as the receiver expects.
        sent = {g: v for g, v in truth.items() if random.random() < 0.6}
        if sent:
            absorb(life, report_of(sequence, sent, at_us=at_us))
            twin.absorb(sent, at_us)
    parts = closed({1: life}, replace(TIMES, watermark_us=FOREVER))
    mine = {
        (part.window_us, int(group)): [int(refused), int(total)]
        for part in parts
        for group, refused, total in zip(
            part.group_ids, part.refused, part.admitted, strict=True
        )
    }
    assert mine == {key: used for key, used in twin.windows.items() if any(used)}


@pytest.mark.parametrize("seed", range(5))
def test_lost_doubled_and_reordered_reports_change_no_total(seed: int) -> None:
    random = Random(seed)
    whole, total = list[Report](), 0
    for sequence in range(1, 60):
        total += random.randrange(100)
        at_us = EPOCH + sequence * SECOND
        whole.append(report_of(sequence, {7: (0, total)}, at_us=at_us))
    kept = [r for r in whole[:-1] if random.random() > 0.3] + whole[-1:]
    kept += random.choices(kept, k=10)
    random.shuffle(kept)
    life = Incarnation("a", 1)
    for report in kept:
        absorb(life, report)
    assert admitted(closed({1: life}, replace(TIMES, watermark_us=FOREVER))) == total


def test_a_restart_begins_again_at_zero_and_both_lives_count() -> None:
    lives = {1: Incarnation("a", 1), 2: Incarnation("a", 2)}
    absorb(lives[1], report_of(1, {7: (0, 100)}, at_us=EPOCH + SECOND))
    absorb(
        lives[2], report_of(1, {7: (0, 30)}, at_us=EPOCH + 2 * SECOND, incarnation=2)
    )
    parts = closed(lives, replace(TIMES, watermark_us=FOREVER))
    assert len(parts) == 1
    assert admitted(parts) == 130


def test_a_late_report_is_counted_in_the_oldest_open_window_and_marked() -> None:
    life = Incarnation("a", 1)
    absorb(life, report_of(1, {7: (0, 10)}, at_us=EPOCH + SECOND))
    late = replace(TIMES, floor_us=EPOCH + 3 * WINDOW, watermark_us=FOREVER)
    absorb(life, report_of(2, {7: (0, 40)}, at_us=EPOCH + 2 * WINDOW), late)
    parts = closed({1: life}, late)
    assert [(p.window_us, p.displaced) for p in parts] == [
        (EPOCH, False),
        (EPOCH + 3 * WINDOW, True),
    ]
    assert admitted(parts) == 40


def test_a_past_of_unknown_length_is_counted_and_marked() -> None:
    life = Incarnation("a", 1)
    absorb(life, report_of(500, {7: (0, 1_000_000)}, at_us=EPOCH + SECOND))
    absorb(life, report_of(501, {7: (0, 1_000_010)}, at_us=EPOCH + 2 * SECOND))
    parts = closed({1: life}, replace(TIMES, watermark_us=FOREVER))
    assert [(p.displaced, p.admitted.sum()) for p in parts] == [
        (False, 10),
        (True, 1_000_000),
    ]


def test_counters_that_fall_are_passed_over_and_told() -> None:
    life = Incarnation("a", 1)
    absorb(life, report_of(1, {7: (0, 100), 8: (0, 5)}, at_us=EPOCH))
    fallen = absorb(life, report_of(2, {7: (0, 90), 8: (0, 6)}, at_us=EPOCH + SECOND))
    assert fallen == 1
    absorb(life, report_of(3, {7: (0, 120)}, at_us=EPOCH + 2 * SECOND))
    assert admitted(closed({1: life}, replace(TIMES, watermark_us=FOREVER))) == 126


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    life = Incarnation("a", 1)
    absorb(life, report_of(1, {7: (0, 10), 8: (0, 10)}, at_us=EPOCH))
    absorb(life, report_of(2, {7: (0, 20)}, at_us=EPOCH + 12 * SECOND))
    # Of group 7 nothing newer can have happened than the clock said before.
    later = report_of(3, {7: (0, 30), 8: (0, 20)}, at_us=EPOCH + 5 * SECOND)
    absorb(life, later)
    assert admitted(closed({1: life}, replace(TIMES, watermark_us=FOREVER))) == 50


def test_a_sequence_that_jumps_too_far_changes_nothing() -> None:
    life = Incarnation("a", 1)
    absorb(life, report_of(5, {7: (0, 100)}, at_us=EPOCH))
    before = pack(life)
    forged = report_of(2**62, {7: (0, 9_999)}, at_us=EPOCH + SECOND)
    with pytest.raises(ImpossibleReport, match="4611686018427387904 follows 5"):
        absorb(life, forged)
    assert pack(life) == before
    # 1,000 and 40 a second since it was heard.
    absorb(
        life, report_of(5 + 1_000 + 40 * 60, {7: (0, 110)}, at_us=EPOCH + 60 * SECOND)
    )
    assert admitted(closed({1: life}, replace(TIMES, watermark_us=FOREVER))) == 110


def test_a_life_that_is_closed_is_known_by_eight_bytes() -> None:
    closed_lives = ClosedLives.of([("a", 1), ("b", 7)]).joined(
        ClosedLives.of([("c", 2**62), ("a", 1)])
    )
    assert closed_lives.marks.nbytes == 3 * 8
    assert all(life in closed_lives for life in (("a", 1), ("b", 7), ("c", 2**62)))
    assert not any(life in closed_lives for life in (("a", 2), ("b", 1), ("", 1)))


def test_evidence_is_whole_and_signed_by_whom_it_names() -> None:
    whole = encode(report_of(1, {7: (0, 10)}, at_us=EPOCH))
    assert checked(whole, None).agent == "a"
    for cut_bytes in range(1, len(whole)):
        with pytest.raises(MalformedReport):
            checked(whole[:cut_bytes], None)
    key, other = Key.make("hmac"), Key.make("hmac")
    signing = signing_of(key.text())
    assert checked(signed(whole, Signer(key)), signing).agent == "a"
    for wrong, said in (
        (whole, "not signed"),
        (signed(whole, Signer(other)), "forged, or made with an unknown key"),
    ):
        with pytest.raises(MalformedReport, match=said):
            checked(wrong, signing)
    secret = Key.make("ed25519-secret")
    of_b = signing_of(json.dumps({"b": secret.public().text()}))
    with pytest.raises(MalformedReport, match="may not sign for 'a'"):
        checked(signed(whole, Signer(secret)), of_b)
    with pytest.raises(WrongSettings, match="report-keys: "):
        signing_of("no key")


def test_a_counter_that_no_agent_writes_is_no_evidence() -> None:
    largest = encode(report_of(1, {7: (0, 2**53)}, at_us=EPOCH))
    assert checked(largest, None).rows[0].admitted.tolist() == [2**53]
    message = wire.Report.FromString(stripped(largest))
    message.rows[0].admitted[0] += 2
    with pytest.raises(MalformedReport, match="counters ≤ 2⁵³"):
        checked(sealed(message.SerializeToString()), None)


def test_fractions_add_up_and_leave_the_whole_units_of_other_groups_whole() -> None:
    life = Incarnation("a", 1)
    counted = (0.5, 3.0), (17.125, 10.0), (33.333, 18.0)
    for sequence, (fraction, whole) in enumerate(counted, start=1):
        rows = Rows(
            dimension="tokens",
            group_ids=np.array([1, 2], np.int64),
            refused=np.zeros(2),
            admitted=np.array([fraction, whole]),
            demand=np.zeros(2),
            held=np.zeros(2),
            cost=np.ones(2),
        )
        report = replace(
            report_of(sequence, {}, at_us=EPOCH + sequence * 8 * SECOND), rows=(rows,)
        )
        absorb(life, report)
    parts = conclude({1: life}, replace(TIMES, watermark_us=FOREVER)).closed["tokens"]
    assert len(parts) == 3
    assert sum(round(1000 * p.admitted[0]) for p in parts) == 33_333
    assert [p.admitted[1] for p in parts] == [4.0, 10.0, 4.0]


def test_a_state_is_the_same_after_its_bytes() -> None:
    life = Incarnation("a", 3)
    for sequence in range(1, 30):
        counters = {g: (sequence, sequence * g) for g in range(1, 1 + sequence % 9)}
        absorb(life, report_of(sequence, counters, at_us=EPOCH + sequence * SECOND))
    for known in life.counters.values():
        known.settle()
    again = unpack(pack(life))
    assert pack(again) == pack(life)
    times = replace(TIMES, watermark_us=FOREVER)
    assert admitted(closed({3: again}, times)) == admitted(closed({3: life}, times))


def ended(life: Incarnation, times: Times) -> LifeOutcome:
    return conclude({life.number: life}, times)


def test_a_life_that_ends_without_goodbye_is_listed_once() -> None:
    times = replace(TIMES, silence_us=30 * SECOND, watermark_us=EPOCH + 60 * SECOND)
    life = Incarnation("a", 1)
    absorb(life, report_of(1, {7: (0, 10)}, at_us=EPOCH + SECOND))
    assert [gap.life.number for gap in ended(life, times).gaps] == [1]
    assert not ended(life, times).gaps


def test_a_life_that_says_goodbye_leaves_no_gap() -> None:
    times = replace(TIMES, silence_us=30 * SECOND, watermark_us=EPOCH + 60 * SECOND)
    life = Incarnation("a", 1)
    absorb(life, report_of(1, {7: (0, 10)}, at_us=EPOCH + SECOND, leave=True))
    assert not ended(life, times).gaps


def test_an_agent_that_was_only_silent_heals_its_gap() -> None:
    times = replace(TIMES, silence_us=30 * SECOND, watermark_us=EPOCH + 60 * SECOND)
    life = Incarnation("a", 1)
    absorb(life, report_of(1, {7: (0, 10)}, at_us=EPOCH + SECOND))
    ended(life, times)
    absorb(life, report_of(2, {7: (0, 25)}, at_us=EPOCH + 59 * SECOND))
    assert [gap.healed for gap in ended(life, times).gaps] == [True]


def test_counters_of_a_life_given_up_are_final_and_its_state_goes() -> None:
    times = replace(
        TIMES,
        silence_us=30 * SECOND,
        keep_us=100 * SECOND,
        watermark_us=EPOCH + 200 * SECOND,
    )
    lives = {1: Incarnation("a", 1)}
    absorb(lives[1], report_of(1, {7: (2, 10)}, at_us=EPOCH + SECOND))
    final = conclude(lives, times).ended
    assert [life.counters["requests"].admitted.sum() for life in final] == [10]
    assert not lives  # it costs nothing from here on


def test_a_wrong_clock_is_set_right_by_the_brokers() -> None:
    fast, delay_us = 3600 * SECOND, 5_000
    least = 1 << 62
    for second in range(5):
        broker_us = EPOCH + second * SECOND + delay_us
        at_us, least = event_time_us(
            Stamp(EPOCH + second * SECOND + fast, broker_us, by_broker=True), least
        )
        assert abs(at_us - broker_us) <= delay_us


def test_a_clock_that_jumps_back_moves_no_event_further_than_the_bound() -> None:
    _, least = event_time_us(Stamp(EPOCH, EPOCH + 5_000, by_broker=True), 1 << 62)
    broker_us = EPOCH + 10 * SECOND
    jumped = Stamp(EPOCH - 7200 * SECOND, broker_us, by_broker=True)
    at_us, _ = event_time_us(jumped, least)
    assert broker_us - 60 * SECOND <= at_us <= broker_us


def test_one_fast_clock_neither_moves_nor_holds_the_watermark() -> None:
    heard = [EPOCH + k for k in range(9)]
    assert reference_us(0, [*heard, EPOCH + 3600 * SECOND]) == EPOCH
    assert reference_us(0, [*heard, EPOCH - 3600 * SECOND]) == EPOCH
    assert reference_us(EPOCH + 5, heard) == EPOCH + 5


@pytest.mark.parametrize("seed", range(4))
def test_reports_that_are_cut_by_group_count_like_whole_ones(seed: int) -> None:
    random, plan = Random(seed), PartitionPlan(4)
    whole, life = Incarnation("a", 1), Incarnation("a", 1)
    totals: dict[int, tuple[int, int]] = {}
    waiting: list[Report] = []
    for sequence in range(1, 40):
        for group in random.sample(range(1, 20), 6):
            refused, total = totals.get(group, (0, 0))
            totals[group] = refused + random.randrange(5), total + random.randrange(50)
        report = report_of(sequence, totals, at_us=EPOCH + sequence * SECOND)
        absorb(whole, report)
        parts = [part for _, part in cut(report, plan, frozenset())]
        assert len(parts) > 2
        # Some overtake others, some come twice, and a batch may end between two.
        waiting += parts + random.choices(parts, k=1)
        random.shuffle(waiting)
        late = waiting[:2] if sequence < 39 else []
        for part in waiting[len(late) :]:
            absorb(life, part)
        waiting = late
        if sequence % 5 == 0:
            for counters in life.counters.values():
                counters.settle()
            life = unpack(pack(life))
    assert used(life) == used(whole)


def used(life: Incarnation) -> dict[int, tuple[float, float]]:
    """Units by group, refused and admitted; none of them displaced."""
    units: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for part in closed({1: life}, replace(TIMES, watermark_us=FOREVER)):
        assert not part.displaced
        for group, refused, total in zip(
            part.group_ids.tolist(), part.refused, part.admitted, strict=True
        ):
            before = units[group]
            units[group] = before[0] + float(refused), before[1] + float(total)
    return units


def test_a_group_that_comes_in_turn_after_a_late_beginning_has_no_false_peak() -> None:
    life = Incarnation("a", 1)
    absorb(life, report_of(500, {7: (0, 10**6)}, at_us=EPOCH + SECOND))
    absorb(life, report_of(503, {8: (0, 10**6)}, at_us=EPOCH + 2 * SECOND))
    absorb(life, report_of(600, {9: (0, 10)}, at_us=EPOCH + 99 * SECOND))
    parts = closed({1: life}, replace(TIMES, watermark_us=FOREVER))
    assert sum(p.admitted.sum() for p in parts if not p.displaced) == 10
    assert admitted(parts) == 2 * 10**6 + 10
