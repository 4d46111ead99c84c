"""Groups on `/api/v1`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest

Unchanged = Callable[[], AbstractContextManager[None]]
REQUESTS = {"dimension": "requests", "rate": 1000}


def make(rest: httpx.Client, name: str, **fields: Any) -> dict[str, Any]:
    answer = rest.put(f"/groups/{name}", json=fields)
    assert answer.status_code in {200, 201}, answer.text
    group: dict[str, Any] = answer.json()
    return group


def test_a_new_group_has_every_default(rest: httpx.Client) -> None:
    answer = rest.post("/groups", json={"name": "gold", "limits": [REQUESTS]})
    assert answer.status_code == 201
    assert answer.json() == {
        "id": 1,
        "name": "gold",
        "limits": [
            {
                "dimension": "requests",
                "rate": 1000.0,
                "burst": 1000.0,
                "period_s": 1.0,
                "period": None,
                "time_zone": "UTC",
                "scope": "cluster",
                "minimum": 0.0,
                "maximum": "unlimited",
            }
        ],
        "parent": None,
        "weight": 1.0,
        "mode": "balanced",
        "may_owe": True,
        "isolation": "fair",
        "refusal": "reject",
        "soft_threshold": None,
        "per_partition": False,
        "split": None,
        "slots": None,
        "per": None,
        "owner": None,
        "offered_to": [],
        "revision": 1,
    }
    assert rest.get("/groups/gold").json() == answer.json()


def test_burst_defaults_to_what_one_period_lets_through(rest: httpx.Client) -> None:
    limit = {"dimension": "requests", "rate": 600, "period_s": 60}
    group = make(rest, "gold", limits=[limit])
    assert group["limits"][0]["burst"] == 600


@pytest.mark.parametrize("rate", [0, 0.5, 2.0**63, "unlimited"])
def test_any_rate_that_means_something_is_kept(rest: httpx.Client, rate: Any) -> None:
    group = make(rest, "gold", limits=[{"dimension": "requests", "rate": rate}])
    assert group["limits"][0]["rate"] == rate
    assert group["limits"][0]["burst"] == rate


def test_put_replaces_the_group_whole_and_says_whether_it_is_new(
    rest: httpx.Client,
) -> None:
    body = {"limits": [REQUESTS], "weight": 2.0}
    assert rest.put("/groups/gold", json=body).status_code == 201
    answer = rest.put("/groups/gold", json={})
    assert answer.status_code == 200
    assert answer.json()["limits"] == []
    assert answer.json()["weight"] == 1.0


def test_what_get_gave_can_be_put_back_and_changes_nothing(rest: httpx.Client) -> None:
    make(rest, "root")
    group = make(rest, "gold", limits=[REQUESTS], parent="root", mode="strict")
    answer = rest.put("/groups/gold", json=group)
    assert answer.json() == group
    assert answer.headers["Headgate-Revision"] == "2"


def test_kip599_samples_and_window_give_the_burst(rest: httpx.Client) -> None:
    def burst(**given: object) -> object:
        limit = {"dimension": "mutations", "rate": 5.0, **given}
        rest.put("/groups/kafka", json={"limits": [limit]}).raise_for_status()
        return rest.get("/groups/kafka").json()["limits"][0]["burst"]

    assert burst(samples=100, window_s=1.0) == 500.0
    assert burst(samples=100, window_s=2.0, period_s=10.0) == 100.0
    assert burst(window_s=1.0) == 55.0  # Kafka's 11 samples
    assert burst(samples=100) == 500.0  # of 1 s
    patch = {"limits": [{"dimension": "mutations", "samples": 10}]}
    rest.patch("/groups/kafka", json=patch).raise_for_status()
    assert rest.get("/groups/kafka").json()["limits"][0]["burst"] == 50.0
    both = {"dimension": "mutations", "rate": 5.0, "burst": 9.0, "samples": 100}
    answer = rest.put("/groups/kafka", json={"limits": [both]})
    assert answer.status_code == 422
    assert "not both" in answer.text


def test_samples_whose_burst_can_not_be_stored_are_refused(
    rest: httpx.Client, unchanged: Unchanged
) -> None:
    for rate, burst in ((9e18, "2.84602e+32"), (1e-8, "1e-11")):
        year_or_ms: dict[str, float] = {"samples": 1_000_000, "window_s": 31_622_400}
        if rate < 1:
            year_or_ms = {"samples": 1, "window_s": 0.001}
        limit = {"dimension": "requests", "rate": rate, **year_or_ms}
        with unchanged():
            answer = rest.put("/groups/kafka", json={"limits": [limit]})
        assert answer.status_code == 422, answer.text
        assert f"limits[0]: burst of {burst}: expected" in answer.json()["detail"]
    assert rest.get("/export").status_code == 200


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ({"burst": 5, "samples": 5}, "expected burst, or samples and window_s"),
        ({"period": "day", "period_s": 5}, "expected period or period_s"),
        ({"period": "day", "samples": 5}, "expected no samples or window_s"),
        ({"dimension": "new", "rate": 1, "burst": 2, "samples": 3}, "expected burst"),
    ],
)
def test_a_patch_of_members_that_exclude_each_other_is_refused(
    rest: httpx.Client, unchanged: Unchanged, patch: dict[str, Any], reason: str
) -> None:
    make(rest, "gold", limits=[REQUESTS])
    with unchanged():
        body = {"limits": [{"dimension": "requests", **patch}]}
        answer = rest.patch("/groups/gold", json=body)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert (error["field"], reason in error["reason"]) == ("limits[0]", True)


def test_patch_leaves_what_it_does_not_name(rest: httpx.Client) -> None:
    tokens = {"dimension": "tokens", "rate": 5, "burst": 50}
    make(rest, "gold", limits=[REQUESTS, tokens], weight=3.0)
    patch = {"limits": [{"dimension": "requests", "rate": 2000}], "mode": "strict"}
    group = rest.patch("/groups/gold", json=patch).json()
    assert [(x["dimension"], x["rate"], x["burst"]) for x in group["limits"]] == [
        ("requests", 2000.0, 2000.0),
        ("tokens", 5.0, 50.0),
    ]
    assert (group["weight"], group["mode"]) == (3.0, "strict")


def test_patch_keeps_a_burst_that_was_chosen(rest: httpx.Client) -> None:
    make(rest, "gold", limits=[{**REQUESTS, "burst": 50}])
    patch = {"limits": [{"dimension": "requests", "rate": 2000}]}
    group = rest.patch("/groups/gold", json=patch).json()
    assert group["limits"][0]["burst"] == 50


def test_patch_with_a_null_rate_removes_the_limit(rest: httpx.Client) -> None:
    make(rest, "gold", limits=[REQUESTS])
    patch = {"limits": [{"dimension": "requests", "rate": None}]}
    assert rest.patch("/groups/gold", json=patch).json()["limits"] == []


def test_an_id_is_never_used_again(rest: httpx.Client) -> None:
    first = make(rest, "gold")["id"]
    assert rest.delete("/groups/gold").status_code == 204
    assert make(rest, "gold")["id"] > first


def test_lists_are_paged_in_order_of_names(rest: httpx.Client) -> None:
    for name in ("e", "b", "d", "a", "c"):
        make(rest, name)
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = rest.get("/groups", params={"after": after, "limit": 2}).json()
        assert len(page["items"]) <= 2
        seen += [group["name"] for group in page["items"]]
        after = page["next"]
    assert seen == ["a", "b", "c", "d", "e"]


def test_a_group_that_others_are_part_of_is_not_deleted(rest: httpx.Client) -> None:
    make(rest, "root")
    make(rest, "leaf", parent="root")
    answer = rest.delete("/groups/root")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "group is in use by 1 child group"


def test_a_circle_of_parents_is_refused(rest: httpx.Client) -> None:
    make(rest, "a")
    make(rest, "b", parent="a")
    make(rest, "c", parent="b")
    answer = rest.patch("/groups/a", json={"parent": "c"})
    assert answer.status_code == 409
    assert answer.json()["detail"] == "parent: group 'c' is already part of 'a'"
    assert rest.patch("/groups/a", json={"parent": "a"}).status_code == 422


def test_a_tree_is_at_most_sixteen_levels_deep(rest: httpx.Client) -> None:
    make(rest, "g0")
    for level in range(1, 16):
        make(rest, f"g{level}", parent=f"g{level - 1}")
    answer = rest.put("/groups/g16", json={"parent": "g15"})
    assert answer.status_code == 422
    make(rest, "top")
    answer = rest.patch("/groups/g0", json={"parent": "top"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"field": "parent", "reason": "expected a tree of at most 16 levels"}
    ]


def test_an_etag_lets_only_the_first_of_two_writers_win(rest: httpx.Client) -> None:
    tag = rest.put("/groups/gold", json={}).headers["ETag"]
    first = rest.patch("/groups/gold", json={"weight": 2}, headers={"If-Match": tag})
    second = rest.patch("/groups/gold", json={"weight": 3}, headers={"If-Match": tag})
    assert (first.status_code, second.status_code) == (200, 412)
    assert second.json()["detail"] == (
        "it was changed by someone else and is now at revision 2"
    )
    assert rest.get("/groups/gold").json()["weight"] == 2


def test_a_revision_in_the_body_is_an_if_match(rest: httpx.Client) -> None:
    read = make(rest, "gold")
    make(rest, "gold", weight=2)
    answer = rest.put("/groups/gold", json={**read, "weight": 3})
    assert answer.status_code == 412


def test_if_none_match_makes_only_what_is_not_there(rest: httpx.Client) -> None:
    headers = {"If-None-Match": "*"}
    assert rest.put("/groups/gold", json={}, headers=headers).status_code == 201
    assert rest.put("/groups/gold", json={}, headers=headers).status_code == 412


def test_if_match_star_changes_only_what_is_there(rest: httpx.Client) -> None:
    headers = {"If-Match": "*"}
    assert rest.put("/groups/gold", json={}, headers=headers).status_code == 412
    assert rest.get("/groups/gold").status_code == 404


def test_a_get_with_the_present_etag_costs_no_body(rest: httpx.Client) -> None:
    tag = rest.put("/groups/gold", json={}).headers["ETag"]
    answer = rest.get("/groups/gold", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")


def test_a_group_that_counts_by_partition_needs_a_limit_of_each_node(
    rest: httpx.Client, unchanged: Unchanged
) -> None:
    node = {"dimension": "bytes", "scope": "node", "rate": 10}
    make(rest, "gold", limits=[REQUESTS, node], per_partition=True)
    remove: dict[str, Any] = {
        "limits": [{"dimension": "bytes", "scope": "node", "rate": None}]
    }
    body = {"limits": [REQUESTS], "per_partition": True}
    with unchanged():
        for answer in (
            rest.patch("/groups/gold", json=remove),
            rest.put("/groups/silver", json=body),
            rest.post("/apply", json={"groups": {"silver": body}}),
        ):
            assert answer.status_code == 422, answer.text
            assert "expected a limit of scope node" in answer.text
            assert "per_partition" in answer.text
    answer = rest.patch("/groups/gold", json={**remove, "per_partition": False})
    assert [limit["scope"] for limit in answer.json()["limits"]] == ["cluster"]


def test_a_template_is_stored_shown_and_carried_to_agents(rest: httpx.Client) -> None:
    make(rest, "each", limits=[REQUESTS], per="user")
    assert rest.get("/groups/each").json()["per"] == "user"
    (carried,) = rest.get("/snapshot").json()["groups"]
    assert carried["per"] == "user"
    answer = rest.patch("/groups/each", json={"per": "tenant"})
    assert answer.json()["per"] == "tenant"
    answer = rest.patch("/groups/each", json={"per": None})
    assert answer.json()["per"] is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"per": "cluster"}, "per: "),
        ({"per": ["user"]}, "per: "),
        ({"per": "user", "mode": "strict"}, "per: expected null with mode strict"),
        ({"per": "user", "slots": 3}, "per: expected null with mode strict"),
    ],
)
def test_a_template_that_can_t_be_is_refused_once(
    rest: httpx.Client, unchanged: Unchanged, fields: dict[str, Any], said: str
) -> None:
    with unchanged():
        answer = rest.put("/groups/each", json={"limits": [REQUESTS], **fields})
    assert answer.status_code == 422
    assert said in answer.text


def test_a_template_has_no_children(rest: httpx.Client, unchanged: Unchanged) -> None:
    make(rest, "each", limits=[REQUESTS], per="user")
    make(rest, "all", limits=[REQUESTS])
    make(rest, "child", limits=[REQUESTS], parent="all")
    said = "expected null for a group that has children, such as 'child'"
    with unchanged():
        for name, fields in (("child", {"parent": "each"}), ("all", {"per": "user"})):
            answer = rest.patch(f"/groups/{name}", json=fields)
            assert answer.status_code == 422
            assert said in answer.text
    body = {"groups": {"child": {"limits": [REQUESTS], "parent": "each"}}}
    with unchanged():
        assert said in rest.post("/apply", json=body).text
