"""Jars from Maven Central, each with what it needs, fetched once."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
TIMEOUT_S = 900.0


class FetchFailed(Exception):
    """Maven is missing, or could not fetch everything; says which, and what to do."""


def fetched(pom: str, folder: Path) -> Path:
    """Return `folder` with the jars of a project's run time.

    Args:
        pom: The project: a pom.xml.
        folder: Created and filled in one step if it does not exist.

    Raises:
        FetchFailed: It did not exist and can't be filled.
    """
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise FetchFailed("Maven is missing (on Debian: apt-get install maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        Path(scratch, "pom.xml").write_text(pom, encoding="utf-8")
        goal = [f"{PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                ["mvn", "-q", "-B", *goal, "-DoutputDirectory=jars"],
                cwd=scratch,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FetchFailed(f"Maven took more than {TIMEOUT_S:g} s") from None
        if done.returncode:
            raise FetchFailed(f"Maven could not fetch it:\n{done.stdout[-2000:]}")
        try:
            Path(scratch, "jars").rename(folder)
        except OSError as error:
            if not folder.is_dir():  # or another process was faster
                raise FetchFailed(f"{folder} can't be filled: {error}") from None
    return folder
