"""Open the configured store, or raise a one-line error that says why not."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from headgate.api.settings import CannotStart, ServerSettings
from headgate.api.store.transactions import Store
from headgate.api.values.errors import Invalid
from headgate.api.values.names import checked_name

DATABASES = {"sqlite", "postgresql", "postgres"}
"""What the URL of a database that can hold a configuration begins with."""


def opened_store(settings: ServerSettings, *, must_exist: bool = False) -> Store:
    """Return the store of `settings`, migrated.

    Args:
        settings: Of the server.
        must_exist: Don't make a file where there is none.

    Raises:
        CannotStart: It can't be opened.
    """
    if not settings.database:
        raise CannotStart("database: expected an SQLite file or a URL")
    scheme = settings.database_url.partition(":")[0]
    if scheme.partition("+")[0] not in DATABASES:  # the rest may hold a password
        raise CannotStart(
            f"database {scheme}://…: expected an SQLite file, sqlite://… or "
            "postgresql://…"
        )
    if _is_in_memory(settings):
        raise CannotStart(
            f"database {settings.database}: expected a file; the server's "
            "connections can't share a database in memory"
        )
    try:
        if settings.cluster is not None:  # it is sent in each report
            checked_name(settings.cluster, "cluster")
        file = _sqlite_file(settings)
        if file is not None:
            if must_exist and not file.exists():
                raise FileNotFoundError("no such file")
            _make_private(file)
        return Store(settings.database_url, cluster=settings.cluster)
    except Invalid as error:
        raise CannotStart(str(error)) from error
    except Exception as error:  # SQLAlchemy's, the driver's, the file system's
        message = f"database {_without_password(settings.database)}: {error}"
        raise CannotStart(message.splitlines()[0]) from error


def _make_private(file: Path) -> None:
    """Make the file of a new SQLite database readable by its owner only.

    It holds hashes of tokens and everybody's limits.  SQLite gives its journals the
    file's own mode.  An existing file keeps the mode that its creator chose.
    """
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _without_password(database: str) -> str:
    """Return `database` as a log may show it."""
    if "://" not in database:
        return database
    try:
        return make_url(database).render_as_string(hide_password=True)
    except ArgumentError:
        return database.partition("://")[0] + "://…"


@contextmanager
def one_bus_for(settings: ServerSettings) -> Generator[None]:
    """Keep servers of one database from having two buses, during the block.

    Agents of two servers with an embedded bus each would never hear of one another,
    and would admit the limit twice.  Any number of servers may share an external bus.
    The kernel, or PostgreSQL, releases the lock however the process ends.  A broken
    connection to PostgreSQL releases it as well; then it is taken again.

    Raises:
        CannotStart: Another server has the database already.
    """
    if make_url(settings.database_url).get_backend_name() == "postgresql":
        with _locked_database(settings):
            yield
        return
    file = _sqlite_file(settings)
    if file is None or sys.platform == "win32":
        yield
        return
    with _locked_file(settings, file):
        yield


@contextmanager
def _locked_file(settings: ServerSettings, file: Path) -> Generator[None]:
    import fcntl

    # Beside the database, because closing the database's own file drops its locks.
    def private(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    with open(f"{file.resolve()}.lock", "ab", opener=private) as lock:
        kind = fcntl.LOCK_EX if settings.bus is None else fcntl.LOCK_SH
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _second_bus(settings) from error
        yield


@contextmanager
def _locked_database(settings: ServerSettings) -> Generator[None]:
    from headgate.api.store.bus_lock import DatabaseLock  # loads the driver

    url = make_url(settings.database_url).set(drivername="postgresql")
    lock = DatabaseLock(
        url.render_as_string(hide_password=False), shared=settings.bus is not None
    )
    with lock.held() as has_it:
        if not has_it:
            raise _second_bus(settings)
        yield


def _second_bus(settings: ServerSettings) -> CannotStart:
    name = _without_password(settings.database)
    return CannotStart(
        f"database {name}: another server is using it, and the agents of the two would "
        "not hear each other: stop that server, or give both the same bus with "
        "--bus zeromq://… or --bus kafka://…"
    )


def _sqlite_file(settings: ServerSettings) -> Path | None:
    url = make_url(settings.database_url)
    name = url.database or ""
    if url.get_backend_name() != "sqlite" or name.startswith("file:"):
        return None
    return Path(name)


def _is_in_memory(settings: ServerSettings) -> bool:
    try:
        url = make_url(settings.database_url)
    except ArgumentError:
        return False  # opening it gives a better error
    name = url.database or ":memory:"
    return url.drivername.startswith("sqlite") and name == ":memory:"
