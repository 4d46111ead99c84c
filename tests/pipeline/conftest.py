"""One Spark session for all tests of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.pipeline.rigs.small import SMALL
from tools.spark_classes import options

from headgate.pipeline.stream.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def archived_classes() -> Iterator[None]:
    """All drivers load their classes from the archive."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_SUBMIT_OPTS", options(), prepend=" ")
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small session that starts quickly."""
    session = local_session(cores=2, memory="768m", more=SMALL)
    yield session
    session.stop()
