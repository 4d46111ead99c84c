"""Attachments, tenants and namespaces on `/api/v1`."""

from typing import Any

import httpx
import pytest


@pytest.fixture(autouse=True)
def world(rest: httpx.Client) -> None:
    for path in (
        "/groups/gold",
        "/groups/silver",
        "/tenants/acme",
        "/namespaces/acme/orders",
    ):
        assert rest.put(path, json={} if "groups" in path else None).is_success


def attach(rest: httpx.Client, group: str, **subject: str | None) -> httpx.Response:
    return rest.put("/attachments", json={"subject": subject, "group": group})


@pytest.mark.parametrize(
    "subject",
    [
        {"cluster": "default"},
        {"tenant": "acme"},
        {"tenant": None},
        {"namespace": "acme/orders"},
        {"namespace": None},
        {"topic": "acme/orders/new"},
        {"topic": None},
        {"subscription": "billing"},
        {"topic": "acme/orders/new", "subscription": "billing"},
        {"user": "alice"},
        {"user": None},
        {"client": "kafka-producer/1"},
        {"user": "alice", "client": "c1"},
        {"user": "alice", "client": None},
        {"user": None, "client": None},
    ],
)
def test_any_subject_can_be_attached_shown_and_detached(
    rest: httpx.Client, subject: dict[str, str | None]
) -> None:
    answer = attach(rest, "gold", **subject)
    assert answer.status_code == 201
    assert answer.json()["subject"] == subject
    snapshot: dict[str, Any] = rest.get("/snapshot").json()
    assert snapshot["attachments"] == [{"subject": subject, "group": 1}]
    query = {kind: name or "" for kind, name in subject.items()}
    assert rest.delete("/attachments", params=query).status_code == 204
    assert rest.get("/attachments").json()["items"] == []
    assert rest.delete("/attachments", params=query).status_code == 404


def test_attaching_again_moves_the_subject(rest: httpx.Client) -> None:
    assert attach(rest, "gold", tenant="acme").status_code == 201
    assert attach(rest, "silver", tenant="acme").status_code == 200
    items = rest.get("/attachments").json()["items"]
    assert [(x["subject"], x["group"]) for x in items] == [
        ({"tenant": "acme"}, "silver")
    ]


def test_attaching_the_same_again_makes_no_revision(rest: httpx.Client) -> None:
    first = attach(rest, "gold", tenant="acme")
    again = attach(rest, "gold", tenant="acme")
    assert again.headers["Headgate-Revision"] == first.headers["Headgate-Revision"]


def test_a_topic_has_one_name_with_and_without_its_scheme(rest: httpx.Client) -> None:
    attach(rest, "gold", topic="persistent://acme/orders/new")
    attach(rest, "silver", topic="acme/orders/new")
    assert len(rest.get("/attachments").json()["items"]) == 1


@pytest.mark.parametrize(
    ("subject", "group", "detail"),
    [
        ({"tenant": "acme"}, "bronze", "group 'bronze' does not exist"),
        ({"tenant": "nobody"}, "gold", "tenant 'nobody' does not exist"),
        ({"namespace": "acme/none"}, "gold", "namespace 'acme/none' does not exist"),
    ],
)
def test_attaching_what_is_not_there_is_a_404(
    rest: httpx.Client,
    unchanged: Any,
    subject: dict[str, str],
    group: str,
    detail: str,
) -> None:
    with unchanged():
        answer = attach(rest, group, **subject)
    assert answer.status_code == 404
    assert answer.json()["detail"] == detail


@pytest.mark.parametrize(
    ("subject", "field"),
    [
        ({}, "subject"),
        ({"planet": "mars"}, "subject.planet"),
        ({"tenant": "acme", "user": "alice"}, "subject"),
        ({"tenant": ""}, "subject.tenant"),
        ({"tenant": "a/b"}, "subject.tenant"),
        ({"tenant": 7}, "subject.tenant"),
        ({"namespace": "orders"}, "subject.namespace"),
        ({"topic": "new"}, "subject.topic"),
        ({"user": "x" * 257}, "subject.user"),
        ({"user": "a\u0000b"}, "subject.user"),
    ],
)
def test_a_subject_that_means_nothing_names_its_field(
    rest: httpx.Client, unchanged: Any, subject: dict[str, Any], field: str
) -> None:
    with unchanged():
        answer = attach(rest, "gold", **subject)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_lists_are_paged_and_filtered(rest: httpx.Client) -> None:
    for number in range(5):
        attach(rest, "gold" if number % 2 else "silver", user=f"u{number}")
    attach(rest, "gold", tenant="acme")
    page = rest.get("/attachments", params={"limit": 4}).json()
    rest_of_it = rest.get("/attachments", params={"after": page["next"]}).json()
    assert (len(page["items"]), len(rest_of_it["items"])) == (4, 2)
    assert rest_of_it["next"] is None
    of_gold = rest.get("/attachments", params={"group": "gold", "kind": "user"}).json()
    assert [x["subject"]["user"] for x in of_gold["items"]] == ["u1", "u3"]
    of_acme = rest.get("/attachments", params={"name": "acme"}).json()
    assert [x["group"] for x in of_acme["items"]] == ["gold"]


def test_a_group_in_use_is_not_deleted(rest: httpx.Client, unchanged: Any) -> None:
    attach(rest, "gold", tenant="acme")
    with unchanged():
        answer = rest.delete("/groups/gold")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "group is in use by 1 attachment"


def test_a_tenant_with_namespaces_is_not_deleted(rest: httpx.Client) -> None:
    answer = rest.delete("/tenants/acme")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "tenant is in use by 1 namespace"


def test_what_is_deleted_takes_its_attachment_along(rest: httpx.Client) -> None:
    attach(rest, "gold", tenant="acme")
    attach(rest, "gold", namespace="acme/orders")
    assert rest.delete("/namespaces/acme/orders").status_code == 204
    assert rest.delete("/tenants/acme").status_code == 204
    assert rest.get("/attachments").json()["items"] == []
    assert rest.delete("/groups/gold").status_code == 204


def test_what_is_deleted_leaves_names_in_other_letters_alone(
    rest: httpx.Client,
) -> None:
    rest.put("/namespaces/acme/Orders").raise_for_status()
    attach(rest, "gold", topic="acme/Orders/new")
    policy = {"level": "topic", "target": "acme/Orders/new", "kind": "publish"}
    rest.put("/policies", json={**policy, "policy": {"bytes": 5}}).raise_for_status()
    assert rest.delete("/namespaces/acme/orders").status_code == 204
    assert len(rest.get("/attachments").json()["items"]) == 1
    assert len(rest.get("/policies").json()["items"]) == 1


def test_a_namespace_needs_its_tenant(rest: httpx.Client, unchanged: Any) -> None:
    with unchanged():
        answer = rest.put("/namespaces/nobody/orders")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "tenant 'nobody' does not exist"


def test_making_a_tenant_or_namespace_again_changes_nothing(
    rest: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        assert rest.put("/tenants/acme").status_code == 200
        assert rest.put("/namespaces/acme/orders").status_code == 200
    assert [x["name"] for x in rest.get("/tenants").json()["items"]] == ["acme"]
    names = [x["name"] for x in rest.get("/namespaces/acme").json()["items"]]
    assert names == ["orders"]
