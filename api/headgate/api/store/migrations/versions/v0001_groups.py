"""Groups, limits, attachments, tenants, namespaces, audit."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_DOUBLE: sa.Double[float] = sa.Double()
_SERIAL = sa.Integer().with_variant(sa.BigInteger(), "postgresql")


def upgrade() -> None:
    """Create the first tables."""
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
    )
    op.bulk_insert(state, [{"id": 1, "revision": 0, "cluster": "default"}])
    _create_groups()
    op.create_table(
        "attachments",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("subject", sa.Text(), nullable=False, unique=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column(
            "group_id", _SERIAL, sa.ForeignKey("groups.id"), nullable=False, index=True
        ),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Index("ix_attachments_kind_name", "kind", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "tenants",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("admin_roles", sa.JSON(), nullable=False),
        sa.Column("allowed_clusters", sa.JSON(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "namespaces",
        sa.Column("tenant", sa.Text(), sa.ForeignKey("tenants.name"), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("policies", sa.JSON(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("revision", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("at_s", _DOUBLE, nullable=False, index=True),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
    )


def _create_groups() -> None:
    op.create_table(
        "groups",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        sa.Column("parent_id", _SERIAL, sa.ForeignKey("groups.id"), index=True),
        sa.Column("weight", _DOUBLE, nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("may_owe", sa.Boolean(), nullable=False),
        sa.Column("isolation", sa.Text(), nullable=False),
        sa.Column("refusal", sa.Text(), nullable=False),
        sa.Column("soft_threshold", _DOUBLE),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "limits",
        sa.Column(
            "group_id",
            _SERIAL,
            sa.ForeignKey("groups.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("dimension", sa.Text(), primary_key=True),
        sa.Column("scope", sa.Text(), primary_key=True),
        sa.Column("rate", _DOUBLE),
        sa.Column("burst", _DOUBLE),
        sa.Column("period_s", _DOUBLE, nullable=False),
        sa.Column("minimum", _DOUBLE, nullable=False),
        sa.Column("maximum", _DOUBLE),
    )


def downgrade() -> None:
    """Drop everything."""
    for table in (
        "audit",
        "namespaces",
        "tenants",
        "attachments",
        "limits",
        "groups",
        "state",
    ):
        op.drop_table(table)
