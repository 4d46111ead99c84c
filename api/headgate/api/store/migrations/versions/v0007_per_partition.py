"""Groups whose limits apply to each partition of a topic separately."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no existing group counts by partition."""
    op.add_column(
        "groups",
        sa.Column(
            "per_partition", sa.Boolean(), nullable=False, server_default=sa.false()
        ),
    )


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("groups", "per_partition")
