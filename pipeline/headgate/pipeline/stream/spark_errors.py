"""What Spark's exceptions mean, in a sentence for a person."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no hints
from pyspark.errors import PySparkException

_OURS = re.compile(
    r"(?:LostMessages|MixedClusters|OutputIncomplete|StateUnreadable|WrongSettings)"
    r": ([^\n]+)"
)

_CAUSES: tuple[tuple[str, str], ...] = (
    (r"No space left on device", "the disk is full: {line}"),
    (r"Permission denied|AccessControlException|AccessDenied", "refused: {line}"),
    (
        r"FileNotFoundException|FILE_NOT_EXIST|does not exist.*\.parquet",
        "a file of the output is missing: {line}. Restore the whole output from one "
        "backup, or give another --out",
    ),
    (
        r"is not a Parquet file|CANNOT_READ_FILE_FOOTER|[Cc]orrupt|ParquetDecoding",
        "a file can't be read: {line}. Restore the whole output from one backup, or "
        "give another --out",
    ),
    (
        r"UnknownTopicOrPartition",
        "the topic does not exist",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|DELTA_CONCURRENT|Concurrent\w+Exception",
        "another run works on this output; the tables are right, one run is enough",
    ),
    (
        r"TimeoutException|create new KafkaAdminClient|No resolvable bootstrap",
        "Kafka can't be reached: {line}",
    ),
)


def said(error: BaseException) -> str:
    """Return what to tell of an error of Spark's; empty if it is none of them."""
    if not isinstance(error, (PySparkException, Py4JError)):
        return ""
    return cause_of(error) or first_line(error)


def cause_of(error: BaseException) -> str:
    """Return the sentence for an error that another try can't mend; else nothing."""
    text = str(error)
    ours = _OURS.search(text)
    if ours:
        return ours[1]
    for pattern, sentence in _CAUSES:
        found = re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)
        if found:
            return sentence.format(line=found[0].strip()[:300])
    return ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
