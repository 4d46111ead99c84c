"""Keep and give back the levels that newcomers begin at.

While any agent lives, newcomers ask the others (hello).  Those that are gone can't be
asked; then the level stands in that this server sees, or that was stored before the
whole cluster was stopped, plus what the rate has earned since (Ably's quotas per hour
and month).  A limit that was never seen in use is full, like a bucket that nobody has
taken from.

Limits below a minute have a row as well, written twice per use: once when they are
seen in use, which says only that they are not full, and once with their level when the
last agent has gone.  Rejected: writing them each time (100,000 rows every 5 s); storing
a level at first sight (the observer has not heard an answer by then; whoever is told
one asks the others as well).
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING

from sqlalchemy import delete, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from headgate.agent.follow.periods import period_at, zone_of
from headgate.agent.json_place import MAX_INTEGER
from headgate.api.live.snapshot import ClusterSnapshot, Use
from headgate.api.store import Store
from headgate.api.store.tables import LevelRow, LimitRow, StateRow

if TYPE_CHECKING:
    from headgate.agent.observer import AgentUse, LimitUse

LEAST_PERIOD_S = 60.0
"""The levels of shorter limits are stored when nobody uses them any more."""

IN_USE = 0.0
"""Stands for the time of a level that keeps changing and is not stored."""

MAX_LEVELS = 100_000
"""Most levels given to an agent: PIP-82's number of groups."""

UNHEARD_S = 1.0
"""How long before a picture a limit may have been used that it doesn't show."""

MOST_OTHERS = 2_500
"""Most counters of other agents in one answer."""

LOOKS_S = 0.02
"""Between two looks at what was left: a thousand agents may begin at once."""

Key = tuple[int, str]
"""(group id, dimension) of a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLevel:
    """The level of one ledger, and when it was seen.

    Attributes:
        group_id: Id of the group.
        dimension: Dimension of the limit.
        level: E, units; negative for a debt.
        at_s: When it was seen, wall clock; None if the limit was never seen in use.
        counted: Units of the asking agent that it includes, as that counts them; None
            if that is not known.
        others: What it includes of others; None if that is not known.
    """

    group_id: int
    dimension: str
    level: float
    at_s: float | None
    counted: float | None = None
    others: list[dict[str, object]] | None = None

    def age_s(self, now_s: float) -> float:
        """Return the seconds since then; a wall clock may be set back."""
        return 0.0 if self.at_s is None else max(0.0, now_s - self.at_s)


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
        if isfinite(use.rate) and isfinite(use.level):
            row: dict[str, object] = {
                "group_id": use.group_id,
                "dimension": use.dimension,
                "level": use.level,
                "burst": use.burst,
                "at_s": at_s,
            }
            yields = at_s == IN_USE and use.period_s >= LEAST_PERIOD_S
            (unsure if yields else rows).append(row)
    if not rows and not unsure:
        return 0
    insert = postgresql.insert if store.engine.name == "postgresql" else sqlite.insert
    new = insert(LevelRow)
    key = ["group_id", "dimension"]
    newer = {name: new.excluded[name] for name in ("level", "burst", "at_s")}
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


def load(store: Store, only: Collection[Key] | None = None) -> list[KnownLevel]:
    """Return the levels that are stored.

    A limit that was never seen in use has its whole burst.  Of a calendar quota that
    has changed since, within its period, what was used stays used.

    Args:
        store: Where they are kept.
        only: The limits that are asked for; None for all.
    """
    limit, level = LimitRow.__table__.c, LevelRow.__table__.c
    same = (level.group_id == limit.group_id) & (level.dimension == limit.dimension)
    columns = (
        limit.group_id,
        limit.dimension,
        limit.period,
        limit.time_zone,
        limit.burst,
        level.level,
        level.burst,
        level.at_s,
    )
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
    now_s, known = time.time(), list[KnownLevel]()
    for group_id, dimension, period, zone, burst, level, burst_then, at_s in rows:
        left = burst if level is None else level
        if period and level is not None and burst_then is not None:
            begun_s, _ = period_at(now_s, period, zone_of(zone))
            if at_s >= begun_s:  # else agents make a new period of it
                left = max(level + burst - burst_then, min(level, 0.0))
        known.append(
            KnownLevel(
                group_id=group_id,
                dimension=dimension,
                level=min(left, burst),
                at_s=at_s,
            )
        )
    return known


class LevelBook:
    """The levels sent to agents: as seen if limits are in use, otherwise as stored."""

    def __init__(
        self,
        store: Store,
        newest: Callable[[], ClusterSnapshot | None],
        left: Callable[[], "Iterable[LimitUse]"],
        used: Callable[[Collection[Key], int], "Iterable[LimitUse]"],
    ) -> None:
        """Read `store`, and what the listener sees.

        Whatever was left before a picture has been stored when that is the newest.

        Args:
            store: Where levels are kept.
            newest: The newest picture of the cluster.
            left: The limits that agents have left since then.
            used: Those of some limits of a revision that agents use, or have left since
                then, as they are now.
        """
        self._store = store
        self._newest = newest
        self._left = left
        self._used = used
        self._lock = threading.Lock()
        self._of: tuple[int, bool, int] | None = None
        self._levels: dict[int, dict[str, KnownLevel]] = {}
        self._looked_s = -inf

    def of(
        self, limits: Collection[Key], revision: int, agent: str, *, watched: bool
    ) -> list[dict[str, object]]:
        """Return what is known of some limits.

        Args:
            limits: Group ids and dimensions.
            revision: Revision of the configuration.
            agent: Id of the agent that asks.
            watched: As in `told`.
        """
        picture = self._newest()
        levels = _levels_of(load(self._store, limits), watched=watched)
        self._add_seen(levels, picture, revision)
        self._add(levels, self._used(limits, revision), agent)
        known = (levels.get(group, {}).get(name) for group, name in limits)
        answer, room = list[dict[str, object]](), MOST_OTHERS
        for level in known:
            if level is not None:
                others = level.others if len(level.others or ()) <= room else None
                room -= len(others or ())
                told = _told(level, picture)
                answer.append({**told, "counted": level.counted, "others": others})
        return answer

    def told(
        self, revision: int, groups: Collection[int], *, watched: bool
    ) -> list[dict[str, object]]:
        """Return all levels for an answer of `revision`; don't call it on a loop.

        Args:
            revision: Revision of the configuration.
            groups: Ids of the groups in that answer.
            watched: The bus is being listened to, so a limit never seen in use was
                not used before the newest picture; otherwise only stored levels are
                returned.
        """
        with self._lock:  # a thousand woken watchers read it once
            picture = self._newest()
            number = -1 if picture is None else picture.number
            if self._of != (revision, watched, number):
                self._levels = _levels_of(load(self._store), watched=watched)
                self._add_seen(self._levels, picture, revision)
                self._of = (revision, watched, number)
            if time.monotonic() - self._looked_s >= LOOKS_S:
                self._looked_s = time.monotonic()
                self._add(self._levels, self._left())
            return [
                _told(known, picture)
                for group in groups
                for known in self._levels.get(group, {}).values()
            ]

    @staticmethod
    def _add(
        levels: dict[int, dict[str, KnownLevel]],
        seen: "Iterable[LimitUse]",
        agent: str | None = None,
    ) -> None:
        """Replace levels by those that are seen now, and may be told an agent."""
        now_s = time.time()
        for use in seen:
            group_id, limit = use.group.id, use.limit
            own = (each.counted_units for each in use.agents if each.agent == agent)
            others = [
                _counted(each)
                for each in use.agents
                if each.agent != agent and each.incarnation <= MAX_INTEGER
            ]
            if isfinite(limit.rate) and isfinite(use.level):
                levels.setdefault(group_id, {})[limit.dimension] = KnownLevel(
                    group_id=group_id,
                    dimension=limit.dimension,
                    level=min(use.level, limit.burst),
                    at_s=now_s,
                    counted=next(own, None),
                    others=others,
                )

    @staticmethod
    def _add_seen(
        levels: dict[int, dict[str, KnownLevel]],
        picture: ClusterSnapshot | None,
        revision: int,
    ) -> None:
        """Replace levels that were stored before a picture by what it shows.

        A limit that was set anew since the picture is full, whatever that shows.
        """
        if picture is None:
            return
        for use in picture.uses:
            of_group = levels.setdefault(use.group_id, {})
            known = of_group.get(use.dimension)
            if known is None:
                older = True  # it is in use, and so isn't stored
            elif known.at_s is None:
                older = picture.revision >= revision
            else:
                older = known.at_s < picture.at_s
            if older and isfinite(use.rate) and isfinite(use.level):
                of_group[use.dimension] = KnownLevel(
                    group_id=use.group_id,
                    dimension=use.dimension,
                    level=min(use.level, use.burst),
                    at_s=picture.at_s,
                )


def _levels_of(
    stored: Iterable[KnownLevel], *, watched: bool
) -> dict[int, dict[str, KnownLevel]]:
    found: dict[int, dict[str, KnownLevel]] = {}
    for known in stored:
        if watched or known.at_s is not None:
            found.setdefault(known.group_id, {})[known.dimension] = known
    return found


def _counted(use: "AgentUse") -> dict[str, object]:
    """Return what of an agent's counter a level includes, as it is told agents."""
    return {
        "agent": use.agent,
        "incarnation": use.incarnation,
        "counted": use.counted_units,
    }


def _told(known: KnownLevel, picture: ClusterSnapshot | None) -> dict[str, object]:
    """Return a level as it is told agents."""
    at_s, now_s = known.at_s, time.time()
    if at_s is None:  # it was full until some time before the picture at least
        at_s = now_s if picture is None else picture.at_s - UNHEARD_S
    return {
        "group": known.group_id,
        "dimension": known.dimension,
        "level": known.level,
        "age_s": max(0.0, now_s - at_s),  # a wall clock may be set back
    }
