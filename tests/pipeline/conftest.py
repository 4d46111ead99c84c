"""One Spark session for all tests of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headgate.pipeline.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small session that starts quickly."""
    session = local_session(
        cores=2,
        memory="768m",
        more={
            "spark.sql.shuffle.partitions": "2",
            # A few rows a query: planning again and compiling costs more than running.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.extraJavaOptions": (
                "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
            ),
        },
    )
    yield session
    session.stop()
