"""At most one log line a minute for each cause that somebody outside can trigger."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

QUIET_S = 60.0
"""Time between two lines of one cause."""

MAX_CAUSES = 1000
"""Most causes remembered; beyond, all are forgotten, and each may be logged again."""

LOGGERS = (
    "asyncio",
    "uvicorn.error",
    "headgate.api.events.routes",
    "headgate.api.http.problems",
    "headgate.api.sockets.listener",
    "headgate.api.sockets.protocol",
)
"""Loggers of lines that a request or a connection can cause."""


class OncePerMinute(logging.Filter):
    """Lets the first warning of a cause through, then one a minute with a count.

    A cause is the logger, the text before its values are filled in, and the kind of
    the exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether `record` is to be logged; add how many were left out."""
        if record.levelno < logging.WARNING:
            return True
        kind = record.exc_info[0] if record.exc_info else None
        cause = (record.name, str(record.msg), "" if kind is None else kind.__name__)
        since, omitted = self._told.get(cause, (None, 0))
        if since is not None and record.created - since < QUIET_S:
            self._told[cause] = since, omitted + 1
            return False
        if len(self._told) >= MAX_CAUSES:
            self._told.clear()
        self._told[cause] = record.created, 0
        if omitted:
            record.msg = f"{record.getMessage()} ({omitted} more since the last line)"
            record.args = ()
        return True


@contextmanager
def quiet_log() -> Generator[None]:
    """Filter the lines of `LOGGERS` during the block."""
    once = OncePerMinute()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)
