"""PostgreSQL's advisory lock that keeps two buses of one database apart.

It belongs to a session.  When that breaks, for example because the database restarts,
a thread soon opens another one and takes the lock again, usually before anybody else
asks for it.  A server that starts in between gets it instead: the log says so until
one of the two is stopped.
"""

import logging
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager

import psycopg

from headgate.api.store.listening import FIRST_PAUSE_S, MAX_PAUSE_S, POLL_S

BUS_LOCK = 0x67617465
"""Key of the lock."""

_KEEPALIVE = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5"
"""Options of the session: a host that loses power releases the lock in a minute."""

_log = logging.getLogger(__name__)


class DatabaseLock:
    """The lock of one server.

    Args:
        dsn: Data source name of the database.
        shared: Others may hold it too, as servers of one external bus do.
    """

    def __init__(self, dsn: str, *, shared: bool) -> None:
        self._dsn = dsn
        self._query = f"SELECT pg_try_advisory_lock{'_shared' * shared}({BUS_LOCK})"
        self._ending = threading.Event()

    @contextmanager
    def held(self) -> Generator[bool]:
        """Hold it during the block; yield False when another server has it.

        Raises:
            psycopg.Error: The database does not answer.
        """
        session = self._connect()
        if not self._take(session):
            session.close()
            yield False
            return
        name = "headgate-bus-lock"
        thread = threading.Thread(target=self._keep, args=(session,), name=name)
        thread.start()
        try:
            yield True
        finally:
            self._ending.set()
            thread.join()

    def _keep(self, session: psycopg.Connection) -> None:
        """Hold the lock in `session`, and in another one when it breaks."""
        with closing(session):
            self._wait(session)
        pause_s = FIRST_PAUSE_S
        while not self._ending.wait(pause_s):
            pause_s = min(MAX_PAUSE_S, 2 * pause_s)
            try:
                with closing(self._connect()) as another:
                    if self._take(another):
                        pause_s = FIRST_PAUSE_S
                        self._wait(another)
                    else:
                        _log.error(
                            "another server has taken over the database, and the "
                            "agents of the two don't hear each other: stop one of "
                            "them, or give both the same bus"
                        )
            except psycopg.Error as error:
                _log.warning("this server does not hold the bus lock: %s", error)

    def _wait(self, session: psycopg.Connection) -> None:
        """Return when the session is broken or should end."""
        try:
            while not self._ending.is_set():
                for _ in session.notifies(timeout=POLL_S):
                    pass  # none is ever sent: the wait ends with the connection
            # Released here, because the database may notice only later that the session
            # has gone, and until then would refuse the next server to start.
            session.execute(b"SELECT pg_advisory_unlock_all()")
        except psycopg.Error as error:
            if self._ending.is_set():
                return  # it went with the session
            _log.warning("the bus lock was lost and is requested again: %s", error)

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self._dsn, autocommit=True, options=_KEEPALIVE)

    def _take(self, session: psycopg.Connection) -> bool:
        return session.execute(self._query.encode()).fetchone() == (True,)
