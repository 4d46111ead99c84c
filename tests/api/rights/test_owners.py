"""What an operator of one tenant may do to its own limits, and what it sees."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.api import (
    Addresses,
    RightsSettings,
    ServerSettings,
    create_token,
    running,
)

Call = Callable[..., httpx.Response]

ACME = {"subject": {"tenant": "acme"}}
ORDERS = {"subject": {"namespace": "acme/orders"}}
TOPIC = {"subject": {"topic": "acme/orders/new"}}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> ServerSettings:
    database = str(tmp_path_factory.mktemp("owners") / "x.db")
    return ServerSettings(
        database=database,
        port=0,
        bus_ports=(0, 0),
        rights=RightsSettings(required=True),
    )


@pytest.fixture(scope="module")
def tokens(guarded: ServerSettings) -> dict[str, str]:
    return {
        "admin": create_token(guarded, "ada", "admin"),
        "acme": create_token(guarded, "anna", "operator", tenants=["acme"]),
    }


@pytest.fixture(scope="module")
def server(guarded: ServerSettings, tokens: dict[str, str]) -> Iterator[Addresses]:
    with running(guarded) as addresses:
        yield addresses


@pytest.fixture
def call(server: Addresses, tokens: dict[str, str]) -> Iterator[Call]:
    with httpx.Client(base_url=server.api, timeout=TIMEOUT_S) as client:

        def ask(who: str, method: str, path: str, **options: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {tokens[who]}"}
            return client.request(method, path, headers=headers, **options)

        def admin(method: str, path: str, body: Any = None) -> None:
            answer = ask("admin", method, f"/api/v1/{path}", json=body)
            assert answer.is_success, answer.text

        limits = [{"dimension": "requests", "rate": 10}]
        admin("POST", "revisions/2/rollback")  # tokens are revisions as well
        for tenant in ("acme", "other"):
            admin("PUT", f"tenants/{tenant}", {})
            admin("PUT", f"namespaces/{tenant}/orders")
        admin("PUT", "groups/cap", {"limits": limits})
        admin("PUT", "groups/theirs", {"limits": limits, "owner": "other"})
        admin("PUT", "groups/offered", {"limits": limits, "offered_to": ["acme"]})
        admin("PUT", "groups/own", {"limits": limits, "owner": "acme"})
        part = {"limits": limits, "owner": "acme", "parent": "cap"}
        admin("PUT", "groups/part", part)
        yield ask


def attach(call: Call, who: str, subject: dict[str, Any], group: str) -> int:
    body = {**subject, "group": group}
    return call(who, "PUT", "/api/v1/attachments", json=body).status_code


def group_of(call: Call, namespace: str) -> str:
    path = f"/admin/v2/namespaces/{namespace}/resourcegroup"
    return call("admin", "GET", path).text


@pytest.mark.parametrize(
    ("group", "status"),
    [("own", 201), ("offered", 201), ("part", 201), ("cap", 403), ("theirs", 403)],
)
def test_a_tenant_attaches_to_what_is_its_own_or_offered(
    call: Call, group: str, status: int
) -> None:
    assert attach(call, "acme", ORDERS, group) == status


@pytest.mark.parametrize("group", ["own", "offered"])
def test_a_tenant_does_not_leave_the_group_that_an_admin_attached_it_to(
    call: Call, group: str
) -> None:
    attach(call, "admin", ACME, "cap")
    attach(call, "admin", ORDERS, "cap")
    before = call("admin", "GET", "/api/v1/attachments").json()
    pulsar = "/admin/v2/namespaces/acme/orders/resourcegroup"
    tries = [
        ("PUT", "/api/v1/attachments", {**ACME, "group": group}),
        ("PUT", "/api/v1/attachments", {**ORDERS, "group": group}),
        ("PUT", "/api/v1/attachments", {**TOPIC, "group": group}),
        ("DELETE", "/api/v1/attachments?tenant=acme", None),
        ("DELETE", "/api/v1/attachments?namespace=acme/orders", None),
        ("POST", "/api/v1/apply", {"attachments": [{**ORDERS, "group": group}]}),
        ("POST", "/api/v1/apply", {"attachments": [{**TOPIC, "group": group}]}),
        ("DELETE", "/api/v1/namespaces/acme/orders", None),
        ("POST", f"{pulsar}/{group}", None),
        ("DELETE", pulsar, None),
        ("DELETE", "/admin/v2/tenants/acme/resourcegroup", None),
        ("DELETE", "/admin/v2/namespaces/acme/orders", None),
    ]
    for method, path, body in tries:
        answer = call("acme", method, path, json=body)
        assert answer.status_code == 403, (method, path, answer.text)
    assert call("admin", "GET", "/api/v1/attachments").json() == before


def test_a_tenant_may_cut_the_group_that_it_is_held_in_into_parts(call: Call) -> None:
    attach(call, "admin", ACME, "cap")
    assert attach(call, "acme", ORDERS, "part") == 201
    assert attach(call, "acme", TOPIC, "own") == 403


def test_what_a_tenant_attached_it_may_move_and_detach(call: Call) -> None:
    assert attach(call, "acme", ORDERS, "own") == 201
    assert attach(call, "acme", ORDERS, "offered") == 200
    path = "/api/v1/attachments?namespace=acme/orders"
    shown = call("acme", "GET", "/api/v1/attachments").json()["items"]
    assert [(item["group"], item["own"]) for item in shown] == [("offered", True)]
    assert call("acme", "DELETE", path).status_code == 204


def test_what_an_admin_takes_over_a_tenant_may_no_longer_detach(call: Call) -> None:
    attach(call, "acme", ORDERS, "own")
    attach(call, "admin", ORDERS, "own")
    path = "/api/v1/attachments?namespace=acme/orders"
    assert call("acme", "DELETE", path).status_code == 403


def test_going_back_restores_who_attached(call: Call) -> None:
    attach(call, "acme", ORDERS, "own")
    revision = call("admin", "GET", "/api/v1/snapshot").json()["revision"]
    attach(call, "admin", ORDERS, "cap")
    call("admin", "POST", f"/api/v1/revisions/{revision}/rollback")
    assert group_of(call, "acme/orders") == "own"
    path = "/api/v1/attachments?namespace=acme/orders"
    assert call("acme", "DELETE", path).status_code == 204


def test_a_tenant_sees_what_is_its_own_and_nothing_else(call: Call) -> None:
    attach(call, "admin", {"subject": {"tenant": "other"}}, "theirs")
    attach(call, "admin", {"subject": {"namespace": "acme/orders"}}, "part")
    policy = {"level": "namespace", "kind": "publish", "policy": {"messages": 5}}
    for tenant in ("acme", "other"):
        body = {**policy, "target": f"{tenant}/orders"}
        assert call("admin", "PUT", "/api/v1/policies", json=body).is_success

    def told(path: str) -> list[dict[str, Any]]:
        answer = call("acme", "GET", f"/api/v1/{path}")
        assert answer.is_success, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    visible = {"cap", "offered", "own", "part"}
    assert {group["name"] for group in told("groups")} == visible
    assert [item["subject"] for item in told("attachments")] == [ORDERS["subject"]]
    assert [tenant["name"] for tenant in told("tenants")] == ["acme"]
    assert [policy["target"] for policy in told("policies")] == ["acme/orders"]
    overview = call("acme", "GET", "/api/v1/overview").json()
    assert {row["group"] for row in overview["rows"]} == visible
    assert overview["total"] == 4
    for entry in told("audit"):
        for change in entry["changes"]:
            assert "other" not in str(change), change
    for path in ("groups/theirs", "groups/theirs/use", "groups/theirs/history"):
        assert call("acme", "GET", f"/api/v1/{path}").status_code == 404
    asked: dict[str, Any] = {"group": "theirs", "body": {}}
    assert call("acme", "POST", "/api/v1/preview", json=asked).status_code == 404


def test_a_tenant_sees_nothing_of_one_named_in_other_letters(call: Call) -> None:
    for path in ("tenants/ACME", "namespaces/ACME/orders"):
        assert call("admin", "PUT", f"/api/v1/{path}", json={}).is_success
    theirs = {"subject": {"namespace": "ACME/orders"}}
    assert attach(call, "admin", theirs, "theirs") == 201
    policy = {"level": "namespace", "target": "ACME/orders", "kind": "publish"}
    body = {**policy, "policy": {"bytes": 5}}
    assert call("admin", "PUT", "/api/v1/policies", json=body).is_success
    for path in ("attachments", "policies"):
        assert call("acme", "GET", f"/api/v1/{path}").json()["items"] == []
    assert call("acme", "GET", "/api/v1/groups/theirs").status_code == 404


def test_a_tenant_sees_the_overrides_and_slots_of_its_groups(call: Call) -> None:
    attach(call, "admin", ACME, "cap")
    for group in ("cap", "theirs"):
        body = {"group": group, "factor": 2, "for_s": 600}
        answer = call("admin", "PUT", "/api/v1/overrides", json=body)
        assert answer.is_success, answer.text
    listed = call("acme", "GET", "/api/v1/overrides").json()["items"]
    assert [one["group"] for one in listed] == ["cap"]
    of_others = call("acme", "GET", "/api/v1/overrides?group=theirs").json()
    assert of_others["items"] == []
    ending = call("acme", "DELETE", "/api/v1/overrides?group=cap")
    assert ending.status_code == 403
    assert call("acme", "GET", "/api/v1/groups/cap/slots").status_code != 403
    assert call("acme", "GET", "/api/v1/groups/theirs/slots").status_code == 404


def test_a_tenant_sees_the_group_that_limits_it_by_default(call: Call) -> None:
    assert call("acme", "GET", "/api/v1/groups/theirs").status_code == 404
    attach(call, "admin", {"subject": {"tenant": None}}, "theirs")

    def through(who: str) -> list[tuple[str, dict[str, Any]]]:
        answer = call(who, "GET", "/api/v1/tenants/acme/limits").json()
        shown = {one["group"]: one["rows"] for one in answer["groups"]}
        assert [row["rate"] for row in shown.pop("theirs")] == [10]
        assert shown == {}
        return [(one["group"], one["subject"]) for one in answer["tenant"]["through"]]

    assert through("acme") == through("admin") == [("theirs", {"tenant": None})]
    assert call("acme", "GET", "/api/v1/groups/theirs").status_code == 200
    assert call("acme", "GET", "/api/v1/events?tenant=other").status_code == 403


def test_the_audit_of_one_revision_leaves_out_what_is_others(call: Call) -> None:
    groups = {
        name: {"owner": owner}
        for name, owner in (("mine", "acme"), ("not_mine", "other"))
    }
    answer = call("admin", "POST", "/api/v1/apply", json={"groups": groups})
    revision = answer.json()["revision"]
    entry = call("acme", "GET", f"/api/v1/revisions/{revision}").json()
    assert [change["key"] for change in entry["changes"]] == ["mine"]
    assert entry["omitted"] == 0
    others = {"groups": {"not_mine": {"owner": "other", "weight": 2}}}
    answer = call("admin", "POST", "/api/v1/apply", json=others)
    path = f"/api/v1/revisions/{answer.json()['revision']}"
    assert call("acme", "GET", path).status_code == 404
