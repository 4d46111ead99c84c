"""Price plans → invoices, to the cent, and the calendar that they go by."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from typer.testing import CliRunner

from headgate.agent.follow.periods import period_at, zone_of
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)
from headgate.pipeline.command import app as pipeline
from headgate.pipeline.configured.limits_frame import limits_frame
from headgate.pipeline.invoicing.files import folder_name, write_invoices
from headgate.pipeline.invoicing.invoice import FEE, Invoice, lines_of
from headgate.pipeline.invoicing.plans import PriceList, prices_of, read_prices
from headgate.pipeline.invoicing.rows import invoiced, invoices_frame, invoices_of
from headgate.pipeline.jobs.fairness import judged, totals
from headgate.pipeline.jobs.months import months
from headgate.pipeline.jobs.periods import periods
from headgate.pipeline.jobs.recommend import recommend
from headgate.pipeline.jobs.violations import exceeded, violations
from headgate.pipeline.settings import WrongSettings
from headgate.pipeline.tables.schema import USAGE
from headgate.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headgate.agent.json_place import Json
    from headgate.coordinator.config.configuration import Period

TOKENS: dict[str, Json] = {
    "dimension": "tokens",
    "included": 1000,
    "per": 1000,
    "tiers": [{"up_to": 5000, "price": "0.125"}, {"price": 0.05}],
}

STANDARD: dict[str, Json] = {
    "name": "standard", "currency": "CHF", "monthly_fee": "49.90", "prices": [TOKENS],
}  # fmt: skip


def prices(*plans: dict[str, Json], **more: Json) -> PriceList:
    named: dict[str, Json] = {"plans": [*(plans or (STANDARD,))], **more}
    return prices_of(named)


def lines(units: str, *, plan: PriceList | None = None) -> list[tuple[str, ...]]:
    version = (plan or prices()).plans[0]
    amount = Decimal(units)
    used = {"tokens": {"admitted": amount, "attempted": 2 * amount}}
    found = lines_of(version, used)  # type: ignore[arg-type]  # its keys are literals
    return [(one.item, f"{one.units:f}", f"{one.amount:f}") for one in found]


def test_an_included_amount_is_free_and_each_tier_is_a_line() -> None:
    fee = (FEE, "1", "49.90")
    assert lines("1000") == [fee, ("tokens", "1000", "0.00")]
    assert lines("1000.5")[2:] == [("tokens", "0.5", "0.00")]
    assert lines("7040") == [
        fee,
        ("tokens", "1000", "0.00"),
        ("tokens", "4000", "0.50"),
        ("tokens", "2040", "0.10"),
    ]


def test_half_a_cent_is_rounded_up_once_a_line() -> None:
    flat: Json = [{"dimension": "tokens", "price": "0.005"}]
    plan = prices({**STANDARD, "monthly_fee": 0, "prices": flat})
    assert lines("1", plan=plan) == [("tokens", "1", "0.01")]
    assert lines("3", plan=plan) == [("tokens", "3", "0.02")]
    yen = prices({**STANDARD, "monthly_fee": 0, "decimals": 0, "prices": flat})
    assert lines("99", plan=yen) == [("tokens", "99", "0")]


def test_refused_units_are_paid_where_the_plan_says_so() -> None:
    counted: Json = [{"dimension": "tokens", "price": 1, "counts": "attempted"}]
    plan = prices({**STANDARD, "monthly_fee": 0, "prices": counted})
    assert lines("7", plan=plan) == [("tokens", "14", "14.00")]


@given(
    thousandths=st.integers(0, 10**15),
    ends=st.lists(st.integers(1, 10**9), unique=True, max_size=4),
)
def test_the_lines_hold_every_unit_once(thousandths: int, ends: list[int]) -> None:
    tiers: list[Json] = [{"up_to": end, "price": 1} for end in sorted(ends)]
    plan = prices(
        {**STANDARD, "monthly_fee": 0,
         "prices": [{"dimension": "tokens", "tiers": [*tiers, {"price": 1}]}]}
    )  # fmt: skip
    units = Decimal(thousandths) / 1000
    found = lines_of(plan.plans[0], {"tokens": {"admitted": units}})
    assert sum(line.units for line in found) == units
    assert all(line.from_units < line.from_units + line.units for line in found)


WRONG: list[tuple[dict[str, Json], str]] = [
    (
        {"currency": "francs"},
        r"plans\[0\]: currency: expected a code such as CHF, got 'francs'",
    ),
    ({"prices": [{"dimension": "t"}]}, "expected either a price or tiers"),
    ({"prices": [{"dimension": "t", "price": -1}]}, "expected a number ≥ 0"),
    ({"prices": [{"dimension": "t", "price": "nan"}]}, "expected a number ≥ 0"),
    (
        {"prices": [{"dimension": "t", "price": 1, "per": 0}]},
        "per: expected a number > 0",
    ),
    (
        {"prices": [{"dimension": "t", "tiers": []}]},
        "expected the last one to have no up_to",
    ),
    (
        {"prices": [{**TOKENS, "tiers": [{"up_to": 9, "price": 1}]}]},
        r"tiers\[0\]: up_to: expected more than 1000",
    ),
    ({"prices": [TOKENS, TOKENS]}, "expected each dimension once, got 'tokens' twice"),
    ({"valid_from": "2026-02-03"}, "expected the first day of a month"),
    (
        {"valid_from": "2026-02-01", "valid_until": "2026-02-01"},
        "expected a month after 2026-02-01",
    ),
    ({"discount": 5}, "unknown 'discount', expected one of currency"),
    ({"name": ""}, "name: expected text"),
]
"""A change of a plan, and what is said about it."""


@pytest.mark.parametrize(("change", "sentence"), WRONG)
def test_a_wrong_plan_is_refused_with_its_place(
    change: dict[str, Json], sentence: str
) -> None:
    with pytest.raises(WrongSettings, match=sentence):
        prices({**STANDARD, **change})


def test_wrong_accounts_and_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match="plan: 'gold' does not exist"):
        prices(default={"plan": "gold"})
    with pytest.raises(WrongSettings, match=r"default: time_zone: .*Mars"):
        prices(default={"plan": "standard", "time_zone": "Mars/Base"})
    newer: dict[str, Json] = {**STANDARD, "valid_from": "2026-05-01"}
    with pytest.raises(
        WrongSettings, match=r"two versions of plan 'standard' .* 2026-05"
    ):
        prices(STANDARD, newer)
    older: dict[str, Json] = {**STANDARD, "valid_until": "2026-05-01"}
    found = prices(older, {**newer, "currency": "EUR"})
    currencies = [
        version.currency
        for month in (4, 5)
        if (version := found.plan_in("standard", date(2026, month, 1)))
    ]
    assert currencies == ["CHF", "EUR"]
    broken = tmp_path / "prices.yaml"
    broken.write_text("plans: [", encoding="utf-8")
    with pytest.raises(WrongSettings, match=r"prices\.yaml: while parsing"):
        read_prices(broken)
    broken.write_text("[" * 20_000, encoding="utf-8")
    with pytest.raises(WrongSettings, match=r"prices\.yaml: .* nested too deeply"):
        read_prices(broken)


def test_a_price_list_that_is_not_there_is_said_by_its_name(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing.yaml")
    found = CliRunner().invoke(pipeline, ["run", "invoices", "--prices", missing])
    assert found.exit_code != 0
    assert found.stderr == f"headgate pipeline: {missing}: No such file or directory\n"


def row(tenant: str, month: str, tokens: float, *, end_us: int = 0) -> Row:
    return Row(
        tenant=tenant, month=month, dimension="tokens", admitted=tokens,
        attempted=tokens, begin_us=1_760_000_000_000_000, end_us=end_us,
    )  # fmt: skip


def bills(found: list[Invoice]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(i.tenant, i.month): (i.status, f"{i.total:f}") for i in found}


def test_an_invoice_that_is_final_stays_what_it_was(spark: SparkSession) -> None:
    listed = prices(tenants=[{"name": "acme", "plan": "standard"}])
    used = [
        row("acme", "2026-10", 7040.0, end_us=50),
        row("acme", "2026-11", 0.5, end_us=60),
        row("beta", "2026-10", 9.0, end_us=50),
    ]
    made = invoiced(used, listed, closed_us=55, known=[])
    expected = {
        ("acme", "2026-10"): ("final", "50.50"),
        ("acme", "2026-11"): ("open", "49.90"),
    }
    assert bills(made) == expected
    kept = invoices_of(invoices_frame(spark, made))
    assert kept == made
    dearer = prices(
        {**STANDARD, "monthly_fee": 100}, tenants=[{"name": "acme", "plan": "standard"}]
    )
    anew = invoiced(used, dearer, closed_us=65, known=kept)
    assert bills(anew) == {("acme", "2026-11"): ("final", "100.00")}
    moved = prices(
        tenants=[{"name": "acme", "plan": "standard", "time_zone": "Asia/Tokyo"}]
    )
    with pytest.raises(WrongSettings, match="final invoices in the time zone UTC"):
        invoiced(used, moved, closed_us=65, known=kept)
    late: dict[str, Json] = {**STANDARD, "valid_from": "2026-11-01"}
    gone = prices(late, default={"plan": "standard"})
    with pytest.raises(WrongSettings, match="not valid in 2026-10"):
        invoiced(used, gone, closed_us=65, known=[])


def test_files_hold_the_invoice_and_no_name_leaves_the_folder(tmp_path: Path) -> None:
    used = [row("../=x", "2026-10", 7040.0), row("..", "2026-10", 1.0)]
    made = invoiced(used, prices(default={"plan": "standard"}), closed_us=1, known=[])
    write_invoices(made, tmp_path / "invoices")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["invoices"]
    place = tmp_path / "invoices" / folder_name("../=x")
    document = json.loads((place / "2026-10.json").read_text())
    assert (document["total"], document["tenant"]) == ("50.50", "../=x")
    with (place / "2026-10.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [one["amount"] for one in rows] == ["49.90", "0.00", "0.50", "0.10"]
    assert sum(Decimal(one["amount"]) for one in rows) == Decimal(document["total"])


def usage(
    spark: SparkSession, *rows: tuple[str, float], tenant: str = "acme"
) -> DataFrame:
    """Rows of (UTC time, admitted) of one agent; a unit of each was refused."""
    return spark.createDataFrame(
        [
            (
                datetime.fromisoformat(when).replace(tzinfo=UTC), 1, "gold", tenant,
                "tokens", "a", units + 1.0, units, 1.0, False, 1, 1.0, 1, 1,
            )
            for when, units in rows
        ],
        USAGE,
    )  # fmt: skip


def test_a_month_begins_at_the_tenants_midnight(spark: SparkSession) -> None:
    found = usage(
        spark,
        ("2026-10-31T22:59:50", 1.0),
        ("2026-10-31T23:00:00", 10.0),  # midnight in Zurich
        ("2026-11-30T22:59:50", 100.0),
        ("2026-11-30T23:00:00", 1000.0),
    ).unionByName(usage(spark, ("2026-10-31T23:00:00", 7.0), tenant=""))
    rows = months(found, {"acme": "Europe/Zurich"}, "UTC").collect()
    sums = {(r["tenant"], r["month"]): r["admitted"] for r in rows}
    assert sums == {
        ("acme", "2026-10"): 1.0,
        ("acme", "2026-11"): 110.0,
        ("acme", "2026-12"): 1000.0,
        ("(group) gold", "2026-10"): 7.0,
    }
    limits = {
        r["month"]: [
            datetime.fromtimestamp(r[x] / 1e6, UTC) for x in ("begin_us", "end_us")
        ]
        for r in rows
        if r["tenant"] == "acme"
    }
    assert limits["2026-11"] == [
        datetime(2026, 10, 31, 23, tzinfo=UTC),
        datetime(2026, 11, 30, 23, tzinfo=UTC),
    ]
    assert limits["2026-10"][0] == datetime(2026, 9, 30, 22, tzinfo=UTC)  # summer time


def calendar(period: Period, rate: float) -> list[Configuration]:
    limit = Limit(
        dimension="tokens", rate=rate, burst=rate, period=period,
        time_zone="Europe/Zurich",
    )  # fmt: skip
    group = Group(id=1, name="gold", limits=(limit,))
    attached = Attachment((("tenant", "acme"),), 1)
    return [Configuration(revision=1, groups=(group,), attachments=(attached,))]


def test_a_calendar_limit_is_judged_by_its_period(spark: SparkSession) -> None:
    limits = limits_frame(spark, calendar("month", 100))
    found = usage(
        spark,
        ("2026-10-31T22:59:50", 60.0),
        ("2026-10-31T23:00:00", 90.0),
        ("2026-11-15T12:00:00", 30.0),
    )
    first, second = periods(found, limits).orderBy("period_start").collect()
    assert (first["admitted"], first["excess"], first["refused"]) == (60.0, 0.0, 1.0)
    assert (second["admitted"], second["excess"]) == (120.0, 20.0)
    assert second["used_part"] == pytest.approx(1.2)
    assert second["period_start"].isoformat() == "2026-10-31T23:00:00"
    assert second["period_end"].isoformat() == "2026-11-30T23:00:00"
    # A window alone accuses nobody of what a month allows, and advice is not by rate.
    assert violations(
        found, exceeded(totals(judged(found, 10)), limits, 10), 10
    ).isEmpty()
    (advice,) = recommend(found, limits, 60.0).collect()
    assert advice["rate_per_s"] is None
    assert advice["verdict"] == "100 a month: see the table periods"


CALENDAR: tuple[tuple[Period, str, str, str], ...] = (
    # The clock of Zurich goes back from 3:00 to 2:00 at 1:00 UTC.
    ("hour", "2026-10-25T00:30:00", "2026-10-25T00:00:00", "2026-10-25T01:00:00"),
    ("hour", "2026-10-25T01:30:00", "2026-10-25T01:00:00", "2026-10-25T02:00:00"),
    ("day", "2026-10-25T12:00:00", "2026-10-24T22:00:00", "2026-10-25T23:00:00"),
    ("week", "2026-10-25T12:00:00", "2026-10-18T22:00:00", "2026-10-25T23:00:00"),
    ("year", "2026-12-31T23:00:00", "2026-12-31T23:00:00", "2027-12-31T23:00:00"),
    ("minute", "2026-03-29T01:00:20", "2026-03-29T01:00:00", "2026-03-29T01:01:00"),
)
"""A period, a moment in it, and where agents let it begin and end."""


def test_periods_are_those_that_agents_go_by(spark: SparkSession) -> None:
    history = Configuration(
        revision=1,
        groups=tuple(
            replace(calendar(period, 100)[0].groups[0], id=number, name=str(number))
            for number, (period, *_) in enumerate(CALENDAR)
        ),
    )
    used = [
        usage(spark, (when, 1.0)).withColumn("group_id", f.lit(number))
        for number, (_, when, *_) in enumerate(CALENDAR)
    ]
    found = periods(reduce(DataFrame.unionByName, used), limits_frame(spark, [history]))
    limits = {row["group_id"]: row for row in found.collect()}
    for number, (period, when, begin, end) in enumerate(CALENDAR):
        judged_by = limits[number]
        assert judged_by["period"] == period
        assert judged_by["period_start"].isoformat() == begin
        assert judged_by["period_end"].isoformat() == end
        at_s = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
        agents = period_at(at_s, period, zone_of("Europe/Zurich"))
        told = [datetime.fromtimestamp(s, UTC).replace(tzinfo=None) for s in agents]
        assert [t.isoformat() for t in told] == [begin, end]


def test_a_tables_invoices_are_read_back_to_the_cent(
    spark: SparkSession, tmp_path: Path
) -> None:
    used = [row("acme", "2026-10", 7040.125, end_us=50), row("b", "2026-10", 0.0)]
    free: dict[str, Json] = {"name": "free", "currency": "JPY", "decimals": 0}
    listed = prices(
        STANDARD, free, default={"plan": "standard"},
        tenants=[{"name": "b", "plan": "free"}],
    )  # fmt: skip
    made = invoiced(used, listed, closed_us=55, known=[])
    store = TableStore(spark, tmp_path.as_uri())
    store.replace("invoices", invoices_frame(spark, made))
    assert invoices_of(store.read("invoices")) == made
