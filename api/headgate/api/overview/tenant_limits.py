"""What limits a tenant: its group, and the groups of its namespaces, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headgate.agent.follow.subject import Key, Subject, applying_keys
from headgate.api.attachments.subjects import subject_of_key
from headgate.api.store.tables import (
    AttachmentRow,
    GroupRow,
    NamespaceRow,
    StateRow,
)
from headgate.api.tenants.service import find_tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLook:
    """A view of one tenant: a window of its namespaces by name.

    Attributes:
        tenant: Its name.
        search: Part of a namespace's name, without the tenant; empty for all.
        offset: Number of matching namespaces to skip.
        limit: Number of namespaces to return.
    """

    tenant: str
    search: str = ""
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """A group that applies to a subject.

    Attributes:
        group: Its name.
        subject: The attachment that leads there: the subject's own, that of a wider
            one, or a default.
    """

    group: str
    subject: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSubject:
    """A tenant or a namespace, and the groups that apply to it.

    Attributes:
        name: ``acme`` or ``acme/orders``.
        through: At most one group of each family of attachments, the cluster's first.
    """

    name: str
    through: tuple[Through, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantGroups:
    """A tenant and a window of its namespaces.

    Attributes:
        tenant: The tenant itself.
        namespaces: The window.
        total: Number of its namespaces.
        matching: Number of namespaces that the search matches.
    """

    tenant: LimitedSubject
    namespaces: tuple[LimitedSubject, ...]
    total: int
    matching: int

    def groups(self) -> set[str]:
        """Return the names of all groups that apply to any of them."""
        subjects = (self.tenant, *self.namespaces)
        return {through.group for one in subjects for through in one.through}


def groups_of_tenant(session: Session, look: TenantLook) -> TenantGroups:
    """Return which groups apply to a tenant and to the namespaces of `look`.

    Agents decide by the same function (`applying_keys`), so this is what they enforce.

    Raises:
        NotFound: There is no such tenant.
    """
    find_tenant(session, look.tenant)
    count = (
        select(func.count())
        .select_from(NamespaceRow)
        .where(NamespaceRow.tenant == look.tenant)
    )
    names = select(NamespaceRow.name).where(NamespaceRow.tenant == look.tenant)
    total = matching = session.scalars(count).one()
    if look.search:
        matches = NamespaceRow.name.icontains(look.search, autoescape=True)
        matching = session.scalars(count.where(matches)).one()
        names = names.where(matches)
    window = names.order_by(NamespaceRow.name).offset(look.offset).limit(look.limit)
    found = [f"{look.tenant}/{name}" for name in session.scalars(window)]
    attached = _attached(session, look.tenant, found)
    cluster = session.scalars(select(StateRow.cluster)).one()
    ids = {key: number for key, (number, _) in attached.items()}

    def limited(name: str, subject: Subject) -> LimitedSubject:
        keys = applying_keys(subject, ids, cluster)
        return LimitedSubject(
            name=name,
            through=tuple(Through(group=attached[key][1], subject=key) for key in keys),
        )

    return TenantGroups(
        tenant=limited(look.tenant, Subject(tenant=look.tenant)),
        namespaces=tuple(
            limited(name, Subject(tenant=look.tenant, namespace=name)) for name in found
        ),
        total=total,
        matching=matching,
    )


def _attached(
    session: Session, tenant: str, namespaces: Sequence[str]
) -> dict[Key, tuple[int, str]]:
    """Return id and name of the groups that may apply to them, by subject."""
    kind, name = AttachmentRow.kind, AttachmentRow.name
    query = (
        select(AttachmentRow.subject, GroupRow.id, GroupRow.name)
        .join(GroupRow, GroupRow.id == AttachmentRow.group_id)
        .where(
            (kind == "cluster")
            | ((kind == "tenant") & ((name == tenant) | name.is_(None)))
            | ((kind == "namespace") & (name.in_(namespaces) | name.is_(None)))
        )
    )
    return {
        tuple(subject_of_key(key).items()): (number, group)
        for key, number, group in session.execute(query)
    }
