"""The configurations that this pipeline has seen, one snapshot for each revision.

They are kept in a table of the output, which grows with each look at the API; where
there is no API, a recorded file of snapshots is read instead, one per line.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.snapshot import configuration_from_json
from headgate.pipeline.settings import WrongSettings
from headgate.pipeline.tables.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headgate.coordinator.config.configuration import Configuration
    from headgate.pipeline.tables.store import TableStore

_NAME = "configurations"


class ConfigurationHistory(Protocol):
    """Configurations, oldest first."""

    def read(self) -> list[Configuration]:
        """Return all configurations, each revision once."""
        ...

    @property
    def newest(self) -> int:
        """Highest revision, or −1."""
        ...


class ConfigurationFile:
    """A file of snapshots, one per line; a last line that is cut off is ignored.

    Each look reads on from where the last one ended.
    """

    def __init__(self, path: Path) -> None:
        """Read the file at `path`, which need not exist yet."""
        self._path = path
        self._end = self._lines = 0
        self._found: dict[int, Configuration] = {}

    @property
    def newest(self) -> int:
        """See `ConfigurationHistory.newest`."""
        return max((c.revision for c in self.read()), default=-1)

    def read(self) -> list[Configuration]:
        """See `ConfigurationHistory.read`.

        Raises:
            WrongSettings: A line is not a snapshot; says which.
        """
        if self._path.exists() and self._path.stat().st_size > self._end:
            with self._path.open("rb") as stream:
                stream.seek(self._end)
                for line in stream:
                    self._take(line)
        return [self._found[revision] for revision in sorted(self._found)]

    def _take(self, line: bytes) -> None:
        """Read one line, if it is complete."""
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


class ConfigurationTable:
    """The table of snapshots in an output; read once, then cached."""

    def __init__(self, session: SparkSession, store: TableStore) -> None:
        """Read and write the table ``configurations`` of `store`."""
        self._session = session
        self._store = store
        self._found: dict[int, Configuration] | None = None

    @property
    def newest(self) -> int:
        """See `ConfigurationHistory.newest`."""
        return max((c.revision for c in self.read()), default=-1)

    def read(self) -> list[Configuration]:
        """See `ConfigurationHistory.read`."""
        if self._found is None:
            rows = self._store.read(_NAME).select("document").collect()
            known = (configuration_from_json(json.loads(r["document"])) for r in rows)
            self._found = {each.revision: each for each in known}
        return [self._found[revision] for revision in sorted(self._found)]

    def append(self, documents: Sequence[object]) -> None:
        """Add the snapshots whose revisions are new, in one commit.

        Args:
            documents: At least one, the newest last.

        Raises:
            MalformedSnapshot: One of them is not a snapshot; none is added.
        """
        found = {c.revision: c for c in self.read()}
        now, rows = datetime.now(UTC), list[tuple[datetime, int, str]]()
        for document in documents:
            configuration = configuration_from_json(document)
            if configuration.revision not in found:
                text = json.dumps(document, separators=(",", ":"))
                rows.append((now, configuration.revision, text))
                found[configuration.revision] = configuration
        if rows:
            frame = self._session.createDataFrame(rows, TABLES[_NAME])
            # The revision is the transaction's number, so a repetition changes nothing.
            self._store.append(_NAME, frame, max(row[1] for row in rows))
        self._found = found
