"""`Admin` against a real server: what it does, and how it fails."""

import json
import math
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import islice
from typing import Any

import pytest

from headgate.agent import Admin, AdminError, InvalidSetting, LimitSpec
from headgate.agent.admin import connection
from headgate.api import (
    Addresses,
    RightsSettings,
    ServerSettings,
    create_token,
    running,
)

GOLD = [LimitSpec("requests", rate=1000)]


@pytest.fixture
def admin(server: Addresses) -> Iterator[Admin]:
    with Admin(server.api) as client:
        yield client


def test_a_group_comes_back_as_it_was_put(admin: Admin) -> None:
    admin.put_tenant("acme")
    limits = [
        LimitSpec("requests", rate=1000, burst=200, period_s=60),
        LimitSpec("tokens", rate=math.inf, scope="node"),
    ]
    admin.put_group("all", GOLD)
    made = admin.put_group(
        "gold", limits, parent="all", mode="strict", owner="acme", soft_threshold=0.8
    )
    assert made == admin.group("gold")
    assert made.limit("requests") == limits[0]
    tokens = made.limit("tokens", "node")
    assert tokens is not None
    assert (tokens.rate, tokens.burst) == (math.inf, math.inf)
    again = admin.put_group("copy", made.limits, **made.options)
    assert (again.limits, again.options) == (made.limits, made.options)


def test_a_limit_is_changed_without_the_rest_of_its_group(
    admin: Admin,
) -> None:
    admin.put_group("gold", GOLD, weight=3)
    changed = admin.set_limit("gold", "requests", 500)
    assert changed.limit("requests") == LimitSpec("requests", 500.0, 500.0)
    assert changed.options.get("weight") == 3.0
    admin.set_limit("gold", "tokens", 10, burst=50, period_s=60)
    updated = admin.update_group("gold", weight=1.0)
    assert {limit.dimension for limit in updated.limits} == {"requests", "tokens"}
    left = admin.remove_limit("gold", "requests")
    assert [limit.dimension for limit in left.limits] == ["tokens"]


def test_slots_in_flight_are_set_copied_shown_and_taken_away(admin: Admin) -> None:
    made = admin.put_group("models", [], slots=20)
    assert made.options.get("slots") == 20
    assert admin.put_group("copy", (), **made.options).options.get("slots") == 20
    assert admin.update_group("copy", weight=2.0).options.get("slots") == 20
    assert admin.update_group("copy", slots=None).options.get("slots") is None
    shown = admin.slots("models")
    assert (shown.group, shown.slots, shown.in_use, shown.holders) == (
        "models",
        20,
        0,
        (),
    )
    assert admin.slots("copy").slots is None
    for wrong in (-1, 1_000_001):
        with pytest.raises(AdminError, match="slots") as caught:
            admin.update_group("models", slots=wrong)
        assert caught.value.status == 422
    with pytest.raises(AdminError) as caught:
        admin.slots("nobody")
    assert caught.value.status == 404


def test_replacing_a_group_that_another_changed_is_refused(
    admin: Admin,
) -> None:
    seen = admin.put_group("gold", GOLD)
    admin.set_limit("gold", "requests", 1)
    with pytest.raises(AdminError) as caught:
        admin.put_group("gold", GOLD, revision=seen.revision)
    assert caught.value.status == 412


def test_lists_go_on_over_pages(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAGE", 2)
    for index in range(5):
        admin.put_group(f"g{index}", GOLD)
        admin.put_tenant(f"t{index}")
        admin.attach(f"g{index}", tenant=f"t{index}")
    assert [group.name for group in admin.groups()] == [f"g{i}" for i in range(5)]
    assert list(admin.tenants()) == [f"t{i}" for i in range(5)]
    assert [one.group for one in admin.attachments()] == [f"g{i}" for i in range(5)]
    assert [one.revision for one in islice(admin.audit(), 7)] == list(range(15, 8, -1))


def test_subjects_are_attached_and_detached(admin: Admin) -> None:
    admin.put_group("gold", GOLD)
    admin.put_tenant("acme")
    admin.put_namespace("acme", "orders")
    admin.attach("gold", namespace="acme/orders")
    admin.attach("gold", user="alice", client=None)
    assert list(admin.namespaces("acme")) == ["orders"]
    assert [dict(one.subject) for one in admin.attachments(group="gold")] == [
        {"namespace": "acme/orders"},
        {"user": "alice", "client": None},
    ]
    admin.detach(user="alice", client=None)
    admin.delete_namespace("acme", "orders")
    admin.delete_tenant("acme")
    admin.delete_group("gold")
    assert list(admin.attachments()) == []
    assert list(admin.groups()) == []


def test_an_existing_tenant_keeps_its_roles(admin: Admin) -> None:
    admin.apply({"tenants": {"acme": {"admin_roles": ["ops"]}}})
    admin.put_tenant("acme")
    assert admin.export()["tenants"] == {"acme": {"admin_roles": ["ops"]}}


QUOTAS = """
tenants: {acme: {}, beta: {admin_roles: [ops]}}
namespaces: [acme/orders]
groups:
  all: {limits: [{dimension: requests, rate: unlimited}]}
  gold: {parent: all, limits: [{dimension: requests, rate: 60, period_s: 60}]}
attachments:
- {subject: {tenant: acme}, group: gold}
- {subject: {user: alice, client: null}, group: gold}
policies:
- {level: namespace, target: acme/orders, kind: dispatch, policy: {messages: 5}}
settings: {dispatchThrottlingRatePerTopicInMsg: "7"}
"""


def test_an_export_applied_to_an_empty_server_gives_the_same_export(
    admin: Admin, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan = admin.apply(QUOTAS, dry_run=True)
    assert plan.dry_run
    assert len(plan.changes) == 9
    assert admin.apply(QUOTAS).changes == plan.changes
    exported = admin.export()
    assert admin.apply(exported).changes == ()
    other = tmp_path_factory.mktemp("other") / "x.db"
    settings = ServerSettings(database=str(other), port=0, bus_ports=(0, 0))
    with running(settings) as addresses, Admin(addresses.api) as second:
        assert len(second.apply(exported).changes) == 9
        assert second.export() == exported
        before, after = second.audit(kind="group", key="gold"), second.group("gold")
        entry = next(before)
        assert entry.revision == after.revision == 1
        gold = next(one for one in entry.changes if one.key == "gold")
        assert gold.before is None
        assert gold.after is not None
        assert gold.after["parent"] == "all"


def test_a_refusal_says_which_request_and_which_field(
    admin: Admin, server: Addresses
) -> None:
    with pytest.raises(AdminError) as caught:
        admin.put_group("a b%", [LimitSpec("no dimension", rate=-1)])
    error = caught.value
    assert error.operation == f"PUT {server.api}/api/v1/groups/a%20b%25"
    assert error.status == 422
    with pytest.raises(AdminError) as caught:
        admin.put_group("gold", [LimitSpec("requests", rate=-1)])
    assert caught.value.problems[0][0] == "limits[0].rate"
    assert str(caught.value).startswith(f"PUT {server.api}/api/v1/groups/gold: ")
    assert "limits[0].rate: expected" in str(caught.value)
    with pytest.raises(AdminError) as caught:
        admin.group("nobody")
    assert caught.value.status == 404


def test_a_token_opens_a_server_with_rights(settings: ServerSettings) -> None:
    guarded = ServerSettings(
        database=settings.database,
        port=0,
        bus_ports=(0, 0),
        rights=RightsSettings(required=True),
    )
    token = create_token(guarded, "vera", "viewer")
    with running(guarded) as addresses:
        with Admin(addresses.api) as stranger:
            with pytest.raises(AdminError) as caught:
                list(stranger.groups())
            assert caught.value.status == 401
        with Admin(addresses.api, token=token) as viewer:
            assert viewer.export() == {}
            with pytest.raises(AdminError) as caught:
                viewer.put_group("gold", GOLD)
            assert caught.value.status == 403


def test_no_server_is_an_error_that_names_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with (
            Admin(url) as admin,
            pytest.raises(AdminError, match="reach the API") as caught,
        ):
            admin.put_tenant("acme")
    assert caught.value.status is None
    assert url in str(caught.value)


ANSWERS = {
    "a page": b"<html>hello</html>",
    "a list": b"[]",
    "nested": b"[" * 100_000,
    "another object": b'{"items": [{"name": 3}]}',
    "no items": b'{"items": 7}',
    "a list without an end": b'{"items": [], "next": "x"}',
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_no_headgate_answers_is_one_clear_error(answer: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with Admin(url) as admin, pytest.raises(AdminError) as caught:
            list(admin.groups())
        server.shutdown()
    assert url in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("url", {"url": "ftp://x"}),
        ("token", {"token": "a\nb"}),
        ("token", {"token": 5}),
        ("timeout_s", {"timeout_s": 0}),
        ("timeout_s", {"timeout_s": math.inf}),
        ("timeout_s", {"timeout_s": "5"}),
        ("ca_file", {"ca_file": "/nowhere"}),
    ],
)
def test_a_wrong_argument_is_named(named: str, options: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^{named}"):
        Admin(**{"url": "http://127.0.0.1", **options})  # type: ignore[arg-type]  # wrong on purpose


NAN = math.nan


@pytest.mark.parametrize(
    ("limits", "options", "field", "expected"),
    [
        ([LimitSpec("requests", NAN)], {}, "limits[0].rate", "a finite number"),
        ([LimitSpec("r", 1, burst=-math.inf)], {}, "limits[0].burst", "a finite num"),
        ([*GOLD, LimitSpec("r", 1, 2, NAN)], {}, "limits[1].period_s", "a finite num"),
        ([LimitSpec("requests", "1k")], {}, "limits[0].rate", "a number ≥ 0"),  # type: ignore[arg-type]  # wrong on purpose
        ([LimitSpec("requests", b"1")], {}, "limits[0].rate", "a JSON value"),  # type: ignore[arg-type]  # wrong on purpose
        ("abc", {}, "limits", "a "),
        (5, {}, "limits", "a "),
        (["abc"], {}, "limits[0]", "a"),
        (GOLD, {"weight": NAN}, "weight", "a finite number"),
        (GOLD, {"weight": object()}, "weight", "a JSON value"),
        (GOLD, {"offered_to": ["a", {"b"}]}, "offered_to[1]", "a JSON value"),
    ],
)
def test_a_value_that_no_group_can_have_is_told_with_its_field(
    admin: Admin,
    limits: list[LimitSpec],
    options: dict[str, object],
    field: str,
    expected: str,
) -> None:
    for call in (admin.put_group, admin.update_group):
        admin.put_group("gold", GOLD)
        with pytest.raises(AdminError) as caught:
            call("gold", limits, **options)  # type: ignore[arg-type]  # wrong on purpose
        assert f"/api/v1/groups/gold: {field}: expected {expected}" in str(caught.value)
        ((named, reason),) = caught.value.problems
        assert named == field
        assert reason.startswith(f"expected {expected}")


def test_a_body_that_contains_itself_or_never_ends_is_told_with_its_field(
    admin: Admin,
) -> None:
    offered: list[Any] = []
    offered.append({"again": offered})
    quotas: dict[str, Any] = {}
    quotas["groups"] = {"gold": quotas}
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    itself = "expected a JSON value, got one that contains itself"
    levels = "expected at most 64 levels of lists and mappings"
    for call, field, expected in (
        (lambda: admin.update_group("g", offered_to=offered), "[0].again", itself),
        (lambda: admin.apply(quotas), "groups.gold.groups", itself),
        (lambda: admin.apply({"groups": {"gold": deep}}), "[0][0][0]", levels),
    ):
        with pytest.raises(AdminError) as caught:
            call()
        ((named, reason),) = caught.value.problems
        assert named.endswith(field)
        assert reason == expected
        assert str(caught.value).endswith(f"{named}: {expected}")


def test_a_rate_that_is_no_number_is_told_with_its_field(admin: Admin) -> None:
    admin.put_group("gold", GOLD)
    for rate, expected in ((NAN, "a finite number"), ("1k", "a number ≥ 0")):
        with pytest.raises(AdminError, match=rf"limits\[0\].rate: expected {expected}"):
            admin.set_limit("gold", "requests", rate)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "\udcff", 5, None])
def test_a_name_that_no_path_can_hold_is_told_with_what_was_expected(
    admin: Admin, name: str
) -> None:
    told = f"name: expected text without slashes, not empty, . or .., got {name!r}"
    for change in (
        lambda: admin.put_group(name, GOLD),
        lambda: admin.group(name),
        lambda: admin.put_tenant(name),
        lambda: admin.delete_namespace("acme", name),
        lambda: list(admin.namespaces(name)),
    ):
        with pytest.raises(AdminError) as caught:
            change()
        assert str(caught.value).endswith(f": {told}")
        assert caught.value.problems == (("name", told.removeprefix("name: ")),)


def test_an_answer_of_an_interrupted_change_says_that_it_may_be_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            peer, _ = listener.accept()
            peer.recv(65_536)
            peer.close()

        threading.Thread(target=hang_up, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            Admin(url) as admin,
            pytest.raises(AdminError, match="not known whether the change"),
        ):
            admin.delete_group("gold")


def test_an_export_is_json(admin: Admin) -> None:
    admin.put_group("open", [LimitSpec("requests", rate=math.inf)])
    text = json.dumps(admin.export(), allow_nan=False)
    assert '"rate": "unlimited"' in text
