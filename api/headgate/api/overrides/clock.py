"""End overrides in time: one task of the loop, asleep until the next end."""

import asyncio
import logging
import time
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from headgate.api.overrides.service import end_overdue, next_end_s
from headgate.api.store import Store
from headgate.api.watch import RevisionWatch

LOOK_S = 60.0
"""Longest sleep, seconds: the wall clock may be set in the meantime."""

RETRY_S = 1.0
"""Pause after the database did not answer."""

_log = logging.getLogger(__name__)


async def end_in_time(store: Store, watch: RevisionWatch) -> None:
    """End each override when its time has come, until the server stops."""
    while not watch.closed:
        changed = watch.upcoming()  # before looking, so that no change is missed
        try:
            wait_s = await run_in_threadpool(_step, store)
        except SQLAlchemyError as error:
            _log.warning("overrides could not be read: %s", error)
            wait_s = RETRY_S
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await changed.wait()


def _step(store: Store) -> float:
    """End what is overdue; return how many seconds to wait for the next end."""
    with store.reading() as session:
        end_s = next_end_s(session)
    if end_s is None:
        return LOOK_S
    if end_s <= time.time():
        end_overdue(store)
        return RETRY_S / 1000
    return min(LOOK_S, end_s - time.time() + 0.001)
