"""Where messages come from: the usage topic, or files of recorded messages.

Both have the columns of Spark's Kafka source, so that nothing beyond this module
knows which one it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headgate.pipeline.tables.filesystem import local_path, uri_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.settings import PipelineSettings

MESSAGES = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""The columns of Spark's Kafka source."""


def messages(session: SparkSession, settings: PipelineSettings) -> DataFrame:
    """Return the stream of messages described by `settings`."""
    if settings.files:
        folder = local_path(uri_of(settings.files))
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        return (
            session.readStream.schema(MESSAGES)
            .option("maxFilesPerTrigger", settings.max_files)
            .parquet(uri_of(settings.files))
        )
    options = {
        "kafka.bootstrap.servers": settings.bootstrap,
        "subscribe": settings.topic,
        "startingOffsets": settings.starting,
        "maxOffsetsPerTrigger": str(settings.max_messages),
        # The engine counts missing messages, and then decides.
        "failOnDataLoss": "false",
        "minPartitions": str(session.sparkContext.defaultParallelism),
        **settings.kafka_options,
    }
    return session.readStream.format("kafka").options(**options).load()
