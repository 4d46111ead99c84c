"""The tables, as SQLAlchemy sees them; Alembic's migrations make them.

Numbers that may be unlimited are NULL when they are.  `revision` columns hold the
revision that last changed the row; they are the row's ETag.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    SQLColumnExpression,
    Text,
    exists,
    func,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

SerialId = Integer().with_variant(BigInteger(), "postgresql")
"""A key that the database counts up; SQLite counts only plain INTEGER."""


def is_below(column: SQLColumnExpression[str | None], name: str) -> ColumnElement[bool]:
    """Return the condition that `column` begins with `name` and a slash.

    Not by LIKE: SQLite's ignores case, so ACME's namespaces would be acme's as well.
    """
    beginning = f"{name}/"
    return func.substr(column, 1, len(beginning)) == beginning


class StoreTable(DeclarativeBase):
    """Base of all tables."""


class StateRow(StoreTable):
    """The one row that every change locks first: it makes changes a sequence."""

    __tablename__ = "state"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(BigInteger)
    cluster: Mapped[str] = mapped_column(Text)


class GroupRow(StoreTable):
    """A resource group."""

    __tablename__ = "groups"
    __table_args__ = ({"sqlite_autoincrement": True},)  # ids are never used again

    id: Mapped[int] = mapped_column(SerialId, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("groups.id"), index=True)
    weight: Mapped[float]
    mode: Mapped[str] = mapped_column(Text)
    may_owe: Mapped[bool]
    isolation: Mapped[str] = mapped_column(Text)
    refusal: Mapped[str] = mapped_column(Text)
    soft_threshold: Mapped[float | None]
    per_partition: Mapped[bool]
    split: Mapped[str | None] = mapped_column(Text)
    slots: Mapped[int | None] = mapped_column(Integer)
    per: Mapped[str | None] = mapped_column(Text)
    owner: Mapped[str | None] = mapped_column(Text)
    offered_to: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    revision: Mapped[int] = mapped_column(BigInteger)
    limits: Mapped[list["LimitRow"]] = relationship(
        cascade="all, delete-orphan",
        order_by="(LimitRow.dimension, LimitRow.scope)",
        lazy="selectin",
    )


class LimitRow(StoreTable):
    """One dimension's limit of one group."""

    __tablename__ = "limits"

    group_id: Mapped[int] = mapped_column(
        ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True
    )
    dimension: Mapped[str] = mapped_column(Text, primary_key=True)
    scope: Mapped[str] = mapped_column(Text, primary_key=True)
    rate: Mapped[float | None]
    burst: Mapped[float | None]
    period_s: Mapped[float]
    period: Mapped[str | None] = mapped_column(Text)
    time_zone: Mapped[str] = mapped_column(Text, default="UTC")
    minimum: Mapped[float]
    maximum: Mapped[float | None]


class LevelRow(StoreTable):
    """The level of one cluster-wide limit when it was last seen.

    It is not part of the configuration, nor of any revision.
    """

    __tablename__ = "levels"

    group_id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, autoincrement=False
    )
    dimension: Mapped[str] = mapped_column(Text, primary_key=True)
    level: Mapped[float]
    burst: Mapped[float | None]
    at_s: Mapped[float]

    @classmethod
    def outlives_its_limit(cls) -> ColumnElement[bool]:
        """Return the condition that the limit was removed."""
        return ~exists().where(
            LimitRow.group_id == cls.group_id,
            LimitRow.dimension == cls.dimension,
            LimitRow.scope == "cluster",
        )


class AttachmentRow(StoreTable):
    """A subject and its group; `subject` is its canonical JSON text."""

    __tablename__ = "attachments"
    __table_args__ = (
        Index("ix_attachments_kind_name", "kind", "name"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(SerialId, primary_key=True)
    subject: Mapped[str] = mapped_column(Text, unique=True)
    kind: Mapped[str] = mapped_column(Text)
    name: Mapped[str | None] = mapped_column(Text)
    group_id: Mapped[int] = mapped_column(ForeignKey("groups.id"), index=True)
    own: Mapped[bool] = mapped_column(default=False)
    revision: Mapped[int] = mapped_column(BigInteger)


class TenantRow(StoreTable):
    """A tenant, with what Pulsar's clients say about it."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    admin_roles: Mapped[list[str]] = mapped_column(JSON)
    allowed_clusters: Mapped[list[str]] = mapped_column(JSON)
    revision: Mapped[int] = mapped_column(BigInteger)


class NamespaceRow(StoreTable):
    """A namespace of a tenant; `policies` is Pulsar's object as it was sent."""

    __tablename__ = "namespaces"

    tenant: Mapped[str] = mapped_column(ForeignKey("tenants.name"), primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    policies: Mapped[dict[str, object]] = mapped_column(JSON)
    revision: Mapped[int] = mapped_column(BigInteger)


class PartitionedTopicRow(StoreTable):
    """A topic declared with partitions; `topic` is its last name alone."""

    __tablename__ = "partitioned_topics"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "namespace"],
            ["namespaces.tenant", "namespaces.name"],
            ondelete="CASCADE",
        ),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    namespace: Mapped[str] = mapped_column(Text, primary_key=True)
    topic: Mapped[str] = mapped_column(Text, primary_key=True)
    partitions: Mapped[int]


class AuditRow(StoreTable):
    """One revision: who changed something, when, from where; `size` things."""

    __tablename__ = "audit"

    revision: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, autoincrement=False
    )
    at_s: Mapped[float] = mapped_column(index=True)
    author: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    size: Mapped[int]


class ChangedRow(StoreTable):
    """One thing that a revision changed; rollback and past snapshots read it.

    `before` is null for what was created, `after` for what was deleted.  `until` is
    the revision that changed the thing next, null while none has.  `number` is the
    id of a group, `tenant` the owner of the thing.
    """

    __tablename__ = "changed"
    __table_args__ = (
        Index("ix_changed_position", "revision", "position"),
        Index("ix_changed_tenant", "tenant", "revision"),
    )

    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    key: Mapped[str] = mapped_column(Text, primary_key=True)
    revision: Mapped[int] = mapped_column(
        ForeignKey("audit.revision"), primary_key=True, index=True
    )
    position: Mapped[int | None]
    before: Mapped[dict[str, object] | None] = mapped_column(JSON(none_as_null=True))
    after: Mapped[dict[str, object] | None] = mapped_column(JSON(none_as_null=True))
    number: Mapped[int | None] = mapped_column(BigInteger)
    tenant: Mapped[str | None] = mapped_column(Text)
    until: Mapped[int | None] = mapped_column(BigInteger)


class PolicyRow(StoreTable):
    """A rate policy of a namespace or topic; each topic has it to itself."""

    __tablename__ = "policies"

    level: Mapped[str] = mapped_column(Text, primary_key=True)
    target: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    policy: Mapped[dict[str, object]] = mapped_column(JSON)
    revision: Mapped[int] = mapped_column(BigInteger)


class SettingRow(StoreTable):
    """A key of the broker's dynamic configuration, with its text."""

    __tablename__ = "settings"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    text: Mapped[str] = mapped_column(Text)
    revision: Mapped[int] = mapped_column(BigInteger)


class TokenRow(StoreTable):
    """An opaque bearer token; only a hash of its secret is kept."""

    __tablename__ = "tokens"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(SerialId, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(Text)
    tenants: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    digest: Mapped[str] = mapped_column(Text)
    made_at_s: Mapped[float]
    ends_at_s: Mapped[float | None]


class OverrideRow(StoreTable):
    """A temporary override of a group's limits; an empty dimension means all."""

    __tablename__ = "overrides"

    group: Mapped[str] = mapped_column(Text, primary_key=True)
    dimension: Mapped[str] = mapped_column(Text, primary_key=True)
    ends_at_s: Mapped[float] = mapped_column(index=True)
    document: Mapped[dict[str, object]] = mapped_column(JSON)
    revision: Mapped[int] = mapped_column(BigInteger)
