"""Groups that limit how many requests may be in flight."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no existing group limits slots."""
    op.add_column("groups", sa.Column("slots", sa.Integer()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("groups", "slots")
