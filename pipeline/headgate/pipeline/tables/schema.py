"""The contract of each table: its columns, their types and their meaning.

docs/reference/pipeline-tables.md explains each column; a test compares the two.
All times are UTC in microseconds.  All amounts are units of the dimension, as doubles,
which hold whole numbers up to 2⁵³ exactly, and thousandths up to 2⁴³ units as the
nearest double.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TEXT, _UNITS, _WHOLE, _FLAG = StringType(), DoubleType(), LongType(), BooleanType()
_TIME = TimestampType()
_MONEY, _PRICE = DecimalType(38, 6), DecimalType(38, 18)


def _table(**columns: object) -> StructType:
    """Return a schema of nullable columns."""
    fields: list[StructField] = []
    for name, kind in columns.items():
        assert isinstance(kind, (*_ATOMS, ArrayType))
        fields.append(StructField(name, kind))
    return StructType(fields)


_ATOMS = (
    StringType,
    DoubleType,
    LongType,
    BooleanType,
    TimestampType,
    BinaryType,
    IntegerType,
    DecimalType,
)

_GROUP = {"group_id": _WHOLE, "group": _TEXT, "tenant": _TEXT, "dimension": _TEXT}

USAGE = _table(
    window_start=_TIME,
    **_GROUP,
    agent=_TEXT,
    attempted=_UNITS,
    admitted=_UNITS,
    refused=_UNITS,
    displaced=_FLAG,
    subjects=_WHOLE,
    weight=_UNITS,
    revision_first=_WHOLE,
    revision_last=_WHOLE,
)
"""What one agent used of one group in one window."""

_TAKER = StructType([StructField("agent", _TEXT), StructField("admitted", _UNITS)])

VIOLATIONS = _table(
    window_start=_TIME,
    window_s=_UNITS,
    **_GROUP,
    admitted=_UNITS,
    allowed=_UNITS,
    excess=_UNITS,
    rate_per_s=_UNITS,
    burst=_UNITS,
    agents=_WHOLE,
    takers=ArrayType(_TAKER),
)
"""Windows in which a group was admitted more than rate · window + burst."""

UNFAIRNESS = _table(
    window_start=_TIME,
    window_s=_UNITS,
    **_GROUP,
    agents=_WHOLE,
    attempted=_UNITS,
    admitted=_UNITS,
    jain=_UNITS,
    distance=_UNITS,
    level=_UNITS,
)
"""How far a contended group's division was from weighted max-min."""

STARVED = _table(
    window_start=_TIME,
    window_s=_UNITS,
    **_GROUP,
    agent=_TEXT,
    weight=_UNITS,
    attempted=_UNITS,
    admitted=_UNITS,
    fair=_UNITS,
    lacking=_UNITS,
)
"""Agents with demand that got less than their share."""

NOISY = _table(
    window_start=_TIME,
    window_s=_UNITS,
    **_GROUP,
    agent=_TEXT,
    rank=_WHOLE,
    weight=_UNITS,
    attempted=_UNITS,
    admitted=_UNITS,
    part=_UNITS,
    usual=_UNITS,
    change=_UNITS,
)
"""The agents that attempted most in a group, and how that compares with their usual."""

GAPS = _table(
    heard=_TIME,
    until=_TIME,
    **_GROUP,
    agent=_TEXT,
    incarnation=_WHOLE,
    sequence=_WHOLE,
    held=_UNITS,
    bound=_UNITS,
    healed=_FLAG,
)
"""Lives that ended without goodbye, and what they may have used unreported."""

COUNTERS = _table(
    heard=_TIME,
    group_id=_WHOLE,
    dimension=_TEXT,
    agent=_TEXT,
    incarnation=_WHOLE,
    sequence=_WHOLE,
    refused=_UNITS,
    admitted=_UNITS,
)
"""The agents' own counters at their last report."""

DEAD_LETTERS = _table(
    received=_TIME,
    topic=_TEXT,
    partition=IntegerType(),
    offset=_WHOLE,
    reason=_TEXT,
    payload=BinaryType(),
)
"""Messages that could not be used, and why."""

LOSSES = _table(
    noticed=_TIME,
    topic=_TEXT,
    partition=IntegerType(),
    expected_offset=_WHOLE,
    found_offset=_WHOLE,
    messages=_WHOLE,
)
"""Messages that the topic dropped before they were read."""

RECOMMENDATIONS = _table(
    made=_TIME,
    **_GROUP,
    rate_per_s=_UNITS,
    windows=_WHOLE,
    mean_per_s=_UNITS,
    peak_per_s=_UNITS,
    refusing_0_1=_UNITS,
    refusing_1=_UNITS,
    refusing_5=_UNITS,
    refused_part=_UNITS,
    peak_hour=_WHOLE,
    seasonality=_UNITS,
    near_part=_UNITS,
    verdict=_TEXT,
)
"""Per group: limits that would have refused a given fraction of the demand."""

BILL = _table(
    day=_TIME,
    tenant=_TEXT,
    dimension=_TEXT,
    groups=_WHOLE,
    attempted=_UNITS,
    admitted=_UNITS,
    refused=_UNITS,
    gap_bound=_UNITS,
)
"""Totals per tenant and day."""

PERIODS = _table(
    period_start=_TIME,
    period_end=_TIME,
    period=_TEXT,
    time_zone=_TEXT,
    **_GROUP,
    allowed=_UNITS,
    admitted=_UNITS,
    refused=_UNITS,
    used_part=_UNITS,
    excess=_UNITS,
)
"""Use of limits with a calendar period, period by period."""

INVOICES = _table(
    month_start=_TIME,
    month=_TEXT,
    tenant=_TEXT,
    time_zone=_TEXT,
    plan=_TEXT,
    currency=_TEXT,
    decimals=_WHOLE,
    status=_TEXT,
    line=_WHOLE,
    item=_TEXT,
    units=_UNITS,
    from_units=_UNITS,
    price=_PRICE,
    per=_UNITS,
    amount=_MONEY,
)
"""One line of an invoice; a month's invoice of a tenant is all of its lines."""

RETIRED = _table(
    retired_until=_TIME,
    group_id=_WHOLE,
    dimension=_TEXT,
    agent=_TEXT,
    refused=_UNITS,
    admitted=_UNITS,
)
"""Sums of the rows of ``usage_10s`` that ``--keep-days`` removed."""

CONFIGURATIONS = _table(recorded=_TIME, revision=_WHOLE, document=_TEXT)
"""The configuration, revision by revision, as snapshots in JSON."""

TABLES: dict[str, StructType] = {
    "usage_10s": USAGE,
    "usage_open": USAGE,
    "usage_1m": USAGE,
    "usage_1h": USAGE,
    "violations": VIOLATIONS,
    "unfairness": UNFAIRNESS,
    "starved": STARVED,
    "noisy": NOISY,
    "gaps": GAPS,
    "counters": COUNTERS,
    "dead_letters": DEAD_LETTERS,
    "losses": LOSSES,
    "recommendations": RECOMMENDATIONS,
    "bill": BILL,
    "periods": PERIODS,
    "invoices": INVOICES,
    "retired": RETIRED,
    "configurations": CONFIGURATIONS,
}
"""All tables by name."""

TIME_COLUMN: dict[str, str] = {
    "gaps": "heard",
    "counters": "heard",
    "dead_letters": "received",
    "losses": "noticed",
    "recommendations": "made",
    "bill": "day",
    "periods": "period_start",
    "invoices": "month_start",
    "retired": "retired_until",
    "configurations": "recorded",
}
"""The time of a table's rows where it is not the start of a window."""

STREAMED: tuple[str, ...] = (
    "usage_10s",
    "usage_1m",
    "usage_1h",
    "violations",
    "unfairness",
    "starved",
    "noisy",
    "gaps",
    "counters",
    "dead_letters",
    "losses",
)
"""Tables that the stream appends to, batch by batch."""

DATE = "date"
"""The partition of every table: the day (UTC) of its time."""

BATCH = "batch"
"""The number of the batch that wrote a row, in every table."""
