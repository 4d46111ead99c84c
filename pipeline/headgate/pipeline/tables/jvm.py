"""What is asked of Spark's JVM itself: by the driver, and in these places only."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def java(session: SparkSession, name: str) -> object:
    """Return a class, a static method or a constant of Java by its full name."""
    found: object = attrgetter(f"_jvm.{name}")(session)
    return found


def hadoop_configuration(session: SparkSession) -> object:
    """Return the settings of Hadoop's file systems, ``spark.hadoop.*``."""
    found: object = attrgetter("sparkContext._jsc.hadoopConfiguration")(session)()
    return found


def execute(session: SparkSession, statement: str) -> list[Row]:
    """Run a statement of SQL to its end; return its rows."""
    return session.sql(statement).collect()  # pyright: ignore[reportUnknownMemberType]  # pyspark's own hint
