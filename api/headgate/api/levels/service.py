"""Keep and give back the levels that newcomers begin at.

While any agent lives, newcomers ask the others (hello).  After the whole cluster was
stopped, nobody is left to ask; then the stored level stands in, plus what the rate
has earned since (Ably's quotas per hour and month).  A limit that was never seen in
use is full, like a bucket that nobody has taken from.

Limits below a minute have a row as well, written twice per use: once when they are
seen in use, which says only that they are not full, and once with their level when the
last agent has gone.  Rejected: writing them each time (100,000 rows every 5 s); storing
a level at first sight (the observer has not heard an answer by then).
"""

import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import isfinite

from sqlalchemy import delete, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from headgate.api.live.snapshot import Use
from headgate.api.store import Store
from headgate.api.store.tables import LevelRow, LimitRow, StateRow

LEAST_PERIOD_S = 60.0
"""The levels of shorter limits are stored when nobody uses them any more."""

IN_USE = 0.0
"""Stands for the time of a level that keeps changing and is not stored."""

MAX_LEVELS = 100_000
"""Most levels given to an agent: PIP-82's number of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLevel:
    """The level of one ledger, and its age.

    Attributes:
        untouched: It was never seen in use.
        group_id: Id of the group.
        dimension: Dimension of the limit.
        level: E, units; negative for a debt.
        age_s: Seconds since it was observed.
    """

    group_id: int
    dimension: str
    level: float
    age_s: float
    untouched: bool = False


def save(store: Store, seen: Iterable[tuple[Use, float]]) -> int:
    """Store the levels of limits; return how many.

    Rows of limits that are gone are dropped.

    Args:
        store: Where they are kept.
        seen: Each limit once, and when it was seen on the wall clock; `IN_USE` means
            that its level is not known, and a long limit then keeps its older one.
    """
    rows: list[dict[str, object]] = []
    unsure: list[dict[str, object]] = []
    for use, at_s in seen:
        if isfinite(use.level):
            row: dict[str, object] = {
                "group_id": use.group_id,
                "dimension": use.dimension,
                "level": use.level,
                "at_s": at_s,
            }
            yields = at_s == IN_USE and use.period_s >= LEAST_PERIOD_S
            (unsure if yields else rows).append(row)
    if not rows and not unsure:
        return 0
    insert = postgresql.insert if store.engine.name == "postgresql" else sqlite.insert
    new = insert(LevelRow)
    key = ["group_id", "dimension"]
    newer = {"level": new.excluded.level, "at_s": new.excluded.at_s}
    gone = delete(LevelRow).where(LevelRow.outlives_its_limit())
    with Session(store.engine) as session:
        session.connection(execution_options={"headgate_writes": True})
        session.execute(select(StateRow.id).with_for_update())  # no change meanwhile
        if rows:
            session.execute(
                new.on_conflict_do_update(index_elements=key, set_=newer), rows
            )
        if unsure:
            session.execute(new.on_conflict_do_nothing(index_elements=key), unsure)
        session.execute(gone, execution_options={"synchronize_session": False})
        session.commit()
    return len(rows) + len(unsure)


def load(
    store: Store, now_s: float, only: Collection[tuple[int, str]] | None = None
) -> list[StoredLevel]:
    """Return the levels that are known.

    A limit that was never seen in use has its whole burst.

    Args:
        store: Where they are kept.
        now_s: The wall clock.
        only: (group id, dimension) of the limits that are asked for; None for all.
    """
    limit, level = LimitRow.__table__.c, LevelRow.__table__.c
    same = (level.group_id == limit.group_id) & (level.dimension == limit.dimension)
    columns = (limit.group_id, limit.dimension, limit.burst, level.level, level.at_s)
    query = (
        select(*columns)
        .select_from(LimitRow.__table__.outerjoin(LevelRow.__table__, same))
        .where(limit.scope == "cluster")
        .where(level.at_s.is_(None) | (level.at_s != IN_USE))
        .where(limit.rate.is_not(None), limit.burst.is_not(None))
        .limit(MAX_LEVELS)
    )
    if only is not None:
        query = query.where(tuple_(limit.group_id, limit.dimension).in_(only))
    with store.reading() as session:
        rows = session.execute(query).all()
    return [
        StoredLevel(
            group_id=group_id,
            dimension=dimension,
            level=burst if level is None else min(level, burst),
            # A wall clock may be set back.
            age_s=0.0 if at_s is None else max(0.0, now_s - at_s),
            untouched=at_s is None,
        )
        for group_id, dimension, burst, level, at_s in rows
    ]


class LevelBook:
    """The levels sent to agents, read from the store once a second."""

    def __init__(self, store: Store) -> None:
        """Read `store`."""
        self._store = store
        self._lock = threading.Lock()
        self._of: tuple[int, int, bool] | None = None
        self._told: list[dict[str, object]] = []

    def told(self, revision: int, *, watched: bool) -> list[dict[str, object]]:
        """Return all levels for an answer of `revision`; don't call it on a loop.

        Args:
            revision: Revision of the configuration.
            watched: The bus is being listened to, so a limit never seen in use was
                not used; otherwise only stored levels are returned.
        """
        now_s = time.time()
        with self._lock:  # a thousand woken watchers read it once
            if self._of != (revision, int(now_s), watched):
                self._told = [
                    {
                        "group": stored.group_id,
                        "dimension": stored.dimension,
                        "level": stored.level,
                        "age_s": stored.age_s,
                    }
                    for stored in load(self._store, now_s)
                    if watched or not stored.untouched
                ]
                self._of = (revision, int(now_s), watched)
            return self._told
