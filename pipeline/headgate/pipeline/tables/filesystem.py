"""Any file system that Hadoop supports (``file:``, ``s3a:``, ``hdfs:`` …), by URI.

Only for what the table format and Spark's checkpoint can't answer: what a folder holds,
if it exists.  The credentials are those of the session (``spark.hadoop.*``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from headgate.pipeline.tables.jvm import hadoop_configuration, java

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


class _MakePath(Protocol):
    def __call__(self, uri: str) -> _HadoopPath: ...


class _HadoopPath(Protocol):
    def getName(self) -> str: ...

    def getFileSystem(self, conf: object) -> _HadoopFileSystem: ...


class _FileStatus(Protocol):
    def getPath(self) -> _HadoopPath: ...


class _HadoopFileSystem(Protocol):
    def exists(self, path: _HadoopPath) -> bool: ...

    def listStatus(self, path: _HadoopPath) -> Sequence[_FileStatus]: ...


def uri_of(text: str) -> str:
    """Return `text` as a URI without a trailing slash; a bare path is a ``file:``.

    >>> uri_of("s3a://bucket/usage/")
    's3a://bucket/usage'
    >>> uri_of("/data/usage")
    'file:///data/usage'
    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:", text):
        return text.rstrip("/")
    # Hadoop takes a path as it is written, so a space must stay a space.
    return f"file://{Path(text).absolute()}"


def local_path(uri: str) -> Path | None:
    """Return the local folder that a URI names; None if it is remote.

    >>> local_path("file:///data/usage"), local_path("s3a://bucket/usage")
    (PosixPath('/data/usage'), None)
    """
    found = re.fullmatch(r"file:(?://)?(/.*)", uri)
    return Path(found[1]) if found else None


def child_names(session: SparkSession, uri: str) -> list[str]:
    """Return the names in a folder; empty if it does not exist."""
    path_of = cast("_MakePath", java(session, "org.apache.hadoop.fs.Path"))
    path = path_of(uri)
    files = path.getFileSystem(hadoop_configuration(session))
    if not files.exists(path):
        return []
    return [status.getPath().getName() for status in files.listStatus(path)]
