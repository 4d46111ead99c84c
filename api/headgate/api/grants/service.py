"""Grant each strict limit to one agent, once.

A strict limit starts empty, because nobody may lend what it does not own.  Whether
nobody owns anything yet is known to a listener on the bus that has listened since
before the limit was made.  Of several agents that ask before it hears one of them found
the limit, the first gets it: that is what the table is for.
"""

from collections.abc import Iterable

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from headgate.api.grants.schemas import LimitNamed
from headgate.api.grants.table import GrantRow
from headgate.api.store import Store
from headgate.api.store.tables import GroupRow, StateRow


def grant(store: Store, wanted: Iterable[LimitNamed]) -> list[LimitNamed]:
    """Return the limits that have not been granted before, and note that they are.

    Args:
        store: Where grants are kept.
        wanted: Limits that nobody has founded; those of deleted groups are left out.
    """
    keys = {(limit.group, limit.dimension): limit for limit in wanted}
    if not keys:
        return []
    at = tuple_(GrantRow.group_id, GrantRow.dimension)
    with Session(store.engine) as session:
        session.connection(execution_options={"headgate_writes": True})
        session.scalars(select(StateRow).with_for_update()).one()  # one at a time
        groups = {group for group, _ in keys}
        there = set(session.scalars(select(GroupRow.id).where(GroupRow.id.in_(groups))))
        rows = session.scalars(select(GrantRow).where(at.in_(keys))).all()
        spent = {(row.group_id, row.dimension) for row in rows}
        fresh = [key for key in keys if key not in spent and key[0] in there]
        session.add_all(
            GrantRow(group_id=group, dimension=what) for group, what in fresh
        )
        session.commit()
    return [keys[key] for key in fresh]
