"""A driver to be killed: it starts Spark, waits for a word, then runs the stream.

``python -m tests.pipeline.rigs.driver OUT BOOTSTRAP TOPIC``: says ``ready``, reads a
line from stdin, reads all that is in the topic, says ``done``.  The next driver can
start while this one works, so that ten kills don't cost ten starts one after the other.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.pipeline.rigs.runs import run_of
from tests.pipeline.rigs.small import SMALL

from headgate.pipeline.settings import PipelineSettings
from headgate.pipeline.stream.session import local_session
from headgate.pipeline.tables.filesystem import uri_of


def settings_of(out: Path, bootstrap: str, topic: str) -> PipelineSettings:
    """Return settings that make half a dozen batches of the recording."""
    return PipelineSettings(
        out=uri_of(str(out)),
        bootstrap=bootstrap,
        topic=topic,
        partitions=2,
        max_messages=80,
        lateness_s=10.0,
        silence_s=8.0,
    )


def main(out: str, bootstrap: str, topic: str) -> None:
    """Run once."""
    session = local_session(cores=2, memory="512m", more=SMALL)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    run_of(session, settings_of(Path(out), bootstrap, topic)).until_caught_up()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
