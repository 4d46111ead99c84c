"""Runs and engines on an output, with the configurations that are kept in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.pipeline.batch_jobs import history_of
from headgate.pipeline.stream.engine import StreamEngine
from headgate.pipeline.stream.run import StreamRun
from headgate.pipeline.tables.filesystem import local_path, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.settings import PipelineSettings
    from headgate.pipeline.stream.batch_log import BatchSummary


def run_of(
    spark: SparkSession,
    settings: PipelineSettings,
    after: Callable[[BatchSummary], None] = lambda summary: None,
) -> StreamRun:
    return StreamRun(spark, settings, history_of(spark, settings), after=after)


def engine_of(spark: SparkSession, settings: PipelineSettings) -> StreamEngine:
    return StreamEngine(spark, settings, history_of(spark, settings))


def known_usage(engine: StreamEngine) -> DataFrame:
    """Closed windows, and what is provisional."""
    closed = engine.tables.read("usage_10s")
    return closed.unionByName(engine.tables.read("usage_open"))


def folder_of(out: str) -> Path:
    """The folder of a local output."""
    folder = local_path(uri_of(out))
    assert folder is not None
    return folder
