"""Java and the jars that Spark needs besides what pip installs.

Delta's connector and Kafka's are fetched once by Maven, pinned to the Spark series, and
kept in the user's cache (or in ``.headgate/`` of the working directory, if that
exists): after the first run nothing is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

OLDEST_JAVA = 17
"""What Spark 4 requires."""

SERIES = "4.2"
"""The Spark series that the jars work with: connectors of 4.0 fail on 4.2."""

DELTA = (
    "delta-spark_4.2_2.13-4.4.0.jar",
    "delta-storage-4.4.0.jar",
)
"""The table format, 10 MB."""

KAFKA = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)
"""Spark's Kafka source and sink, 10 MB."""

CONNECTORS = DELTA + KAFKA
"""What ``connectors.xml`` fetches."""

FETCH_TIMEOUT_S = 300.0
"""Timeout of the one download: it takes 5 s; a slow line gets five minutes."""

JAVA_TIMEOUT_S = 30.0
"""Timeout of ``java -version``, which takes 0.1 s."""


class SetUpMissing(RuntimeError):
    """Something outside Python is missing; the message says what to do."""


def require_java() -> int:
    """Return the major version of the Java that Spark will use.

    Raises:
        SetUpMissing: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not Path(java).exists():
        where = (
            f"JAVA_HOME={home} has no bin/java" if home else "java is not on the path"
        )
        raise SetUpMissing(f"Spark needs Java {OLDEST_JAVA} or newer; {where}. {_HINT}")
    try:
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S
        ).stderr
    except subprocess.TimeoutExpired:
        raise SetUpMissing(
            f"{java} -version took more than {JAVA_TIMEOUT_S:g} s"
        ) from None
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    major = int(found[1]) if found else 0
    if major < OLDEST_JAVA:
        raise SetUpMissing(
            f"Spark needs Java {OLDEST_JAVA} or newer; {java} is version "
            f"{major or 'unknown'}. {_HINT}"
        )
    return major


_HINT = (
    "Install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless), "
    "or set JAVA_HOME."
)


def jar_folder() -> Path:
    """Return where the jars are, or will be kept.

    That is ``HEADGATE_JARS`` if it is set, else ``.headgate/`` of the working
    directory if it exists, else the user's cache.
    """
    named = os.environ.get("HEADGATE_JARS")
    if named:
        return Path(named)
    below = Path(".headgate", "jars", f"spark-{SERIES}")
    if below.exists():
        return below.resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "headgate", "jars", f"spark-{SERIES}")


def connector_jars(*, kafka: bool = True) -> list[Path]:
    """Return the jars of the connectors, fetching them all if they are missing.

    Args:
        kafka: Include those of Kafka.

    Raises:
        SetUpMissing: They are missing and can't be fetched.
    """
    folder = jar_folder()
    jars = [folder / name for name in (CONNECTORS if kafka else DELTA)]
    if not all(jar.exists() for jar in jars):
        _fetch(folder)
    return jars


def _fetch(folder: Path) -> None:
    """Let Maven fetch the jars, so that a broken download leaves nothing behind."""
    maven = shutil.which("mvn")
    if maven is None:
        raise SetUpMissing(
            f"Spark's connectors are not in {folder} and Maven, which fetches them "
            "once, is not on the path. Install it (Debian, Ubuntu: sudo "
            "apt-get install maven), or copy these files there from another machine: "
            + ", ".join(CONNECTORS)
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        # Maven reads the project file from a folder that it may write to.
        project = Path(scratch, "pom.xml")
        project.write_bytes(Path(__file__).with_name("connectors.xml").read_bytes())
        command = [maven, "-B", "-ntp", "-q", "-f", str(project), "generate-resources"]
        command.append(f"-Dout={scratch}/jars")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise SetUpMissing(
                "Maven could not fetch Spark's connectors within "
                f"{FETCH_TIMEOUT_S:g} s. Is this machine online?"
            ) from None
        if done.returncode:
            last = (done.stdout + done.stderr).strip().splitlines()[:1]
            raise SetUpMissing(
                f"Maven could not fetch Spark's connectors: {''.join(last)}. Is "
                f"this machine online? Later runs find them in {folder}."
            )
        folder.mkdir(exist_ok=True)
        for name in CONNECTORS:
            os.replace(Path(scratch, "jars", name), folder / name)
