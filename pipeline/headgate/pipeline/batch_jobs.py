"""The jobs that read the tables: bill, invoices, periods, recommend, report."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.coordinator import Group
from headgate.pipeline.configured.history import ConfigurationFile, ConfigurationTable
from headgate.pipeline.configured.limits_frame import limits_frame
from headgate.pipeline.invoicing.files import write_invoices
from headgate.pipeline.invoicing.rows import invoiced, invoices_frame, invoices_of
from headgate.pipeline.jobs.bill import differences
from headgate.pipeline.jobs.months import months
from headgate.pipeline.jobs.periods import periods
from headgate.pipeline.jobs.recommend import recommend
from headgate.pipeline.jobs.whatif import what_if
from headgate.pipeline.report.summary import UsageSummary, summarise
from headgate.pipeline.settings import (
    WINDOW_S,
    OutputIncomplete,
    PipelineSettings,
    WrongSettings,
)
from headgate.pipeline.stream.engine import StreamEngine
from headgate.pipeline.stream.maintenance import (
    settled_until,
    settled_us,
    write_bill,
)
from headgate.pipeline.stream.output_check import check_tables, written_by
from headgate.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headgate.coordinator import Limit
    from headgate.pipeline.configured.history import ConfigurationHistory
    from headgate.pipeline.invoicing.plans import PriceList
    from headgate.pipeline.stream.batch_log import BatchSummary

MINUTE_S = 60.0
"""Length of the windows that recommendations are made from: short enough to show a
peak, long enough that days of them are read in seconds."""

_COUNTED = ("agent", "group_id", "dimension", "admitted", "refused")


def history_of(
    session: SparkSession, settings: PipelineSettings
) -> ConfigurationHistory:
    """Return the configurations of a recorded file, else those of the output."""
    if settings.history is not None:
        return ConfigurationFile(settings.history)
    return ConfigurationTable(session, TableStore(session, settings.tables))


def run_recommend(session: SparkSession, settings: PipelineSettings) -> str:
    """Write the table ``recommendations``; return a sentence.

    Raises:
        OutputIncomplete: The output was never written, or lacks something.
    """
    tables = _opened(session, settings).tables
    limits = limits_frame(session, history_of(session, settings).read())
    tables.replace(
        "recommendations", recommend(tables.read("usage_1m"), limits, MINUTE_S)
    )
    count = tables.read("recommendations").count()
    return f"recommend: {count:,} groups and dimensions"


def run_periods(session: SparkSession, settings: PipelineSettings) -> str:
    """Write the table ``periods``; return a sentence.

    Periods that began before days were retired stay as they were.

    Raises:
        OutputIncomplete: The output was never written, or lacks something.
    """
    engine = _opened(session, settings)
    tables = engine.tables
    limits = limits_frame(session, history_of(session, settings).read())
    with _whole_usage(engine) as (usage, _):
        tables.replace_from("periods", periods(usage, limits), settled_until(tables))
    found = tables.read("periods")
    over = found.where("excess > 0").count()
    return f"periods: {found.count():,} calendar periods, {over:,} above their limit"


def run_invoices(
    session: SparkSession,
    settings: PipelineSettings,
    prices: PriceList,
    folder: Path | None,
) -> str:
    """Write the table ``invoices`` and their files; return a sentence.

    An invoice is final once all windows of its month are closed; from then on it stays
    as it is, whatever the price list says later.

    Args:
        session: With Delta's extension.
        settings: Of the run; only the output matters.
        prices: Plans, and who is on which.
        folder: For a JSON and a CSV of each invoice; None writes the table alone.

    Raises:
        OutputIncomplete: Usage isn't what the agents counted.  Nothing is written.
        WrongSettings: A tenant's plan is not valid in a month that it used.
    """
    engine = _opened(session, settings)
    tables = engine.tables
    known = invoices_of(tables.read("invoices"))
    zones = {name: account.time_zone for name, account in prices.tenants.items()}
    default = prices.default.time_zone if prices.default else "UTC"
    with _whole_usage(engine) as (usage, newest):
        used = months(usage, zones, default).collect()
    settled = settled_us(tables) or 0
    # A month that has lost days to --keep-days can't be invoiced again.
    used = [row for row in used if row["begin_us"] >= settled]
    fresh = invoiced(used, prices, closed_us=newest.floor_us, known=known)
    made = {(one.tenant, one.month) for one in fresh}
    stay = [one for one in known if (one.tenant, one.month) not in made]
    tables.replace("invoices", invoices_frame(session, [*stay, *fresh]))
    if folder is not None:
        write_invoices([*stay, *fresh], folder)
    unbilled = sorted(
        {row["tenant"] for row in used if prices.account_of(row["tenant"]) is None}
    )
    without = f"; no plan for {len(unbilled):,}: {unbilled[0]} …" if unbilled else ""
    return (
        f"invoices: {len(fresh):,} created, {len(stay):,} unchanged{without} "
        f"(reports: {_signed(newest)})"
    )


def run_bill(session: SparkSession, settings: PipelineSettings) -> str:
    """Write the table ``bill``, if it is exact; return a sentence.

    Every unit of the agents' own counters must be in exactly one row: of a closed
    window, of an open one, or of the sums of retired days.

    Raises:
        OutputIncomplete: It isn't exact; says where.  Nothing is written.
    """
    engine = _opened(session, settings)
    tables = engine.tables
    with _whole_usage(engine) as (usage, newest):
        write_bill(tables, usage, settled_until(tables))
    count = tables.read("bill").count()
    return (
        f"bill: {count:,} tenant days, equal to the agents' own counters "
        f"(reports: {_signed(newest)})"
    )


def summary_of(
    session: SparkSession, settings: PipelineSettings, since_s: float | None
) -> UsageSummary:
    """Return what `headgate pipeline report` shows.

    Raises:
        OutputIncomplete: The output was never written, or lacks something.
    """
    engine = _opened(session, settings)
    newest = engine.newest()
    limits = limits_frame(session, history_of(session, settings).read())
    found = summarise(engine.tables, limits, since_s)
    return replace(found, verified=newest is not None and newest.verified)


def what_if_of(
    session: SparkSession,
    settings: PipelineSettings,
    *,
    group: str,
    limit: Limit,
    since_s: float,
) -> list[dict[str, object]]:
    """Return what another limit would have meant for each agent of a group.

    Raises:
        OutputIncomplete: The output was never written, or lacks something.
        WrongSettings: The group is not known, or the dimension was not used.
    """
    usage = _opened(session, settings).tables.read("usage_10s")
    usage = usage.where(f.col("group") == group)
    newest = usage.agg(
        f.max(f.unix_seconds("window_start")).alias("end"),
        f.max("group_id").alias("group_id"),
    ).collect()[0]
    if newest["end"] is None:
        raise WrongSettings(f"group: {group!r} has no usage in {settings.out}")
    begin = newest["end"] + WINDOW_S - since_s
    recent = usage.where(f.unix_seconds("window_start") >= begin)
    known = [
        each
        for configuration in history_of(session, settings).read()
        for each in configuration.groups
        if each.id == newest["group_id"]
    ]
    # Everything but the limit stays as it was last known.
    tried = replace(
        known[-1] if known else Group(id=newest["group_id"], name=group, limits=()),
        limits=(limit,),
        parent=None,
    )
    effect = what_if(recent, tried, WINDOW_S).orderBy(f.col("attempted").desc())
    rows = [row.asDict() for row in effect.collect()]
    if not rows:
        raise WrongSettings(
            f"dimension: group {group!r} used no {limit.dimension!r} in its last "
            f"{since_s:g} s"
        )
    return rows


def _opened(session: SparkSession, settings: PipelineSettings) -> StreamEngine:
    """Return the engine of a complete output, pinned to its present state."""
    engine = StreamEngine(session, settings, history_of(session, settings))
    head = engine.pin()
    newest = engine.newest()
    kinds = newest.kinds if newest is not None else {}
    written = written_by(session, settings, head, kinds)
    check_tables(head, engine.tables, written)
    if head is None:
        raise OutputIncomplete(
            f"{settings.out}: no tables; run `headgate pipeline run` first"
        )
    return engine


@contextmanager
def _whole_usage(engine: StreamEngine) -> Generator[tuple[DataFrame, BatchSummary]]:
    """Give all usage that is not retired, once it is proven, and the batch's summary.

    Raises:
        OutputIncomplete: Usage isn't what the agents counted; says where.
    """
    tables, newest = engine.tables, engine.newest()
    assert newest is not None
    closed = tables.read(
        "usage_10s", begin_us=settled_us(tables), upto_batch=newest.batch
    )
    usage = closed.unionByName(engine.open_usage(newest)).persist()
    try:
        counted = usage.select(*_COUNTED).unionByName(
            tables.read("retired").select(*_COUNTED)
        )
        _prove(engine, counted, newest.batch)
        yield usage, newest
    finally:
        usage.unpersist()


def _signed(newest: BatchSummary) -> str:
    return "all signed" if newest.verified else "signatures not verified"


def _prove(engine: StreamEngine, usage: DataFrame, batch: int) -> None:
    """Refuse usage that isn't what the agents counted; names the cause."""
    wrong = differences(usage, engine.counters(batch)).orderBy("agent", "group_id")
    first = wrong.first()
    if first is None:
        return
    if not engine.is_published():
        raise OutputIncomplete(
            f"no bill was made: batch {batch} is being written or was interrupted; "
            "wait for it, or run `headgate pipeline run` again"
        )
    raise OutputIncomplete(
        f"no bill was made: agent {first['agent']!r} counted "
        f"{first['counted_admitted']:.10g} admitted and "
        f"{first['counted_refused']:.10g} refused units of group {first['group_id']} "
        f"({first['dimension']}), but the tables hold {first['admitted']:.10g} and "
        f"{first['refused']:.10g}; {wrong.count():,} "
        "counters differ in all. Rows were removed or added from outside: restore the "
        "whole output from one backup"
    )
