"""Keep and give back the levels of limits with a long period.

While any agent lives, newcomers ask the others (hello).  When the whole cluster was
stopped nobody is left to ask; then the stored level stands in, with what the rate
has earned since (Ably's quotas per hour and month).
"""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from headgate.api.levels.table import LevelRow
from headgate.api.live.snapshot import Use
from headgate.api.store import Store
from headgate.api.store.tables import GroupRow, LimitRow

LEAST_PERIOD_S = 60.0
"""Shorter limits have earned their burst again before a cluster is restarted."""

MAX_LEVELS = 100_000
"""Levels given to an agent; PIP-82's number of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLevel:
    """The level of one ledger, and its age.

    Attributes:
        group_id: Id of the group.
        dimension: Dimension of the limit.
        level: E, units; negative for a debt.
        age_s: Seconds since it was observed.
    """

    group_id: int
    dimension: str
    level: float
    age_s: float


def save(store: Store, uses: Iterable[Use], *, at_s: float) -> int:
    """Store the levels of long limits among `uses`; return how many.

    Of several uses of one limit the last one holds.  Rows of groups that are gone
    are dropped.

    Args:
        store: Where they are kept.
        uses: As they were seen.
        at_s: When, on the wall clock.
    """
    rows = [
        LevelRow(
            group_id=use.group_id,
            dimension=use.dimension,
            level=use.level,
            at_s=at_s,
        )
        for use in uses
        if use.period_s >= LEAST_PERIOD_S and isfinite(use.level)
    ]
    if not rows:
        return 0
    with Session(store.engine) as session:
        session.connection(execution_options={"headgate_writes": True})
        there = select(GroupRow.id)
        session.execute(delete(LevelRow).where(LevelRow.group_id.not_in(there)))
        known = set(session.scalars(there))
        for row in rows:
            if row.group_id in known:
                session.merge(row)
        session.commit()
    return len(rows)


def load(store: Store, now_s: float) -> list[StoredLevel]:
    """Return the levels of all long limits; `now_s` is the wall clock.

    A limit that was never seen in use has its whole burst.
    """
    limit, level = LimitRow.__table__.c, LevelRow.__table__.c
    same = (level.group_id == limit.group_id) & (level.dimension == limit.dimension)
    columns = (limit.group_id, limit.dimension, limit.burst, level.level, level.at_s)
    query = (
        select(*columns)
        .select_from(LimitRow.__table__.outerjoin(LevelRow.__table__, same))
        .where(limit.period_s >= LEAST_PERIOD_S, limit.scope == "cluster")
        .where(limit.rate.is_not(None), limit.burst.is_not(None))
        .limit(MAX_LEVELS)
    )
    with store.reading() as session:
        rows = session.execute(query).all()
    return [
        StoredLevel(
            group_id=group_id,
            dimension=dimension,
            level=burst if level is None else min(level, burst),
            # A wall clock may be set back.
            age_s=0.0 if at_s is None else max(0.0, now_s - at_s),
        )
        for group_id, dimension, burst, level, at_s in rows
    ]


class LevelBook:
    """The levels sent to agents, read from the store once a second."""

    def __init__(self, store: Store) -> None:
        """Read `store`."""
        self._store = store
        self._lock = threading.Lock()
        self._of: tuple[int, int] | None = None
        self._told: list[dict[str, object]] = []

    def told(self, revision: int) -> list[dict[str, object]]:
        """Return all levels for an answer of `revision`; not on a loop."""
        now_s = time.time()
        with self._lock:  # a thousand woken watchers read it once
            if self._of != (revision, int(now_s)):
                self._told = [
                    {
                        "group": stored.group_id,
                        "dimension": stored.dimension,
                        "level": stored.level,
                        "age_s": stored.age_s,
                    }
                    for stored in load(self._store, now_s)
                ]
                self._of = (revision, int(now_s))
            return self._told
