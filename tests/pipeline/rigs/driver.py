"""A driver to be killed: it starts Spark, waits for a word, then runs the stream.

``python -m tests.pipeline.rigs.driver OUT BOOTSTRAP TOPIC``: says ``ready``, reads a
line from stdin, reads all that is in the topic, says ``done``.  The next driver can
start while this one works, so that ten kills don't cost ten starts one after the other.
With the word ``upkeep`` it compacts and vacuums after each batch, and says ``upkeep``
and ``kept``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.pipeline.rigs.generated import CLUSTER
from tests.pipeline.rigs.runs import run_of
from tests.pipeline.rigs.small import SMALL

from headgate.pipeline.settings import PipelineSettings
from headgate.pipeline.stream.maintenance import Maintenance, day_of
from headgate.pipeline.stream.session import local_session
from headgate.pipeline.tables.filesystem import uri_of

if TYPE_CHECKING:
    from headgate.pipeline.stream.batch_log import BatchSummary

BATCH_MESSAGES = 110
"""Eight batches of the generated recording."""

LATENESS_S, SILENCE_S, KEEP_S = 10, 8, 40

HISTORY = "history.jsonl"
"""What was decided, beside the output."""


def settings_of(out: Path, bootstrap: str, topic: str) -> PipelineSettings:
    """Return settings that make a few batches of the recording."""
    return PipelineSettings(
        out=uri_of(str(out)),
        bootstrap=bootstrap,
        topic=topic,
        cluster=CLUSTER,
        history=out.parent / HISTORY,
        partitions=2,
        max_messages=BATCH_MESSAGES,
        lateness_s=LATENESS_S,
        silence_s=SILENCE_S,
        keep_s=KEEP_S,
    )


class Eager(Maintenance):
    """Upkeep after each batch, not after two dozen or when a day has ended."""

    def after_batch(self, now: BatchSummary) -> None:
        if self._store.version("usage_10s") >= 0:
            today = day_of(now.watermark_us)
            say("upkeep")
            self.compact("usage_10s", today)
            self.finish_day("usage_10s", today)
            self._steps.vacuum()
            say("kept")


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(out: str, bootstrap: str, topic: str) -> None:
    """Run once."""
    session = local_session(cores=2, memory="512m", more=SMALL)
    say("ready")
    if sys.stdin.readline() == "upkeep\n":
        Maintenance.after_batch = Eager.after_batch  # type: ignore[method-assign, assignment]
    run_of(session, settings_of(Path(out), bootstrap, topic)).until_caught_up()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
