"""What an earlier version accepted and this one doesn't: read, exported, replaced."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import pytest

from headgate.api import ServerSettings

SHORT_S = 1e-320
"""A period that was accepted once: it makes the rate infinite."""

GROUP = {"limits": [{"dimension": "requests", "rate": 5}], "weight": 2}
POLICY: dict[str, Any] = {
    "level": "namespace",
    "target": "acme/orders",
    "kind": "publish",
    "policy": {"messages": 5},
}


@pytest.fixture
def old(rest: httpx.Client, settings: ServerSettings) -> httpx.Client:
    """A client of a server that stores a limit and a policy of an earlier version."""
    rest.put("/groups/gold", json=GROUP).raise_for_status()
    rest.put("/tenants/acme").raise_for_status()
    rest.put("/namespaces/acme/orders").raise_for_status()
    rest.put("/policies", json=POLICY).raise_for_status()

    def short(document: dict[str, Any]) -> dict[str, Any]:
        for limit in document.get("limits", [document]):
            limit["period_s"] = SHORT_S
        return document

    with closing(sqlite3.connect(settings.database)) as database:
        database.execute("UPDATE limits SET period_s = ?", (SHORT_S,))
        rewrite(
            database, "SELECT rowid, policy FROM policies", "policies.policy", short
        )
        kinds = "SELECT rowid, after FROM changed WHERE kind IN ('group', 'policy')"
        rewrite(database, kinds, "changed.after", short)
        database.commit()
    return rest


def rewrite(
    database: sqlite3.Connection,
    query: str,
    place: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """Change the documents that a query finds, in a column of a table."""
    table, column = place.split(".")
    for number, text in database.execute(query).fetchall():
        document = json.dumps(change(json.loads(text)))
        statement = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
        assert database.execute(statement, (document, number)).rowcount == 1


def test_a_period_that_is_too_short_by_now_is_shown_and_exported(
    old: httpx.Client,
) -> None:
    (limit,) = old.get("/groups/gold").json()["limits"]
    assert limit["period_s"] == SHORT_S
    (policy,) = old.get("/policies").json()["items"]
    assert policy["policy"]["period_s"] == SHORT_S
    answer = old.get("/export")
    assert answer.status_code == 200, answer.text
    exported = answer.json()
    assert exported["groups"]["gold"]["limits"][0]["period_s"] == SHORT_S
    assert exported["groups"]["gold"]["weight"] == 2
    assert exported["policies"][0]["policy"] == {"messages": 5, "period_s": SHORT_S}


@pytest.mark.parametrize(
    "change",
    [
        {"limits": [{"dimension": "requests", "rate": 7, "period_s": 60}]},
        {"limits": [{"dimension": "requests", "rate": 7, "period": "month"}]},
        {"limits": [{"dimension": "requests", "rate": None}], "weight": 3},
    ],
    ids=["period", "calendar", "removed"],
)
def test_a_change_that_replaces_a_period_that_is_too_short_is_made(
    old: httpx.Client, change: dict[str, object]
) -> None:
    answer = old.patch("/groups/gold", json=change)
    assert answer.status_code == 200, answer.text
    assert all(limit["period_s"] >= 60 for limit in answer.json()["limits"])
    assert old.put("/groups/gold", json=GROUP).status_code == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"weight": 3}, "limits"),
        ({"limits": [{"dimension": "requests", "rate": 7}]}, "limits[0].period_s"),
    ],
    ids=["another", "rate"],
)
def test_a_change_that_keeps_a_period_that_is_too_short_is_told_what_is_wrong(
    old: httpx.Client, change: dict[str, object], field: str
) -> None:
    answer = old.patch("/groups/gold", json=change)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"] == (
        f"{field}: expected a period_s of at least 1e-06 for requests (cluster), "
        f"which is stored with {SHORT_S:g}"
    )


def test_a_rollback_to_a_period_that_is_too_short_says_so(old: httpx.Client) -> None:
    old.put("/groups/gold", json=GROUP).raise_for_status()
    answer = old.post("/revisions/1/rollback")
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"] == (
        "groups.gold.limits[0].period_s: expected greater than or equal to 0.000001"
    )
