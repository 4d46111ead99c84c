"""Opaque bearer tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_DOUBLE: sa.Double[float] = sa.Double()


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "tokens",
        sa.Column(
            "id",
            sa.Integer().with_variant(sa.BigInteger(), "postgresql"),
            primary_key=True,
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenants", sa.JSON()),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("made_at_s", _DOUBLE, nullable=False),
        sa.Column("ends_at_s", _DOUBLE),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("tokens")
