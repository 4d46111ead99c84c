"""Transactions: each change is one of them and makes one revision and one audit row.

Every change locks the one row of `state` first, so changes form a sequence
without gaps on SQLite and PostgreSQL alike, and a reader sees whole revisions.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, cast

from sqlalchemy import (
    Engine,
    Table,
    bindparam,
    create_engine,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.orm import Session

from headgate.api.store.migrate import upgrade
from headgate.api.store.tables import AuditRow, ChangedRow, StateRow
from headgate.api.values.errors import Forbidden
from headgate.api.values.ownership import tenant_of, tenant_of_subject

BUSY_TIMEOUT_S = 10.0
"""Time SQLite waits for another process's write before it gives up."""

CHANNEL = "headgate_changes"
"""PostgreSQL's channel on which each commit announces its revision."""

POOL_SIZE = 8
"""Connections kept; each request holds one for some milliseconds at most."""

POOL_OVERFLOW = 32
"""More connections than `POOL_SIZE` under load: one for each worker thread (40)."""


Document = Mapping[str, object] | None
"""The wanted state of one object as JSON; None if it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a change, as the audit records it.

    Attributes:
        name: Subject of the bearer token, or ``anonymous``.
        address: Where the request came from.
        action: What was asked, such as ``PUT /api/v1/groups/gold``.
        tenants: Whose things they may change; None for everything.
    """

    name: str = "anonymous"
    address: str = "local"
    action: str = ""
    tenants: frozenset[str] | None = None

    def require_tenant_of(self, kind: str, name: str | None) -> None:
        """Check that a subject belongs to a tenant that the author may change.

        Raises:
            Forbidden: It does not.
        """
        if self.tenants is None:
            return
        if tenant_of_subject(kind, name) not in self.tenants:
            named = ", ".join(sorted(self.tenants))
            raise Forbidden(f"{self.name} may change only what belongs to {named}")


@dataclass(slots=True)
class Change:
    """A transaction that may change the configuration.

    Attributes:
        session: Database session, inside the transaction.
        revision: Number that this change will have if it changes anything.
        author: Author of the change.
        refused_settings: Keys that can't be set on this server, and why.
    """

    session: Session
    revision: int
    author: Author
    refused_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    _recorded: dict[tuple[str, str], tuple[Document, Document]] = field(
        default_factory=dict[tuple[str, str], tuple[Document, Document]]
    )
    _ids: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    @property
    def recorded(self) -> list[dict[str, object]]:
        """The changes so far, as the audit keeps them: one entry per object."""
        found: list[dict[str, object]] = []
        for (kind, key), (before, after) in self._recorded.items():
            if before != after:
                found.append(
                    {"kind": kind, "key": key, "before": before, "after": after}
                )
                if (kind, key) in self._ids:
                    found[-1]["id"] = self._ids[kind, key]
        return found

    @property
    def reached(self) -> int:
        """The revision that is in force once this transaction is over."""
        return self.revision if self.recorded else self.revision - 1

    def record(
        self,
        kind: str,
        key: str,
        *,
        before: Document,
        after: Document,
        number: int | None = None,
    ) -> bool:
        """Note one thing's change for the audit; return whether it is one.

        If a thing changes twice, its first and its last state count.  `number` is its
        id, if agents know it by one.
        """
        if number is not None:
            self._ids.setdefault((kind, key), number)
        first, _ = self._recorded.get((kind, key), (before, after))
        self._recorded[kind, key] = (first, after)
        return before != after


class _Cursor(Protocol):
    def execute(self, statement: str, /) -> object: ...
    def close(self) -> None: ...


class _Dbapi(Protocol):
    isolation_level: str | None

    def cursor(self) -> _Cursor: ...


class Store:
    """A database, migrated, with its changes in sequence."""

    def __init__(self, url: str, *, cluster: str | None = None) -> None:
        """Open (and create or migrate) the database at `url`.

        Args:
            url: Of SQLAlchemy, such as ``sqlite:///headgate.db``.
            cluster: Name for the cluster of a database that is still empty.
        """
        self.url = _with_driver(make_url(url))
        self._engine = open_engine(self.url)
        self._is_sqlite = self.url.get_backend_name() == "sqlite"
        self._lock = threading.Lock()  # SQLite's busy handler is unfair; this is not
        self._listeners: list[Callable[[int], None]] = []
        self.refused_settings: Mapping[str, str] = {}
        self._read_options: dict[str, object] = (
            {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ"}
        )
        upgrade(self._engine)
        if cluster is not None:
            self._name_cluster(cluster)

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's engine, for what needs no transaction of its own."""
        return self._engine

    def on_change(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the revision after each commit, on its thread."""
        self._listeners.append(listener)

    @contextmanager
    def reading(self) -> Generator[Session]:
        """Give a session that sees one revision, and changes nothing."""
        with Session(self._engine, expire_on_commit=False) as session:
            session.connection(execution_options=self._read_options)
            yield session
            session.rollback()

    @contextmanager
    def changing(self, author: Author, *, dry_run: bool = False) -> Generator[Change]:
        """Give a transaction; commit it when it recorded a change, else drop it.

        Args:
            author: Author of the change.
            dry_run: Drop it in any case.
        """
        with self._lock, Session(self._engine, expire_on_commit=False) as session:
            session.connection(execution_options={"headgate_writes": True})
            state = session.scalars(select(StateRow).with_for_update()).one()
            change = Change(session, state.revision + 1, author, self.refused_settings)
            yield change
            if dry_run or not change.recorded:
                session.rollback()
                return
            _audit(change)
            if not self._is_sqlite:  # sent with the commit, to all processes
                session.execute(select(func.pg_notify(CHANNEL, str(change.revision))))
            state.revision = change.revision
            session.commit()
        for listener in self._listeners:
            listener(change.revision)

    def revision(self) -> int:
        """Return the number of the present state."""
        with self.reading() as session:
            return current_revision(session)

    def _name_cluster(self, cluster: str) -> None:
        with Session(self._engine) as session:
            state = session.scalars(select(StateRow).with_for_update()).one()
            if state.revision == 0:
                state.cluster = cluster
                session.commit()

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()


def _audit(change: Change) -> None:
    """Write down who changed what."""
    author, recorded = change.author, change.recorded
    change.session.add(
        AuditRow(
            revision=change.revision,
            at_s=time.time(),
            author=author.name,
            address=author.address,
            action=author.action,
            size=len(recorded),
        )
    )
    change.session.flush()
    earlier = (
        update(cast("Table", ChangedRow.__table__))
        .where(
            ChangedRow.kind == bindparam("of_kind"),
            ChangedRow.key == bindparam("of_key"),
            ChangedRow.until.is_(None),
        )
        .values(until=change.revision)
    )
    change.session.connection().execute(
        earlier, [{"of_kind": x["kind"], "of_key": x["key"]} for x in recorded]
    )
    change.session.execute(  # on the table: the ORM's mapper would double the time
        insert(cast("Table", ChangedRow.__table__)),
        [_changed(change, position, item) for position, item in enumerate(recorded)],
    )


def _changed(
    change: Change, position: int, item: Mapping[str, object]
) -> dict[str, object]:
    kind, key = str(item["kind"]), str(item["key"])
    before, after = item["before"], item["after"]
    present = cast("Mapping[str, object]", after or before or {})
    return {
        "revision": change.revision,
        "kind": kind,
        "key": key,
        "position": position,
        "before": before,
        "after": after,
        "number": item.get("id"),
        "tenant": tenant_of(kind, key, present),
    }


def current_revision(session: Session) -> int:
    """Return the revision that `session` sees."""
    return session.scalars(select(StateRow.revision)).one()


def _with_driver(url: URL) -> URL:
    """Return `url` with the driver that Headgate ships for PostgreSQL."""
    if url.drivername in {"postgresql", "postgres"}:
        return url.set(drivername="postgresql+psycopg")
    return url


def open_engine(url: URL | str) -> Engine:
    """Return an engine for `url`, with the driver and the settings of the store."""
    url = _with_driver(make_url(url))
    if url.get_backend_name() != "sqlite":
        return create_engine(
            url, pool_size=POOL_SIZE, max_overflow=POOL_OVERFLOW, pool_pre_ping=True
        )
    engine = create_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: _Dbapi, _record: object) -> None:
    """Make SQLite not block on readers, be durable, and leave BEGIN to us."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at once for a change, because a lock can't be upgraded."""
    writes = connection.get_execution_options().get("headgate_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
