"""An S3-compatible server, and Hadoop's connector to it.

``python -m tests.pipeline.rigs.s3`` fetches the connector's jars once: 52 jars, 18 MB.
`hadoop-aws` itself asks for the whole of Amazon's SDK in one jar of 690 MB; the four
modules of it that the connector uses are enough.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from tools.maven_jars import fetched
from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Generator

HADOOP = "3.5.0"
"""As in Spark's own jars."""

SDK, STREAMS = "2.35.4", "1.3.1"
"""What this `hadoop-aws` was built with."""

JARS = Path(__file__).resolve().parents[3] / ".headgate" / f"s3-connector-{HADOOP}"

START_S = 100.0

_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"  # noqa: E501

_SPARK_HAS = (
    "<exclusions><exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-api"
    "</artifactId></exclusion></exclusions>"
)


def _dependency(group: str, name: str, version: str, more: str = _SPARK_HAS) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


_AWS = "software.amazon.awssdk"

POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0">'
    "<modelVersion>4.0.0</modelVersion><groupId>headgate</groupId>"
    "<artifactId>s3-connector</artifactId><version>1</version><dependencies>"
    + _dependency("org.apache.hadoop", "hadoop-aws", HADOOP, _ALONE)
    + _dependency(
        "software.amazon.s3.analyticsaccelerator",
        "analyticsaccelerator-s3",
        STREAMS,
        _ALONE,
    )
    + "".join(
        _dependency(_AWS, name, SDK)
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client")
    )
    + "</dependencies></project>"
)


def fetch() -> list[Path]:
    """Return the connector's jars, fetched by Maven when they were not there."""
    return sorted(fetched(POM, JARS).glob("*.jar"))


@contextmanager
def bucket(name: str) -> Generator[str]:
    """Run a server that holds an empty bucket; give its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url, end_s = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while True:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < end_s, "the server did not start"
            try:
                httpx.put(f"{url}/{name}", timeout=START_S).raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def options(url: str) -> dict[str, str]:
    """Return what Spark must be given to reach the server by ``s3a:``."""
    hadoop = {
        "endpoint": url,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "key",
        "secret.key": "secret",
        # This server answers no `Expect: 100-continue`: each write would wait for it.
        "connection.expect.continue": "false",
    }
    named = {f"spark.hadoop.fs.s3a.{name}": value for name, value in hadoop.items()}
    return named | {"spark.jars": ",".join(map(str, fetch()))}


if __name__ == "__main__":
    fetch()
