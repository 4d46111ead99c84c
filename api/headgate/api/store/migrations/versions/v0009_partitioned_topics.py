"""Topics declared with partitions on Pulsar's paths."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "partitioned_topics",
        sa.Column("tenant", sa.Text(), primary_key=True),
        sa.Column("namespace", sa.Text(), primary_key=True),
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "namespace"],
            ["namespaces.tenant", "namespaces.name"],
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("partitioned_topics")
