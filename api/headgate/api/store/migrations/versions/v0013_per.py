"""Template groups: each value of a part of the subject has the limits for itself."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no existing group is a template."""
    op.add_column("groups", sa.Column("per", sa.Text()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("groups", "per")
