"""Bad input on `/api/v1`: status and reason, and nothing else changes."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.api import Addresses, ServerSettings, running

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """One server for all: nothing here changes anything, which each test checks."""
    database = str(tmp_path_factory.mktemp("bad") / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with running(settings) as addresses:
        yield addresses


@pytest.fixture(autouse=True)
def gold(rest: httpx.Client) -> None:
    body = {"limits": [{"dimension": "requests", "rate": 1000}]}
    assert rest.put("/groups/gold", json=body).is_success


def limit(**fields: Any) -> dict[str, Any]:
    return {"limits": [{"dimension": "requests", "rate": 10, **fields}]}


NUMBER = 'expected a number ≥ 0 or "unlimited"'
PERIOD = "expected greater than or equal to 0.000001"


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        (limit(rate=-1), "limits[0].rate", NUMBER),
        (limit(rate=-0.001), "limits[0].rate", NUMBER),
        (limit(rate="12"), "limits[0].rate", NUMBER),
        (limit(rate=True), "limits[0].rate", NUMBER),
        (limit(rate=[1]), "limits[0].rate", NUMBER),
        (limit(rate=None), "limits[0].rate", NUMBER),
        (
            limit(rate=1e300),
            "limits[0].rate",
            'expected at most 9223372036854775807 or "unlimited"',
        ),
        # Over a period of an hour it would be 0/s: a limit that nothing divides by.
        (limit(rate=5e-324), "limits[0].rate", "expected 0 or at least 1e-09"),
        (limit(burst=1e-300), "limits[0].burst", "expected 0 or at least 1e-09"),
        (limit(burst=0), "limits[0].burst", "expected > 0, got 0"),
        (limit(burst=-5), "limits[0].burst", NUMBER),
        (limit(period_s=0), "limits[0].period_s", PERIOD),
        # Per second that would be infinite, in every agent.
        (limit(period_s=1e-320), "limits[0].period_s", PERIOD),
        (limit(rate=9e18, period_s=1e-290), "limits[0].period_s", PERIOD),
        (limit(samples=5, window_s=1e-320), "limits[0].window_s", PERIOD),
        (
            limit(period_s=1e9),
            "limits[0].period_s",
            "expected less than or equal to 31622400",
        ),
        (limit(scope="planet"), "limits[0].scope", "expected 'cluster' or 'node'"),
        (limit(minimum="unlimited"), "limits[0].minimum", "expected a finite number"),
        (limit(minimum=9, maximum=8), "limits[0].minimum", "expected ≤ maximum"),
        (limit(colour="red"), "limits[0].colour", "unknown field"),
        (
            limit(dimension="pub-lish"),
            "limits[0].dimension",
            "expected an identifier such as requests, got 'pub-lish'",
        ),
        (
            limit(dimension="d" * 65),
            "limits[0].dimension",
            "expected at most 64 characters, got 65",
        ),
        (limit(dimension=""), "limits[0].dimension", None),
        ({"limits": [{"rate": 1}]}, "limits[0].dimension", None),
        (
            {"limits": limit()["limits"] * 2},
            "limits[1]",
            "expected at most one limit per dimension and scope",
        ),
        ({"limits": {}}, "limits", "expected a valid list"),
        (
            {"limits": [{"dimension": f"d{n}", "rate": 1} for n in range(65)]},
            "limits",
            "expected at most 64 items, got 65",
        ),
        ({"colour": "red"}, "colour", "unknown field"),
        ({"weight": 0}, "weight", "expected greater than or equal to 0.000000001"),
        ({"weight": 1e-320}, "weight", "expected greater than or equal to 0.000000001"),
        ({"weight": "heavy"}, "weight", "expected a valid number"),
        ({"mode": "lenient"}, "mode", "expected 'balanced' or 'strict'"),
        ({"soft_threshold": 1.5}, "soft_threshold", "expected less than or equal to 1"),
        ({"may_owe": "yes"}, "may_owe", "expected a valid boolean"),
        ({"parent": 7}, "parent", "expected a valid string"),
        ({"name": "other"}, "name", None),
        ({"limits": [7]}, "limits[0]", "expected an object"),
        ([], "body", "expected an object"),
        ("gold", "body", "expected an object"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(
    rest: httpx.Client, unchanged: Any, body: Any, field: str, reason: str | None
) -> None:
    for name in ("gold", "new"):
        with unchanged():
            answer = rest.put(f"/groups/{name}", json=body)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == 422
        assert problem["errors"][0]["field"] == field
        if reason is not None:
            assert problem["errors"][0]["reason"] == reason


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ["rate", "burst", "period_s", "minimum"])
def test_what_is_no_number_is_refused(
    rest: httpx.Client, unchanged: Any, field: str, number: str
) -> None:
    values = f'"dimension": "d", "rate": 1, "{field}": {number}'
    text = f'{{"limits": [{{{values}}}]}}'
    with unchanged():
        answer = rest.put("/groups/gold", content=text, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == f"limits[0].{field}"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"limits": [}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"weight": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_broken_body_is_refused(
    rest: httpx.Client, unchanged: Any, text: bytes
) -> None:
    with unchanged():
        answer = rest.put("/groups/gold", content=text, headers=JSON)
    assert answer.status_code == (422 if text == b"" else 400)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * 100_000, "expected fewer levels of nesting"),
        (b"9" * 5000, "expected integers of at most 4300 digits"),
        (b'"\xff"', "expected UTF-8"),
        (b"{", "expected a JSON body"),
    ],
)
def test_a_body_that_cannot_be_read_is_told_why(
    rest: httpx.Client, text: bytes, reason: str
) -> None:
    answer = rest.put("/groups/gold", content=text, headers=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (400, reason)


@pytest.mark.parametrize(
    ("verb", "path", "body", "field", "reason"),
    [
        ("PUT", "/attachments", {"subject": {}, "group": "g"}, "subject", "1 item"),
        (
            "PUT",
            "/overrides",
            {"group": "gold", "factor": 2, "until": "2030-01-01T00:00:00"},
            "until",
            "expected a time zone, such as Z or +01:00",
        ),
        ("GET", "/overview?standing=odd", None, "standing", "expected 'over', 'near',"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_api(
    rest: httpx.Client, verb: str, path: str, body: Any, field: str, reason: str
) -> None:
    answer = rest.request(verb, path, json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert error["reason"].startswith("expected")
    assert reason in error["reason"]


def test_an_explanation_of_what_is_not_limited_names_group_and_dimension(
    rest: httpx.Client,
) -> None:
    query = {"dimension": "nosuch"}
    deadline = time.monotonic() + TIMEOUT_S
    while (
        answer := rest.get("/groups/gold/explain", params=query)
    ).status_code == 429:  # until the live view has started
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert answer.status_code == 404
    assert answer.json()["detail"] == "limit of nosuch in group 'gold' does not exist"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"limits": None}, "limits"),
        ({"weight": None}, "weight"),
        ({"offered_to": None}, "offered_to"),
        (
            {"limits": [{"dimension": "requests", "period_s": None}]},
            "limits[0].period_s",
        ),
        ({"limits": [{"dimension": "requests", "maximum": None}]}, "limits[0].maximum"),
    ],
)
def test_null_is_refused_where_it_would_change_nothing(
    rest: httpx.Client, unchanged: Any, body: Any, field: str
) -> None:
    with unchanged():
        answer = rest.patch("/groups/gold", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {
            "field": field,
            "reason": "expected a value; omit it to keep the present one",
        }
    ]


@pytest.mark.parametrize(
    ("verb", "path", "reason"),
    [
        ("POST", "/apply?dryrun=true", "expected only dry_run in the query"),
        (
            "POST",
            "/revisions/0/rollback?dryrun=1",
            "expected only dry_run in the query",
        ),
        ("PUT", "/groups/new?dry_run=true", "expected nothing in the query"),
        ("PATCH", "/groups/gold?dry_run=true", "expected nothing in the query"),
        (
            "DELETE",
            "/overrides?group=gold&dim=requests",
            "expected only dimension, group in the query",
        ),
    ],
)
def test_a_change_with_an_unknown_query_parameter_is_refused(
    rest: httpx.Client, unchanged: Any, verb: str, path: str, reason: str
) -> None:
    with unchanged():
        answer = rest.request(verb, path, json={})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] in {"dryrun", "dry_run", "dim"}
    assert error["reason"] == reason


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("POST", "/revisions/0/rollback"),
        ("DELETE", "/groups/gold"),
        ("PUT", "/namespaces/acme/orders"),
    ],
)
@pytest.mark.parametrize("body", [{"dry_run": True}, [1], "true"])
def test_a_body_that_would_be_ignored_is_refused(
    rest: httpx.Client, unchanged: Any, verb: str, path: str, body: Any
) -> None:
    with unchanged():
        answer = rest.request(verb, path, json=body)
    assert answer.status_code == 422


def test_a_rollback_names_where_its_parameters_go(rest: httpx.Client) -> None:
    answer = rest.post("/revisions/0/rollback", json={"dry_run": True})
    assert answer.json()["errors"] == [
        {"field": "body", "reason": "expected none; dry_run goes into the query"}
    ]
    for body in (b"", b"{}", b" {} "):
        answer = rest.post(
            "/revisions/0/rollback?dry_run=true", content=body, headers=JSON
        )
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("kind", [None, "text/plain", "application/xml", "json"])
def test_a_body_of_another_kind_is_refused(
    rest: httpx.Client, unchanged: Any, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    with unchanged():
        answer = rest.put("/groups/gold", content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert answer.json()["detail"] == "expected Content-Type application/json"


def test_a_body_that_is_too_large_is_not_read(
    rest: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        answer = rest.put("/groups/gold", content=b" " * 1_048_577, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "expected at most 1048576 bytes"


def test_a_body_that_does_not_tell_its_size_is_bounded_too(
    rest: httpx.Client, unchanged: Any
) -> None:
    pieces = (b" " * 65_536 for _ in range(17))
    with unchanged():
        answer = rest.put("/groups/gold", content=pieces, headers=JSON)
    assert answer.status_code == 413


def test_a_duplicate_name_is_a_conflict(rest: httpx.Client, unchanged: Any) -> None:
    with unchanged():
        answer = rest.post("/groups", json={"name": "gold"})
    assert answer.status_code == 409
    assert answer.json()["detail"] == "group 'gold' already exists"


def test_an_unknown_parent_is_not_found(rest: httpx.Client, unchanged: Any) -> None:
    with unchanged():
        answer = rest.put("/groups/new", json={"parent": "nobody"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "group 'nobody' does not exist"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 10_240, "expected at most 256 characters, got 10240"),
        ("", "expected a name without surrounding spaces"),
        (" gold", "expected a name without surrounding spaces"),
        ("a/b", "expected no slash"),
        ("..", "expected a name other than . and .."),
        ("a\nb", "expected printable characters, got '\\n'"),
        ("a\u0000b", "expected printable characters, got '\\x00'"),
        ("a\ufffdb", "expected printable characters, got '\\ufffd'"),
    ],
)
def test_a_name_that_is_none_is_refused(
    rest: httpx.Client, unchanged: Any, name: str, reason: str
) -> None:
    with unchanged():
        answer = rest.post("/groups", json={"name": name})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "name", "reason": reason}]


def test_a_name_of_10_kb_in_the_path_is_refused(
    rest: httpx.Client, unchanged: Any
) -> None:
    name = "x" * 10_240
    with unchanged():
        answer = rest.put(f"/groups/{name}", json={})
        missing = rest.get(f"/groups/{name}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["reason"] == (
        "expected at most 256 characters, got 10240"
    )
    assert missing.status_code == 404


def test_a_lone_surrogate_is_refused(rest: httpx.Client, unchanged: Any) -> None:
    with unchanged():
        text = b'{"name": "\\ud800", "\\udfff": 1}'
        answer = rest.post("/groups", content=text, headers=JSON)
    assert answer.status_code == 422


@pytest.mark.parametrize("path", ["/groups/a%2Fb", "/groups/a/b", "/groups/%2F"])
def test_a_slash_in_the_path_finds_nothing(
    rest: httpx.Client, unchanged: Any, path: str
) -> None:
    with unchanged():
        answer = rest.put(path, json={})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_name_may_be_any_printable_unicode(rest: httpx.Client) -> None:
    name = "größe: 100 % – 金"
    assert rest.post("/groups", json={"name": name}).status_code == 201
    path = (
        httpx.URL(str(rest.base_url))
        .join("groups/x")
        .copy_with(
            raw_path=b"/api/v1/groups/"
            + "".join(f"%{byte:02x}" for byte in name.encode()).encode()
        )
    )
    assert rest.get(path).json()["name"] == name


@pytest.mark.parametrize("limit", ["0", "1001", "x", "-1", "9" * 40])
def test_a_page_size_out_of_bounds_is_refused(rest: httpx.Client, limit: str) -> None:
    answer = rest.get("/groups", params={"limit": limit})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "limit"


@pytest.mark.parametrize(
    "query",
    ["", "tenant=a&tenant=b", "planet=mars", "tenant=a&user=b", "namespace=x"],
)
def test_a_query_that_names_no_subject_is_refused(
    rest: httpx.Client, unchanged: Any, query: str
) -> None:
    with unchanged():
        assert rest.delete(f"/attachments?{query}").status_code == 422


def test_an_unknown_path_and_method_are_problems_too(rest: httpx.Client) -> None:
    missing = rest.get("/nothing")
    wrong = rest.put("/groups", json={})
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert missing.json()["title"] == "Not Found"
    assert wrong.json()["title"] == "Method Not Allowed"
    assert "GET" in wrong.headers["Allow"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/groups/gold", "DELETE, GET, PATCH, PUT"),
        ("/groups", "GET, POST"),
        ("/attachments", "DELETE, GET, PUT"),
        ("/namespaces/acme/orders", "DELETE, GET, PUT"),
    ],
)
def test_a_405_names_every_method_of_the_path(
    rest: httpx.Client, path: str, allowed: str
) -> None:
    answer = rest.request("TRACE", path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u200b", "\x07"])
def test_a_name_has_no_character_that_is_not_seen(
    rest: httpx.Client, unchanged: Any, mark: str
) -> None:
    with unchanged():
        answer = rest.post("/groups", json={"name": f"go{mark}ld"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["reason"].startswith("expected printable")
    assert rest.put("/tenants/می\u200cخواهم").is_success  # a joiner is a letter
    assert rest.delete("/tenants/می\u200cخواهم").is_success
