"""Pulsar's own command line works against our paths, unchanged.

Needs Java and Maven, which fetches the jars of `pulsar-client-tools` (82 MB) once
into `.headgate/`.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.api import Addresses

VERSION = "4.0.8"
"""The client that the contract was observed with."""

JARS = Path(__file__).parents[2] / ".headgate" / f"pulsar-client-tools-{VERSION}"
FETCH_S = 900
RUN_S = 120
"""Of one command: a Java machine starts in five seconds when it is alone."""

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headgate</groupId><artifactId>pulsar-client</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.pulsar</groupId><artifactId>pulsar-client-tools</artifactId>
<version>{VERSION}</version>
</dependency></dependencies></project>"""

Admin = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def jars() -> Path:
    """The folder of the client's jars, filled when it is not there."""
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


@pytest.fixture
def admin(server: Addresses, jars: Path) -> Admin:
    """Run `pulsar-admin` and return its exit code, output and last error line."""

    def run(*arguments: str) -> tuple[int, str, str]:
        tool = "org.apache.pulsar.admin.cli.PulsarAdminTool"
        java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", tool]
        to = [str(jars / "client.conf"), "--admin-url", server.api]
        done = subprocess.run(
            [*java, *to, "--request-timeout", "60", *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        lines = done.stderr.strip().splitlines()
        return done.returncode, done.stdout.strip(), lines[-1] if lines else ""

    return run


def test_pulsars_own_client_manages_groups_and_attachments(admin: Admin) -> None:
    assert admin("resourcegroups", "create", "gold", "-mp", "10")[0] == 0
    assert admin("tenants", "create", "acme")[0] == 0
    assert admin("namespaces", "create", "acme/orders")[0] == 0
    attach = ("namespaces", "set-resource-group", "acme/orders", "-rgn")
    assert admin(*attach, "gold")[0] == 0
    shown = admin("namespaces", "get-resource-group", "acme/orders")
    assert shown[:2] == (0, "gold")
    code, out, _ = admin("resourcegroups", "get", "gold")
    assert (code, '"publishRateInMsgs" : 10' in out) == (0, True)
    code, _, error = admin("resourcegroups", "delete", "gold")
    assert (code, error) == (1, "Reason: ResourceGroup is in use")
    code, _, error = admin(*attach, "none")
    assert (code, error) == (1, "Reason: ResourceGroup does not exist")
