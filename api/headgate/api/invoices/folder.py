"""The folder of invoices, as `headgate pipeline run invoices` writes it.

``<folder>/<tenant, quoted>/<month>.json`` and ``.csv``; a name that is too long for a
folder is cut, and ends with ``+`` and a digest.  Names are only ever compared with what
the folder holds, so that no request leads out of it.
"""

import logging
import re
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote

from pydantic import ValidationError

from headgate.api.invoices.schemas import InvoiceShown
from headgate.api.values.errors import Conflict, NotFound

MAX_MONTHS = 240
"""Most months in a list, the newest ones: twenty years."""

MAX_BYTES = 4 << 20
"""Largest file: a line has some 150 bytes, an invoice a few hundred lines at most."""

_MONTH = re.compile("[0-9]{4}-[0-9]{2}")

_log = logging.getLogger(__name__)


class InvoiceFolder:
    """Reads invoices; the pipeline replaces each file as a whole."""

    def __init__(self, path: Path | None) -> None:
        """Read below `path`; None if this server has no invoices."""
        self._path = path

    def months(self, tenant: str) -> list[InvoiceShown]:
        """Return a tenant's invoices, newest first; an empty list if there are none.

        Raises:
            NotFound: This server has no invoices at all.
            Conflict: A file is damaged.
        """
        folder = self._of(tenant)
        names = [] if folder is None else [path.stem for path in folder.glob("*.json")]
        found = sorted(filter(_MONTH.fullmatch, names), reverse=True)
        return [self.invoice(tenant, month) for month in found[:MAX_MONTHS]]

    def invoice(self, tenant: str, month: str) -> InvoiceShown:
        """Return the invoice of a month.

        Raises:
            NotFound: There is none.
            Conflict: Its file is damaged.
        """
        text = self.text(tenant, month, "json")
        try:
            return InvoiceShown.model_validate_json(text)
        except ValidationError as error:
            raise _damaged(tenant, month, error) from error

    def text(self, tenant: str, month: str, ending: str) -> str:
        """Return a file of an invoice, ``json`` or ``csv``, as the pipeline wrote it.

        Raises:
            NotFound: There is none.
            Conflict: It is damaged.
        """
        folder = self._of(tenant)
        path = None if folder is None else folder / f"{month}.{ending}"
        if path is None or not _MONTH.fullmatch(month) or not path.is_file():
            raise NotFound("an invoice", f"{tenant} {month}")
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES} bytes")
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise _damaged(tenant, month, error) from error

    def _of(self, tenant: str) -> Path | None:
        """Return the folder of a tenant."""
        if self._path is None:
            raise NotFound("a folder of invoices (`headgate up --invoices`)", None)
        if not self._path.is_dir():  # nothing has been invoiced yet
            return None
        ending = f"+{blake2b(tenant.encode(), digest_size=8).hexdigest()}"
        named = (
            path
            for path in self._path.iterdir()
            if unquote(path.name) == tenant or path.name.endswith(ending)
        )
        return next(named, None)


def _damaged(tenant: str, month: str, error: Exception) -> Conflict:
    _log.warning("the invoice of %s for %s can't be read: %s", tenant, month, error)
    return Conflict(
        f"the invoice of {tenant!r} for {month} can't be read: create it again with "
        "`headgate pipeline run invoices`"
    )
