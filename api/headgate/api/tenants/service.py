"""Operations on tenants and namespaces, inside one transaction."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headgate.api.attachments.service import (
    delete_attachment,
    delete_attachments_under,
)
from headgate.api.policies.service import delete_policies_under
from headgate.api.store import Change
from headgate.api.store.tables import NamespaceRow, TenantRow
from headgate.api.tenants.schemas import (
    NamespacePage,
    NamespaceShown,
    TenantPage,
    TenantPut,
    TenantShown,
)
from headgate.api.tenants.topics import delete_partitions, partitioned_topics
from headgate.api.values.errors import AlreadyExists, InUse, NotFound
from headgate.api.values.names import checked_name
from headgate.api.values.preconditions import ANYTHING, Precondition


def list_tenants(
    session: Session,
    *,
    after: str,
    limit: int,
    among: Collection[str] | None = None,
) -> TenantPage:
    """Return up to `limit` tenants whose names follow `after`, of all or `among`."""
    query = select(TenantRow).where(TenantRow.name > after).order_by(TenantRow.name)
    if among is not None:
        query = query.where(TenantRow.name.in_(among))
    rows = session.scalars(query.limit(limit + 1)).all()
    items = [shown_tenant(row) for row in rows[:limit]]
    return TenantPage(items=items, next=items[-1].name if len(rows) > limit else None)


def find_tenant(session: Session, name: str) -> TenantRow:
    """Return the tenant's row.

    Raises:
        NotFound: There is none.
    """
    row = session.get(TenantRow, name)
    if row is None:
        raise NotFound("tenant", name)
    return row


def put_tenant(
    change: Change,
    name: str,
    *,
    admin_roles: Sequence[str],
    allowed_clusters: Sequence[str],
    must_be_new: bool = False,
    precondition: Precondition = ANYTHING,
) -> tuple[TenantShown, bool]:
    """Create a tenant or replace it; return it and whether it is new.

    Raises:
        Outdated: It does not match `precondition`.
        AlreadyExists: It exists and must be new.
    """
    checked_name(name, "tenant")
    row = change.session.get(TenantRow, name)
    if row is not None and must_be_new:
        raise AlreadyExists("tenant", name)
    precondition.check(None if row is None else row.revision)
    before = None if row is None else _document(row)
    is_new = row is None
    if row is None:
        row = TenantRow(name=name, revision=change.revision)
        change.session.add(row)
    row.admin_roles = list(admin_roles)
    row.allowed_clusters = list(allowed_clusters)
    if change.record("tenant", name, before=before, after=_document(row)):
        row.revision = change.revision
    change.session.flush()
    return shown_tenant(row), is_new


def put_tenants(change: Change, bodies: Mapping[str, TenantPut]) -> None:
    """Create or replace many tenants in few queries."""
    present = {row.name: row for row in change.session.scalars(select(TenantRow))}
    for name, body in bodies.items():
        checked_name(name, "tenant")
        row = present.get(name)
        before = None if row is None else _document(row)
        after = body.model_dump(mode="json")
        if not change.record("tenant", name, before=before, after=after):
            continue
        if row is None:
            row = TenantRow(name=name)
            change.session.add(row)
        row.admin_roles, row.allowed_clusters = body.admin_roles, body.allowed_clusters
        row.revision = change.revision
    change.session.flush()


def delete_tenant(
    change: Change, name: str, precondition: Precondition = ANYTHING
) -> None:
    """Delete a tenant without namespaces, and its attachment.

    Raises:
        NotFound: There is none.
        Outdated: It does not match `precondition`.
        InUse: It has namespaces.
    """
    row = find_tenant(change.session, name)
    precondition.check(row.revision)
    query = select(func.count()).where(NamespaceRow.tenant == name)
    count = change.session.scalars(query.select_from(NamespaceRow)).one()
    if count:
        raise InUse("tenant", f"{count} namespace{'s' if count > 1 else ''}")
    delete_attachment(change, (("tenant", name),))
    change.session.delete(row)
    change.session.flush()
    change.record("tenant", name, before=_document(row), after=None)


def list_namespaces(
    session: Session, tenant: str, *, after: str, limit: int
) -> NamespacePage:
    """Return up to `limit` namespaces of `tenant` whose names follow `after`."""
    find_tenant(session, tenant)
    query = (
        select(NamespaceRow)
        .where(NamespaceRow.tenant == tenant, NamespaceRow.name > after)
        .order_by(NamespaceRow.name)
    )
    rows = session.scalars(query.limit(limit + 1)).all()
    items = [shown_namespace(row) for row in rows[:limit]]
    more = items[-1].name if len(rows) > limit else None
    return NamespacePage(items=items, next=more)


def find_namespace(session: Session, tenant: str, name: str) -> NamespaceRow:
    """Return the namespace's row.

    Raises:
        NotFound: There is none.
    """
    row = session.get(NamespaceRow, (tenant, name))
    if row is None:
        raise NotFound("namespace", f"{tenant}/{name}")
    return row


def put_namespace(
    change: Change,
    tenant: str,
    name: str,
    *,
    policies: Mapping[str, object] | None = None,
    must_be_new: bool = False,
    precondition: Precondition = ANYTHING,
) -> tuple[NamespaceShown, bool]:
    """Create a namespace unless it exists; return it and whether it is new.

    Args:
        change: The transaction.
        tenant: Its tenant, which must exist.
        name: Its name within the tenant.
        policies: Pulsar's object, kept as sent; None keeps the present one.
        must_be_new: Refuse if it exists already.
        precondition: What the caller believes about it.

    Raises:
        Outdated: It does not match `precondition`.
        NotFound: The tenant does not exist.
        AlreadyExists: It exists and must be new.
    """
    checked_name(name, "namespace")
    find_tenant(change.session, tenant)
    row = change.session.get(NamespaceRow, (tenant, name))
    if row is not None and must_be_new:
        raise AlreadyExists("namespace", f"{tenant}/{name}")
    precondition.check(None if row is None else row.revision)
    is_new = row is None
    before = None if row is None else {"policies": row.policies}
    if row is None:
        row = NamespaceRow(
            tenant=tenant, name=name, policies={}, revision=change.revision
        )
        change.session.add(row)
    if policies is not None:
        row.policies = dict(policies)
    after = {"policies": row.policies}
    if change.record("namespace", f"{tenant}/{name}", before=before, after=after):
        row.revision = change.revision
    change.session.flush()
    return shown_namespace(row), is_new


def delete_namespace(
    change: Change, tenant: str, name: str, precondition: Precondition = ANYTHING
) -> None:
    """Delete a namespace with its and its topics' attachments and policies.

    Raises:
        NotFound: There is none.
        Outdated: It does not match `precondition`.
    """
    row = find_namespace(change.session, tenant, name)
    precondition.check(row.revision)
    delete_attachments_under(change, f"{tenant}/{name}")
    delete_policies_under(change, f"{tenant}/{name}")
    for topic in partitioned_topics(change.session, f"{tenant}/{name}"):
        delete_partitions(change, topic)
    change.session.delete(row)
    change.session.flush()
    before = {"policies": row.policies}
    change.record("namespace", f"{tenant}/{name}", before=before, after=None)


def shown_tenant(row: TenantRow) -> TenantShown:
    """Return `row` as responses show it."""
    return TenantShown(
        name=row.name,
        admin_roles=row.admin_roles,
        allowed_clusters=row.allowed_clusters,
        revision=row.revision,
    )


def shown_namespace(row: NamespaceRow) -> NamespaceShown:
    """Return `row` as responses say it."""
    return NamespaceShown(tenant=row.tenant, name=row.name, revision=row.revision)


def _document(row: TenantRow) -> dict[str, object]:
    return {
        "admin_roles": list(row.admin_roles),
        "allowed_clusters": list(row.allowed_clusters),
    }
