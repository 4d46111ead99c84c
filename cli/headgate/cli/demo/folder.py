"""The folder of a run of the demo: made, kept where it is needed, else deleted.

A run that is killed can't delete its own, so the next one does: each run holds a lock
on a file in its folder, and what is there without being held is nobody's any more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.failure import Failure

try:
    import fcntl
except ImportError:  # Windows: there folders of killed runs stay
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Generator

PREFIX = "headgate-demo-"

HELD = "running"
"""Locked while the demo runs; where it failed it is removed, and the logs stay."""


@contextlib.contextmanager
def run_folder(keep: Path | None) -> Generator[Path]:
    """Make a folder for the run; delete it unless it is to be kept, or needed.

    Args:
        keep: Where to make it, and leave it; None for a temporary one.

    Raises:
        Failure: It can't be made, or the run failed: the logs tell why.
    """
    if keep is not None:
        try:
            keep.mkdir(parents=True)
        except FileExistsError:
            raise Failure(
                f"--keep {keep}: expected a folder that is not there"
            ) from None
        with _telling(keep.resolve()) as folder:
            yield folder
        return
    delete_left_behind(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with _telling(folder), _held(folder):
            yield folder
    except Failure:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def delete_left_behind(parent: Path) -> None:
    """Delete the folders in `parent` of runs of this user that were killed."""
    if fcntl is None:
        return
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
                continue
            with (folder / HELD).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _telling(folder: Path) -> Generator[Path]:
    try:
        yield folder
    except Failure as failure:
        raise Failure(f"{failure} (logs are in {folder})") from failure


@contextlib.contextmanager
def _held(folder: Path) -> Generator[None]:
    """Hold the lock; the file gets its name once it is held."""
    if fcntl is None:
        yield
        return
    beginning, held = folder / f"{HELD}.new", folder / HELD
    with beginning.open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        beginning.rename(held)
        try:
            yield
        except Failure:
            held.unlink()
            raise
