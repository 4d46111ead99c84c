"""Opaque tokens: made once, shown once, kept as a hash."""

import hashlib
import hmac
import secrets
import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.api.rights.principal import ROLES, Principal, Role
from headgate.api.rights.schemas import TokenPage, TokenShown
from headgate.api.store import Change
from headgate.api.store.tables import TokenRow
from headgate.api.values.errors import Invalid, NotFound
from headgate.api.values.names import checked_name

PREFIX = "hg"
"""Begins every opaque token, so that scanners for leaked secrets can find them."""

SECRET_BYTES = 32
"""256 bits from the kernel, which need no slow hash to protect them."""

MAX_LIFE_S = 10 * 366 * 86_400.0
"""Ten years."""


def make_token(
    change: Change,
    name: str,
    role: Role,
    *,
    tenants: list[str] | None = None,
    life_s: float | None = None,
) -> tuple[str, TokenShown]:
    """Create a token; return its text, which is never shown again, and its row.

    Args:
        change: The transaction.
        name: Name of its bearer, as the audit shows it.
        role: What it is for.
        tenants: Tenants of an operator; None for all.
        life_s: Seconds until it expires; None for never.

    Raises:
        Invalid: A field can't be accepted.
    """
    checked_name(name, "name")
    if role not in ROLES:
        raise Invalid("role", f"expected one of {', '.join(ROLES)}")
    if tenants is not None and role != "operator":
        raise Invalid("tenants", "expected only for an operator")
    if life_s is not None and not 0 < life_s <= MAX_LIFE_S:
        raise Invalid(
            "life_s", f"expected more than 0 and at most {MAX_LIFE_S:.0f} seconds"
        )
    secret = secrets.token_urlsafe(SECRET_BYTES)
    now = time.time()
    row = TokenRow(
        name=name,
        role=role,
        tenants=tenants,
        digest=_digest(secret),
        made_at_s=now,
        ends_at_s=None if life_s is None else now + life_s,
    )
    change.session.add(row)
    change.session.flush()
    shown = shown_token(row)
    change.record("token", str(row.id), before=None, after=shown.model_dump())
    return f"{PREFIX}_{row.id}_{secret}", shown


def list_tokens(session: Session, *, after: int = 0, limit: int) -> TokenPage:
    """Return up to `limit` tokens, without what would let anyone use them."""
    query = select(TokenRow).where(TokenRow.id > after).order_by(TokenRow.id)
    rows = session.scalars(query.limit(limit + 1)).all()
    return TokenPage(
        items=[shown_token(row) for row in rows[:limit]],
        next=rows[limit - 1].id if len(rows) > limit else None,
    )


def delete_token(change: Change, number: int) -> None:
    """Revoke a token.

    Raises:
        NotFound: There is no token with that number.
    """
    row = change.session.get(TokenRow, number)
    if row is None:
        raise NotFound("token", str(number))
    before = shown_token(row).model_dump()
    change.session.delete(row)
    change.session.flush()
    change.record("token", str(number), before=before, after=None)


def bearer(session: Session, token: str) -> Principal | None:
    """Return the principal of an opaque `token`, or None if it is not valid."""
    parts = token.split("_", 2)
    if len(parts) != 3 or parts[0] != PREFIX or not parts[1].isascii():
        return None
    if not parts[1].isdecimal() or len(parts[1]) > 18:
        return None
    row = session.get(TokenRow, int(parts[1]))
    if row is None or not hmac.compare_digest(row.digest, _digest(parts[2])):
        return None
    if row.ends_at_s is not None and row.ends_at_s <= time.time():
        return None
    shown = shown_token(row)
    tenants = None if shown.tenants is None else frozenset(shown.tenants)
    return Principal(
        name=row.name, role=shown.role, tenants=tenants, ends_at_s=row.ends_at_s
    )


def shown_token(row: TokenRow) -> TokenShown:
    """Return `row` without its digest."""
    return TokenShown.model_validate(
        {
            "id": row.id,
            "name": row.name,
            "role": row.role,
            "tenants": row.tenants,
            "made_at_s": row.made_at_s,
            "ends_at_s": row.ends_at_s,
        }
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
