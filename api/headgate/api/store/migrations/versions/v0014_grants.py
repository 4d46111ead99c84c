"""Strict limits that have been granted to an agent, and start full no more."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; limits that exist are not granted whatever it holds."""
    op.create_table(
        "grants",
        sa.Column(
            "group_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.ForeignKey("groups.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("dimension", sa.Text(), primary_key=True),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("grants")
