"""REST routes of invoices, as JSON and CSV."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Request, Response

from headgate.api.invoices.folder import InvoiceFolder
from headgate.api.invoices.schemas import InvoiceShown, InvoicesShown

router = APIRouter(prefix="/tenants/{tenant}/invoices", tags=["invoices"])


def folder_of(request: Request) -> InvoiceFolder:
    """Return the folder that the application was made for."""
    return cast("InvoiceFolder", request.app.state.invoices)


FolderOf = Annotated[InvoiceFolder, Depends(folder_of)]
Tenant = Annotated[
    str,
    Path(
        max_length=1024,
        description="The tenant's name, as invoiced.",
        examples=["acme"],
    ),
]
Month = Annotated[
    str,
    Path(
        pattern="^[0-9]{4}-[0-9]{2}$",
        description="Calendar month.",
        examples=["2026-11"],
    ),
]


@router.get("", summary="List a tenant's invoices")
def list_invoices(tenant: Tenant, invoices: FolderOf) -> InvoicesShown:
    """Return the invoices that the pipeline wrote, newest month first."""
    return InvoicesShown(items=invoices.months(tenant))


# Before the JSON route, which would take the ending for part of the month.
@router.get(
    "/{month}.csv",
    summary="Show an invoice as CSV",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def get_invoice_as_csv(tenant: Tenant, month: Month, invoices: FolderOf) -> Response:
    """Return the lines of an invoice, with a header row."""
    text = invoices.text(tenant, month, "csv")
    named = f'attachment; filename="invoice-{month}.csv"'
    return Response(text, media_type="text/csv", headers={"Content-Disposition": named})


@router.get("/{month}", summary="Show an invoice")
def get_invoice(tenant: Tenant, month: Month, invoices: FolderOf) -> InvoiceShown:
    """Return what a tenant owes for a calendar month in its time zone."""
    return invoices.invoice(tenant, month)
