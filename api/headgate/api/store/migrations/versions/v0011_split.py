"""Groups whose share in a process is divided among its topics."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no existing group divides its share."""
    op.add_column("groups", sa.Column("split", sa.Text()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("groups", "split")
