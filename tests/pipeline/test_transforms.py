"""The transforms on small frames, against figures worked out by hand or apart."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from headgate.coordinator.config.configuration import (
    UNLIMITED,
    Attachment,
    Configuration,
    Group,
    Limit,
)
from headgate.coordinator.config.template_values import VALUES_FROM
from headgate.pipeline.configured.limits_frame import limits_frame, named
from headgate.pipeline.counters.counters import Part
from headgate.pipeline.counters.rows import RowBuilder
from headgate.pipeline.jobs.alerts import to_webhook
from headgate.pipeline.jobs.bill import bill, differences, unhealed
from headgate.pipeline.jobs.fairness import (
    division,
    judged,
    starved,
    totals,
    unfairness,
)
from headgate.pipeline.jobs.noisy import noisy
from headgate.pipeline.jobs.recommend import limit_refusing, recommend, season
from headgate.pipeline.jobs.segments import sorted_rows
from headgate.pipeline.jobs.usage import exact_sum, rolled_up, usage_of
from headgate.pipeline.jobs.violations import exceeded, violations
from headgate.pipeline.tables.schema import COUNTERS, GAPS, USAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

START = 1_760_000_400  # a full minute


def usage(
    spark: SparkSession,
    *rows: tuple[int, str, float, float],
    displaced: bool = False,
    revisions: tuple[int, int] = (1, 1),
    group_id: int = 1,
    weight: float = 1.0,
) -> DataFrame:
    """Rows of (second, agent, attempted, admitted) of group 1."""
    return spark.createDataFrame(
        [
            (
                datetime.fromtimestamp(START + second, UTC),
                group_id,
                "gold",
                "acme",
                "requests",
                agent,
                float(attempted),
                float(admitted),
                float(attempted - admitted),
                displaced,
                1,
                weight,
                *revisions,
            )
            for second, agent, attempted, admitted in rows
        ],
        USAGE,
    )


def configuration(revision: int, rate: float, *, name: str = "gold") -> Configuration:
    limit = Limit(dimension="requests", rate=rate, burst=100)
    return Configuration(
        revision=revision,
        groups=(Group(id=1, name=name, limits=(limit,)),),
        attachments=(Attachment((("tenant", "acme"),), 1),),
    )


def rows_of(frame: DataFrame) -> list[Row]:
    return frame.collect()


def violated(frame: DataFrame, limits: DataFrame) -> list[Row]:
    """The violations in windows of 10 s."""
    return rows_of(
        violations(frame, exceeded(totals(judged(frame, 10)), limits, 10), 10)
    )


def test_a_window_within_rate_and_burst_is_no_violation(spark: SparkSession) -> None:
    limits = limits_frame(spark, [configuration(1, 100)])
    kept = usage(spark, (0, "a", 600, 600), (0, "b", 500, 500))
    assert not violated(kept, limits)
    over = usage(spark, (0, "a", 600, 600), (0, "b", 501, 501), (10, "a", 9, 9))
    (row,) = violated(over, limits)
    assert (row["excess"], row["allowed"], row["agents"]) == (1, 1100, 2)
    assert [taker["agent"] for taker in row["takers"]] == ["a", "b"]


def test_fractions_that_make_up_the_limit_are_no_violation(
    spark: SparkSession,
) -> None:
    limits = limits_frame(spark, [configuration(1, 0.31)])
    assert 0.2 + 102.9 > 103.1  # what doubles make of it
    assert not violated(
        usage(spark, (0, "a", 0.2, 0.2), (0, "b", 102.9, 102.9)), limits
    )
    over = usage(spark, (0, "a", 0.2, 0.2), (0, "b", 102.901, 102.901))
    (row,) = violated(over, limits)
    assert (row["admitted"], row["allowed"]) == (103.101, 103.1)


def test_displaced_units_accuse_nobody(spark: SparkSession) -> None:
    limits = limits_frame(spark, [configuration(1, 100)])
    late = usage(spark, (0, "a", 9000, 9000), displaced=True)
    assert not violated(late, limits)


def test_an_unlimited_or_unknown_group_is_never_violated(spark: SparkSession) -> None:
    much = usage(spark, (0, "a", 1e9, 1e9))
    for history in ([configuration(1, UNLIMITED)], []):
        assert not violated(much, limits_frame(spark, history))


def test_usage_is_judged_by_the_limit_of_its_revision(spark: SparkSession) -> None:
    history = [configuration(1, 100), configuration(2, 10), configuration(5, 1000)]
    limits = limits_frame(spark, history)
    found: dict[int, list[float]] = {}
    for revision in (0, 1, 2, 4, 5, 9):
        frame = usage(spark, (0, "a", 500, 500), revisions=(revision, revision))
        found[revision] = [r["rate_per_s"] for r in violated(frame, limits)]
    assert found == {0: [], 1: [], 2: [10.0], 4: [10.0], 5: [], 9: []}


def test_a_limit_that_changes_within_a_window_counts_at_its_widest(
    spark: SparkSession,
) -> None:
    limits = limits_frame(spark, [configuration(1, 100), configuration(2, 10)])
    frame = usage(spark, (0, "a", 500, 500), revisions=(1, 2))
    assert not violated(frame, limits)


def test_a_revision_under_which_nothing_was_admitted_does_not_count(
    spark: SparkSession,
) -> None:
    limits = limits_frame(spark, [configuration(1, 100), configuration(2, 10)])
    refused = usage(spark, (0, "b", 500, 0), revisions=(1, 1))
    frame = usage(spark, (0, "a", 500, 500), revisions=(2, 2)).unionByName(refused)
    (row,) = violated(frame, limits)
    assert (row["rate_per_s"], row["agents"], row["admitted"]) == (10, 1, 500)


def test_totals_are_those_of_sql(spark: SparkSession) -> None:
    random = Random(3)
    frame = usage(spark, (0, "a", 5, 0))
    for group in (1, 2, 3):
        rows = [
            (10 * (n % 2), f"agent-{n % 4}", units + random.randrange(9), units)
            for n, units in enumerate(random.choices((0, 3, 17, 400), k=12))
        ]
        spans = (random.randrange(1, 4), random.randrange(4, 9))
        frame = frame.unionByName(
            usage(spark, *rows, revisions=spans, group_id=group)
        ).unionByName(usage(spark, *rows[:2], revisions=(9 - group, 9), group_id=group))
    expected = frame.where("admitted > 0").groupBy(
        "window_start", "group_id", "dimension"
    )
    found = totals(judged(frame, 10))
    assert sorted(rows_of(found)) == sorted(
        rows_of(
            expected.agg(
                f.sum("admitted").alias("admitted"),
                f.min("revision_first").alias("revision_first"),
                f.max("revision_last").alias("revision_last"),
            )
        )
    )


def test_names_are_those_of_the_time(spark: SparkSession) -> None:
    gone = Configuration(revision=4)
    history = [configuration(1, 9), configuration(2, 9, name="silver"), gone]
    limits = limits_frame(spark, history)
    names: dict[int, list[str]] = {}
    for revision in (1, 2, 4):
        frame = usage(spark, (0, "a", 5, 5), revisions=(revision, revision))
        frame = frame.drop("group", "tenant")
        names[revision] = [row["group"] for row in rows_of(named(frame, limits))]
    assert names == {1: ["gold"], 2: ["silver"], 4: ["silver"]}
    other = usage(spark, (0, "a", 5, 5), group_id=77).drop("group", "tenant")
    unknown = named(other, limits)
    assert [row["group"] for row in rows_of(unknown)] == ["#77"]


def max_min(
    total: float, demand: dict[str, float], weight: dict[str, float]
) -> dict[str, float]:
    """Progressive filling, an agent at a time."""
    given: dict[str, float] = {}
    left: dict[str, float] = dict(demand)
    while left:
        level = total / sum(weight[a] for a in left)
        done = {a: d for a, d in left.items() if d <= level * weight[a] + 1e-12}
        if not done:
            return given | {a: level * weight[a] for a in left}
        given.update(done)
        total -= sum(done.values())
        left = {a: d for a, d in left.items() if a not in done}
    return given


def batch_of(
    rows: list[tuple[int, str, float, float]], weight: dict[str, float]
) -> pa.RecordBatch:
    """The rows of one task, as `sorted_rows` takes them."""
    columns: dict[str, list[object]] = {
        "window_start": [START + second for second, *_ in rows],
        "group_id": [1] * len(rows),
        "group": ["gold"] * len(rows),
        "tenant": ["acme"] * len(rows),
        "dimension": ["requests"] * len(rows),
        "agent": [row[1] for row in rows],
        "weight": [weight[row[1]] for row in rows],
        "attempted": [row[2] for row in rows],
        "admitted": [row[3] for row in rows],
        "refused": [row[2] - row[3] for row in rows],
        "revision_first": [1] * len(rows),
        "revision_last": [1] * len(rows),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_fair_amounts_are_those_of_progressive_filling() -> None:
    random = Random(1)
    agents = [f"agent-{k}" for k in range(9)]
    weight = {a: float(random.choice([1, 1, 2, 5])) for a in agents}
    demand = {
        second: {a: float(random.randrange(1, 400)) for a in agents}
        for second in range(0, 100, 10)
    }
    table = [
        (second, a, d, float(int(d * random.uniform(0.2, 0.9))))
        for second, wanted in demand.items()
        for a, d in wanted.items()
    ]
    random.shuffle(table)
    rows = sorted_rows([batch_of(table[:40], weight), batch_of(table[40:], weight)])
    assert rows is not None
    names = rows.agents[rows.agent]
    fair = division(rows)
    assert len(fair.row) == len(table)
    moments = rows.names.column("window_start").to_numpy()
    total = {s: sum(row[3] for row in table if row[0] == s) for s in demand}
    found: dict[int, dict[str, float]] = {second: {} for second in demand}
    for place, units in zip(fair.row.tolist(), fair.fair.tolist(), strict=True):
        second = int(moments[place]) - START
        found[second][str(names[place])] = units
    for second, wanted in demand.items():
        expected = max_min(total[second], wanted, weight)
        assert found[second] == pytest.approx(expected)


def test_the_starved_agent_is_named_and_the_division_measured(
    spark: SparkSession,
) -> None:
    frame = usage(spark, (0, "a", 100, 80), (0, "b", 100, 20), (10, "a", 50, 50))
    uncontended = usage(spark, (0, "a", 80, 80), (0, "b", 20, 20), group_id=2)
    late = usage(spark, (0, "c", 900, 1), group_id=1, displaced=True)
    found = judged(frame.unionByName(uncontended).unionByName(late), 10).persist()
    (row,) = rows_of(unfairness(found))
    assert row["distance"] == pytest.approx(0.3)
    parts = [80 / 50, 20 / 50]
    assert row["jain"] == pytest.approx(sum(parts) ** 2 / 2 / sum(p * p for p in parts))
    assert (row["group"], row["agents"], row["admitted"]) == ("gold", 2, 100)
    assert row["window_start"].timestamp() == START
    (victim,) = rows_of(starved(found))
    assert (victim["agent"], victim["lacking"]) == ("b", 30)


def test_a_division_by_weight_is_fair_and_starves_nobody(spark: SparkSession) -> None:
    heavy = usage(spark, (0, "a", 900, 600), weight=3.0)
    light = usage(spark, (0, "b", 900, 200), (0, "c", 900, 200))
    found = judged(heavy.unionByName(light), 10).persist()
    (row,) = rows_of(unfairness(found))
    assert (row["jain"], row["distance"], row["level"]) == (1.0, 0.0, 200.0)
    assert not rows_of(starved(found))
    turned = judged(
        usage(spark, (0, "a", 900, 200), weight=3.0).unionByName(
            usage(spark, (0, "b", 900, 400), (0, "c", 900, 400))
        ),
        10,
    )
    (victim,) = rows_of(starved(turned))
    assert (victim["agent"], victim["weight"], victim["lacking"]) == ("a", 3.0, 400.0)


def test_the_noisiest_attempts_most_for_its_weight(spark: SparkSession) -> None:
    now = usage(spark, (0, "a", 300, 300), weight=3.0)
    now = now.unionByName(usage(spark, (0, "b", 200, 200)))
    found = noisy(now, now, window_s=60, past_windows=5)
    ranked = {row["agent"]: (row["rank"], row["part"]) for row in rows_of(found)}
    assert ranked == {"b": (1, 0.4), "a": (2, 0.6)}


def test_what_is_usual_counts_from_the_agents_first_minute(spark: SparkSession) -> None:
    past = usage(spark, (240, "new", 60, 60), (0, "old", 50, 50))
    now = usage(spark, (300, "new", 60, 60), (300, "old", 50, 50), (300, "first", 9, 9))
    found = noisy(now, past.unionByName(now), window_s=60, past_windows=5)
    usual = {row["agent"]: (row["usual"], row["change"]) for row in rows_of(found)}
    assert usual == {"new": (60, 1.0), "old": (10, 5.0), "first": (None, None)}


def test_the_noisy_are_compared_with_their_own_past(spark: SparkSession) -> None:
    rows = [(60 * k, "a", 100.0, 100.0) for k in range(5)]
    rows += [(60 * k, "b", 10.0, 10.0) for k in range(5)]
    now = usage(spark, (300, "a", 100, 100), (300, "b", 300, 300))
    past = usage(spark, *rows).unionByName(now)
    found = rows_of(noisy(now, past, window_s=60, past_windows=5))
    talkers = {row["agent"]: row for row in found}
    assert {a: (r["rank"], r["part"], r["change"]) for a, r in talkers.items()} == {
        "b": (1, 0.75, 30.0),
        "a": (2, 0.25, 1.0),
    }


def test_longer_windows_hold_what_the_shorter_ones_held(spark: SparkSession) -> None:
    rows = [(10 * k, "ab"[k % 2], 10.0 + k, 5.0) for k in range(13)]
    longer = rows_of(rolled_up(usage(spark, *rows), 60))
    assert sum(row["attempted"] for row in longer) == sum(row[2] for row in rows)
    starts = {int(row["window_start"].timestamp()) - START for row in longer}
    assert starts == {0, 60, 120}


def test_sums_of_fractions_are_equal_to_the_last_bit_in_any_order(
    spark: SparkSession,
) -> None:
    random = Random(3)
    parts = [random.randrange(1, 10**6) / 1000 for _ in range(360)]
    rows = [(10 * k, "a", part, 0.0) for k, part in enumerate(parts)]
    shorter = usage(spark, *rows)
    minutes = rolled_up(shorter, 60)
    exact = sum(round(1000 * part) for part in parts) / 1000
    assert sum(parts) != exact  # what doubles make of it
    for frame in (shorter, minutes, minutes.orderBy(f.rand(1)).repartition(3)):
        (hour,) = rows_of(rolled_up(frame, 86_400))
        assert (hour["attempted"], hour["refused"]) == (exact, exact)
    large = usage(spark, (0, "a", 2.0**53 - 1, 2.0**53 - 1), (0, "b", 1, 1))
    (day,) = rows_of(
        bill(large.withColumn("attempted", f.col("admitted")), _no_gaps(spark))
    )
    assert day["admitted"] == 2.0**53


def test_a_sum_that_no_whole_number_holds_is_rounded(spark: SparkSession) -> None:
    rows = [(10 * k, "a", 2.0**53, 2.0**53) for k in range(2_000)]
    (day,) = rows_of(rolled_up(usage(spark, *rows), 86_400))
    assert day["admitted"] == 2_000 * 2.0**53
    odd = usage(spark, (0, "a", 2.0**53, 2.0**53), (10, "a", 2.5, 2.5))
    (day,) = rows_of(rolled_up(odd, 86_400))
    assert day["admitted"] == pytest.approx(2.0**53, rel=1e-15)


def _no_gaps(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], GAPS)


@pytest.mark.parametrize("part", [0.001, 0.01, 0.05])
def test_a_recommended_limit_would_have_refused_that_part(part: float) -> None:
    rate = np.random.default_rng(7).gamma(2.0, 100.0, 5_000)
    limit = limit_refusing(rate, part)
    refused = np.maximum(rate - limit, 0.0).sum() / rate.sum()
    assert refused == pytest.approx(part, rel=1e-6)


def test_a_weekly_season_is_found_and_noise_is_none() -> None:
    second = np.arange(4 * 168) * 3600 + 4 * 86_400  # from a Monday on
    hour = np.arange(4 * 168) % 168
    rush = np.where(hour == 33, 500.0, 100.0)
    assert season(rush, second) == (33, 1.0)
    noise = np.random.default_rng(3).normal(100, 10, len(second))
    assert season(noise, second)[1] < 0.4


def test_recommendations_say_what_the_limit_is_to_the_demand(
    spark: SparkSession,
) -> None:
    rows = [(60 * k, "a", 6000.0, 3000.0) for k in range(30)]
    frame = usage(spark, *rows)
    for rate, said in (
        (50.0, "always at its limit; 99/s"),
        (1000.0, "never near its limit: 10%"),
        (UNLIMITED, "no limit; 99/s"),
    ):
        limits = limits_frame(spark, [configuration(1, rate)])
        (row,) = rows_of(recommend(frame, limits, 60))
        assert row["verdict"].startswith(said)
    value = frame.withColumn("group_id", f.lit(VALUES_FROM + 7))
    (row,) = rows_of(recommend(value, limits, 60))
    assert row["verdict"].startswith("a value of a template group; 99/s")


def gap(spark: SparkSession, *, healed: bool, bound: float | None) -> DataFrame:
    heard = datetime.fromtimestamp(START, UTC)
    row = (heard, None, 1, "gold", "acme", "requests", "a", 1, 9, 2.0, bound, healed)
    return spark.createDataFrame([row], GAPS)


def test_the_bill_is_the_sum_and_names_the_bound_of_its_gaps(
    spark: SparkSession,
) -> None:
    used = usage(spark, (0, "a", 10, 7), (20, "b", 5, 5), (86_400, "a", 1, 1))
    days = rows_of(bill(used, gap(spark, healed=False, bound=42.0)))
    found = sorted((r["attempted"], r["admitted"], r["gap_bound"]) for r in days)
    assert found == [(1, 1, 0), (15, 12, 42)]
    (first, _) = sorted(
        rows_of(bill(used, gap(spark, healed=False, bound=None))),
        key=lambda r: -r["attempted"],
    )
    assert first["gap_bound"] is None


def test_a_gap_that_healed_is_no_gap(spark: SparkSession) -> None:
    listed = gap(spark, healed=False, bound=42.0)
    assert unhealed(listed).count() == 1
    later = listed.selectExpr(
        "heard + interval 5 seconds as heard",
        "until",
        "group_id",
        "`group`",
        "tenant",
        "dimension",
        "agent",
        "incarnation",
        "sequence",
        "held",
        "bound",
        "true as healed",
    )
    assert unhealed(listed.unionByName(later)).count() == 0


def test_a_unit_too_few_or_too_many_is_found(spark: SparkSession) -> None:
    used = usage(spark, (0, "a", 10, 7), (10, "a", 5, 5))
    heard = datetime.fromtimestamp(START, UTC)
    for admitted, count in ((12.0, 0), (13.0, 1), (11.0, 1)):
        row = (heard, 1, "requests", "a", 1, 9, 3.0, admitted)
        counters = spark.createDataFrame([row], COUNTERS)
        assert differences(used, counters).count() == count


def test_usage_beyond_exact_doubles_equals_counters_in_another_order(
    spark: SparkSession,
) -> None:
    large, many = 2.0**53, [7.0] * 1_000
    used = usage(spark, *((10 * k, "a", u, u) for k, u in enumerate([large, *many])))
    heard = datetime.fromtimestamp(START, UTC)

    def counters(*admitted: float) -> DataFrame:
        lives = [
            (heard, 1, "requests", "a", life, 9, 0.0, units)
            for life, units in enumerate(admitted)
        ]
        return spark.createDataFrame(lives, COUNTERS)

    assert differences(used, counters(large, 7_000.0)).count() == 0
    assert differences(used, counters(large, 6_998.0)).count() == 1


@pytest.mark.parametrize(
    "terms",
    [[2.0**64, 5e18, 0.25], [1e300, 1e300], [2.0**85, 1.0], [-(2.0**64), 0.5, 2.0**63]],
)
def test_no_row_is_too_large_to_be_added_up(
    spark: SparkSession, terms: list[float]
) -> None:
    exact = float(sum(map(Fraction, terms)))
    used = usage(spark, *((10 * k, "a", u, u) for k, u in enumerate(terms)))
    (row,) = rows_of(used.select(exact_sum("admitted")).distinct())
    assert row["admitted"] == exact


def test_a_configuration_that_is_unchanged_makes_no_new_range(
    spark: SparkSession,
) -> None:
    same = configuration(1, 9)
    history = [same, replace(same, revision=2), replace(same, revision=3)]
    assert limits_frame(spark, history).count() == 2


def part_of(window_s: int, units: dict[int, tuple[float, float, int]]) -> Part:
    """Refused, admitted and subjects by group."""
    groups = np.array(sorted(units), np.int64)
    refused, admitted, subjects = zip(*(units[g] for g in sorted(units)), strict=True)
    return Part(
        (START + window_s) * 1_000_000,
        bool(window_s),
        3,
        7,
        2.0,
        groups,
        np.array(refused, np.float64),
        np.array(admitted, np.float64),
        np.array(subjects, np.int64),
    )


def test_packed_usage_is_a_row_for_each_group(spark: SparkSession) -> None:
    builder = RowBuilder()
    builder.usage("a", "requests", part_of(0, {5: (1.5, 2, 1), 2**40: (0, 7, 3)}))
    builder.usage("b", "bytes", part_of(10, {5: (0, 2.0**53, 1)}))
    table = pa.Table.from_batches(list(builder.rest()))
    assert table.num_rows == 2
    step = spark.createDataFrame(table)
    found = usage_of(step, limits_frame(spark, []))
    assert sorted(
        (
            row["window_start"].timestamp() - START,
            row["agent"],
            row["dimension"],
            row["group_id"],
            row["attempted"],
            row["admitted"],
            row["refused"],
            row["displaced"],
            row["subjects"],
            row["weight"],
            row["revision_first"],
            row["revision_last"],
        )
        for row in found.collect()
    ) == [
        (0, "a", "requests", 5, 3.5, 2, 1.5, False, 1, 2, 3, 7),
        (0, "a", "requests", 2**40, 7, 7, 0, False, 3, 2, 3, 7),
        (10, "b", "bytes", 5, 2.0**53, 2.0**53, 0, True, 1, 2, 3, 7),
    ]


class _Refuses(BaseHTTPRequestHandler):
    """A receiver that knows no such webhook."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_webhook_that_refuses_is_logged_without_its_secret(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    found = spark.createDataFrame([("{}",)], "body string")
    with HTTPServer(("127.0.0.1", 0), _Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/services/s3cret"
        assert to_webhook(found, url) == 0
        server.shutdown()
    (line,) = caplog.messages
    assert "404 Not Found" in line
    assert "s3cret" not in line
