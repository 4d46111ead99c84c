"""The steps of the stream: each batch's rows and summary, kept until the next.

``steps/<batch>/`` holds the rows of one step; ``steps/<batch>.json`` what the next
batch needs of it.  A step is a function of the one before and of the batch's
messages, which Spark's checkpoint fixes before the batch runs: running it again
gives the same, and a step that stands complete need not run again.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from headgate.pipeline.counters.rows import STEP_SCHEMA
from headgate.pipeline.tables.parquet import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

KEPT = 2
"""Steps that are kept: the newest, and the one that it was made from."""


class JournalBroken(RuntimeError):
    """The output folder and the checkpoint don't belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of one partition that were gone before they were read."""

    topic: str
    partition: int
    expected: int
    found: int

    @property
    def messages(self) -> int:
        """How many."""
        return self.found - self.expected


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets that one task read of one partition, first and last."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is known after a batch.

    Attributes:
        batch: Its number.
        window_us: Length of a window; must not change between runs.
        reference_us: Event time up to which all live agents had reported.
        watermark_us: Windows that end until here are closed.
        offsets: Next offset by ``topic/partition``.
        kinds: Rows of each kind.
        rows: Rows (agent × group × dimension) that its reports held.
        messages: Messages read.
        losses: Messages that were gone.
        revision: Highest revision of the configuration known when it ran.
    """

    batch: int
    window_us: int
    reference_us: int = 0
    watermark_us: int = 0
    offsets: dict[str, int] = field(default_factory=dict[str, int])
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    rows: int = 0
    messages: int = 0
    losses: list[Loss] = field(default_factory=list[Loss])
    revision: int = 0

    @property
    def floor_us(self) -> int:
        """Start of the oldest window that is still open."""
        return self.watermark_us // self.window_us * self.window_us


class Journal:
    """The steps on disk."""

    def __init__(self, session: SparkSession, out: Path) -> None:
        self._session = session
        self._folder = out / "steps"
        self._folder.mkdir(parents=True, exist_ok=True)

    def newest(self) -> int:
        """Return the number of the newest step, or −1."""
        return max((int(p.stem) for p in self._folder.glob("*.json")), default=-1)

    def summary(self, batch: int) -> Summary | None:
        """Return what is known after `batch`; None if it has not been run."""
        path = self._folder / f"{batch}.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        losses = [Loss(**loss) for loss in found.pop("losses")]
        return Summary(**found, losses=losses)

    def write(self, batch: int, rows: DataFrame) -> None:
        """Keep the rows of a step, replacing what a crash left of it."""
        path = self._folder / str(batch)
        shutil.rmtree(path, ignore_errors=True)
        rows.write.mode("overwrite").partitionBy("kind").parquet(str(path))

    def seal(self, summary: Summary) -> None:
        """Keep the summary: from now on the step is complete."""
        path = self._folder / f"{summary.batch}.json"
        write_whole(path, json.dumps(asdict(summary)))

    def read(self, batch: int, *kinds: str) -> DataFrame:
        """Return the rows of some kinds of a step; none for batch −1."""
        folder = self._folder / str(batch)
        # Only folders that exist are read: a listing per kind is what costs.
        there = [k for k in kinds if (folder / f"kind={k}").exists()]
        if not there:
            return self._session.createDataFrame([], STEP_SCHEMA)
        return (
            self._session.read.schema(STEP_SCHEMA)
            .option("basePath", str(folder))
            .parquet(*(str(folder / f"kind={k}") for k in there))
            .select(*STEP_SCHEMA.names)
        )

    def purge(self, newest: int) -> None:
        """Remove the steps that are not needed any more."""
        for path in self._folder.glob("*.json"):
            if int(path.stem) <= newest - KEPT:
                shutil.rmtree(self._folder / path.stem, ignore_errors=True)
                path.unlink()


def follow(
    before: dict[str, int], ranges: list[Range]
) -> tuple[dict[str, int], list[Loss]]:
    """Return the next offset of each partition, and what is missing before it.

    Args:
        before: Next offset by ``topic/partition`` after the batch before.
        ranges: What this batch read.
    """
    first: dict[tuple[str, int], int] = {}
    after = dict(before)
    for r in ranges:
        key = (r.topic, r.partition)
        first[key] = min(first.get(key, r.first), r.first)
        name = f"{r.topic}/{r.partition}"
        after[name] = max(after.get(name, 0), r.last + 1)
    losses = [
        Loss(topic=topic, partition=partition, expected=expected, found=found)
        for (topic, partition), found in sorted(first.items())
        if (expected := before.get(f"{topic}/{partition}", found)) < found
    ]
    return after, losses
