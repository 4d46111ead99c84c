"""How a newcomer learns the levels: the median of the answers to its hello.

Until one round is heard it spends no more than a floor.  A round is over when its
own hello has come back and the answers to it have had their time: the gap by which
they are coalesced, the ticks of both sides and twice the lag.

The median, since one answer may be a liar's.  Never a full bucket: an agent that is
restarted every few seconds would get a burst each time.  Where nobody answers, all
are new; then the level has begun at what was stored before the cluster stopped, else
at the margin, where the feedback is at rest and each gets exactly its share of Q,
and what was spent since is charged.  An agent that asks anew because it stood still
is worse off when nobody answers in time: it took the pause for time in which nobody
spent, so where others take part it goes on at the margin at most.  (To set it
anew at the end of the round gave each of fifty agents on 10 units/s a different
level, up to 4.6 tokens above the true one.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.coordinator.table.index import Key

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

ANSWERS_MAX = 256
"""Answers kept for one round; a median of more is no better."""

OLDER_S = 1.0
"""Answers older than the newest by more are none: who stood still finds reports of the
time before it asked."""

STORED_MAX = 100_000
"""Stored levels kept: PIP-82's number of groups."""


class Joining:
    """The ledgers whose level is not known yet, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, int | None] = {}
        self._ready: list[tuple[float, Ints]] = []
        self._answers: list[tuple[Ints, Floats, float]] = []
        self._stored: dict[Key, tuple[float, float]] = {}
        self._doubted: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._waiting) or bool(self._ready)

    def begin(self, number: int, *, doubted: bool = False) -> None:
        """Start to ask about a ledger; `doubted`: the others spent unseen."""
        self._waiting[number] = None
        if doubted:
            self._doubted.add(number)

    def doubts(self, number: int) -> bool:
        """Say whether a ledger's own level is not to be relied on; once."""
        known = number not in self._doubted
        self._doubted.discard(number)
        return not known

    def forget(self, number: int) -> None:
        """Stop asking: the ledger is gone, and another may get its number."""
        self._waiting.pop(number, None)
        self._doubted.discard(number)
        left = [(at, numbers[numbers != number]) for at, numbers in self._ready]
        self._ready = [(at, numbers) for at, numbers in left if len(numbers)]
        self._answers = [
            (numbers[numbers != number], levels[numbers != number], at)
            for numbers, levels, at in self._answers
        ]

    def asked(self, sequence: int, numbers: Ints) -> None:
        """Note that a report with the own rows of these ledgers has left."""
        for number in numbers.tolist():
            if number in self._waiting and self._waiting[number] is None:
                self._waiting[number] = sequence

    def echoed(self, sequence: int, ready_at: float) -> None:
        """Note that the own report came back: the others have heard it too."""
        numbers = [
            number
            for number, asked in self._waiting.items()
            if asked is not None and asked <= sequence
        ]
        if numbers:
            for number in numbers:
                del self._waiting[number]
            self._ready.append((ready_at, np.array(numbers, dtype=np.int64)))

    def take_what_came(self, ready_at: float) -> None:
        """End the round without having asked: for one that only listens."""
        if self._waiting:
            numbers = np.array(list(self._waiting), dtype=np.int64)
            self._waiting.clear()
            self._ready.append((ready_at, numbers))

    def answered(self) -> bool:
        """Say whether anyone has told a level since this agent asked."""
        return bool(self._answers)

    def answer(self, numbers: Ints, levels: Floats, *, told_at: float) -> None:
        """Keep the levels that another agent believes."""
        if len(self._answers) < ANSWERS_MAX:
            self._answers.append((numbers, levels, told_at))

    def stored(self, key: Key, level: float, *, at: float) -> None:
        """Keep a level that was stored before a restart of the whole cluster.

        Args:
            key: Of the ledger.
            level: Units.
            at: When it was true, on the clock of the events.
        """
        if len(self._stored) < STORED_MAX:
            self._stored[key] = (level, at)

    def recall(
        self, key: Key, *, rate: float, now: float
    ) -> tuple[float, float] | None:
        """Return a stored level, with what the rate has earned, and its age; once."""
        stored = self._stored.pop(key, None)
        if stored is None:
            return None
        level, at = stored
        return level + rate * (now - at), now - at

    def next_at(self) -> float:
        """Return when the next round is over; infinite when none is under way."""
        return min((at for at, _ in self._ready), default=np.inf)

    def finish(self, now: float) -> list[tuple[int, tuple[float, float] | None]]:
        """Return (number, (level, when)) where a round is over; None: nobody knew."""
        over = [numbers for at, numbers in self._ready if at <= now]
        if not over:
            return []
        self._ready = [(at, numbers) for at, numbers in self._ready if at > now]
        wanted = np.concatenate(over)
        medians = self._medians()
        result: list[tuple[int, tuple[float, float] | None]] = []
        for number in wanted.tolist():
            result.append((number, medians.get(number)))
        if not self:
            self._answers.clear()
        return result

    def _medians(self) -> dict[int, tuple[float, float]]:
        if not self._answers:
            return {}
        newest = max(at for _, _, at in self._answers)
        fresh = [answer for answer in self._answers if answer[2] > newest - OLDER_S]
        numbers = np.concatenate([answer[0] for answer in fresh])
        levels = np.concatenate([answer[1] for answer in fresh])
        told_at = np.concatenate([np.full(len(a[0]), a[2]) for a in fresh])
        order = np.lexsort((levels, numbers))
        numbers, levels, told_at = numbers[order], levels[order], told_at[order]
        names, first, count = np.unique(numbers, return_index=True, return_counts=True)
        low, high = first + (count - 1) // 2, first + count // 2
        median = 0.5 * (levels[low] + levels[high])
        at = 0.5 * (told_at[low] + told_at[high])
        pairs = zip(median.tolist(), at.tolist(), strict=True)
        return dict(zip(names.tolist(), pairs, strict=True))
