"""The attempts of one caller, in a file that survives SIGKILL.

The records are in shared memory backed by the file, so the kernel keeps what was
written, whatever happens to the process.  Times are the machine's CLOCK_MONOTONIC,
the same in every process.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RECORD = np.dtype(
    [("at_ns", "<i8"), ("spent_ns", "<u4"), ("admitted", "<u4"), ("cost", "<u4")]
)
"""One attempt: when, how long `try_acquire` took, whether it was admitted, its units.

``at_ns`` of zero is a record that was never written: the end.
"""

_LAYOUT = struct.Struct("<qIII")
_LONGEST_NS = 2**32 - 1
"""4.3 s: a call that took longer is logged as that."""


class LogFull(RuntimeError):
    """More attempts were made than the log has room for."""


class CallerLog:
    """Writes one caller's attempts; each file has a single writer."""

    def __init__(self, path: Path, capacity: int) -> None:
        """Create a file with room for `capacity` records.

        Raises:
            OSError: The file exists, or the disk is full.
        """
        size = capacity * _LAYOUT.size
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Allocated now, so that a full disk is an error here, not a later SIGBUS.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:  # pragma: no cover - not on Linux
                os.truncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._end = size
        self._offset = 0

    def record(self, at_ns: int, spent_ns: int, admitted: bool, cost: int = 1) -> None:
        """Add one attempt.

        Raises:
            LogFull: There is no room left.
        """
        if self._offset >= self._end:
            message = f"the log's {self._end // _LAYOUT.size} records are used up"
            raise LogFull(message)
        spent = min(spent_ns, _LONGEST_NS)
        _LAYOUT.pack_into(self._map, self._offset, at_ns, spent, admitted, cost)
        self._offset += _LAYOUT.size

    def close(self) -> None:
        """Unmap the memory; the file stays."""
        self._map.close()


def read_log(path: Path) -> NDArray[np.void]:
    """Return the attempts in `path`, ``RECORD[N]`` in the order they were made."""
    records = np.fromfile(path, dtype=RECORD)
    return records[: _written(records)]


class LogTail:
    """Adds up the attempts in a log while its caller is still writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: NDArray[np.void] | None = None
        self._seen = 0

    def advance(self) -> tuple[int, int]:
        """Return the units attempted, and admitted, since the last call."""
        if self._records is None:
            if not self._path.exists() or not self._path.stat().st_size:
                return 0, 0
            self._records = np.memmap(self._path, dtype=RECORD, mode="r")
        fresh = self._records[self._seen :]
        fresh = fresh[: _written(fresh)]
        self._seen += len(fresh)
        costs = fresh["cost"].astype(np.int64)
        return int(costs.sum()), int(costs[fresh["admitted"] > 0].sum())


def _written(records: NDArray[np.void]) -> int:
    """Return how many of `records` come before the first unwritten one."""
    empty = records["at_ns"] == 0
    return int(empty.argmax()) if empty.any() else len(records)
