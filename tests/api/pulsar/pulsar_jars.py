"""Fetch Pulsar's own command line, 82 MB, once.

``python -m tests.api.pulsar.pulsar_jars``
"""

from pathlib import Path

from tools.maven_jars import fetched

VERSION = "4.0.8"
"""The client that the contract was observed with."""

JARS = Path(__file__).parents[3] / ".headgate" / f"pulsar-client-tools-{VERSION}"

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headgate</groupId><artifactId>pulsar-client</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.pulsar</groupId><artifactId>pulsar-client-tools</artifactId>
<version>{VERSION}</version>
</dependency></dependencies></project>"""


def fetch() -> Path:
    """Return the folder of the client's jars, filled when it was not there."""
    fetched(POM, JARS)
    (JARS / "client.conf").touch()
    return JARS


if __name__ == "__main__":
    fetch()
