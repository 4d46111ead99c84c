"""Invoices as files that the API serves: a JSON and a CSV for each tenant and month.

``<folder>/<tenant>/<month>.json``; the tenant's name is quoted as in a URL, so that it
can't leave the folder, and cut if no file system takes it: tenants that share a group
are invoiced under all of their names.
"""

from __future__ import annotations

import csv
import io
import json
import os
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from headgate.pipeline.invoicing.invoice import Invoice

CSV_COLUMNS = (
    "tenant", "month", "time_zone", "plan", "currency", "status",
    "item", "units", "from_units", "price", "per", "amount",
)  # fmt: skip


LONGEST = 255
"""Most bytes in the name of a folder: every usual file system takes as many."""


def folder_name(tenant: str) -> str:
    """Return the name of a tenant's folder; the API knows it by the same rule.

    One that is too long is cut, and ends with ``+``, which no quoted name holds, and a
    digest of the whole.

    >>> folder_name("acme"), folder_name("../x"), folder_name("..")
    ('acme', '..%2Fx', '%2E%2E')
    >>> folder_name("a" * 300)[-20:]
    'aaa+8b397aa4c75429a2'
    """
    quoted = quote(tenant, safe="")
    if len(quoted) > LONGEST:
        ending = f"+{blake2b(tenant.encode(), digest_size=8).hexdigest()}"
        return quoted[: LONGEST - len(ending)] + ending
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted


def to_json(invoice: Invoice) -> str:
    """Return an invoice as JSON; amounts are strings, so that no reader rounds them."""
    document = {
        "tenant": invoice.tenant,
        "month": invoice.month,
        "time_zone": invoice.time_zone,
        "plan": invoice.plan,
        "currency": invoice.currency,
        "status": invoice.status,
        "total": f"{invoice.total:.{invoice.decimals}f}",
        "lines": [
            {
                "item": line.item,
                "units": f"{line.units:f}",
                "from_units": f"{line.from_units:f}",
                "price": f"{line.price:f}",
                "per": f"{line.per:f}",
                "amount": f"{line.amount:.{invoice.decimals}f}",
            }
            for line in invoice.lines
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def to_csv(invoice: Invoice) -> str:
    """Return an invoice as CSV, a row per line, with a heading."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    head = (
        invoice.tenant, invoice.month, invoice.time_zone, invoice.plan,
        invoice.currency, invoice.status,
    )  # fmt: skip
    for line in invoice.lines:
        numbers = (line.units, line.from_units, line.price, line.per)
        # A spreadsheet takes text that begins like this for a formula.
        row = [f"'{word}" if word.startswith(_FORMULA) else word for word in head]
        amount = f"{line.amount:.{invoice.decimals}f}"
        row += [line.item, *(f"{number:f}" for number in numbers), amount]
        writer.writerow(row)
    return text.getvalue()


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_invoices(invoices: Iterable[Invoice], folder: Path) -> None:
    """Write the files of invoices; a reader sees the old one or the new one."""
    for invoice in invoices:
        place = folder / folder_name(invoice.tenant)
        place.mkdir(parents=True, exist_ok=True)
        for ending, text in (("json", to_json(invoice)), ("csv", to_csv(invoice))):
            fresh = place / f".{invoice.month}.{ending}"
            fresh.write_text(text, encoding="utf-8")
            os.replace(fresh, place / f"{invoice.month}.{ending}")
