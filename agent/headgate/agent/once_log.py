"""Counts what happens, and says each kind of thing once."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger("headgate.agent")

MAX_KINDS_SAID = 1_000
"""Different things that are logged once each; further ones are only counted."""


class OnceLog:
    """What an operator can see of an agent's thread: counters, and a quiet log.

    Attributes:
        counters: How often what happened, by name.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._said: set[str] = set()

    def note(self, kind: str, sentence: str, *, about: str = "") -> None:
        """Count `kind`; log the sentence when it first occurs about somebody.

        Args:
            kind: Name of the counter.
            sentence: For people.
            about: Whom it concerns; each is told of once.
        """
        self.counters[kind] += 1
        if self._first(f"{kind} {about}"):
            log.warning("%s: %s", f"{kind} {about}".rstrip(), sentence)

    def fault(self, kind: str, error: Exception) -> None:
        """Count a fault of our own; log it with its trace when its type is new."""
        self.counters[kind] += 1
        if self._first(f"{kind} {type(error).__name__}"):
            log.error(
                "%s, the agent goes on: %s: %s",
                kind,
                type(error).__name__,
                error,
                exc_info=error,
            )

    def _first(self, key: str) -> bool:
        """Return whether this has not been said yet."""
        if key in self._said or len(self._said) >= MAX_KINDS_SAID:
            return False
        self._said.add(key)
        return True
