"""Owners of groups, and a row for each change of the audit.

What a revision changed used to be one JSON text, which a list of the audit and a
snapshot of the past had to read as a whole.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from headgate.api.values.ownership import tenant_of

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_JSON = sa.JSON(none_as_null=True)

_AUDIT = sa.table(
    "audit",
    sa.column("revision", sa.BigInteger),
    sa.column("changes", sa.JSON),
    sa.column("size", sa.Integer),
)
_CHANGED = sa.table(
    "changed",
    sa.column("kind", sa.Text),
    sa.column("key", sa.Text),
    sa.column("revision", sa.BigInteger),
    sa.column("position", sa.Integer),
    sa.column("before", _JSON),
    sa.column("after", _JSON),
    sa.column("number", sa.BigInteger),
    sa.column("tenant", sa.Text),
    sa.column("until", sa.BigInteger),
)


def upgrade() -> None:
    """Add the columns, and fill those of the audit from the text."""
    op.add_column("groups", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column("groups", sa.Column("offered_to", _JSON, nullable=True))
    # Nobody knows who made existing attachments: an administrator, to be safe.
    op.add_column(
        "attachments",
        sa.Column("own", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.add_column(
        "audit",
        sa.Column("size", sa.Integer(), nullable=False, server_default="0"),
    )
    for name, kind in (
        ("position", sa.Integer()),
        ("number", sa.BigInteger()),
        ("until", sa.BigInteger()),
        ("tenant", sa.Text()),
        ("before", _JSON),
        ("after", _JSON),
    ):
        op.add_column("changed", sa.Column(name, kind, nullable=True))
    _fill(op.get_bind())
    op.create_index("ix_changed_position", "changed", ["revision", "position"])
    op.create_index("ix_changed_tenant", "changed", ["tenant", "revision"])
    op.drop_column("audit", "changes")


def downgrade() -> None:
    """Put the changes back into one text, and drop the columns."""
    op.add_column(
        "audit", sa.Column("changes", sa.JSON(), nullable=False, server_default="[]")
    )
    connection = op.get_bind()
    for number in connection.scalars(sa.select(_AUDIT.c.revision)).all():
        rows = connection.execute(
            sa.select(_CHANGED)
            .where(_CHANGED.c.revision == number)
            .order_by(_CHANGED.c.position)
        ).all()
        changes = [
            {"kind": x.kind, "key": x.key, "before": x.before, "after": x.after}
            | ({} if x.number is None else {"id": x.number})
            for x in rows
        ]
        connection.execute(
            sa.update(_AUDIT).where(_AUDIT.c.revision == number).values(changes=changes)
        )
    op.drop_index("ix_changed_tenant", "changed")
    op.drop_index("ix_changed_position", "changed")
    for name in ("position", "number", "until", "tenant", "before", "after"):
        op.drop_column("changed", name)
    op.drop_column("audit", "size")
    op.drop_column("attachments", "own")
    op.drop_column("groups", "offered_to")
    op.drop_column("groups", "owner")


def _fill(connection: sa.Connection) -> None:
    """Go back through the audit, so that each row knows when the next one came."""
    until: dict[tuple[str, str], int] = {}
    query = sa.select(_AUDIT.c.revision).order_by(_AUDIT.c.revision.desc())
    for number in connection.scalars(query).all():
        changes: list[dict[str, Any]] = connection.scalars(
            sa.select(_AUDIT.c.changes).where(_AUDIT.c.revision == number)
        ).one()
        connection.execute(
            sa.update(_AUDIT)
            .where(_AUDIT.c.revision == number)
            .values(size=len(changes))
        )
        values: list[dict[str, Any]] = []
        for position, item in enumerate(changes):
            kind, key = item["kind"], item["key"]
            before, after = item["before"], item["after"]
            values.append(
                {
                    "of_kind": kind,
                    "of_key": key,
                    "position": position,
                    "before": before,
                    "after": after,
                    "number": item.get("id"),
                    "tenant": tenant_of(kind, key, after or before or {}),
                    "until": until.get((kind, key)),
                }
            )
            until[kind, key] = number
        if values:
            connection.execute(
                sa.update(_CHANGED)
                .where(
                    _CHANGED.c.kind == sa.bindparam("of_kind"),
                    _CHANGED.c.key == sa.bindparam("of_key"),
                    _CHANGED.c.revision == number,
                )
                .values(
                    {
                        name: sa.bindparam(name)
                        for name in values[0]
                        if not name.startswith("of_")
                    }
                ),
                values,
            )
