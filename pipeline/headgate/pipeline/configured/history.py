"""The file of configurations that this pipeline has seen, one snapshot a line.

Lines are only ever appended, so a reader that keeps running reads each once.  A line
that a crash cut off is no line.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.snapshot import configuration_from_json
from headgate.pipeline.settings import WrongSettings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from headgate.coordinator.config.configuration import Configuration


class History:
    """The configurations of a file, oldest first."""

    def __init__(self, path: Path) -> None:
        """Go by the file at `path`, which need not be there yet."""
        self._path = path
        self._end = self._lines = 0
        self._found: dict[int, Configuration] = {}

    @property
    def newest(self) -> int:
        """Highest revision in the file, or −1."""
        return max((c.revision for c in self.read()), default=-1)

    def read(self) -> list[Configuration]:
        """Return all configurations; a revision that occurs again is passed over.

        Raises:
            WrongSettings: A line is no snapshot; says which.
        """
        if self._path.exists() and self._path.stat().st_size > self._end:
            with self._path.open("rb") as stream:
                stream.seek(self._end)
                for line in stream:
                    self._take(line)
        return [self._found[revision] for revision in sorted(self._found)]

    def append(self, documents: Iterable[object]) -> None:
        """Put snapshots at the end, after what is whole of the file."""
        self.read()
        text = "".join(json.dumps(d, separators=(",", ":")) + "\n" for d in documents)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as stream:
            stream.truncate(self._end)
            if self._end and not self._ends_with_newline():
                text = "\n" + text
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as stream:
            stream.seek(self._end - 1)
            return stream.read(1) == b"\n"

    def _take(self, line: bytes) -> None:
        """Read one line, if it is whole."""
        if line.strip():
            try:
                configuration = configuration_from_json(json.loads(line))
            except (ValueError, MalformedSnapshot) as error:
                if not line.endswith(b"\n"):
                    return
                place = f"{self._path}, line {self._lines + 1}"
                raise WrongSettings(f"{place}: {error}") from None
            self._found.setdefault(configuration.revision, configuration)
        self._end += len(line)
        self._lines += 1
