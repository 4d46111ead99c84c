"""Rate policies of namespaces and topics, and the dynamic configuration."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "policies",
        sa.Column("level", sa.Text(), primary_key=True),
        sa.Column("target", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.Text(), primary_key=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("settings")
    op.drop_table("policies")
