"""The temporary folder of a demo run: created, then deleted unless it is needed.

A killed run can't delete its folder, so the next run does: each run locks a file in its
folder, and a folder whose file is not locked was left behind.
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
"""Locked while the demo runs; removed after a failure, so that the logs stay."""


@contextlib.contextmanager
def run_folder(keep: Path | None) -> Generator[Path]:
    """Create a folder for the run, and delete it unless it is kept or needed.

    Args:
        keep: Folder to create and keep; None for a temporary one.

    Raises:
        Failure: It can't be created, or the run failed, and the logs say why.
    """
    if keep is not None:
        try:
            keep.mkdir(parents=True)
        except FileExistsError:
            raise Failure(
                f"--keep {keep}: expected a folder that does not exist"
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
    """Hold the lock; the file gets its final name once it is locked."""
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
