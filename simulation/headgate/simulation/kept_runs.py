"""Many runs by several processes, each kept in a file so that a later call goes on.

A page that needs hours of runs may be stopped at any time: what is in the file is
not run again.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentTypeError
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator

Job = TypeVar("Job")

Values = dict[str, object]
"""The result of a run, as JSON holds it."""


def add_options(parser: ArgumentParser, *, out: Path, keep: Path | None) -> None:
    """Add --out, --keep, --workers and --minutes.

    Args:
        parser: Changed.
        out: Where the page is written by default.
        keep: Where runs are kept by default; None: nowhere.
    """
    parser.add_argument("--out", type=_file, default=out, metavar="FILE")
    parser.add_argument(
        "--keep",
        type=_file,
        default=keep,
        metavar="FILE",
        help="file of runs that are not made again",
    )
    parser.add_argument("--workers", type=at_least_one, default=os.cpu_count() or 1)
    parser.add_argument(
        "--minutes", type=float, default=inf, help="begin no run after so long"
    )


def at_least_one(text: str) -> int:
    """Return a number of things, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def _file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentTypeError(f"expected a file in an existing folder, got {text!r}")
    return path


def read_kept(keep: Path | None) -> Iterator[Values]:
    """Yield the results of earlier calls; a line that was cut off is skipped."""
    if keep is None or not keep.exists():
        return
    for line in keep.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def run_missing(
    missing: list[Job],
    run: Callable[[Job], Values],
    *,
    workers: int,
    keep: Path | None,
    minutes: float,
) -> dict[Job, Values]:
    """Run jobs in the order given and return their results.

    Args:
        missing: The jobs, hashable and importable by other processes.
        run: Runs one; importable as well.
        workers: Processes at a time.
        keep: File that each result is added to, if any.
        minutes: No run is started after this; those under way are finished.
    """
    results: dict[Job, Values] = {}
    if not missing or minutes <= 0:
        return results
    until_s = monotonic() + 60.0 * minutes
    with ProcessPoolExecutor(max_workers=workers) as pool:
        runs = {pool.submit(run, job): job for job in missing}
        for number, done in enumerate(as_completed(runs), start=1):
            if done.cancelled():
                continue
            values = results[runs[done]] = done.result()
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(values) + "\n")
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {len(missing)} runs")
            if monotonic() > until_s:
                _cancel(runs)
    return results


def _cancel(runs: dict[Future[Values], Job]) -> None:
    """Cancel all runs that have not begun; let the others end."""
    for run in runs:
        run.cancel()
