"""Jars from Maven Central, each with what it needs, fetched once."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
TIMEOUT_S = 900.0


class FetchFailed(Exception):
    """Maven is missing, or could not fetch everything; says which."""


def fetched(pom: str, folder: Path) -> Path:
    """Return `folder` with the jars of a project's run time.

    Args:
        pom: The project: a pom.xml.
        folder: Filled in one go when it is not there.

    Raises:
        FetchFailed: It was not there and can't be filled.
    """
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise FetchFailed("Maven is needed: the command mvn was not found")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        Path(scratch, "pom.xml").write_text(pom, encoding="utf-8")
        goal = [f"{PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run(
            ["mvn", "-q", "-B", *goal, "-DoutputDirectory=jars"],
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise FetchFailed(f"Maven could not fetch it:\n{done.stdout[-2000:]}")
        with suppress(OSError):  # another process was faster
            Path(scratch, "jars").rename(folder)
    return folder
