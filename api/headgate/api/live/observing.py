"""This process's view of the cluster, as one object that the routes share."""

import time
from typing import TYPE_CHECKING, cast

from fastapi import Request

from headgate.api.history.history import UsageHistory
from headgate.api.levels.service import LevelBook
from headgate.api.live.snapshot import ClusterSnapshot
from headgate.api.overview.overview import Overview
from headgate.api.store import Store

if TYPE_CHECKING:
    from headgate.agent.observer import Observer


FRESH_S = 5.0
"""Age of the newest picture from which on agents may have come unseen."""


class Observing:
    """The newest picture, the history of all before it, all limits at a glance.

    Attributes:
        history: The last 30 minutes.
        overview: Every limit with its use.
        levels: What limits hold that nobody uses, or that are long, as stored.
        streams: Event streams that are open now.
        observer: The listener on the bus, or None if there is none.
    """

    def __init__(self, store: Store) -> None:
        """Begin without a picture; names and limits come from `store`."""
        self.history = UsageHistory()
        self.overview = Overview(store, self.newest)
        self.levels = LevelBook(store)
        self.streams = 0
        self.observer: Observer | None = None
        self._newest: ClusterSnapshot | None = None

    def see(self, picture: ClusterSnapshot) -> None:
        """Take a new picture; callable from any one thread."""
        self.history.record(picture)
        self._newest = picture

    def watches(self) -> bool:
        """Say whether agents that use a limit are seen to."""
        picture = self._newest
        if picture is None or not picture.bus_open:
            return False
        return time.time() - picture.at_s < FRESH_S

    def newest(self) -> ClusterSnapshot | None:
        """Return the newest picture; None before the first."""
        return self._newest


def observing_of(request: Request) -> Observing:
    """Return what the application of `request` sees."""
    return cast("Observing", request.app.state.observing)
