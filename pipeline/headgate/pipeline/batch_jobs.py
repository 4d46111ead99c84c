"""The jobs that read the tables: recommend, bill, and the summary for people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from headgate.coordinator import Group
from headgate.pipeline.configured.history import History
from headgate.pipeline.configured.limits_frame import limits_frame
from headgate.pipeline.jobs.bill import bill, differences
from headgate.pipeline.jobs.recommend import recommend
from headgate.pipeline.jobs.whatif import what_if
from headgate.pipeline.report.summary import Summary, summarise
from headgate.pipeline.settings import WINDOW_S, Settings, WrongSettings
from headgate.pipeline.stream.engine import Engine
from headgate.pipeline.stream.run import open_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.coordinator import Limit

MINUTE_S = 60.0
"""Windows that recommendations are made from: short enough to show a peak, long
enough that days of them are read in seconds."""


def run_recommend(session: SparkSession, settings: Settings) -> str:
    """Write the table ``recommendations``; return a sentence."""
    tables = open_tables(session, settings)
    limits = limits_frame(session, History(settings.recorded).read())
    advice = recommend(tables.read("usage_1m"), limits, MINUTE_S)
    tables.replace("recommendations", advice)
    count = tables.read("recommendations").count()
    return f"recommend: {count:,} groups and dimensions"


def run_bill(session: SparkSession, settings: Settings) -> str:
    """Write the table ``bill``; return a sentence that says whether it is exact."""
    tables = open_tables(session, settings)
    usage = tables.read("usage_10s")
    tables.replace("bill", bill(usage, tables.read("gaps")))
    counters = Engine(session, settings, tables).counters()
    wrong = differences(usage, counters).count()
    verdict = (
        "equal to the agents' own counters"
        if not wrong
        else f"{wrong:,} counters differ: windows still open, or --once was not run"
    )
    return f"bill: {tables.read('bill').count():,} tenant days, {verdict}"


def summary_of(
    session: SparkSession, settings: Settings, since_s: float | None
) -> Summary:
    """Return what `headgate pipeline report` shows."""
    limits = limits_frame(session, History(settings.recorded).read())
    return summarise(open_tables(session, settings), limits, since_s)


def what_if_of(
    session: SparkSession,
    settings: Settings,
    *,
    group: str,
    limit: Limit,
    since_s: float,
) -> list[dict[str, object]]:
    """Return what another limit would have meant for each agent of a group.

    Raises:
        WrongSettings: The group is not known, or was not used.
    """
    usage = (
        open_tables(session, settings).read("usage_10s").where(f.col("group") == group)
    )
    newest = usage.agg(
        f.max(f.unix_seconds("window_start")).alias("end"),
        f.max("group_id").alias("group_id"),
    ).collect()[0]
    if newest["end"] is None:
        raise WrongSettings(f"group: no usage of {group!r} in {settings.out}")
    begin = newest["end"] + WINDOW_S - since_s
    recent = usage.where(f.unix_seconds("window_start") >= begin)
    known = [
        each
        for configuration in History(settings.recorded).read()
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
    return [row.asDict() for row in effect.collect()]
