"""Invoices: the units of a tenant's month and a plan → lines and a total.

Units are whole thousandths and prices decimals, so every line is exact before it is
rounded, once, to the currency's decimals.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headgate.pipeline.invoicing.plans import Counts, Price, PricePlan

FEE = "monthly fee"
"""The item of the line that is not for units."""

DIGITS = 60
"""Precision of every calculation: more digits than units and prices have together."""

Status = Literal["open", "final"]


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """One line.

    Attributes:
        item: The dimension, or `FEE`.
        units: In this tier.
        from_units: Where the tier begins in the month's units.
        price: Of `per` units.
        per: Units.
        amount: Rounded to the currency's decimals.
    """

    item: str
    units: Decimal
    from_units: Decimal
    price: Decimal
    per: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """What a tenant owes for a calendar month.

    Attributes:
        tenant: Who.
        month: ``2026-11``, in the tenant's time zone.
        month_start_us: When it began, microseconds since the epoch.
        time_zone: IANA name.
        plan: Name of the plan.
        currency: Code of ISO 4217.
        decimals: Of every amount.
        status: ``final`` once every window of the month is closed; then it never
            changes again.
        lines: The fee first, then dimensions by name, tiers ascending.
    """

    tenant: str
    month: str
    month_start_us: int
    time_zone: str
    plan: str
    currency: str
    decimals: int
    status: Status
    lines: tuple[InvoiceLine, ...]

    @property
    def total(self) -> Decimal:
        """The sum of the lines."""
        return sum((line.amount for line in self.lines), Decimal(0))


def lines_of(
    plan: PricePlan, used: Mapping[str, Mapping[Counts, Decimal]]
) -> tuple[InvoiceLine, ...]:
    """Return the lines of a month; dimensions without a price cost nothing.

    Args:
        plan: The version that is valid in that month.
        used: By dimension, units admitted and attempted.
    """
    lines: list[InvoiceLine] = []
    with localcontext(prec=DIGITS):
        if plan.monthly_fee:
            fee, one, none = plan.monthly_fee, Decimal(1), Decimal(0)
            lines.append(
                InvoiceLine(FEE, one, none, fee, one, rounded(fee, plan.decimals))
            )
        for price in sorted(plan.prices, key=lambda price: price.dimension):
            if price.dimension in used:
                units = used[price.dimension][price.counts]
                lines.extend(_tiered(price, units, plan.decimals))
    return tuple(lines)


def rounded(amount: Decimal, decimals: int) -> Decimal:
    """Return an amount rounded half up to that many decimals."""
    return amount.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def _tiered(price: Price, units: Decimal, decimals: int) -> Iterator[InvoiceLine]:
    """Yield a line for each tier that holds some of the units."""
    begin = Decimal(0)
    for tier in price.tiers:
        end = units if tier.up_to is None else min(units, tier.up_to)
        if end > begin:
            part = end - begin
            amount = rounded(part / price.per * tier.price, decimals)
            yield InvoiceLine(
                price.dimension, part, begin, tier.price, price.per, amount
            )
        begin = max(begin, end)
