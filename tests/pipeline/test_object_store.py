"""The command on an output in an object store, as a user would run it.

Its first run loses Spark's Java process in the middle of a batch.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import psutil
import pytest
from tests.pipeline.rigs import recording as rec
from tests.pipeline.rigs.s3 import bucket, options
from tests.pipeline.rigs.small import SMALL

from headgate.pipeline.command import FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_S = 400.0
"""For one command: a quarter of a minute on an idle machine."""

OUT = "usage data"
"""A blank must stay one in the names of objects."""


def pipeline(settings: Mapping[str, str], *words: str) -> subprocess.Popen[str]:
    """Start a command on the output."""
    more = [f"--spark-option={name}={value}" for name, value in settings.items()]
    command = [str(Path(sys.executable).with_name("headgate")), "pipeline", *words]
    return subprocess.Popen(
        [*command, "--out", f"s3a://metering/{OUT}/", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a command that succeeds; return what it said on stdout."""
    with process:
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0, stderr
    return stdout


def without_its_java(process: subprocess.Popen[str], url: str) -> list[str]:
    """kill -9 Spark's JVM once a step stands; return the lines of the command."""
    step = f"{OUT}/steps/_delta_log/{0:020}.json"
    listing = f"{url}/metering?list-type=2&prefix={quote(step)}"
    end_s = time.monotonic() + PATIENCE_S
    with process:
        try:
            while f"<Key>{step}</Key>" not in httpx.get(listing).text:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < end_s, "no step"
                time.sleep(0.05)
            children = psutil.Process(process.pid).children()
            (java,) = [child for child in children if child.name() == "java"]
            java.kill()
            _, stderr = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == FAILED, stderr
    return stderr.splitlines()


@pytest.mark.timeout(1800)
def test_an_output_in_an_object_store_is_gone_on_with_billed_and_reported(
    tmp_path: Path,
) -> None:
    run = rec.simulated()
    messages = rec.messages_of(run, lost=0.1, doubled=0.05, stale=0, skew_s=0)
    files = tmp_path / "files"
    early, late = rec.write_files(messages, tmp_path / "all", batches=2)
    files.mkdir()
    early.rename(files / early.name)
    streamed = ("--files", str(files), "--once")
    with bucket("metering") as url:
        settings = SMALL | options(url)
        lines = without_its_java(pipeline(settings, "run", "usage", *streamed), url)
        late.rename(files / late.name)
        billed = done(pipeline(settings, "run", "usage", "bill", *streamed))
        page = tmp_path / "page"
        shown = done(pipeline(settings, "report", "--page", str(page)))
    assert lines[-1].startswith("headgate pipeline: Spark's Java process has ended")
    assert not [line for line in lines if "Traceback" in line]
    assert "bill: 1 tenant days, equal to the agents' own counters" in billed
    told = [p.report.rows[0] for p in rec.last_told(run).values()]
    total = sum(round(row.refused[0] + row.admitted[0]) for row in told)
    found = re.search(r"requests: ([\d,]+) units attempted", shown.replace("\n", " "))
    assert found is not None, shown
    assert int(found[1].replace(",", "")) == total
    assert (page / "index.html").exists()
