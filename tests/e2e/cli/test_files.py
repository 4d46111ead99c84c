"""The configuration as a file: export, apply and delete undo each other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import httpx
import pytest
import yaml

from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator


class Headgate(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server without any configuration."""
    database = str(tmp_path_factory.mktemp("empty") / "headgate.db")
    settings = ServerSettings(port=0, bus_ports=(0, 0), database=database)
    with running(settings) as addresses:
        yield addresses.api


def _everything() -> dict[str, object]:
    """Return a file with each thing that a configuration can hold, and each setting."""
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    text = Path(__file__).with_name("everything.yaml").read_text(encoding="utf-8")
    whole: dict[str, object] = yaml.safe_load(text.replace("UNTIL", until))
    return whole


def _exported(headgate: Headgate, *options: str) -> dict[str, object]:
    code, said, error = headgate("export", *options)
    assert (code, error) == (0, "")
    whole: dict[str, object] = yaml.safe_load(said)
    return whole


def test_what_is_exported_makes_the_same_configuration_of_an_empty_server(
    headgate: Headgate, empty: str, tmp_path: Path
) -> None:
    first = tmp_path / "first.json"
    first.write_text(json.dumps(_everything()))
    other = ("--url", empty)
    assert _exported(headgate, *other) == {}
    assert headgate("apply", "-f", str(first), *other)[0] == 0
    file = tmp_path / "exported.yaml"
    file.write_text(headgate("export", *other)[1], encoding="utf-8")
    assert set(_exported(headgate, *other)) == set(_everything())
    again = headgate("apply", "-f", str(file), *other)
    assert again == (0, "nothing to change\n", "")

    database = str(tmp_path / "third.db")
    settings = ServerSettings(port=0, bus_ports=(0, 0), database=database)
    with running(settings) as addresses:
        third = ("--url", addresses.api)
        assert headgate("apply", "-f", str(file), *third)[0] == 0
        assert _exported(headgate, *third) == _exported(headgate, *other)
        assert _exported(headgate, "-o", "json", *third) == _exported(headgate, *other)
        snapshots = [
            httpx.get(f"{url}/api/v1/snapshot").json() for url in (addresses.api, empty)
        ]
    for told in ("groups", "attachments"):
        assert _nameless(snapshots[0][told]) == _nameless(snapshots[1][told])
    assert snapshots[0]["policies"] == snapshots[1]["policies"]


def _nameless(told: list[dict[str, object]]) -> list[str]:
    """Return a part of a snapshot without ids, which differ."""
    return sorted(
        json.dumps(
            {k: v for k, v in one.items() if k not in {"id", "group", "parent"}},
            sort_keys=True,
        )
        for one in told
    )


def test_what_a_file_names_is_deleted_with_it_and_nothing_else(
    headgate: Headgate, empty: str, tmp_path: Path
) -> None:
    file = tmp_path / "everything.json"
    file.write_text(json.dumps(_everything()))
    url = ("--url", empty)
    headgate("apply", "-f", str(file), *url)
    headgate("tenant", "create", "stays", *url)
    headgate("attach", "all", "--tenant", "acme", "--yes", *url)
    code, plan, _ = headgate("delete", "-f", str(file), "--dry-run", *url)
    assert (code, "- group child" in plan, "tenant stays" in plan) == (1, False, False)
    headgate("attach", "child", "--tenant", "acme", "--yes", *url)
    code, said, error = headgate("delete", "-f", str(file), *url)
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert error.endswith("; pass --yes to confirm\n")
    assert headgate("delete", "-f", str(file), "--yes", *url)[0] == 0
    assert _exported(headgate, *url) == {"tenants": {"stays": {}}}
    nothing = headgate("delete", "-f", str(file), "--yes", *url)
    assert nothing == (0, "nothing to change\n", "")


def test_an_override_that_has_ended_is_left_out_of_an_apply(
    headgate: Headgate, empty: str, tmp_path: Path
) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    override = {"group": "g", "factor": 2.0, "until": past}
    file = tmp_path / "late.json"
    file.write_text(json.dumps({"groups": {"g": {}}, "overrides": [override]}))
    assert headgate("apply", "-f", str(file), "--url", empty)[0] == 0
    assert _exported(headgate, "--url", empty) == {"groups": {"g": {}}}
