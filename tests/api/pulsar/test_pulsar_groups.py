"""Resource groups and attachments on Pulsar's Admin v2 paths (PIP-82)."""

from typing import Any

import httpx
import pytest

UNLIMITED = {
    "publishRateInMsgs": -1,
    "publishRateInBytes": -1,
    "dispatchRateInMsgs": -1,
    "dispatchRateInBytes": -1,
}
JSON = {"Content-Type": "application/json"}


def assert_refused(answer: httpx.Response, status: int, reason: str) -> None:
    assert (answer.status_code, answer.json()) == (status, {"reason": reason})
    assert answer.headers["content-type"] == "application/json"


@pytest.fixture
def world(pulsar: httpx.Client) -> None:
    """A tenant, a namespace, two groups."""
    tenant = {"adminRoles": [], "allowedClusters": ["default"]}
    for path, body in (
        ("/tenants/acme", tenant),
        ("/namespaces/acme/orders", {}),
        ("/resourcegroups/gold", {"publishRateInMsgs": 10}),
        ("/resourcegroups/silver", {}),
    ):
        assert pulsar.put(path, json=body).status_code == 204


def test_pip82_groups_are_made_listed_shown_and_deleted(pulsar: httpx.Client) -> None:
    body = {"publishRateInMsgs": 10, "dispatchRateInBytes": 2**63 - 1}
    answer = pulsar.put("/resourcegroups/gold", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert pulsar.get("/resourcegroups/gold").json() == {**UNLIMITED, **body}
    assert pulsar.get("/resourcegroups").json() == ["gold"]
    assert pulsar.delete("/resourcegroups/gold").status_code == 204
    assert pulsar.get("/resourcegroups").json() == []


def test_pip82_the_singular_path_is_an_alias(pulsar: httpx.Client) -> None:
    body = {"publishRateInMsgs": 10}
    assert pulsar.put("/resourcegroup/gold", json=body).status_code == 204
    assert pulsar.get("/resourcegroup/gold").json() == {**UNLIMITED, **body}
    assert pulsar.get("/resourcegroup").json() == ["gold"]
    assert pulsar.delete("/resourcegroup/gold").status_code == 204


def test_a_put_merges(pulsar: httpx.Client) -> None:
    pulsar.put("/resourcegroups/gold", json={"publishRateInMsgs": 10})
    body = {"publishRateInMsgs": None, "dispatchRateInMsgs": 20}
    assert pulsar.put("/resourcegroups/gold", json=body).status_code == 204
    rates = pulsar.get("/resourcegroups/gold").json()
    assert rates == {**UNLIMITED, "publishRateInMsgs": 10, "dispatchRateInMsgs": 20}


def test_minus_one_is_unlimited_and_zero_is_a_rate(pulsar: httpx.Client) -> None:
    body = {"publishRateInMsgs": 0, "dispatchRateInMsgs": 5}
    pulsar.put("/resourcegroups/gold", json=body)
    assert pulsar.get("/resourcegroups/gold").json() == {**UNLIMITED, **body}
    pulsar.put("/resourcegroups/gold", json=UNLIMITED)
    assert pulsar.get("/resourcegroups/gold").json() == UNLIMITED


def test_other_limits_of_the_group_stay_as_they_are(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    tokens = {"dimension": "tokens", "rate": 5, "burst": 50}
    node = {"dimension": "publish_messages", "rate": 7, "scope": "node"}
    whole = {"limits": [tokens, node], "mode": "strict", "weight": 2}
    before = rest.put("/groups/gold", json=whole).json()
    pulsar.put("/resourcegroups/gold", json={"publishRateInMsgs": 10})
    after = rest.get("/groups/gold").json()
    made = after["limits"].pop(0)
    assert (made["dimension"], made["scope"], made["rate"]) == (
        "publish_messages",
        "cluster",
        10.0,
    )
    assert after == {**before, "revision": 2}


def test_a_put_of_what_is_shown_changes_nothing(
    pulsar: httpx.Client, rest: httpx.Client, unchanged: Any
) -> None:
    limit = {"dimension": "publish_messages", "rate": 601, "period_s": 60, "burst": 9}
    rest.put("/groups/gold", json={"limits": [limit]})
    shown = pulsar.get("/resourcegroups/gold").json()
    assert shown["publishRateInMsgs"] == 10
    with unchanged():
        assert pulsar.put("/resourcegroups/gold", json=shown).status_code == 204


@pytest.mark.parametrize(
    ("rate", "shown"), [(0.25, 1), (1e18, 2**31 - 1), ("unlimited", -1), (0, 0)]
)
def test_a_rate_is_shown_as_pulsars_client_can_read_it(
    pulsar: httpx.Client, rest: httpx.Client, rate: Any, shown: int
) -> None:
    limit = {"dimension": "publish_messages", "rate": rate}
    rest.put("/groups/gold", json={"limits": [limit]})
    assert pulsar.get("/resourcegroups/gold").json()["publishRateInMsgs"] == shown


@pytest.mark.parametrize(("given", "kept"), [("12", 12), (1.9, 1), (-1, -1)])
def test_numbers_are_read_as_pulsar_reads_them(
    pulsar: httpx.Client, given: Any, kept: int
) -> None:
    pulsar.put("/resourcegroups/gold", json={"publishRateInMsgs": given})
    assert pulsar.get("/resourcegroups/gold").json()["publishRateInMsgs"] == kept


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (
            b'{"publishRateInMsgs": -7}',
            412,
            "publishRateInMsgs: expected ≥ 0, or -1 for unlimited, got -7",
        ),
        (
            b'{"publishRateInMsgs": 2147483648}',
            400,
            "publishRateInMsgs: expected a 32-bit integer, got 2147483648",
        ),
        (
            b'{"publishRateInBytes": 9223372036854775808}',
            400,
            "publishRateInBytes: expected a 64-bit integer, got 9223372036854775808",
        ),
        (
            b'{"publishRateInMsgs": "abc"}',
            400,
            "publishRateInMsgs: expected a 32-bit integer, got 'abc'",
        ),
        (
            b'{"publishRateInMsgs": true}',
            400,
            "publishRateInMsgs: expected a 32-bit integer, got True",
        ),
        (
            b'{"publishRateInMsgs": []}',
            400,
            "publishRateInMsgs: expected a 32-bit integer, got []",
        ),
        (
            b'{"publishRateInMsgs": NaN}',
            400,
            "expected a JSON object, but the body is not JSON",
        ),
        (
            b'{"publishRateInMsgs": 1e999}',
            400,
            "expected a JSON object, but the body is not JSON",
        ),
        (b"[]", 400, "expected a JSON object, got list"),
        (b"{", 400, "expected a JSON object, but the body is not JSON"),
        (b"[" * 100_000, 400, "expected a JSON object, but the body is not JSON"),
        (b'{"a": "\\ud800"}', 400, "expected a JSON object, but the body is not JSON"),
        (b"null", 400, "expected a JSON object, got nothing"),
        (b"", 400, "expected a JSON object, got nothing"),
    ],
)
def test_a_bad_body_gets_a_reason_and_changes_nothing(
    pulsar: httpx.Client, unchanged: Any, body: bytes, status: int, reason: str
) -> None:
    pulsar.put("/resourcegroups/gold", json={"publishRateInMsgs": 10})
    for name in ("gold", "new"):
        with unchanged():
            path = f"/resourcegroups/{name}"
            answer = pulsar.put(path, content=body, headers=JSON)
        assert_refused(answer, status, reason)


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_a_body_of_another_kind_is_a_415(
    pulsar: httpx.Client, unchanged: Any, headers: dict[str, str]
) -> None:
    with unchanged():
        answer = pulsar.put("/resourcegroups/gold", content=b"{}", headers=headers)
    assert_refused(answer, 415, "expected Content-Type application/json")


def test_an_unknown_member_of_a_newer_client_is_ignored(pulsar: httpx.Client) -> None:
    newer = {"newerRate": None, "newestRate": 5, "name": "x", "nested": {"a": [1]}}
    body = {"publishRateInMsgs": 10, **newer}
    assert pulsar.put("/resourcegroups/gold", json=body).status_code == 204
    rates = {**UNLIMITED, "publishRateInMsgs": 10}
    assert pulsar.get("/resourcegroups/gold").json() == rates


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_missing_group_is_a_404(
    pulsar: httpx.Client, unchanged: Any, method: str
) -> None:
    with unchanged():
        answer = pulsar.request(method, "/resourcegroups/none")
    assert_refused(answer, 404, "ResourceGroup does not exist")


@pytest.mark.parametrize("name", ["a.b", "a_b", "a-b", "a:b", "é金", "a b", "100%"])
def test_a_name_may_hold_what_pulsars_may(pulsar: httpx.Client, name: str) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    assert pulsar.put(f"/resourcegroups/{encoded}", json={}).status_code == 204
    assert pulsar.get("/resourcegroups").json() == [name]
    assert pulsar.get(f"/resourcegroups/{encoded}/").json() == UNLIMITED
    assert pulsar.delete(f"/resourcegroups/{encoded}").status_code == 204


@pytest.mark.parametrize("path", ["a/b", "a%2Fb", "a%2fb/"])
def test_a_name_with_a_slash_is_a_404(
    pulsar: httpx.Client, unchanged: Any, path: str
) -> None:
    with unchanged():
        answer = pulsar.put(f"/resourcegroups/{path}", json={})
    assert answer.status_code == 404
    assert "reason" in answer.json()


def test_a_name_of_10_kb_is_refused(pulsar: httpx.Client, unchanged: Any) -> None:
    with unchanged():
        answer = pulsar.put(f"/resourcegroups/{'x' * 10_240}", json={})
    reason = "name: expected at most 256 characters, got 10240"
    assert_refused(answer, 412, reason)


def test_post_and_a_put_on_the_collection_are_405(
    pulsar: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        assert pulsar.post("/resourcegroups/gold", json={}).status_code == 405
        assert pulsar.put("/resourcegroups", json={}).status_code == 405


SUBJECTS = [
    "/namespaces/acme/orders",
    "/tenants/acme",
    "/persistent/acme/orders/new",
]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("path", SUBJECTS)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_pip82_a_subject_is_attached_shown_and_detached(
    pulsar: httpx.Client, path: str, method: str
) -> None:
    at = f"{path}/resourcegroup"
    assert pulsar.get(at).content == b""
    assert pulsar.request(method, f"{at}/gold", headers=JSON).status_code == 204
    shown = pulsar.get(at)
    assert (shown.status_code, shown.content) == (200, b"gold")
    assert shown.headers["content-type"] == "application/json"
    refused = pulsar.delete("/resourcegroups/gold")
    assert_refused(refused, 412, "ResourceGroup is in use")
    assert pulsar.request(method, f"{at}/silver").status_code == 204
    assert pulsar.get(at).content == b"silver"
    assert pulsar.delete(at).status_code == 204
    assert pulsar.delete(at).status_code == 204
    assert pulsar.get(at).content == b""
    assert pulsar.delete("/resourcegroups/gold").status_code == 204


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("path", SUBJECTS)
def test_attaching_to_an_unknown_group_is_a_412(
    pulsar: httpx.Client, unchanged: Any, path: str
) -> None:
    with unchanged():
        answer = pulsar.post(f"{path}/resourcegroup/none")
    assert_refused(answer, 412, "ResourceGroup does not exist")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "/namespaces/acme/none/resourcegroup/gold", "policies"),
        ("DELETE", "/namespaces/acme/none/resourcegroup", "policies"),
        ("GET", "/namespaces/acme/none/resourcegroup", "Namespace does not exist"),
        ("POST", "/tenants/none/resourcegroup/gold", "Tenant does not exist"),
        ("POST", "/persistent/acme/none/t/resourcegroup/gold", "policies"),
    ],
)
def test_attaching_what_is_not_there_is_a_404(
    pulsar: httpx.Client, unchanged: Any, method: str, path: str, reason: str
) -> None:
    if reason == "policies":
        reason = "Namespace policies does not exist"
    with unchanged():
        answer = pulsar.request(method, path)
    assert_refused(answer, 404, reason)


@pytest.mark.usefixtures("world")
def test_tenants_and_namespaces_answer_as_pulsars(
    pulsar: httpx.Client, unchanged: Any
) -> None:
    assert pulsar.get("/clusters").json() == ["default"]
    assert pulsar.get("/tenants").json() == ["acme"]
    assert pulsar.get("/tenants/acme").json() == {
        "adminRoles": [],
        "allowedClusters": ["default"],
    }
    assert pulsar.get("/namespaces/acme").json() == ["acme/orders"]
    with unchanged():
        for answer, status, reason in (
            (pulsar.put("/tenants/acme", json={}), 409, "Tenant already exist"),
            (pulsar.get("/tenants/none"), 404, "Tenant does not exist"),
            (pulsar.get("/namespaces/none"), 404, "Tenant does not exist"),
            (pulsar.put("/namespaces/none/n"), 404, "Tenant does not exist"),
            (
                pulsar.put("/namespaces/acme/orders"),
                409,
                "Namespace already exists",
            ),
            (
                pulsar.delete("/tenants/acme"),
                409,
                "The tenant still has active namespaces",
            ),
        ):
            assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    update = {"adminRoles": ["root"], "allowedClusters": []}
    assert pulsar.post("/tenants/acme", json=update).status_code == 204
    assert pulsar.get("/tenants/acme").json() == update
    deleted = pulsar.delete("/tenants/acme", params={"force": "true"})
    assert deleted.status_code == 204
    assert pulsar.get("/tenants").json() == []


@pytest.mark.usefixtures("world")
def test_policies_tell_the_present_group(pulsar: httpx.Client) -> None:
    policies: dict[str, Any] = {
        "replication_clusters": [],
        "resource_group_name": "gold",
    }
    assert pulsar.put("/namespaces/acme/bills", json=policies).status_code == 204
    assert pulsar.get("/namespaces/acme/bills").json() == policies
    pulsar.delete("/namespaces/acme/bills/resourcegroup")
    shown = pulsar.get("/namespaces/acme/bills").json()
    assert shown == {**policies, "resource_group_name": None}


@pytest.mark.usefixtures("world")
def test_a_topic_needs_its_namespace_and_no_declaration(pulsar: httpx.Client) -> None:
    assert pulsar.put("/persistent/acme/orders/new", json={}).status_code == 204
    answer = pulsar.put("/persistent/acme/none/new", json={})
    assert_refused(answer, 404, "Namespace does not exist")


def test_whatever_is_stored_can_be_exported_and_applied_again(
    pulsar: httpx.Client, rest: httpx.Client
) -> None:
    roles = [f"role-{number}" for number in range(101)]
    for method, tenant in (("PUT", "new"), ("POST", "acme")):
        pulsar.put("/tenants/acme", json={})
        answer = pulsar.request(
            method, f"/tenants/{tenant}", json={"adminRoles": roles}
        )
        assert_refused(answer, 400, "adminRoles: expected at most 100 strings")
    assert pulsar.post("/tenants/acme", json={"adminRoles": roles[1:]}).is_success

    def nested(levels: int) -> bytes:
        return b'{"a":' * levels + b"1" + b"}" * levels

    for levels in (41, 500):
        deep = nested(levels)
        answer = pulsar.put("/namespaces/acme/deep", content=deep, headers=JSON)
        assert_refused(answer, 400, "expected at most 40 levels of nesting")
    answer = pulsar.put("/namespaces/acme/deep", content=nested(40), headers=JSON)
    assert answer.is_success
    assert rest.get("/audit").status_code == 200
    exported = rest.get("/export")
    assert exported.status_code == 200
    plan = rest.post("/apply", json=exported.json())
    assert (plan.status_code, plan.json()["changes"]) == (200, [])
