"""Fetch Pulsar's own command line, 82 MB, once.

``python -m tests.api.pulsar.pulsar_jars``
"""

import subprocess
from pathlib import Path

VERSION = "4.0.8"
"""The client that the contract was observed with."""

JARS = Path(__file__).parents[3] / ".headgate" / f"pulsar-client-tools-{VERSION}"
FETCH_S = 900

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headgate</groupId><artifactId>pulsar-client</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.pulsar</groupId><artifactId>pulsar-client-tools</artifactId>
<version>{VERSION}</version>
</dependency></dependencies></project>"""


def fetch() -> Path:
    """Return the folder of the client's jars, filled when it was not there."""
    if not JARS.exists():
        scratch = JARS.with_suffix(".part")
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "pom.xml").write_text(POM)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command = ["mvn", "-q", "-B", *goal, "-DoutputDirectory=."]
        subprocess.run(command, cwd=scratch, check=True, timeout=FETCH_S)
        (scratch / "client.conf").touch()
        scratch.rename(JARS)
    return JARS


if __name__ == "__main__":
    fetch()
