"""The step of the newest batch, as a Delta table that each batch replaces.

One commit holds all rows of a step, among them the state of every life, and the
*head*: what was known before the step.  A step is a function of the state before and
of the batch's messages, which Spark's checkpoint fixes before the batch runs; the
commit carries the batch's number as its transaction.  So after a crash the table says
which batch it holds, and a batch whose step is already here is only published again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from headgate.pipeline.counters.clock import reference_us
from headgate.pipeline.counters.rows import KINDS, STEP_SCHEMA, Tally
from headgate.pipeline.settings import OutputIncomplete, WrongSettings
from headgate.pipeline.tables.jvm import execute
from headgate.pipeline.tables.store import newest_commit, transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 4
"""Format of the steps; an output in another format is not continued."""

HEAD = "head"
"""The kind of the one row that says what was known before the step."""

ANOTHER = (
    "give another --out, which starts again with what the topic still holds, so that "
    "the bills of both overlap"
)
"""What to do about an output that can't be continued."""

_PROPERTIES = {
    # Each batch replaces the state; the old files are kept for current readers, not
    # for a week.
    "delta.deletedFileRetentionDuration": "interval 15 minutes",
    # Its columns are binary or read as a whole, so statistics would be wasted.
    "delta.dataSkippingNumIndexedCols": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of one partition that were gone before they were read.

    Attributes:
        topic: Name of the topic.
        partition: Number of its partition.
        expected: Offset that was to be read next.
        found: Offset that was there.  Less than `expected` in a topic that was
            deleted and created again.
    """

    topic: str
    partition: int
    expected: int
    found: int

    @property
    def messages(self) -> int:
        """How many."""
        return self.found - self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """What is known after a batch.

    Attributes:
        batch: Its number.
        window_us: Length of a window; must not change between runs.
        format: Of the steps.
        cluster: Whose reports these are; empty before the first was read.
        topic_id: Kafka's id of the topic; empty where it has none.
        verified: The signatures of all reports were verified.
        reference_us: Event time up to which all live agents had reported.
        watermark_us: Windows that end until here are closed.
        closed_us: Watermark of the step itself, in the head of that step: another run
            may have another lateness.
        offsets: Next offset by ``topic/partition``.
        kinds: Rows of each kind.
        rows: Rows (agent × group × dimension) that its reports held.
        messages: Messages read.
        losses: Messages that were gone.
        revision: Highest revision of the configuration known when it ran.
        versions: Number of the newest commit of each table, by name, before the
            tables of this batch were written.
    """

    batch: int = -1
    window_us: int
    format: int = FORMAT
    cluster: str = ""
    topic_id: str = ""
    verified: bool = True
    reference_us: int = 0
    watermark_us: int = 0
    closed_us: int = 0
    offsets: dict[str, int] = field(default_factory=dict[str, int])
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    rows: int = 0
    messages: int = 0
    losses: list[Loss] = field(default_factory=list[Loss])
    revision: int = 0
    versions: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def floor_us(self) -> int:
        """Start of the oldest window that is still open."""
        return self.watermark_us // self.window_us * self.window_us

    def after(self, tally: Tally, *, ordered: bool) -> BatchSummary:
        """Return what is known once a step has run.

        Args:
            tally: Of all its tasks.
            ordered: Offsets come without holes; files are read in order of age.
        """
        offsets, losses = follow(self.offsets, tally.offsets)
        return replace(
            self,
            reference_us=reference_us(self.reference_us, [*tally.heard_us.values()]),
            offsets=offsets,
            kinds=tally.kinds,
            rows=tally.rows,
            messages=tally.messages,
            losses=losses if ordered else [],
        )

    def to_json(self) -> str:
        """Return text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> BatchSummary:
        """Return what `to_json` wrote.

        Raises:
            WrongSettings: Another version wrote it.
        """
        found = json.loads(text)
        if found.get("format") != FORMAT:
            raise WrongSettings(
                f"written in format {found.get('format')}, expected {FORMAT}; {ANOTHER}"
            )
        losses = [Loss(**loss) for loss in found.pop("losses")]
        return cls(**found, losses=losses)


class BatchLog:
    """The table of the newest step."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        """Keep the table at `uri`."""
        self._session = session
        self._pinned: int | None = None
        self.uri = uri

    def pin(self) -> None:
        """Read the step that is newest now, from here on."""
        newest = newest_commit(self._session, self.uri)
        self._pinned = newest if newest >= 0 else None

    def head(self) -> BatchSummary | None:
        """Return what was known before the newest step, with that step's number.

        Returns None before the first step.

        Raises:
            OutputIncomplete: The table has no head.
            WrongSettings: Another version wrote it.
        """
        rows = self._load()
        if rows is None:
            return None
        found = rows.where(f"kind = '{HEAD}'").select("payload").collect()
        if len(found) != 1:
            raise OutputIncomplete(
                f"{self.uri}: the newest step has no head; {ANOTHER}"
            )
        return BatchSummary.from_json(bytes(found[0]["payload"]))

    def tally(self) -> Tally:
        """Return what the newest step read and wrote."""
        whole = Tally()
        for row in self.read("tally").select("payload").collect():
            whole.add(Tally.from_json(bytes(row["payload"])))
        return whole

    def write(self, head: BatchSummary, rows: DataFrame) -> None:
        """Replace the newest step, in one commit.

        Args:
            head: What was known before it; its `batch` is that of the step.
            rows: Of the step.
        """
        first = self._session.createDataFrame(
            [(HEAD, bytearray(head.to_json().encode()))], "kind string, payload binary"
        )
        rows.unionByName(first, allowMissingColumns=True).write.format("delta").mode(
            "overwrite"
        ).partitionBy("kind").options(
            **transaction(head.batch), **(_PROPERTIES if head.batch == 0 else {})
        ).save(self.uri)

    def read(self, *kinds: str) -> DataFrame:
        """Return the rows of some kinds of the newest step; none before the first."""
        assert set(kinds) <= set(KINDS)
        rows = self._load()
        if rows is None:
            return self._session.createDataFrame([], STEP_SCHEMA)
        named = ", ".join(f"'{kind}'" for kind in kinds)
        return rows.where(f"kind in ({named})").select(*STEP_SCHEMA.names)

    def vacuum(self) -> None:
        """Remove the files of steps replaced at least 15 minutes ago."""
        execute(self._session, f"VACUUM delta.`{self.uri}`")

    def _load(self) -> DataFrame | None:
        if newest_commit(self._session, self.uri) < 0:
            return None
        reader = self._session.read.format("delta")
        if self._pinned is not None:
            reader = reader.option("versionAsOf", self._pinned)
        return reader.load(self.uri)


def follow(
    before: dict[str, int], ranges: dict[str, tuple[int, int]]
) -> tuple[dict[str, int], list[Loss]]:
    """Return the next offset of each partition, and what is missing before it.

    Args:
        before: Next offset by ``topic/partition`` after the previous batch.
        ranges: First and last offset that this batch read.
    """
    after, losses = dict(before), list[Loss]()
    for name, (first, last) in sorted(ranges.items()):
        topic, _, partition = name.rpartition("/")
        expected = before.get(name, first)
        if first != expected:
            loss = Loss(
                topic=topic, partition=int(partition), expected=expected, found=first
            )
            losses.append(loss)
        after[name] = last + 1
    return after, losses
