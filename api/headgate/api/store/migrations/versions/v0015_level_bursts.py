"""The burst that a level was of: a quota may change while nobody uses it."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_DOUBLE: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Add the column, empty for levels that were stored before."""
    op.add_column("levels", sa.Column("burst", _DOUBLE))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("levels", "burst")
