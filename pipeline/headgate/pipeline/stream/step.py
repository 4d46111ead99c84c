"""Turns messages and the state before into usage of closed windows and the state after.

`step` is one pure DataFrame → DataFrame transform: reports and state are brought
together by agent, decoded and differenced in numpy inside ``mapInArrow``, and
leave as rows of several kinds in one frame, so that each message is read, moved
and decoded once.  Rows are exploded only here, after the difference and after the
sum over the window.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from headgate.agent.bus.partitions import join
from headgate.agent.errors import MalformedReport
from headgate.agent.wire.codec import decode
from headgate.pipeline.counters.clock import Stamp
from headgate.pipeline.counters.evidence import ClosedLives, checked, signing_of
from headgate.pipeline.counters.incarnation import (
    ImpossibleReport,
    Incarnation,
    LifeOutcome,
    Times,
    UsageGap,
    conclude,
)
from headgate.pipeline.counters.rows import STEP_SCHEMA, RowBuilder, Tally
from headgate.pipeline.counters.state import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from headgate.agent.bus.signed import Signing
    from headgate.coordinator.messages.report import Report

KEPT_BYTES = 1024
"""Bytes kept of a message that can't be read: enough to see what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a step.

    Attributes:
        times: Windows and watermark of this batch.
        cluster: Reports of another cluster are dead letters; empty accepts all.
        report_keys: See `evidence.signing_of`; empty verifies nothing.
        closed: Lives whose reports are dead letters.
        partitions: Tasks of the step; agents are spread over them.
    """

    times: Times
    cluster: str = ""
    report_keys: str = ""
    closed: ClosedLives = field(default_factory=lambda: ClosedLives.of([]))
    partitions: int = 4


@dataclass(frozen=True, slots=True)
class _Message:
    """One message of the topic, as it came."""

    topic: str
    partition: int
    offset: int
    broker_us: int
    by_broker: bool
    payload: bytes


def routed(messages: DataFrame, *, keyed: bool) -> DataFrame:
    """Return `messages` with the agent that each comes from.

    Args:
        messages: Columns of Spark's Kafka source.
        keyed: The message's key is the agent's id, so that it can be read without
            decoding.  A report whose key names another agent is a dead letter.
    """
    named = messages.select(
        f.lit("message").alias("kind"),
        f.col("key").cast("string").alias("agent"),
        f.col("topic"),
        f.col("partition"),
        f.col("offset"),
        f.unix_micros("timestamp").alias("broker_us"),
        (f.col("timestampType") == 1).alias("by_broker"),
        f.col("value").alias("payload"),
    )
    if keyed:
        return named.withColumn("agent", f.coalesce("agent", f.lit("")))
    return named.mapInArrow(_name_agents, named.schema)


def step(messages: DataFrame, state: DataFrame, rules: Rules) -> DataFrame:
    """Return what one batch turns the state into: rows of `rows.STEP_SCHEMA`.

    Args:
        messages: From `routed`.
        state: Rows of kind ``life`` of the previous step; may be empty.
        rules: Times and options.
    """
    lives = state.select("kind", "agent", "payload")
    return (
        messages.unionByName(lives, allowMissingColumns=True)
        .repartition(rules.partitions, "agent")
        .mapInArrow(_Step(rules), STEP_SCHEMA)
    )


def clusters_of(messages: DataFrame) -> list[str]:
    """Return the names of the clusters whose reports are among `messages`."""
    found = messages.select("payload").mapInArrow(_name_clusters, "cluster string")
    return sorted(row["cluster"] for row in found.distinct().collect())


def counters_of(state: DataFrame) -> DataFrame:
    """Return the last counters of all lives, rows of kind ``ended``.

    Args:
        state: Rows of kind ``life``.
    """
    return state.select("payload").mapInArrow(_open_lives, STEP_SCHEMA)


def _open_lives(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn the bytes of lives into rows."""
    rows = RowBuilder()
    for batch in batches:
        for row in batch.to_pylist():
            life = unpack(row["payload"])
            for dimension, counters in life.counters.items():
                rows.counters("ended", life, dimension, counters)
            yield from rows.ready()
    yield from rows.rest()


def _name_clusters(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the cluster of each report that can be read."""
    for batch in batches:
        found = set[str]()
        for row in batch.to_pylist():
            with suppress(MalformedReport):
                found.add(checked(row["payload"] or b"", None).cluster)
        yield pa.RecordBatch.from_pydict({"cluster": pa.array(found, pa.string())})


def _name_agents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace the key by the id in the report."""
    for batch in batches:
        rows: list[dict[str, bytes | None]] = batch.select(["payload"]).to_pylist()
        names = pa.array([_sender(row["payload"]) for row in rows], pa.string())
        table = pa.Table.from_batches([batch]).drop_columns(["agent"])
        table = table.append_column("agent", names).select(batch.schema.names)
        yield from table.to_batches()


def _sender(payload: bytes | None) -> str:
    try:
        return decode(payload or b"").agent
    except MalformedReport:
        return ""


class _Step:
    """The Python half of `step`; one call handles one partition."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._tally = Tally()
        self._signing: Signing | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages: dict[str, list[_Message]] = {}
        states: dict[str, list[bytes]] = {}
        tally = Tally()
        for batch in batches:
            _sort_out(batch, messages, states, tally)
        rows = RowBuilder()
        self._tally = tally
        # Made here and not earlier, because a key's verifier can't be sent to a worker.
        self._signing = signing_of(self._rules.report_keys)
        for agent in sorted(messages.keys() | states.keys()):
            self._one(agent, messages.pop(agent, []), states.pop(agent, []), rows)
            yield from rows.ready()
        rows.tally(tally)
        yield from rows.rest()

    def _one(
        self, agent: str, messages: list[_Message], states: list[bytes], out: RowBuilder
    ) -> None:
        """Handle one agent's messages of this batch."""
        lives = {life.number: life for life in map(unpack, states)}
        for report, message in self._readable(agent, messages, out):
            life = lives.get(report.incarnation)
            if life is None:
                if (agent, report.incarnation) in self._rules.closed:
                    _bury(out, message, "its incarnation was closed long ago")
                    continue
                life = Incarnation(agent, report.incarnation)
            stamp = Stamp(
                round(report.sent_at_s * 1e6), message.broker_us, message.by_broker
            )
            try:
                fallen = life.absorb(report, stamp, self._rules.times)
            except ImpossibleReport as error:
                _bury(out, message, str(error))
                continue
            lives[report.incarnation] = life
            if fallen:
                _bury(
                    out, message, f"counters fell in {fallen} rows, which were skipped"
                )
        heard = [life.heard_us for life in lives.values() if life.heard_now]
        if heard:
            self._tally.heard_us[agent] = max(heard)
        if lives:
            _write(out, agent, lives, conclude(lives, self._rules.times))

    def _readable(
        self, agent: str, messages: list[_Message], out: RowBuilder
    ) -> list[tuple[Report, _Message]]:
        """Return the reports that can be read, in the order in which they were sent."""
        readable: list[tuple[Report, _Message]] = []
        for message in messages:
            try:
                report = checked(message.payload, self._signing)
            except MalformedReport as error:
                _bury(out, message, str(error))
                continue
            wanted = self._rules.cluster
            if wanted and report.cluster != wanted:
                _bury(out, message, f"cluster {report.cluster!r}, expected {wanted!r}")
            elif report.agent != agent:
                _bury(out, message, f"expected key {report.agent!r}, got {agent!r}")
            elif report.sequence < 1:
                _bury(out, message, "sequence: expected ≥ 1, got 0")
            else:
                readable.append((report, message))
                self._tally.rows += sum(len(r.group_ids) for r in report.rows)
        readable.sort(key=lambda r: (r[0].incarnation, r[0].sequence, r[1].offset))
        return list(_whole(readable))


def _sort_out(
    batch: pa.RecordBatch,
    messages: dict[str, list[_Message]],
    states: dict[str, list[bytes]],
    tally: Tally,
) -> None:
    """Sort the rows of one Arrow batch by agent."""
    for row in batch.to_pylist():
        if row["kind"] == "life":
            states.setdefault(row["agent"], []).append(row["payload"])
            continue
        message = _Message(
            row["topic"],
            row["partition"],
            row["offset"],
            row["broker_us"],
            bool(row["by_broker"]),
            row["payload"] or b"",
        )
        tally.saw(message.topic, message.partition, message.offset)
        messages.setdefault(row["agent"], []).append(message)


def _whole(
    readable: list[tuple[Report, _Message]],
) -> Iterator[tuple[Report, _Message]]:
    """Join the parts of reports that were split by group; leave others as they are."""

    def one(read: tuple[Report, _Message]) -> tuple[int, int, bool]:
        return read[0].incarnation, read[0].sequence, bool(read[0].parts)

    for (_, _, is_cut), several in groupby(readable, key=one):
        if not is_cut:
            yield from several
            continue
        of = {report.part: (report, message) for report, message in several}
        parts, messages = zip(*of.values(), strict=True)
        whole = of.keys() >= set(parts[0].parts)
        yield join(list(parts), whole=whole), messages[-1]


def _bury(out: RowBuilder, message: _Message, reason: str) -> None:
    """Add a message to the dead letters."""
    out.dead(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        broker_us=message.broker_us,
        reason=reason,
        payload=message.payload[:KEPT_BYTES],
    )


def _write(
    out: RowBuilder, agent: str, lives: dict[int, Incarnation], outcome: LifeOutcome
) -> None:
    """Write the results for one agent."""
    for dimension, parts in outcome.closed.items():
        for part in parts:
            out.usage(agent, dimension, part)
    for gap in outcome.gaps:
        _write_gap(out, gap)
    for life in outcome.ended:
        for dimension, counters in life.counters.items():
            out.counters("ended", life, dimension, counters)
    for life in lives.values():
        out.life(life, pack(life))


def _write_gap(out: RowBuilder, gap: UsageGap) -> None:
    """List a gap: one row for each group that the agent used."""
    for dimension, counters in gap.life.counters.items():
        kind = "healed" if gap.healed else "gap"
        out.counters(kind, gap.life, dimension, counters, until_us=gap.until_us)
