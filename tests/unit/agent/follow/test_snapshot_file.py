"""The snapshot on disk is whole or not there, and belongs to one API."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.agent.bus.port import BusSettings
from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow.snapshot import Snapshot, snapshot_to_json
from headgate.agent.follow.snapshot_file import (
    MAX_SNAPSHOT_BYTES,
    append,
    default_path,
    load,
    store,
)
from headgate.coordinator.config.configuration import Configuration, Group, Limit


def snapshot(revision: int) -> Snapshot:
    limit = Limit(dimension="requests", rate=5.0, burst=5.0)
    return Snapshot(
        configuration=Configuration(
            revision=revision, groups=(Group(id=1, name="ä", limits=(limit,)),)
        ),
        bus=BusSettings(kind="kafka", bootstrap="h:1", options={"a": "secret"}),
    )


def test_what_was_stored_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "snapshot.json"
    for revision in (1, 2):
        store(path, snapshot(revision))
        assert load(path) == snapshot(revision)
    assert [p.name for p in path.parent.iterdir()] == ["snapshot.json"]


def test_nothing_is_no_snapshot_and_no_error(tmp_path: Path) -> None:
    assert load(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not JSON"),
        (b'{"revision": 1', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "snapshot: expected an object"),
        (b'{"revision": NaN}', "revision: expected a whole number"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_with_its_name(
    tmp_path: Path, text: bytes, says: str
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(text)
    with pytest.raises(MalformedSnapshot, match=says) as refusal:
        load(path)
    assert str(path) in str(refusal.value)


def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    with path.open("wb") as file:
        file.truncate(MAX_SNAPSHOT_BYTES + 1)  # a hole: takes no room
    with pytest.raises(MalformedSnapshot, match="larger than"):
        load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    store(path, snapshot(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "snapshot.json"
    store(path, snapshot(1))

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        store(path, snapshot(2))
    assert load(path) == snapshot(1)
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot.json"]


def changes(revision: int) -> bytes:
    """Return what the API says has changed from one revision to the next."""
    document = snapshot_to_json(snapshot(revision))
    return json.dumps(document | {"since": revision - 1}).encode()


def test_changes_that_were_cut_off_hide_no_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    store(path, snapshot(1))
    assert append(path, changes(2))
    with (tmp_path / "snapshot.json.changes").open("ab") as file:
        file.write(b"\n" + changes(3)[:-20])  # its process was killed
    assert append(path, changes(3))  # by another agent on this host
    assert load(path) == snapshot(3)
    assert append(path, changes(5))
    assert load(path) == snapshot(3), "a gap"


FULL = """
import resource, sys
from pathlib import Path
from headgate.agent.follow.snapshot_file import append

size = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    print(append(Path(sys.argv[1]), b"{" + b" " * size + b"}"))
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_changes_that_the_disk_takes_in_part_only_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    store(path, snapshot(1))
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(path), "4096"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "No space left on device\n"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="has its own place")
def test_each_api_has_a_file_of_its_own_in_the_users_cache() -> None:
    first = default_path("http://a:1", {"XDG_CACHE_HOME": "/cache"})
    second = default_path("http://b:1", {"XDG_CACHE_HOME": "/cache"})
    assert first is not None
    assert second is not None
    assert first.parent == second.parent == Path("/cache/headgate")
    assert first != second
    usual = default_path("http://a:1", {})
    assert usual is not None
    assert usual.is_relative_to(Path.home())
