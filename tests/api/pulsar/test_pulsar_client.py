"""Pulsar's own command line works against our paths, unchanged.

Needs Java and Maven, which fetches the jars of `pulsar-client-tools` (82 MB) once
into `.headgate/`.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.api.pulsar.pulsar_jars import fetch

from headgate.api import Addresses

RUN_S = 120
"""Of one command: a Java machine starts in five seconds when it is alone."""

Admin = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def jars() -> Path:
    """The folder of the client's jars, filled when it is not there."""
    return fetch()


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


@pytest.mark.timeout(900)  # nine starts of Java, and once the fetching
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
