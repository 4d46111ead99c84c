"""Build Helm, with which a test renders the chart, once, into ``.headgate``.

``python -m tools.helm``: four minutes of CPU, for no registry here ships the binary.
"""

import os
import subprocess
from pathlib import Path

VERSION = "v3.12.3"
"""The newest that Go 1.19 compiles, which Debian 12 has.  Go's checksum database
vouches for its source."""

HELM = Path(__file__).parents[1] / ".headgate" / "go" / VERSION / "helm"
"""The program."""

BUILD_S = 3_600
"""A busy machine with two cores takes twenty minutes."""


def build() -> None:
    """Build it, unless it is there.

    Raises:
        SystemExit: It can't be fetched or compiled; says why.
    """
    if HELM.exists():
        return
    # One package at a time: some take a gigabyte to compile.
    flags = {"GOBIN": str(HELM.parent), "GOFLAGS": "-p=1 -mod=mod"}
    done = subprocess.run(
        ["go", "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"],
        env={**os.environ, **flags},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


if __name__ == "__main__":
    build()
