"""Counts events, and logs each kind of event once; a change of state, each time."""

from __future__ import annotations

import logging
import time
from collections import Counter
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("headgate.agent")

MAX_KINDS_SAID = 1_000
"""Most different events that are logged; further ones are only counted."""

QUIET_S = 60.0
"""Time after a state began in which its next beginning is not logged, nor the end of
that: a bus that comes and goes fills no log."""


class OnceLog:
    """Counters of an agent's thread, and a log that doesn't repeat itself.

    Attributes:
        counters: Number of events, by name.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counters: Counter[str] = Counter()
        self._clock = clock
        self._said: set[str] = set()
        self._began: dict[str, float] = {}
        self._to_end: set[str] = set()

    def note(
        self,
        kind: str,
        sentence: str,
        *,
        about: str = "",
        each_time: bool = False,
        ends: str = "",
    ) -> None:
        """Count `kind`; log the sentence the first time it concerns this agent.

        Args:
            kind: Name of the counter.
            sentence: The message to log.
            about: The agent it concerns; each is logged once.
            each_time: It begins a state: log it each time, but once a minute at most.
            ends: The kind that began the state which this ends: log it if that was.
        """
        self.counters[kind] += 1
        if ends:
            says = ends in self._to_end
            self._to_end.discard(ends)
        elif each_time:
            says = self._clock() - self._began.get(kind, -inf) >= QUIET_S
        else:
            says = self._first(f"{kind} {about}")
        if not says:
            return
        if each_time:
            self._began[kind] = self._clock()
            self._to_end.add(kind)
        log.warning("%s: %s", f"{kind} {about}".rstrip(), sentence)

    def fault(self, kind: str, error: Exception) -> None:
        """Count a fault of our own; log it with its traceback if its type is new."""
        self.counters[kind] += 1
        if self._first(f"{kind} {type(error).__name__}"):
            log.error(
                "%s, the agent carries on: %s: %s",
                kind,
                type(error).__name__,
                error,
                exc_info=error,
            )

    def _first(self, key: str) -> bool:
        """Return whether this has not been logged yet."""
        if key in self._said or len(self._said) >= MAX_KINDS_SAID:
            return False
        self._said.add(key)
        return True
