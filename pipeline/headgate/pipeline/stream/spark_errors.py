"""What Spark's exceptions mean, in a sentence for a person."""

from __future__ import annotations

import re

from py4j.protocol import (  # type: ignore[import-untyped]  # has no hints
    Py4JError,
    Py4JNetworkError,
)
from pyspark.errors import PySparkException

_OURS = re.compile(
    r"(?:LostMessages|MixedClusters|OutputIncomplete|StateUnreadable|WrongSettings)"
    r": ([^\n]+)"
)

_RESTORE = (
    "If it belongs to the output, restore the whole output from one backup, or give "
    "another --out"
)

_NO_KAFKA = "Kafka can't be reached"

_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded|File too large",
        "no space for the output or for Spark's temporary files: {line}. The tables "
        "are correct as far as they go; free some space and run again",
    ),
    (
        r"Permission denied|AccessControlException|AccessDenied|Operation not permitted"
        r"|Read-only file system|mkdir of .* failed|Mkdirs failed|[Nn]ot a directory",
        "no permission to read or write: {line}",
    ),
    (
        r"FileNotFoundException|FILE_NOT_EXIST|does not exist.*\.parquet",
        "a file of the output is missing: {line}. Restore the whole output from one "
        "backup, or give another --out",
    ),
    (
        # Before the next ones, because these are sure to name the file.
        r"FAILED_READ_FILE|is not a Parquet file|CANNOT_READ_FILE_FOOTER",
        "a file can't be read: {line}. " + _RESTORE,
    ),
    (
        r"[Cc]orrupt|ParquetDecoding|ChecksumException|JsonParseException|DELTA_\w*LOG"
        r"|DELTA_STATE_RECOVER|Incomplete log file|MALFORMED",
        "a file can't be read: {line}. " + _RESTORE,
    ),
    (
        r"UnknownTopicOrPartition",
        "the topic does not exist",
    ),
    (
        r"AuthorizationException|AuthenticationException",
        "Kafka refuses this user: {line}",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|DELTA_CONCURRENT|Concurrent\w+Exception",
        "another run is writing this output; the tables are correct, one run is enough",
    ),
    (
        r"TimeoutException|create new KafkaAdminClient|No resolvable bootstrap",
        _NO_KAFKA + ": {line}",
    ),
)

_NO_JVM = (
    "Spark's Java process has ended: it was killed, stopped, or ran out of memory; "
    "the next run continues after the last complete batch"
)

_PREFIX = re.compile(
    r"(?:Caused by|(?:[a-z]\w*\.)+[\w$]+|[A-Z]\w+Exception|): +|\[[A-Z_.]+\] +"
)
"""What precedes a message: classes of Java's exceptions, Spark's names of errors."""

_KAFKA = re.compile(r"org\.apache\.kafka\.|TimeoutException")
"""Matches a trace whose cause is a broker."""

_MESSAGE = re.compile(r"(?:Caused by|): |(?:[\w$]+\.)*[A-Z][\w$]*(?:Exception|Error): ")
"""Matches a line that begins a Java or Python exception, in a trace of several."""

_NO_NEWS = re.compile(r"An error occurred while calling [\w.]+")
"""What Py4J says about every Java exception, on the first line."""

LONGEST = 300
"""Most characters of Spark's own words that are shown."""


def said(error: BaseException) -> str:
    """Return what to say about an error of Spark's; empty for any other error."""
    if is_gone(error):
        return _NO_JVM
    if not isinstance(error, (PySparkException, Py4JError)):
        return ""
    return cause_of(error) or message_of(error)


def is_gone(error: BaseException) -> bool:
    """Whether the error says that Spark is no longer there."""
    # Other connections belong to clients, which raise errors of their own.
    lost = (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)
    return isinstance(error, lost) or (
        isinstance(error, Py4JError) and bool(_NO_NEWS.fullmatch(str(error).strip()))
    )


def cause_of(error: BaseException) -> str:
    """Return the sentence for an error that a retry can't fix, else an empty one."""
    text = str(error)
    ours = _OURS.search(text)
    if ours:
        return ours[1]
    for pattern, sentence in _CAUSES:
        found = re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)
        if found:
            return sentence.format(line=_plain(found[0]))
    return ""


def message_of(error: BaseException) -> str:
    """Return the first message in an error, from Java or from a batch in Python."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if _MESSAGE.match(line)] or lines
    news = [line for line in map(_plain, found) if not _NO_NEWS.match(line)]
    return news[0] if news else type(error).__name__


def is_passing(error: BaseException) -> bool:
    """Whether a stream from Kafka may go on after this: its broker may be back soon.

    A failure in the batch itself would happen again, unless it names Kafka: a batch
    reads its messages late.  A failure before a batch is Kafka's, unless listed here.
    """
    text = str(error)
    if "FOREACH_BATCH" in text and not _KAFKA.search(text):
        return False
    cause = cause_of(error)
    return not cause or cause.startswith(_NO_KAFKA)


def _plain(line: str) -> str:
    """Return a line from Java without names of classes and codes."""
    text = line.strip()
    while found := _PREFIX.match(text):
        text = text[found.end() :]
    text = re.sub(r"\s*SQLSTATE: \w+$", "", text)[:LONGEST].rstrip(" .")
    return text or line.strip()[:LONGEST]
