"""The overview: filtered, sorted, cut to a window; sorted once for all readers."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from headgate.api.live.snapshot import ClusterSnapshot
from headgate.api.overview.entries import (
    RANK,
    LimitEntry,
    OverviewRow,
    Standing,
    joined,
    load_entries,
)
from headgate.api.rights.visibility import Tenants, visible_groups
from headgate.api.store import Store
from headgate.api.store.transactions import current_revision

Sort = Literal["standing", "name", "use", "refused"]

MAX_SORTED = 32
"""Sorted lists to keep: about as many filters are in use within one second."""

STEP = 0.1
"""Fraction of the rate below which two rows count as equal and are sorted by name:
a table whose rows change places each second can't be read."""

MAX_WINDOW = 500
"""Most rows in one response: more than any screen shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A view of the overview: filter, order and window.

    Attributes:
        search: Part of a group's name or dimension; empty for all.
        standing: Only limits in this state, or None for all.
        sort: Order of the rows.
        offset: Number of rows to skip.
        limit: Number of rows to return.
    """

    search: str = ""
    standing: Standing | None = None
    sort: Sort = "standing"
    offset: int = 0
    limit: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of the rows that a view matches.

    Attributes:
        revision: Revision of the configuration.
        picture: Latest observation, or None before the first.
        total: Number of all rows.
        matching: Number of rows that the view matches.
        standings: Number of rows in each state, regardless of the view.
        rows: The rows of the window.
    """

    revision: int
    picture: ClusterSnapshot | None
    total: int
    matching: int
    standings: dict[Standing, int]
    rows: list[OverviewRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """The limits of some groups and of all groups above them.

    Attributes:
        revision: Revision of the configuration.
        picture: Latest observation, or None before the first.
        rows: By name of the group; the limits of one group by dimension.
    """

    revision: int
    picture: ClusterSnapshot | None
    rows: dict[str, list[OverviewRow]]


class Overview:
    """Every limit, reloaded when the revision changes and joined once per picture."""

    def __init__(
        self, store: Store, newest: Callable[[], ClusterSnapshot | None]
    ) -> None:
        """Read `store`, and pictures from `newest`."""
        self._store = store
        self._newest = newest
        self._lock = threading.Lock()
        self._revision = -1
        self._entries: list[LimitEntry] = []
        self._joined_to: tuple[int, int] | None = None
        self._rows: list[OverviewRow] = []
        self._places: dict[
            str, list[int]
        ] = {}  # row numbers by group, until entries change
        self._standings: dict[Standing, int] = {}
        self._sorted: OrderedDict[tuple[str, str | None, str], list[OverviewRow]]
        self._sorted = OrderedDict()

    def window(self, look: Look, among: Tenants = None) -> Window:
        """Return what `look` shows now; may read the database: don't call it on a loop.

        With `among`, only groups that operators of these tenants may see.
        """
        picture = self._newest()
        with self._lock:
            self._refresh(picture)
            rows = self._matching(look)
            if among is not None:
                return self._cut(look, rows, picture, among)
            return Window(
                revision=self._revision,
                picture=picture,
                total=len(self._rows),
                matching=len(rows),
                standings=dict(self._standings),
                rows=rows[look.offset : look.offset + min(look.limit, MAX_WINDOW)],
            )

    def of_groups(self, names: Collection[str]) -> GroupRows:
        """Return the rows of the groups `names` and of those above them.

        Groups that don't exist are left out.  May read the database.
        """
        picture = self._newest()
        with self._lock:
            self._refresh(picture)
            found: dict[str, list[OverviewRow]] = {}
            for name in names:
                above: str | None = name
                while above in self._places and above not in found:
                    found[above] = [self._rows[at] for at in self._places[above]]
                    above = found[above][0].entry.parent
            return GroupRows(revision=self._revision, picture=picture, rows=found)

    def _cut(
        self,
        look: Look,
        rows: list[OverviewRow],
        picture: ClusterSnapshot | None,
        tenants: Collection[str],
    ) -> Window:
        with self._store.reading() as session:
            groups = visible_groups(session, tenants)
        standings = dict.fromkeys(RANK, 0)
        visible = [row for row in self._rows if row.entry.group in groups]
        for row in visible:
            standings[row.standing] += 1
        rows = [row for row in rows if row.entry.group in groups]
        return Window(
            revision=self._revision,
            picture=picture,
            total=len(visible),
            matching=len(rows),
            standings=standings,
            rows=rows[look.offset : look.offset + min(look.limit, MAX_WINDOW)],
        )

    def _refresh(self, picture: ClusterSnapshot | None) -> None:
        with self._store.reading() as session:
            revision = current_revision(session)
            if revision != self._revision:
                self._entries = load_entries(session)
                self._places = {}
                for at, entry in enumerate(self._entries):
                    self._places.setdefault(entry.group, []).append(at)
                self._revision = revision
        joined_to = (revision, -1 if picture is None else picture.number)
        if joined_to == self._joined_to:
            return
        self._joined_to = joined_to
        self._rows = joined(self._entries, picture)
        self._standings = dict.fromkeys(RANK, 0)
        for row in self._rows:
            self._standings[row.standing] += 1
        self._sorted.clear()

    def _matching(self, look: Look) -> list[OverviewRow]:
        key = (look.search.casefold(), look.standing, look.sort)
        rows = self._sorted.get(key)
        if rows is None:
            rows = [
                row
                for row in self._rows
                if key[0] in row.entry.folded and look.standing in (None, row.standing)
            ]
            if look.sort != "name":  # entries are sorted by name already
                rows.sort(key=_ORDERS[look.sort])
            self._sorted[key] = rows
            while len(self._sorted) > MAX_SORTED:
                self._sorted.popitem(last=False)
        return rows


def _by_standing(row: OverviewRow) -> tuple[float, ...]:
    use = row.use
    if use is None:
        return (RANK["idle"], 0.0)
    return (RANK[use.pressure], -round(_finite(use.utilisation) / STEP))


def _by_use(row: OverviewRow) -> tuple[float, ...]:
    return (0.0 if row.use is None else -row.use.admitted_per_s,)


def _by_refused(row: OverviewRow) -> tuple[float, ...]:
    return (0.0 if row.use is None else -row.use.refused_per_s,)


def _finite(value: float) -> float:
    return value if value == value else 0.0  # NaN has no place in an order


_ORDERS: dict[Sort, Callable[[OverviewRow], tuple[float, ...]]] = {
    "standing": _by_standing,
    "use": _by_use,
    "refused": _by_refused,
}
