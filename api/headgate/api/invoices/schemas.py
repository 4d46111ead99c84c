"""Invoices as the API shows them; amounts are strings, so no reader rounds them."""

from typing import Literal

from pydantic import BaseModel, Field

Amount = str


class InvoiceLineShown(BaseModel):
    """One line: units of a tier, or the monthly fee."""

    item: str = Field(description="The dimension, or `monthly fee`.")
    units: Amount = Field(description="Units in this tier.")
    from_units: Amount = Field(
        description="Units of the month at which the tier begins."
    )
    price: Amount = Field(description="Price of `per` units.")
    per: Amount
    amount: Amount


class InvoiceShown(BaseModel):
    """What a tenant owes for a calendar month."""

    tenant: str
    month: str = Field(examples=["2026-11"])
    time_zone: str = Field(description="Where the month begins and ends.")
    plan: str
    currency: str
    status: Literal["open", "final"] = Field(
        description="A final invoice never changes."
    )
    total: Amount
    lines: list[InvoiceLineShown]


class InvoicesShown(BaseModel):
    """A tenant's invoices, the newest first."""

    items: list[InvoiceShown]
