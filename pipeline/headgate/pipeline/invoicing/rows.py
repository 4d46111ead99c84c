"""Invoices from rows of usage, and as rows of the table ``invoices``."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING

from headgate.pipeline.invoicing.invoice import Invoice, InvoiceLine, lines_of, rounded
from headgate.pipeline.settings import WrongSettings
from headgate.pipeline.tables.schema import INVOICES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from headgate.pipeline.invoicing.plans import Counts, PriceList

_MICROS = 1_000_000


def invoiced(
    used: Iterable[Row],
    prices: PriceList,
    *,
    closed_us: int,
    known: Collection[Invoice],
) -> list[Invoice]:
    """Return the invoices of all months that are not final yet.

    Args:
        used: Rows of `jobs.months.months`.
        prices: Plans, and who is on which; others get no invoice.
        closed_us: Windows that end until here are closed, microseconds.
        known: What was invoiced before; the final ones stay as they are.

    Raises:
        WrongSettings: A tenant's plan is not valid in one of the months, or its months
            now begin at another time than those that are final.
    """
    zones = {one.tenant: one.time_zone for one in known if one.status == "final"}
    final = {(one.tenant, one.month) for one in known if one.status == "final"}
    ordered = sorted(used, key=lambda row: (row["tenant"], row["month"]))
    found: list[Invoice] = []
    for (tenant, month), rows in groupby(
        ordered, key=lambda row: (row["tenant"], row["month"])
    ):
        account = prices.account_of(tenant)
        if account is None or (tenant, month) in final:
            continue
        zone = zones.get(tenant, account.time_zone)
        if zone != account.time_zone:
            raise WrongSettings(
                f"prices: tenant {tenant!r} has final invoices in the time zone "
                f"{zone}; with {account.time_zone}, some hours would be billed twice "
                "or never"
            )
        plan = prices.plan_in(account.plan, date.fromisoformat(f"{month}-01"))
        if plan is None:
            raise WrongSettings(
                f"prices: plan {account.plan!r} of tenant {tenant!r} is not valid in "
                f"{month}, when the tenant had usage; no invoice was created"
            )
        months = list(rows)
        units = {row["dimension"]: _units(row) for row in months}
        found.append(
            Invoice(
                tenant=tenant,
                month=month,
                month_start_us=months[0]["begin_us"],
                time_zone=account.time_zone,
                plan=plan.name,
                currency=plan.currency,
                decimals=plan.decimals,
                status="final" if months[0]["end_us"] <= closed_us else "open",
                lines=lines_of(plan, units),
            )
        )
    return found


def invoices_frame(session: SparkSession, invoices: Sequence[Invoice]) -> DataFrame:
    """Return invoices as rows of `schema.INVOICES`, a row per line.

    An invoice without a line has one row, whose ``line`` is null.
    """
    rows: list[tuple[object, ...]] = []
    for one in invoices:
        start = datetime.fromtimestamp(one.month_start_us / _MICROS, UTC)
        head = (
            start, one.month, one.tenant, one.time_zone, one.plan, one.currency,
            one.decimals, one.status,
        )  # fmt: skip
        for number, line in enumerate(one.lines, start=1):
            units, begin, per = map(float, (line.units, line.from_units, line.per))
            tail = (number, line.item, units, begin, line.price, per, line.amount)
            rows.append((*head, *tail))
        if not one.lines:
            rows.append((*head, *[None] * 7))
    return session.createDataFrame(rows, INVOICES)


def invoices_of(rows: DataFrame) -> list[Invoice]:
    """Return the invoices that `invoices_frame` made rows of."""
    found: list[Invoice] = []
    key = ("tenant", "month")
    ordered = rows.orderBy(*key, "line").collect()
    for _, lines in groupby(ordered, key=lambda row: [row[name] for name in key]):
        parts = list(lines)
        first = parts[0]
        found.append(
            Invoice(
                tenant=first["tenant"],
                month=first["month"],
                month_start_us=round(first["month_start"].timestamp()) * _MICROS,
                time_zone=first["time_zone"],
                plan=first["plan"],
                currency=first["currency"],
                decimals=first["decimals"],
                status=first["status"],
                lines=tuple(_line(row) for row in parts if row["line"] is not None),
            )
        )
    return found


def _line(row: Row) -> InvoiceLine:
    return InvoiceLine(
        item=row["item"],
        units=_exact(row["units"]),
        from_units=_exact(row["from_units"]),
        price=_plain(row["price"]),
        per=_exact(row["per"]),
        amount=rounded(row["amount"], row["decimals"]),
    )


def _units(row: Row) -> dict[Counts, Decimal]:
    return {
        "admitted": _exact(row["admitted"]),
        "attempted": _exact(row["attempted"]),
    }


def _exact(units: float) -> Decimal:
    """Return the whole thousandths that a double stands for."""
    return _plain(Decimal(f"{units:.3f}"))


def _plain(number: Decimal) -> Decimal:
    """Return a number without the trailing zeros that a column adds."""
    whole = number.normalize()
    return whole.quantize(Decimal(1)) if whole == whole.to_integral_value() else whole
