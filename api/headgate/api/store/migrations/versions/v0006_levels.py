"""Levels of long limits."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_DOUBLE: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "levels",
        sa.Column("group_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("dimension", sa.Text(), primary_key=True),
        sa.Column("level", _DOUBLE, nullable=False),
        sa.Column("at_s", _DOUBLE, nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("levels")
