"""Bulk apply: a plan, all or nothing, the same again changes nothing."""

from typing import Any

import httpx
import pytest

QUOTAS: dict[str, Any] = {
    "tenants": {"acme": None, "beta": {"admin_roles": ["root"]}},
    "namespaces": ["acme/orders"],
    "groups": {
        "leaf": {
            "parent": "root",
            "limits": [{"dimension": "requests", "rate": 10, "burst": 50}],
        },
        "root": {"limits": [{"dimension": "requests", "rate": "unlimited"}]},
    },
    "attachments": [
        {"subject": {"tenant": "acme"}, "group": "leaf"},
        {"subject": {"namespace": "acme/orders"}, "group": "root"},
        {"subject": {"user": "alice", "client": None}, "group": "root"},
    ],
    "policies": [
        {
            "level": "topic",
            "target": "persistent://acme/orders/new",
            "kind": "publish",
            "policy": {"messages": 5},
        }
    ],
    "settings": {"dispatchThrottlingRateInMsg": "100"},
}

LIMIT = {"dimension": "requests", "rate": 5}
POLICY = {"level": "namespace", "target": "acme/orders", "kind": "publish"}

YAML = """
# quotas.yaml
tenants: {acme: , beta: {admin_roles: [root]}}
namespaces: [acme/orders]
groups:
  leaf:
    parent: root
    limits:
      - {dimension: requests, rate: 10, burst: 50}
  root:
    limits:
      - {dimension: requests, rate: unlimited}
attachments:
  - {subject: {tenant: acme}, group: leaf}
  - {subject: {namespace: acme/orders}, group: root}
  - {subject: {user: alice, client: null}, group: root}
policies:
  - level: topic
    target: persistent://acme/orders/new
    kind: publish
    policy: {messages: 5}
settings: {dispatchThrottlingRateInMsg: "100"}
"""


def apply(
    rest: httpx.Client, quotas: Any = None, *, dry_run: bool = False
) -> dict[str, Any]:
    params = {"dry_run": "true"} if dry_run else {}
    answer = rest.post("/apply", json=quotas or QUOTAS, params=params)
    assert answer.status_code == 200, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


def snapshot(rest: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = rest.get("/snapshot").json()
    return found


def test_a_dry_run_shows_the_plan_and_changes_nothing(
    rest: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        plan = apply(rest, dry_run=True)
    assert (plan["revision"], plan["dry_run"]) == (0, True)
    assert {(x["kind"], x["key"]) for x in plan["changes"]} == {
        ("tenant", "acme"),
        ("tenant", "beta"),
        ("namespace", "acme/orders"),
        ("group", "leaf"),
        ("group", "root"),
        ("attachment", '{"tenant":"acme"}'),
        ("attachment", '{"namespace":"acme/orders"}'),
        ("attachment", '{"user":"alice","client":null}'),
        ("policy", '["topic","acme/orders/new","publish"]'),
        ("setting", "dispatchThrottlingRateInMsg"),
    }
    assert apply(rest)["changes"] == plan["changes"]


def test_applying_again_changes_nothing(rest: httpx.Client) -> None:
    first = apply(rest)
    again = apply(rest)
    assert (again["changes"], again["revision"]) == ([], first["revision"])
    assert first["revision"] == 1


def test_yaml_means_the_same_as_json(rest: httpx.Client) -> None:
    apply(rest)
    headers = {"Content-Type": "application/yaml"}
    answer = rest.post("/apply", content=YAML, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["changes"] == []


def test_what_a_file_does_not_name_stays(rest: httpx.Client) -> None:
    rest.put("/groups/other", json={})
    apply(rest)
    changed = apply(rest, {"groups": {"root": {"weight": 2}}})
    assert [x["key"] for x in changed["changes"]] == ["root"]
    names = {group["name"] for group in snapshot(rest)["groups"]}
    assert names == {"leaf", "other", "root"}


def test_pruning_deletes_what_a_file_does_not_name(rest: httpx.Client) -> None:
    rest.put("/groups/parent", json={})
    rest.put("/groups/other", json={"parent": "parent"})
    rest.put("/attachments", json={"subject": {"user": "bob"}, "group": "other"})
    apply(rest, {**QUOTAS, "prune": True})
    names = {group["name"] for group in snapshot(rest)["groups"]}
    assert names == {"leaf", "root"}
    assert len(snapshot(rest)["attachments"]) == 3
    assert apply(rest, {**QUOTAS, "prune": True})["changes"] == []


def test_what_policies_pulsar_set_on_a_namespace_stay(
    rest: httpx.Client, pulsar: httpx.Client
) -> None:
    pulsar.put("/tenants/acme", json={})
    pulsar.put("/namespaces/acme/orders", json={"replication_clusters": ["a"]})
    apply(rest)
    policies = pulsar.get("/namespaces/acme/orders").json()
    assert policies["replication_clusters"] == ["a"]


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"colour": "red"}, 422, "colour"),
        ({"groups": {"x": {"weight": -1}}}, 422, "groups.x.weight"),
        ({"groups": {"a/b": {}}}, 422, "groups"),
        (
            {"groups": {"x": {"limits": [{"dimension": "d", "rate": -1}]}}},
            422,
            "groups.x.limits[0].rate",
        ),
        (
            {"groups": {"x": {"limits": [{"dimension": "d", "rate": 1, "burst": 0}]}}},
            422,
            "groups.x.limits[0].burst",
        ),
        (
            {
                "groups": {
                    "x": {
                        "per_partition": True,
                        "limits": QUOTAS["groups"]["leaf"]["limits"],
                    }
                }
            },
            422,
            "groups.x.per_partition",
        ),
        ({"groups": {"x": {"parent": "none"}}}, 404, None),
        ({"attachments": [{"subject": {"user": "u"}, "group": "none"}]}, 404, None),
        ({"namespaces": ["orders"]}, 422, "namespaces[0].namespace"),
        ({"namespaces": ["none/orders"]}, 404, None),
        (
            {"attachments": [{"subject": {"user": "u"}, "group": "root"}] * 2},
            422,
            "attachments[1].subject",
        ),
        ({"settings": {"maxTenants": "5"}}, 404, None),
        ({"settings": {"maxTenants": None}}, 404, None),
        ({"groups": {"root": {"parent": "leaf"}}}, 409, None),
    ],
)
def test_one_thing_that_can_not_be_spoils_all(
    rest: httpx.Client, unchanged: Any, change: Any, status: int, field: str | None
) -> None:
    apply(rest)
    quotas: dict[str, Any] = {**change, "tenants": {"fresh": {}}}
    if "groups" in change:
        quotas["groups"] = {**change["groups"], "fresh": {}}
    with unchanged():
        answer = rest.post("/apply", json=quotas)
    assert answer.status_code == status, answer.text
    if field is not None:
        assert answer.json()["errors"][0]["field"] == field


def test_a_key_that_is_there_twice_in_json_is_named(
    rest: httpx.Client, unchanged: Any
) -> None:
    text = b'{"groups": {"x": {}, "y": {}, "x": {"weight": 2}}}'
    headers = {"Content-Type": "application/json"}
    with unchanged():
        answer = rest.post("/apply", content=text, headers=headers)
    expected = "JSON: expected each key once, but 'x' is there twice"
    assert (answer.status_code, answer.json()["detail"]) == (400, expected)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("groups: [", 400),
        ("groups: &a {x: {}}\ntenants: *a", 400),
        ("!!python/object/apply:os.system ['true']", 400),
        ("groups: {x: {weight: .nan}}", 422),
        ("groups: {x: {weight: .inf}}", 422),
        ("groups: {1: {}}", 422),
        ("groups: {x: {parent: 2020-01-01}}", 422),
        ("namespace_policies: {acme/orders: {x: 2020-01-01}}", 422),
        ("namespace_policies: {acme/orders: {x: [.nan]}}", 422),
        ("namespace_policies: {acme/orders: {a: {1: x, '1': y}}}", 422),
        ("groups: {x: {}, x: {weight: 2}}", 400),
        ("just text", 422),
        ("\x00", 400),
        ("[" * 5000, 400),
    ],
)
def test_yaml_holds_no_surprises(
    rest: httpx.Client, unchanged: Any, text: str, status: int
) -> None:
    headers = {"Content-Type": "application/yaml"}
    with unchanged():
        answer = rest.post("/apply", content=text.encode(), headers=headers)
    assert answer.status_code == status, answer.text


def test_policies_that_are_kept_as_sent_hold_what_json_can_say(
    rest: httpx.Client, unchanged: Any
) -> None:
    policies: dict[str, Any] = {"acme/orders": {"a": [{"b": "größe"}]}}
    apply(rest, {"tenants": {"acme": None}, "namespace_policies": policies})
    for text in ('"a\\ud800"', '[{"\\ud800": 1}]', "NaN", "[1e999]"):
        body = f'{{"namespace_policies": {{"acme/orders": {{"x": {text}}}}}}}'
        headers = {"Content-Type": "application/json"}
        with unchanged():
            answer = rest.post("/apply", content=body, headers=headers)
        assert answer.status_code == 422, answer.text
        (error,) = answer.json()["errors"]
        assert error["field"] == "namespace_policies.acme/orders"
    assert rest.get("/audit").status_code == 200
    assert rest.get("/export").json()["namespace_policies"] == policies
    numbered = b"namespace_policies: {acme/orders: {a: {1: x}}}"
    headers = {"Content-Type": "application/yaml"}
    plans = [
        rest.post("/apply", content=numbered, headers=headers).json() for _ in range(2)
    ]
    assert plans[1]["changes"] == []


def test_a_file_is_judged_by_where_it_ends(rest: httpx.Client, unchanged: Any) -> None:
    one, other = (
        "preciseDispatcherFlowControl",
        "dispatchThrottlingOnBatchMessageEnabled",
    )
    apply(rest, {"settings": {one: "true"}})
    for off in ("false", None):  # in this order, which a file need not think about
        apply(rest, {"settings": {other: "true", one: off}})
        one, other = other, one
    with unchanged():
        answer = rest.post("/apply", json={"settings": {one: "true", other: "true"}})
    assert answer.status_code == 422
    assert "not together with" in answer.json()["detail"]


def test_a_thousand_things_are_made_moved_and_pruned_as_a_few_are(
    rest: httpx.Client,
) -> None:
    number = 600  # more than one query names
    limits = [{"dimension": "requests", "rate": 5}]
    wanted: dict[str, Any] = {
        "tenants": {f"t{n}": None for n in range(number)},
        "groups": {f"g{n}": {"limits": limits} for n in range(number)},
        "attachments": [
            {"subject": {"tenant": f"t{n}"}, "group": f"g{n}"} for n in range(number)
        ],
    }
    assert len(apply(rest, wanted)["changes"]) == 3 * number
    assert apply(rest, wanted)["changes"] == []
    for n in range(0, number, 2):
        wanted["attachments"][n]["group"] = "g1"
        wanted["groups"][f"g{n}"] = {"limits": limits, "parent": "g1"}
    assert len(apply(rest, wanted)["changes"]) == number
    told = snapshot(rest)
    of = {item["subject"]["tenant"]: item["group"] for item in told["attachments"]}
    ids = {group["name"]: group["id"] for group in told["groups"]}
    assert of == {f"t{n}": ids[f"g{n if n % 2 else 1}"] for n in range(number)}
    apply(rest, {"groups": {"g1": None}, "prune": True})
    assert [group["name"] for group in snapshot(rest)["groups"]] == ["g1"]
    assert snapshot(rest)["attachments"] == []
    assert rest.post("/revisions/2/rollback").is_success
    names = {group["id"]: group["name"] for group in snapshot(rest)["groups"]}
    assert {
        item["subject"]["tenant"]: names[item["group"]]
        for item in snapshot(rest)["attachments"]
    } == {f"t{n}": f"g{n if n % 2 else 1}" for n in range(number)}


@pytest.mark.parametrize(
    ("quotas", "field", "reason"),
    [
        (
            {"groups": {"g": {"limits": [{**LIMIT, "period_s": 1e-320}]}}},
            "groups.g.limits[0].period_s",
            "expected greater than or equal to 0.000001",
        ),
        (
            {"groups": {"g": {"weight": 1e-320}}},
            "groups.g.weight",
            "expected greater than or equal to 0.000000001",
        ),
        (
            {"policies": [{**POLICY, "policy": {"messages": 5, "period_s": 1e-320}}]},
            "policies[0].policy.period_s",
            "expected greater than or equal to 0.000001",
        ),
        ([], "body", "expected an object"),
        ({"groups": {"g": []}}, "groups.g", "expected an object"),
        (
            {"settings": {f"k{n}": None for n in range(101)}},
            "settings",
            "expected at most 100 items, got more",
        ),
    ],
)
def test_a_wrong_place_in_a_file_is_named_with_what_was_expected(
    rest: httpx.Client, unchanged: Any, quotas: Any, field: str, reason: str
) -> None:
    with unchanged():
        answer = rest.post("/apply", json=quotas)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": field, "reason": reason}]


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_file_with_a_number_that_is_too_long_is_refused_in_plain_words(
    rest: httpx.Client, kind: str
) -> None:
    headers = {"Content-Type": f"application/{kind}"}
    answer = rest.post("/apply", content=b"9" * 5000, headers=headers)
    expected = f"{kind.upper()}: expected integers of at most 4300 digits"
    assert (answer.status_code, answer.json()["detail"]) == (400, expected)


@pytest.mark.parametrize(
    ("parents", "status", "detail"),
    [
        ({"a": "b", "b": "c", "c": "a"}, 409, "would be part of itself"),
        ({"a": "b", "b": "c", "c": "b"}, 409, "group 'b' would be part of itself"),
        ({f"g{n}": f"g{n + 1}" for n in range(20)} | {"g20": None}, 422, "16 levels"),
        ({"a": "nowhere"}, 404, "group 'nowhere' does not exist"),
        ({"a": "a"}, 409, "would be part of itself"),
    ],
)
def test_a_tree_that_can_not_be_is_refused(
    rest: httpx.Client,
    unchanged: Any,
    parents: dict[str, str | None],
    status: int,
    detail: str,
) -> None:
    groups = {name: {"parent": parent} for name, parent in parents.items()}
    with unchanged():
        answer = rest.post("/apply", json={"groups": groups})
    assert answer.status_code == status, answer.text
    assert detail in answer.json()["detail"]
    assert not answer.json()["detail"].startswith("parent: group")
