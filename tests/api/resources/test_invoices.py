"""Invoices as the pipeline wrote them, over the API."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from headgate.api import RightsSettings, ServerSettings, create_token, running
from headgate.pipeline.invoicing.files import write_invoices
from headgate.pipeline.invoicing.invoice import Invoice, InvoiceLine

UNITS = InvoiceLine(
    item="requests",
    units=Decimal(1500),
    from_units=Decimal(0),
    price=Decimal("0.5"),
    per=Decimal(1000),
    amount=Decimal("0.75"),
)


MANY = ", ".join(f"customer {number}" for number in range(20))
"""Tenants that share a group: no folder has a name that long."""


def invoice(tenant: str, month: str) -> Invoice:
    return Invoice(
        tenant=tenant, month=month, month_start_us=0, time_zone="Europe/Zurich",
        plan="standard", currency="CHF", decimals=2, status="final", lines=(UNITS,),
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written = [
        invoice(tenant, month)
        for tenant in ("acme", "(group) gold, x", "beta", MANY)
        for month in ("2026-10", "2026-11")
    ]
    write_invoices(written, tmp_path / "invoices")
    return tmp_path / "invoices"


@pytest.fixture
def api(settings: ServerSettings, folder: Path) -> Iterator[httpx.Client]:
    with (
        running(replace(settings, invoices=folder)) as addresses,
        httpx.Client(base_url=f"{addresses.api}/api/v1", timeout=30.0) as client,
    ):
        yield client


@pytest.mark.parametrize("tenant", ["acme", "(group) gold, x", MANY])
def test_an_invoice_is_served_as_json_and_csv(api: httpx.Client, tenant: str) -> None:
    months = api.get(f"/tenants/{tenant}/invoices").json()["items"]
    assert [each["month"] for each in months] == ["2026-11", "2026-10"]
    found = api.get(f"/tenants/{tenant}/invoices/2026-11").json()
    assert found == months[0]
    assert (found["total"], found["status"]) == ("0.75", "final")
    answer = api.get(f"/tenants/{tenant}/invoices/2026-11.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["amount"], row["currency"]) == ("0.75", "CHF")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("acme/invoices/2026-12", 404),
        ("acme/invoices/2026-12.csv", 404),
        ("acme/invoices/..%2F..%2Fx", 404),
        ("acme/invoices/november", 422),
        ("%2E%2E/invoices/2026-11", 404),
    ],
)
def test_what_is_not_there_is_a_problem_that_says_so(
    api: httpx.Client, path: str, status: int
) -> None:
    answer = api.get(f"/tenants/{path}")
    assert answer.status_code == status, answer.text
    assert api.get("/tenants/nobody/invoices").json() == {"items": []}


def test_a_damaged_file_is_a_problem_and_the_others_are_served(
    api: httpx.Client, folder: Path
) -> None:
    (folder / "acme" / "2026-11.json").write_text('{"tenant": "ac')
    answer = api.get("/tenants/acme/invoices/2026-11")
    assert (answer.status_code, "create it again" in answer.text) == (409, True)
    assert api.get("/tenants/acme/invoices/2026-10").is_success


def test_a_server_without_a_folder_says_which_option_it_lacks(
    settings: ServerSettings,
) -> None:
    with running(settings) as addresses:
        answer = httpx.get(f"{addresses.api}/api/v1/tenants/acme/invoices")
    assert answer.status_code == 404
    assert "--invoices" in answer.json()["detail"]


def test_an_operator_of_one_tenant_sees_no_other_invoices(
    settings: ServerSettings, folder: Path
) -> None:
    rights = RightsSettings(required=True)
    guarded = replace(settings, invoices=folder, rights=rights)
    token = create_token(guarded, "anna", "operator", tenants=["acme"])
    headers = {"Authorization": f"Bearer {token}"}
    with running(guarded) as addresses:
        url = f"{addresses.api}/api/v1/tenants"
        seen = [
            httpx.get(f"{url}/{path}", headers=headers).status_code
            for path in ("acme/invoices", "beta/invoices", "beta/invoices/2026-11.csv")
        ]
    assert seen == [200, 403, 403]
