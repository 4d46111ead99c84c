"""The audit, and going back to an earlier revision."""

from typing import Any

import httpx
import pytest

VOLATILE = ("id", "revision")


def state(rest: httpx.Client) -> dict[str, Any]:
    """Everything that an operator decided, without numbers that only grow."""
    groups = rest.get("/groups").json()["items"]
    attachments = rest.get("/attachments").json()["items"]
    tenants = rest.get("/tenants").json()["items"]
    for item in (*groups, *attachments, *tenants):
        for name in VOLATILE:
            item.pop(name, None)
    ordered = sorted(attachments, key=lambda item: str(item["subject"]))
    return {"groups": groups, "attachments": ordered, "tenants": tenants}


def put(rest: httpx.Client, path: str, **body: Any) -> None:
    answer = rest.put(path, json=body)
    assert answer.is_success, answer.text


def attach(rest: httpx.Client, group: str, **subject: str) -> None:
    put(rest, "/attachments", subject=subject, group=group)


def revision(rest: httpx.Client) -> int:
    number: int = rest.get("/snapshot").json()["revision"]
    return number


def test_the_audit_of_a_range_of_time_holds_its_ends(rest: httpx.Client) -> None:
    for weight in (1, 2, 3):
        put(rest, "/groups/gold", weight=weight)
    newest, middle, oldest = (
        (item["revision"], item["at_s"]) for item in rest.get("/audit").json()["items"]
    )

    def found(**query: float) -> list[int]:
        items = rest.get("/audit", params=query).json()["items"]
        return [item["revision"] for item in items]

    assert found(since=middle[1]) == [newest[0], middle[0]]
    assert found(until=middle[1]) == [middle[0], oldest[0]]
    assert found(since=middle[1], until=middle[1]) == [middle[0]]
    assert found(since=newest[1] + 1) == found(until=oldest[1] - 1) == []
    assert rest.get("/audit", params={"since": "nan"}).status_code == 422


def test_each_change_is_told_with_who_when_what_and_from_where(
    rest: httpx.Client,
) -> None:
    put(rest, "/groups/gold", weight=1)
    put(rest, "/groups/gold", weight=2)
    rest.delete("/groups/gold")
    items = rest.get("/audit").json()["items"]
    assert [item["revision"] for item in items] == [3, 2, 1]
    assert [item["action"] for item in items] == [
        "DELETE /api/v1/groups/gold",
        "PUT /api/v1/groups/gold",
        "PUT /api/v1/groups/gold",
    ]
    assert {(item["author"], item["address"]) for item in items} == {
        ("anonymous", "127.0.0.1")
    }
    deleted, changed, made = (item["changes"][0] for item in items)
    assert (made["kind"], made["key"], made["before"]) == ("group", "gold", None)
    assert (changed["before"]["weight"], changed["after"]["weight"]) == (1, 2)
    assert deleted["after"] is None
    assert rest.get("/revisions/2").json() == items[1]
    assert rest.get("/revisions/4").status_code == 404


def test_what_changed_nothing_is_not_in_the_audit(rest: httpx.Client) -> None:
    put(rest, "/groups/gold")
    put(rest, "/groups/gold")
    rest.put("/groups/gold", json={"weight": -1})
    assert len(rest.get("/audit").json()["items"]) == 1


def test_the_audit_is_paged_and_filtered(rest: httpx.Client) -> None:
    for name in ("a", "b", "a", "b", "a"):
        put(rest, f"/groups/{name}", weight=revision(rest) + 1)
    attach(rest, "a", user="alice")
    page = rest.get("/audit", params={"limit": 4}).json()
    assert [item["revision"] for item in page["items"]] == [6, 5, 4, 3]
    page = rest.get("/audit", params={"before": page["next"]}).json()
    assert [item["revision"] for item in page["items"]] == [2, 1]
    assert page["next"] is None
    of_b = rest.get("/audit", params={"kind": "group", "key": "b"}).json()["items"]
    assert [item["revision"] for item in of_b] == [4, 2]
    by = rest.get("/audit", params={"author": "nobody"}).json()["items"]
    assert by == []


def build(rest: httpx.Client) -> None:
    """A small world: a tree of groups, tenants, attachments."""
    put(rest, "/tenants/acme")
    put(rest, "/namespaces/acme/orders")
    put(rest, "/groups/root", limits=[{"dimension": "requests", "rate": 100}])
    put(rest, "/groups/leaf", parent="root", weight=3)
    attach(rest, "leaf", tenant="acme")
    attach(rest, "root", namespace="acme/orders")


def test_going_back_restores_everything_as_a_new_revision(rest: httpx.Client) -> None:
    build(rest)
    before, then = state(rest), revision(rest)
    rest.delete("/attachments?tenant=acme")
    rest.delete("/namespaces/acme/orders")
    rest.delete("/tenants/acme")
    rest.delete("/groups/leaf")
    put(rest, "/groups/root", mode="strict")
    put(rest, "/groups/new", parent="root")
    attach(rest, "new", user="bob")
    answer = rest.post(f"/revisions/{then}/rollback")
    assert answer.status_code == 200, answer.text
    assert state(rest) == before
    assert answer.json()["revision"] == revision(rest) == then + 8
    assert len(rest.get("/audit").json()["items"][0]["changes"]) == 8


def test_going_back_can_itself_be_undone(rest: httpx.Client) -> None:
    build(rest)
    after, then = state(rest), revision(rest)
    rest.post("/revisions/0/rollback").raise_for_status()
    assert state(rest) == {"groups": [], "attachments": [], "tenants": []}
    rest.post(f"/revisions/{then}/rollback").raise_for_status()
    assert state(rest) == after


def test_a_tree_that_was_turned_upside_down_is_turned_back(rest: httpx.Client) -> None:
    put(rest, "/groups/a")
    put(rest, "/groups/b", parent="a")
    put(rest, "/groups/c", parent="b")
    before, then = state(rest), revision(rest)
    put(rest, "/groups/b")
    put(rest, "/groups/c")
    put(rest, "/groups/a", parent="b")
    put(rest, "/groups/b", parent="c")
    rest.post(f"/revisions/{then}/rollback").raise_for_status()
    assert state(rest) == before


def test_going_back_is_judged_by_where_it_ends(rest: httpx.Client) -> None:
    precise, batch = (
        "/settings/preciseDispatcherFlowControl",
        "/settings/dispatchThrottlingOnBatchMessageEnabled",
    )
    put(rest, "/groups/each", per="user")
    for level in range(16):  # as deep as a tree may be
        put(rest, f"/groups/g{level}", parent=f"g{level - 1}" if level else None)
    put(rest, precise, text="true")
    first, before = revision(rest), state(rest)
    put(rest, "/groups/each")
    put(rest, "/groups/part", parent="each")
    put(rest, "/groups/g0")
    put(rest, "/groups/g1")
    put(rest, "/groups/bottom", parent="g15")
    assert rest.delete(precise).is_success
    put(rest, batch, text="true")
    answer = rest.post(f"/revisions/{first}/rollback")
    assert answer.is_success, answer.text
    assert state(rest) == before
    assert rest.get("/settings").json() == {precise.rpartition("/")[2]: "true"}


def test_a_dry_run_shows_what_going_back_would_change(
    rest: httpx.Client, unchanged: Any
) -> None:
    build(rest)
    with unchanged():
        answer = rest.post("/revisions/5/rollback", params={"dry_run": "true"})
    assert answer.json() == {
        "revision": 6,
        "dry_run": True,
        "changes": [
            {
                "kind": "attachment",
                "key": '{"namespace":"acme/orders"}',
                "before": {"group": "root"},
                "after": None,
            }
        ],
    }


def test_going_back_to_the_present_changes_nothing(
    rest: httpx.Client, unchanged: Any
) -> None:
    build(rest)
    with unchanged():
        answer = rest.post(f"/revisions/{revision(rest)}/rollback")
    assert (answer.status_code, answer.json()["changes"]) == (200, [])


@pytest.mark.parametrize("number", ["1", "99", "-1", "x", "9" * 30])
def test_a_revision_that_is_not_in_the_past_is_refused(
    rest: httpx.Client, unchanged: Any, number: str
) -> None:
    with unchanged():
        assert rest.post(f"/revisions/{number}/rollback").status_code == 422


def test_of_a_bulk_apply_a_list_tells_some_and_a_revision_all(
    rest: httpx.Client,
) -> None:
    groups: dict[str, Any] = {f"g{n:03d}": {} for n in range(150)}
    assert rest.post("/apply", json={"groups": groups}).is_success
    (entry,) = rest.get("/audit").json()["items"]
    assert (len(entry["changes"]), entry["omitted"]) == (100, 50)
    (asked,) = rest.get("/audit", params={"key": "g149"}).json()["items"]
    assert asked["changes"][0]["key"] == "g149"
    whole = rest.get("/revisions/1").json()
    assert (len(whole["changes"]), whole["omitted"]) == (150, 0)
