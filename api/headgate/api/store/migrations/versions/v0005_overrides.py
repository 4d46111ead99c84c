"""Overrides that end by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_DOUBLE: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "overrides",
        sa.Column("group", sa.Text(), primary_key=True),
        sa.Column("dimension", sa.Text(), primary_key=True),
        sa.Column("ends_at_s", _DOUBLE, nullable=False, index=True),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("overrides")
