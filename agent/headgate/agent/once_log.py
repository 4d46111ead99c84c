"""Counts events, and logs each kind of event once; a change of state, each time."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger("headgate.agent")

MAX_KINDS_SAID = 1_000
"""Most different events that are logged; further ones are only counted."""


class OnceLog:
    """Counters of an agent's thread, and a log that doesn't repeat itself.

    Attributes:
        counters: Number of events, by name.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._said: set[str] = set()

    def note(
        self, kind: str, sentence: str, *, about: str = "", each_time: bool = False
    ) -> None:
        """Count `kind`; log the sentence the first time it concerns this agent.

        Args:
            kind: Name of the counter.
            sentence: The message to log.
            about: The agent it concerns; each is logged once.
            each_time: Log it whenever it happens, because it begins or ends a state.
        """
        self.counters[kind] += 1
        if each_time or self._first(f"{kind} {about}"):
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
