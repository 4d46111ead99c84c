"""Optimistic concurrency on all that can be changed, and pages of all lists."""

from typing import Any, NamedTuple

import httpx
import pytest


class Thing(NamedTuple):
    """How a thing is changed: its path, two bodies, the query that deletes it."""

    path: str
    one: Any
    other: Any
    query: dict[str, str]


POLICY = {"level": "namespace", "target": "acme/orders", "kind": "dispatch"}

THINGS = {
    "group": Thing("/groups/new", {"weight": 1}, {"weight": 2}, {}),
    "attachment": Thing(
        "/attachments",
        {"subject": {"user": "u"}, "group": "gold"},
        {"subject": {"user": "u"}, "group": "silver"},
        {"user": "u"},
    ),
    "tenant": Thing("/tenants/new", {"admin_roles": []}, {"admin_roles": ["a"]}, {}),
    "namespace": Thing("/namespaces/acme/new", None, None, {}),
    "policy": Thing(
        "/policies",
        {**POLICY, "policy": {"messages": 1}},
        {**POLICY, "policy": {"messages": 2}},
        POLICY,
    ),
    "override": Thing(
        "/overrides",
        {"group": "gold", "factor": 2, "for_s": 900},
        {"group": "gold", "factor": 3, "for_s": 900},
        {"group": "gold"},
    ),
    "setting": Thing(
        "/settings/dispatchThrottlingRateInMsg", {"text": "1"}, {"text": "2"}, {}
    ),
}


@pytest.fixture(autouse=True)
def world(rest: httpx.Client) -> None:
    for group in ("gold", "silver"):
        rest.put(f"/groups/{group}", json={}).raise_for_status()
    for path in ("/tenants/acme", "/namespaces/acme/orders"):
        rest.put(path).raise_for_status()


@pytest.mark.parametrize("kind", THINGS)
def test_a_change_of_what_somebody_else_has_changed_is_refused(
    rest: httpx.Client, unchanged: Any, kind: str
) -> None:
    path, one, other, query = THINGS[kind]
    absent, present = {"If-None-Match": "*"}, {"If-Match": "*"}
    with unchanged():
        assert rest.put(path, json=one, headers=present).status_code == 412
    made = rest.put(path, json=one, headers=absent)
    assert made.is_success, made.text
    tag = made.headers["ETag"]
    assert made.headers["Headgate-Revision"] == tag.strip('"')
    with unchanged():
        assert rest.put(path, json=other, headers=absent).status_code == 412
    if kind != "namespace":  # nothing about one can be changed
        changed = rest.put(path, json=other, headers={"If-Match": tag})
        assert changed.is_success
        stale, tag = tag, changed.headers["ETag"]
        assert tag != stale
        with unchanged():
            answer = rest.put(path, json=one, headers={"If-Match": stale})
            assert answer.status_code == 412
            assert "changed by someone else" in answer.json()["detail"]
    with unchanged():
        stale_tag = {"If-Match": '"1"'}
        gone = rest.delete(path, params=query, headers=stale_tag)
        assert gone.status_code == 412
    gone = rest.delete(path, params=query, headers={"If-Match": tag})
    assert gone.status_code == 204
    assert int(gone.headers["Headgate-Revision"]) > int(tag.strip('"'))


@pytest.mark.parametrize(
    "path",
    ["/groups/gold", "/tenants/acme", "/namespaces/acme/orders", "/settings/{key}"],
)
def test_what_is_shown_has_the_tag_that_a_change_asks_for(
    rest: httpx.Client, path: str
) -> None:
    key = "dispatchThrottlingRateInMsg"
    rest.put(f"/settings/{key}", json={"text": "1"})
    shown = rest.get(path.format(key=key))
    assert shown.headers["ETag"] == f'"{shown.json()["revision"]}"'


def test_a_tag_that_a_compressing_proxy_made_weak_is_as_good(
    rest: httpx.Client,
) -> None:
    weak = f"W/{rest.get('/groups/gold').headers['ETag']}"
    shown = rest.get("/groups/gold", headers={"If-None-Match": f'"x", {weak}'})
    assert shown.status_code == 304
    changed = rest.patch("/groups/gold", json={"weight": 2}, headers={"If-Match": weak})
    assert changed.is_success
    stale = rest.patch("/groups/gold", json={"weight": 3}, headers={"If-Match": weak})
    assert stale.status_code == 412


def test_a_setting_that_has_its_default_is_a_404(rest: httpx.Client) -> None:
    assert rest.get("/settings/dispatchThrottlingRateInMsg").status_code == 404


def fill(rest: httpx.Client, number: int) -> None:
    """Make so many of everything that is listed, odd names among them."""
    names = [f"n{n}" for n in range(number - 1)] + ['"q", [ü']
    for name in names:
        rest.put(f"/groups/{name}", json={}).raise_for_status()
        rest.put(f"/tenants/{name}").raise_for_status()
        rest.put(f"/namespaces/acme/{name}").raise_for_status()
        body: dict[str, Any] = {"subject": {"user": name}, "group": "gold"}
        rest.put("/attachments", json=body).raise_for_status()
        body = {"group": name, "factor": 2, "for_s": 900}
        rest.put("/overrides", json=body).raise_for_status()
        body = {**POLICY, "target": f"acme/{name}", "policy": {}}
        rest.put("/policies", json=body).raise_for_status()
        rest.post("/tokens", json={"name": name, "role": "agent"}).raise_for_status()


def test_every_list_is_paged(rest: httpx.Client) -> None:
    fill(rest, 5)
    for path in (
        "/groups",
        "/tenants",
        "/namespaces/acme",
        "/attachments",
        "/overrides",
        "/policies",
        "/tokens",
    ):
        whole = rest.get(path).json()
        assert whole["next"] is None
        found: list[Any] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = rest.get(path, params=query).json()
            assert len(page["items"]) <= 2
            found += page["items"]
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert found == whole["items"], path
        assert len(found) >= 5


@pytest.mark.parametrize("path", ["/overrides", "/policies"])
@pytest.mark.parametrize("after", ["x", "[", "[1, 2, 3]", '["a"]', "{}", "[" * 900])
def test_a_place_that_no_page_told_is_refused(
    rest: httpx.Client, path: str, after: str
) -> None:
    answer = rest.get(path, params={"after": after})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "after"
