"""Limits with a calendar period, and the time zone in which it begins."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no existing limit has a calendar period."""
    op.add_column("limits", sa.Column("period", sa.Text()))
    zone = sa.Column("time_zone", sa.Text(), nullable=False, server_default="UTC")
    op.add_column("limits", zone)


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("limits", "time_zone")
    op.drop_column("limits", "period")
