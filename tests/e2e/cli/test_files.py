"""The configuration as a file: export, apply and delete undo each other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import httpx
import pytest
import yaml

from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
    full = {
        "dimension": "requests",
        "rate": 1000.5,
        "burst": 70,
        "period_s": 60,
        "scope": "cluster",
        "minimum": 3,
        "maximum": 900,
    }
    return {
        "tenants": {
            "acme": {"admin_roles": ["root"], "allowed_clusters": ["eu", "us"]},
            "plain": {},
        },
        "namespaces": ["acme/orders", "acme/web"],
        "namespace_policies": {"acme/orders": {"deduplicationEnabled": True}},
        "groups": {
            "all": {
                "limits": [
                    {"dimension": "requests", "rate": "unlimited"},
                    {"dimension": "tokens", "rate": 0},
                    {"dimension": "tokens", "rate": 5, "scope": "node"},
                ]
            },
            "child": {
                "limits": [full, {"dimension": "requests", "rate": 7, "scope": "node"}],
                "parent": "all",
                "weight": 2.5,
                "mode": "strict",
                "may_owe": False,
                "isolation": "hold",
                "refusal": "wait",
                "soft_threshold": 0.8,
                "per_partition": True,
                "owner": "acme",
                "offered_to": ["plain"],
            },
            "bare": {},
            "ünï/çode".replace("/", " "): {},
        },
        "attachments": [
            {"subject": {"tenant": "acme"}, "group": "child", "own": True},
            {"subject": {"namespace": "acme/orders"}, "group": "all"},
            {"subject": {"user": "alice", "client": None}, "group": "bare"},
            {"subject": {"user": None}, "group": "bare"},
        ],
        "policies": [
            {
                "level": "topic",
                "target": "acme/orders/paid",
                "kind": "dispatch",
                "policy": {
                    "messages": 5,
                    "bytes": 1000,
                    "period_s": 2,
                    "relative_to_publish_rate": True,
                },
            },
            {
                "level": "namespace",
                "target": "acme/web",
                "kind": "subscribe",
                "policy": {"messages": 3, "period_s": 30},
            },
        ],
        "settings": {"preciseDispatcherFlowControl": "true"},
        "overrides": [
            {"group": "all", "factor": 1.5, "until": until, "reason": "a sale"},
            {"group": "child", "dimension": "requests", "rate": 9, "until": until},
        ],
    }


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
    assert error.endswith("; pass --yes if that is meant\n")
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
