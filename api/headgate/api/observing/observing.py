"""This process's view of the cluster, as one object that the routes share."""

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, cast

from fastapi import Request

from headgate.api.history.history import UsageHistory
from headgate.api.levels.service import Key, LevelBook
from headgate.api.live.snapshot import ClusterSnapshot
from headgate.api.overview.overview import Overview
from headgate.api.store import Store

if TYPE_CHECKING:
    from collections.abc import Collection

    from headgate.agent.observer import LimitUse, Observer


FRESH_S = 5.0
"""Once the newest picture is older than this, agents may have joined unseen."""


LISTENS_WITHIN_S = 2.0
"""How long after its start a listener has to begin listening on the bus."""

LOOKS_S = 0.02
"""Time between two checks whether it listens."""


class Observing:
    """The newest picture, the history of all before it, all limits at a glance.

    Attributes:
        history: The last 30 minutes.
        overview: Every limit with its use.
        levels: What is left of each limit, for agents that begin to use it.
        streams: Event streams that are open now.
        observer: The listener on the bus, or None if there is none.
        presence: Which agents are connected or have gone, as agents are told; None
            while that has not changed.
    """

    def __init__(self, store: Store) -> None:
        """Begin without a picture; names and limits come from `store`."""
        self.history = UsageHistory()
        self.overview = Overview(store, self.newest)
        self.levels = LevelBook(store, self.newest, self._left, self._used)
        self.streams = 0
        self.observer: Observer | None = None
        self.presence: dict[str, object] | None = None
        self._newest: ClusterSnapshot | None = None
        self._listens_by = -inf

    def begins(self) -> None:
        """Note that a listener has been started."""
        self._listens_by = time.monotonic() + LISTENS_WITHIN_S

    def may_yet_listen(self) -> bool:
        """Return whether a listener that isn't ready yet still has time to begin."""
        return time.monotonic() < self._listens_by

    def see(self, picture: ClusterSnapshot) -> None:
        """Take a new snapshot of the live view; call it from one thread only."""
        self.history.record(picture)
        self._newest = picture

    def watches(self) -> bool:
        """Return whether this process would notice an agent that uses a limit."""
        picture = self._newest
        if picture is None or not picture.bus_open:
            return False
        return time.time() - picture.at_s < FRESH_S

    async def watching(self) -> bool:
        """Return `watches`, once a listener that just started has had time to begin.

        Otherwise an agent that joins while the API starts would not learn that a limit
        is full, and would begin at the margin.
        """
        # Another thread changes this, so there is no event to await.
        while not self.watches() and self.may_yet_listen():  # noqa: ASYNC110
            await asyncio.sleep(LOOKS_S)
        return self.watches()

    def _left(self) -> "list[LimitUse]":
        """Return the limits that agents have left since the newest picture."""
        observer = self.observer
        return [] if observer is None else observer.left()

    def _used(self, limits: "Collection[Key]", revision: int) -> "list[LimitUse]":
        """Return those of a revision that agents use, or have left since a picture."""
        observer = self.observer
        if observer is None or observer.revision < revision or not self.watches():
            return []  # it may see another limit of that name, or what was long ago
        return observer.use_of((dimension, group) for group, dimension in limits)

    def newest(self) -> ClusterSnapshot | None:
        """Return the newest picture; None before the first."""
        return self._newest


def observing_of(request: Request) -> Observing:
    """Return the observing part of the application that serves `request`."""
    return cast("Observing", request.app.state.observing)
