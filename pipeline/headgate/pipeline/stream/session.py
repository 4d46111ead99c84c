"""The Spark session that the pipeline runs in: its own, or that of spark-submit."""

from __future__ import annotations

import os
import sys
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.pipeline.stream.jars import connector_jars, require_java
from headgate.pipeline.tables.jvm import quiet_loss, quiet_stdout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

SUBMIT = Path(__file__).parents[1] / "submit" / "headgate_pipeline.py"
"""The file to pass to spark-submit."""

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment of a driver that spark-submit started."""

ARROW_BYTES = 32 << 20
"""Most bytes in one Arrow batch to Python.  A report may have 100 kB, so that Spark's
default of 10,000 rows, which is right for usage, would be a gigabyte of them."""

OPEN_WRITERS = 16
"""Files that a task keeps open: one per kind of row, so that rows need not be
sorted by kind before they are written."""

COMPACT_BYTES = 128 << 20
"""Size of a compacted file: a few seconds to read, and a few hundred in a year."""

GENERATED_CLASSES = 400
"""Classes kept for later batches, 0.13 MB each.  A batch needs more than a hundred,
Spark's default: with it, each would be compiled again in every batch, and interpreted
until it is warm.  A few new ones come with every batch."""

JARS = "spark.jars"
"""Spark's own setting for jars on the class path."""

LOG_LEVEL = "spark.log.level"
"""Spark's own setting for what it logs on stderr."""

QUIET = "OFF"
"""The level unless one is set: an error ends the run, and its last line explains it."""

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
"""Log settings that apply before there is a session."""

LOCAL: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # The web page is off; by default the plans of a thousand queries are kept for it.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    # Takes less CPU than Java's default, and nobody minds its pauses.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    # Checksums detect tasks that give another result when another machine repeats
    # them; they cost as much as a job.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
"""Settings of a session on one machine."""

NEEDED: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
    "spark.sql.maxConcurrentOutputFileWriters": str(OPEN_WRITERS),
    "spark.sql.optimizer.plannedWrite.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": str(GENERATED_CLASSES),
    # Usage is cached only during a batch: compressing it costs more than the memory.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Microseconds have statistics to skip files by; Spark's default, INT96, has none.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": (
        "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ),
    # The tables' logs are short; the defaults are for millions of files.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # One commit per batch: checkpoints are frequent enough to read the log quickly, and
    # it is kept for a day, so that listing it costs the same after a year.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "50",
    "spark.databricks.delta.properties.defaults.logRetentionDuration": (
        "interval 1 days"
    ),
    # Files that are large enough are not compacted again.
    "spark.databricks.delta.optimize.minFileSize": str(COMPACT_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(COMPACT_BYTES),
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
"""Settings that the jobs rely on; also set on the session of spark-submit."""


THREADS: dict[str, str] = {
    "spark.sql.broadcastExchange.maxThreadThreshold": "16",
    "spark.sql.shuffleExchange.maxThreadThreshold": "16",
    "spark.sql.resultQueryStage.maxThreadThreshold": "16",
}
"""Sizes of Spark's thread pools.  Each pool starts a thread for every query, up to
1,024 (128 for broadcasts); an idle thread ends after a minute.  Each thread has memory
of its own and holds on to the session it was started in.  Only the first session of a
JVM takes these settings."""


def local_session(
    *,
    cores: int = 2,
    memory: str = "1g",
    kafka: bool = True,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session on this machine, or that of spark-submit.

    Under spark-submit, the cluster, memory and jars are those given to it.

    Args:
        cores: Threads that Spark may use.
        memory: Heap of the JVM.
        kafka: Put the Kafka connector on the class path, besides Delta's.
        more: Further settings, which win.  Jars are added to those of the connectors.

    Raises:
        SetUpMissing: Java or a connector is missing; says what to do.
    """
    if SUBMITTED in os.environ:
        return _submitted()
    require_java()
    settings = dict(more or {})
    jars = [*map(str, connector_jars(kafka=kafka)), settings.pop(JARS, "")]
    from pyspark.sql import SparkSession

    # These are options of the Java process; the session's own are left to the user.
    logs = log_option()
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if logs not in given:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{logs} {given}".strip()
    # Workers run this process's interpreter; the session's own setting for it is
    # read only by spark-submit.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("headgate").master(f"local[{cores}]")
    settings = {
        **LOCAL,
        **NEEDED,
        **THREADS,
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(2 * cores),
        JARS: ",".join(filter(None, jars)),
        **settings,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Delta prints a line on stdout for each VACUUM, whatever the log level.
    quiet_stdout(session)
    quiet_loss(session)
    return session


def log_option() -> str:
    """Return the Java option that keeps Spark's log quiet from the first line."""
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"


def _submitted() -> SparkSession:
    """Return the session that spark-submit prepared, with what the jobs need."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Until Java is connected, a SparkConf has nothing of what spark-submit was given.
    methodcaller("_ensure_initialized")(SparkContext)
    given = SparkConf()
    level = given.get(LOG_LEVEL, None) or QUIET
    threads = {name: given.get(name, most) or most for name, most in THREADS.items()}
    builder = SparkSession.builder
    for name, value in (NEEDED | threads | {LOG_LEVEL: level}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    quiet_loss(session)
    return session
