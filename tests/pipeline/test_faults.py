"""Faults as a user meets them: one line that says what, the exit code, a run after it.

The command is the real one, in the session of the tests; disks that are full and
signals are the kernel's.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.pipeline.rigs import recording as rec
from typer.testing import CliRunner, Result

from headgate.pipeline import command
from headgate.pipeline.stream.batch_log import BatchLog

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headgate.pipeline.stream.batch_log import BatchSummary


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    found = rec.messages_of(rec.simulated(), lost=0, doubled=0, stale=0, skew_s=0)
    rec.write_files(found, folder, batches=1)
    return folder


@pytest.fixture(scope="module", autouse=True)
def session(spark: SparkSession) -> Iterator[None]:
    """Let the command use the session of the tests, which goes on after it."""

    @contextmanager
    def given(*_: object, **__: object) -> Generator[SparkSession]:
        yield spark

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_session", given)
        yield


def pipeline(*words: str) -> Result:
    return CliRunner().invoke(command.app, list(words))


def streamed(source: Path, out: Path) -> Result:
    return pipeline("run", "--files", str(source), "--out", str(out), "--once")


def is_one_line(result: Result, *words: str) -> bool:
    """Whether it failed with one line that holds all `words`, in this order."""
    *_, line = result.stderr.splitlines()
    rest = line.removeprefix("headgate pipeline: ")
    for word in words:
        assert word in rest, result.stderr
        rest = rest.split(word, 1)[1]
    assert "headgate pipeline: " in line
    assert "Traceback" not in result.stderr
    assert "calling o" not in line
    return result.exit_code == command.FAILED


@pytest.fixture(scope="module")
def whole(
    session: None, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An output of one batch."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert streamed(source, out).exit_code == 0
    return out


@contextmanager
def files_limited_to(size: int) -> Generator[None]:
    """Let the kernel refuse Spark's JVM to write a file beyond `size` bytes."""
    (java,) = [c for c in psutil.Process().children() if c.name() == "java"]
    before = resource.prlimit(java.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(java.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(java.pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("whole")  # Java has unpacked its libraries to files then
def test_a_disk_without_space_is_one_line_and_the_next_run_bills_the_same(
    source: Path, tmp_path: Path
) -> None:
    with files_limited_to(8 << 10):
        full = streamed(source, tmp_path / "out")
    assert is_one_line(full, "no space for the output", "File too large", "run again")
    assert streamed(source, tmp_path / "out").exit_code == 0
    bill = pipeline("run", "bill", "--out", str(tmp_path / "out"))
    assert "equal to the agents' own counters" in bill.stdout


def test_an_output_where_nobody_may_write_is_one_line(
    source: Path, tmp_path: Path
) -> None:
    # Root may write everywhere else.
    (tmp_path / "file").touch()
    refused = streamed(source, tmp_path / "file" / "out")
    assert is_one_line(
        refused, "no permission to read or write", str(tmp_path / "file")
    )


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _scribble(path: Path) -> None:
    path.write_bytes(b"\x00{rubbish")


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a data file cut short": (_truncate, "steps", "*.parquet"),
    "a broken log": (_scribble, "steps", "*.json"),
    "a broken checkpoint": (_scribble, "checkpoint/offsets", "0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_read_is_one_line(
    whole: Path, source: Path, tmp_path: Path, damage: str
) -> None:
    harm, part, pattern = DAMAGES[damage]
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    for path in (out / part).rglob(pattern):
        harm(path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    result = streamed(source, out)
    assert is_one_line(result, "a file can't be read", "from one backup")


@pytest.mark.parametrize("left_out", [False, True])
def test_sigterm_finishes_the_batch_or_leaves_it_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: bool
) -> None:
    write = BatchLog.write

    def ended(self: BatchLog, head: BatchSummary, rows: DataFrame) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        if left_out:
            raise OSError("as if Spark had been told to end as well")
        write(self, head, rows)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(BatchLog, "write", ended)
        stopped = pipeline("run", "--files", str(source), "--out", str(out))
    last = "before the first batch" if left_out else "after batch 0"
    assert stopped.stderr.splitlines()[-1] == (
        f"stopped {last}; the next run continues from there"
    )
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert streamed(source, out).exit_code == 0
    bill = pipeline("run", "bill", "--out", str(out))
    assert "equal to the agents' own counters" in bill.stdout
