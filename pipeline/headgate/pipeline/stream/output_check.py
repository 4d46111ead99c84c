"""Is the output complete?  Checked before a run, so that nothing is billed wrongly.

The parts of an output refer to one another: the state knows its batch, the commits of
all tables and the topic; the checkpoint knows its batch.  A part that is missing or
older than the rest was removed or restored on its own, and going on would bill too much
or too little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.pipeline.settings import OutputIncomplete, WrongSettings
from headgate.pipeline.stream.batch_log import ANOTHER
from headgate.pipeline.tables.filesystem import child_names
from headgate.pipeline.tables.schema import STREAMED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession

    from headgate.pipeline.settings import PipelineSettings
    from headgate.pipeline.stream.batch_log import BatchSummary
    from headgate.pipeline.tables.store import TableStore

_RESTORE = f"restore the whole output from one backup, or {ANOTHER}"


def check_tables(
    head: BatchSummary | None,
    store: TableStore,
    written: Collection[str] = (),
) -> None:
    """Refuse tables that are missing or older than the state.

    Args:
        head: Of the newest step; None before the first.
        store: The tables.
        written: Tables that the newest step's batch has written; see `written_by`.

    Raises:
        OutputIncomplete: Says which table.
    """
    for name in STREAMED:
        known = head.versions.get(name, -1) if head is not None else -1
        known += name in written
        there = store.version(name)
        if head is None and there >= 0:
            raise OutputIncomplete(
                f"{store.uri(name)} exists, but the state (steps/) is missing; "
                f"{_RESTORE}"
            )
        if there < known:
            found = "is missing" if there < 0 else f"is at commit {there}"
            raise OutputIncomplete(
                f"{store.uri(name)} {found}, but the state records commit {known}; "
                f"{_RESTORE}"
            )


def written_by(
    session: SparkSession,
    settings: PipelineSettings,
    head: BatchSummary | None,
    kinds: Mapping[str, int],
) -> set[str]:
    """Return tables that the newest batch must have written, if it is complete.

    Args:
        session: Of the run.
        settings: Of the run.
        head: Of the newest step.
        kinds: Rows of each kind in that step.
    """
    done = _newest(session, f"{settings.checkpoint}/commits")
    if head is None or done < head.batch:
        return set()
    return {table for kind, table in _TABLES_OF.items() if kinds.get(kind)}


def check_checkpoint(
    session: SparkSession, settings: PipelineSettings, head: BatchSummary | None
) -> None:
    """Refuse a checkpoint that is missing or doesn't belong to the state.

    Raises:
        OutputIncomplete: Says what is wrong.
    """
    planned = _newest(session, f"{settings.checkpoint}/offsets")
    done = _newest(session, f"{settings.checkpoint}/commits")
    if head is None:
        if done >= 0:
            raise OutputIncomplete(
                f"{settings.out}: the checkpoint is at batch {done}, but the state "
                f"(steps/) is missing; {_RESTORE}"
            )
    elif planned < 0:
        raise OutputIncomplete(
            f"{settings.out}: the checkpoint is missing, so what was read is unknown; "
            f"{_RESTORE}"
        )
    elif planned not in (head.batch, head.batch + 1) or done < head.batch - 1:
        raise OutputIncomplete(
            f"{settings.out}: the checkpoint is at batch {planned}, but the state at "
            f"batch {head.batch}; {_RESTORE}"
        )


def check_topic(
    settings: PipelineSettings, head: BatchSummary | None, found: str
) -> None:
    """Refuse a topic that was deleted and created again: its offsets begin again.

    Args:
        settings: Of the run.
        head: Of the newest step.
        found: Kafka's id of the topic now; empty if it has none.

    Raises:
        OutputIncomplete: It is another topic.
    """
    if head is not None and head.topic_id and found and head.topic_id != found:
        raise OutputIncomplete(
            f"the topic {settings.topic} was deleted and re-created since batch "
            f"{head.batch}: its messages are gone, its offsets start again; {ANOTHER}"
        )


def check_cluster(settings: PipelineSettings, head: BatchSummary | None) -> None:
    """Refuse to add the reports of one cluster to the output of another.

    Raises:
        WrongSettings: The output holds the reports of another cluster.
    """
    known = head.cluster if head is not None else ""
    if known and settings.cluster and settings.cluster != known:
        raise WrongSettings(
            f"cluster: {settings.out} holds reports of {known!r}; give "
            f"{settings.cluster!r} another --out"
        )


_TABLES_OF = {
    "usage": "usage_10s",
    "dead": "dead_letters",
    "gap": "gaps",
    "healed": "gaps",
    "ended": "counters",
}
"""The table that takes the rows of a kind as they are."""


def _newest(session: SparkSession, uri: str) -> int:
    """Return the highest batch that a folder of the checkpoint names, or −1."""
    names = child_names(session, uri)
    return max((int(name) for name in names if name.isdecimal()), default=-1)
