"""Keys of a bus: made whole or not at all, and read only where they shut the door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headgate.agent.bus.zeromq.curve import CurveKeys
from headgate.agent.errors import BusUnavailable
from headgate.cli.commands.bus_keys import make_keys
from headgate.cli.failure import Failure, Misused

if TYPE_CHECKING:
    from headgate.cli.commands.bus_keys import KeyKind


def test_what_is_made_is_read(tmp_path: Path) -> None:
    told = make_keys("curve", tmp_path / "keys", ())
    assert CurveKeys.read(tmp_path / "keys").agents == told


@pytest.mark.parametrize("kind", ["hmac", "ed25519", "curve"])
def test_options_lead_to_the_keys_from_any_folder(
    kind: KeyKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = make_keys(kind, Path("keys"), ("web",) if kind == "ed25519" else ())
    options: list[Any] = list(told.values())
    files: list[str] = [each["file"] for each in options if isinstance(each, dict)]
    assert files
    assert {Path(file).parent for file in files} == {tmp_path / "keys"}


@pytest.mark.parametrize("missing", ["curve_clients", "curve_server"])
def test_a_proxy_that_would_let_anybody_in_is_refused(
    tmp_path: Path, missing: str
) -> None:
    make_keys("curve", tmp_path, ())
    file = tmp_path / "curve-proxy.json"
    kept = json.loads(file.read_text())
    del kept[missing]
    file.write_text(json.dumps(kept))
    with pytest.raises(BusUnavailable, match="expected curve_server 1 and curve_cli"):
        CurveKeys.read(tmp_path)


def test_a_proxy_whose_encryption_is_off_is_refused(tmp_path: Path) -> None:
    make_keys("curve", tmp_path, ())
    file = tmp_path / "curve-proxy.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"curve_server": 0}))
    with pytest.raises(BusUnavailable, match="make new keys with `headgate bus keys"):
        CurveKeys.read(tmp_path)


@pytest.mark.parametrize("there", ["curve.key", "curve-proxy.json"])
def test_where_one_of_two_keys_is_there_neither_is_written(
    tmp_path: Path, there: str
) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(
        Failure, match=f"{there} already exists; keys are never overwritten"
    ):
        make_keys("curve", tmp_path, ())
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_a_file_is_no_folder_for_keys(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misused, match="file: expected a folder, found a file"):
        make_keys("hmac", tmp_path / "file", ())
