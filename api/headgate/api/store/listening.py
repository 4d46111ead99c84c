"""Hear of changes that other processes made on the same PostgreSQL database.

Each change sends a notification with its commit.  A connection of its own waits
for them, on a thread; when it breaks, the revision is read again after it is back,
so that what was missed is made up for.
"""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from headgate.api.store.transactions import CHANNEL, Store

POLL_S = 0.5
"""Length of one wait, seconds: the thread ends within it."""

FIRST_PAUSE_S = 0.2
"""Pause after a broken connection, doubled each time."""

MAX_PAUSE_S = 5.0
"""The longest such pause."""

_log = logging.getLogger(__name__)


@contextmanager
def hearing_changes(store: Store, announce: Callable[[int], None]) -> Generator[None]:
    """Call `announce` with each revision that any process makes, during the block.

    On SQLite nothing is done: it is for one process.
    """
    if store.engine.dialect.name != "postgresql":
        yield
        return
    ending = threading.Event()
    thread = threading.Thread(
        target=_listen, args=(store, announce, ending), name="headgate-listen"
    )
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _listen(
    store: Store, announce: Callable[[int], None], ending: threading.Event
) -> None:
    import psycopg  # not needed for SQLite

    pause_s = FIRST_PAUSE_S
    dsn = store.url.set(drivername="postgresql").render_as_string(hide_password=False)
    while not ending.is_set():
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f"LISTEN {CHANNEL}")
                announce(store.revision())
                pause_s = FIRST_PAUSE_S
                while not ending.is_set():
                    for notice in connection.notifies(timeout=POLL_S):
                        announce(int(notice.payload))
        except Exception as error:  # the database's, the network's: go on
            if not ending.is_set():
                _log.warning(
                    "changes by other processes are not being notified: %s", error
                )
            ending.wait(pause_s)
            pause_s = min(MAX_PAUSE_S, 2 * pause_s)
