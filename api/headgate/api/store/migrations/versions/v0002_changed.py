"""An index of the audit: which revisions changed a thing."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BATCH = 500
"""Audit rows read at once; one may hold many changes."""


def upgrade() -> None:
    """Create the table, and fill it from the existing audit."""
    changed = op.create_table(
        "changed",
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("key", sa.Text(), primary_key=True),
        sa.Column(
            "revision",
            sa.BigInteger(),
            sa.ForeignKey("audit.revision"),
            primary_key=True,
            index=True,
            autoincrement=False,
        ),
    )
    audit = sa.table(
        "audit", sa.column("revision", sa.BigInteger), sa.column("changes", sa.JSON)
    )
    connection = op.get_bind()
    last = 0
    while True:
        query = sa.select(audit).where(audit.c.revision > last)
        rows = connection.execute(query.order_by(audit.c.revision).limit(BATCH)).all()
        if not rows:
            return
        last = rows[-1].revision
        op.bulk_insert(
            changed,
            [
                {"kind": item["kind"], "key": item["key"], "revision": row.revision}
                for row in rows
                for item in row.changes
            ],
        )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("changed")
