"""What no database and no float can hold is refused before it gets there."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headgate.api import Addresses, ServerSettings, running

JSON = {"Content-Type": "application/json"}
LONE = "\\ud800"
"""A lone surrogate as JSON spells it."""

DIGITS = "9" * 400
"""An integer that is beyond every float."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """One server for all: nothing here changes anything, which each test checks."""
    database = str(tmp_path_factory.mktemp("unstorable") / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with running(settings) as addresses:
        yield addresses


@pytest.fixture(autouse=True)
def gold(rest: httpx.Client) -> None:
    body = {"limits": [{"dimension": "requests", "rate": 1000}]}
    assert rest.put("/groups/gold", json=body).is_success


def text_bodies() -> list[tuple[str, str, str, str]]:
    """Each text of each body: verb, path, body with a gap, field."""
    limit = '{"limits": [{"dimension": "%s", "rate": 1}]}'
    policy = '{"level": "namespace", "kind": "publish", "policy": {}, "target": "%s"}'
    token = '{"name": "x", "role": "operator", "tenants": ["%s"]}'
    return [
        ("PUT", "/tenants/acme", '{"admin_roles": ["ok", "%s"]}', "admin_roles"),
        ("PUT", "/tenants/acme", '{"allowed_clusters": ["%s"]}', "allowed_clusters"),
        ("POST", "/groups", '{"name": "%s"}', "name"),
        ("POST", "/groups", '{"name": "x", "parent": "%s"}', "parent"),
        ("PUT", "/groups/gold", '{"parent": "%s"}', "parent"),
        ("PUT", "/groups/gold", '{"name": "%s"}', "name"),
        ("PUT", "/groups/gold", '{"mode": "%s"}', "mode"),
        ("PUT", "/groups/gold", limit, "limits[0].dimension"),
        ("PATCH", "/groups/gold", '{"parent": "%s"}', "parent"),
        ("PATCH", "/groups/gold", limit, "limits[0].dimension"),
        ("PUT", "/attachments", '{"subject": {"user": "%s"}, "group": "gold"}', ""),
        ("PUT", "/attachments", '{"subject": {"%s": "x"}, "group": "gold"}', ""),
        ("PUT", "/attachments", '{"subject": {"user": "x"}, "group": "%s"}', "group"),
        ("PUT", "/policies", policy, "target"),
        ("PUT", "/overrides", '{"group": "%s", "factor": 2, "for_s": 9}', "group"),
        (
            "PUT",
            "/overrides",
            '{"group": "gold", "dimension": "%s", "factor": 2, "for_s": 9}',
            "dimension",
        ),
        (
            "PUT",
            "/overrides",
            '{"group": "gold", "factor": 2, "for_s": 9, "reason": "%s"}',
            "reason",
        ),
        ("POST", "/tokens", '{"name": "%s", "role": "admin"}', "name"),
        ("POST", "/tokens", token, "tenants"),
        ("POST", "/preview", '{"group": "%s", "body": {}}', "group"),
        ("POST", "/preview", '{"group": "gold", "body": {"parent": "%s"}}', ""),
        ("POST", "/apply", '{"namespaces": ["acme/%s"]}', "namespaces"),
        ("POST", "/apply", '{"tenants": {"%s": {}}}', "tenants"),
        ("POST", "/apply", '{"tenants": {"x": {"admin_roles": ["%s"]}}}', ""),
        ("POST", "/apply", '{"groups": {"%s": {}}}', "groups"),
        ("POST", "/apply", '{"settings": {"%s": "x"}}', "settings"),
        ("POST", "/apply", '{"settings": {"x": "%s"}}', "settings"),
    ]


@pytest.mark.parametrize(("verb", "path", "body", "field"), text_bodies())
@pytest.mark.parametrize("character", [LONE, "\\u0000"])
def test_a_text_that_can_not_be_stored_is_refused_and_nothing_is_stored(
    rest: httpx.Client,
    unchanged: Any,
    verb: str,
    path: str,
    body: str,
    field: str,
    character: str,
) -> None:
    revision = rest.get("/audit").json()["items"][0]["revision"]
    with unchanged():
        text = body.replace("%s", f"a{character}b")
        answer = rest.request(verb, path, content=text, headers=JSON)
    assert answer.status_code == 422
    error = answer.json()["errors"][0]
    assert error["field"].startswith(field)
    assert "expected" in error["reason"]
    assert rest.get("/audit").json()["items"][0]["revision"] == revision
    for listed in ("/tenants", "/groups", "/attachments", "/tokens", "/overrides"):
        assert rest.get(listed).status_code == 200


@pytest.mark.parametrize("field", ["rate", "burst", "minimum", "maximum", "period_s"])
@pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}"])
@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
def test_an_integer_beyond_every_float_is_refused(
    rest: httpx.Client, unchanged: Any, verb: str, number: str, field: str
) -> None:
    values = {"rate": "1", field: number}
    members = ", ".join(f'"{name}": {value}' for name, value in values.items())
    text = f'{{"limits": [{{"dimension": "d", {members}}}]}}'
    with unchanged():
        answer = rest.request(verb, "/groups/gold", content=text, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == f"limits[0].{field}"


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("PUT", "/groups/gold", '{"weight": %s}'),
        ("PUT", "/groups/gold", '{"soft_threshold": %s}'),
        ("PUT", "/overrides", '{"group": "gold", "factor": %s, "for_s": 9}'),
        ("PUT", "/overrides", '{"group": "gold", "rate": %s, "for_s": 9}'),
        ("PUT", "/overrides", '{"group": "gold", "factor": 2, "for_s": %s}'),
        ("PUT", "/overrides", '{"group": "gold", "factor": 2, "until": %s}'),
        ("POST", "/tokens", '{"name": "x", "role": "admin", "life_s": %s}'),
    ],
)
def test_no_number_of_400_digits_is_taken_anywhere(
    rest: httpx.Client, unchanged: Any, verb: str, path: str, body: str
) -> None:
    text = body.replace("%s", DIGITS)
    with unchanged():
        answer = rest.request(verb, path, content=text, headers=JSON)
    assert answer.status_code == 422


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE"])
def test_an_etag_of_5000_digits_is_of_no_revision(
    rest: httpx.Client, unchanged: Any, verb: str
) -> None:
    content = None if verb == "DELETE" else "{}"
    tag = {"If-Match": "9" * 5000, **JSON}
    with unchanged():
        answer = rest.request(verb, "/groups/gold", content=content, headers=tag)
    assert answer.status_code == 412
