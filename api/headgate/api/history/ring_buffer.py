"""Rings: many time series of one step and one clock, in arrays that stop growing.

A point is the mean of what was written during its step.  Series are found by key;
when all slots are taken, the one that has been silent longest is reused.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)

FIRST_SLOTS = 64
"""Slots at the start; they double up to the capacity."""

LEAST_SET_BACK = 2
"""A step that is earlier than the newest one by more than this many is no jitter."""

_NEVER = -(2**62)
"""Step number of a slot that has not been written to yet."""


class Rings(Generic[Key]):
    """Series of `columns` values each: ``float32[C, S, P]``, S slots, P points.

    Attributes:
        omitted: Series for which the newest `write` found no slot.
    """

    def __init__(self, columns: int, *, capacity: int, points: int) -> None:
        """Keep up to `capacity` series of `points` points."""
        slots = min(FIRST_SLOTS, capacity)
        self._capacity = capacity
        self._points = points
        self._slots: dict[Key, int] = {}
        self._keys: list[Key | None] = [None] * slots
        self._values = np.full((columns, slots, points), np.nan, dtype=np.float32)
        self._sum = np.zeros((columns, slots))
        self._count = np.zeros(slots, dtype=np.int64)
        self._written = np.full(slots, _NEVER, dtype=np.int64)
        self._step: int | None = None
        self.omitted = 0

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._slots)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take now."""
        arrays = (self._values, self._sum, self._count, self._written)
        return sum(array.nbytes for array in arrays)

    def write(
        self, step: int, keys: Sequence[Key], values: NDArray[np.float64]
    ) -> None:
        """Add `values`, ``float64[C, N]``, to the point of `step` of N series.

        A `step` just before the newest one counts as the newest.  One that is earlier
        by more than `LEAST_SET_BACK` means that a clock was set back; what was written
        then ends just before it.
        """
        now = self._turn_to(step)
        placed = self._placed(keys, now)
        kept = np.flatnonzero(placed >= 0)
        slots = placed[kept]
        self.omitted = len(keys) - len(kept)
        self._sum[:, slots] += values[:, kept]
        self._count[slots] += 1
        self._written[slots] = now
        mean = self._sum[:, slots] / self._count[slots]
        self._values[:, slots, now % self._points] = mean

    def read(self, key: Key) -> NDArray[np.float32] | None:
        """Return ``float32[C, P]`` oldest first, NaN where nothing was written.

        The last point is that of `newest_step`.  None if there is no such series.
        """
        slot = self._slots.get(key)
        if slot is None or self._step is None:
            return None
        return np.roll(self._values[:, slot], -(self._step + 1) % self._points, axis=1)

    @property
    def newest_step(self) -> int | None:
        """Number of the newest point; None before the first."""
        return self._step

    def _turn_to(self, step: int) -> int:
        """Make `step` the newest, empty the points between, return it."""
        before = self._step
        if before is not None and step < before - LEAST_SET_BACK:
            back = step - 1 - before
            self._values = np.roll(self._values, back, axis=2)
            self._written[self._written > _NEVER] += back
            before = before + back
        if before is not None and step <= before:
            return before
        self._step = step
        if before is not None:
            gap = np.arange(max(before + 1, step - self._points + 1), step + 1)
            self._values[:, :, gap % self._points] = np.nan
            self._drop_older_than(step - self._points)
        self._sum[:] = 0.0
        self._count[:] = 0
        return step

    def _drop_older_than(self, step: int) -> None:
        """Free the slots whose every point has become empty."""
        for slot in np.flatnonzero((self._written <= step) & (self._written > _NEVER)):
            self._free(int(slot))

    def _free(self, slot: int) -> None:
        key = self._keys[slot]
        if key is not None:
            del self._slots[key]
        self._keys[slot] = None
        self._written[slot] = _NEVER
        self._values[:, slot] = np.nan
        self._sum[:, slot] = 0.0
        self._count[slot] = 0

    def _placed(self, keys: Sequence[Key], now: int) -> NDArray[np.int64]:
        """Return the slots of `keys`, −1 for those that get none."""
        placed = [self._slots.get(key, -1) for key in keys]
        missing = [index for index, slot in enumerate(placed) if slot < 0]
        if missing:
            self._written[[slot for slot in placed if slot >= 0]] = now
            for index, slot in zip(
                missing, self._vacant(len(missing), now), strict=False
            ):  # may run out
                self._slots[keys[index]] = placed[index] = slot
                self._keys[slot] = keys[index]
        return np.array(placed, dtype=np.int64)

    def _vacant(self, wanted: int, now: int) -> list[int]:
        """Return up to `wanted` free slots: grown, or taken from the silent."""
        while len(self._slots) + wanted > len(self._keys) < self._capacity:
            self._grow()
        free = [slot for slot, key in enumerate(self._keys) if key is None]
        if len(free) < wanted:
            silent = np.flatnonzero((self._written < now) & (self._written > _NEVER))
            longest = silent[np.argsort(self._written[silent], kind="stable")]
            for slot in longest[: wanted - len(free)]:
                self._free(int(slot))
                free.append(int(slot))
        return free[:wanted]

    def _grow(self) -> None:
        added = min(len(self._keys), self._capacity - len(self._keys))
        columns = len(self._values)
        more = np.full((columns, added, self._points), np.nan, dtype=np.float32)
        self._values = np.concatenate((self._values, more), axis=1)
        self._sum = np.concatenate((self._sum, np.zeros((columns, added))), axis=1)
        zeros = np.zeros(added, dtype=np.int64)
        self._count = np.concatenate((self._count, zeros))
        self._written = np.concatenate((self._written, np.full(added, _NEVER)))
        self._keys.extend([None] * added)
