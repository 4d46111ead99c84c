"""Overrides: a group's limits for a while, and then as they were."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.api.conftest import NOT_WOKEN_S

from headgate.agent.follow.snapshot import snapshot_from_json

REQUESTS = {"dimension": "requests", "rate": 1000, "burst": 500}
TOKENS = {"dimension": "tokens", "rate": 10}


@pytest.fixture(autouse=True)
def gold(rest: httpx.Client) -> None:
    body = {"limits": [REQUESTS, TOKENS]}
    assert rest.put("/groups/gold", json=body).is_success


def put(rest: httpx.Client, **fields: Any) -> httpx.Response:
    return rest.put("/overrides", json={"group": "gold", **fields})


def told(rest: httpx.Client) -> dict[str, tuple[Any, Any]]:
    """Rates and bursts as agents are told them."""
    (group,) = rest.get("/snapshot").json()["groups"]
    return {x["dimension"]: (x["rate"], x["burst"]) for x in group["limits"]}


PLAIN = {"requests": (1000.0, 500.0), "tokens": (10.0, 10.0)}


def test_half_as_much_again_until_six(rest: httpx.Client) -> None:
    until = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
    answer = put(rest, factor=1.5, until=until, reason="launch")
    assert answer.status_code == 200, answer.text
    assert told(rest) == {"requests": (1500.0, 750.0), "tokens": (15.0, 15.0)}
    shown = rest.get("/groups/gold").json()["limits"]
    assert [limit["rate"] for limit in shown] == [1000.0, 10.0]
    assert rest.get("/overrides").json()["items"] == [answer.json()]


def changed_after(rest: httpx.Client, answer: httpx.Response) -> int:
    """Wait for a change after that of `answer`; return by how many revisions."""
    revision = int(answer.headers["Headgate-Revision"])
    query = {"revision": revision, "wait_s": NOT_WOKEN_S}
    newer: int = rest.get("/snapshot", params=query).json()["revision"]
    return newer - revision


def test_an_override_ends_by_itself_and_wakes_watchers(rest: httpx.Client) -> None:
    answer = put(rest, factor=2, for_s=1.0)
    assert changed_after(rest, answer) == 1
    assert told(rest) == PLAIN
    newest = rest.get("/audit", params={"limit": 1}).json()["items"][0]
    assert (newest["author"], newest["action"]) == ("headgate", "an override ended")


def test_a_shorter_one_that_comes_later_ends_first(rest: httpx.Client) -> None:
    put(rest, factor=2, for_s=1000)
    answer = put(rest, dimension="tokens", rate=99, for_s=0.5)
    assert answer.json()["rate"] == 99
    assert changed_after(rest, answer) == 1
    assert told(rest)["tokens"] == (20.0, 20.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"rate": 0}, (0.0, 0.0)),
        ({"rate": "unlimited"}, ("unlimited", "unlimited")),
        ({"rate": 100}, (100.0, 50.0)),
        ({"factor": 0}, (0.0, 0.0)),
    ],
)
def test_a_rate_stands_in_place_of_the_limits(
    rest: httpx.Client, fields: Any, expected: Any
) -> None:
    put(rest, dimension="requests", for_s=100, **fields)
    assert told(rest) == {**PLAIN, "requests": expected}


def test_an_override_can_be_ended_before_its_time(rest: httpx.Client) -> None:
    put(rest, factor=2, for_s=100)
    assert rest.delete("/overrides", params={"group": "gold"}).status_code == 204
    assert told(rest) == PLAIN
    assert rest.delete("/overrides", params={"group": "gold"}).status_code == 404


def test_an_override_goes_with_its_group_and_comes_back_with_it(
    rest: httpx.Client,
) -> None:
    put(rest, factor=2, for_s=100)
    assert rest.delete("/groups/gold").is_success
    assert rest.get("/overrides").json()["items"] == []
    assert rest.post("/revisions/2/rollback").is_success
    assert told(rest)["requests"] == (2000.0, 1000.0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"for_s": 10}, "factor"),
        ({"factor": 2, "rate": 3, "for_s": 10}, "factor"),
        ({"factor": 2}, "until"),
        ({"factor": 2, "for_s": 10, "until": "2030-01-01T00:00:00Z"}, "until"),
        ({"factor": 2, "until": "2020-01-01T00:00:00Z"}, "until"),
        ({"factor": 2, "until": "2030-01-01T00:00:00"}, "until"),
        ({"factor": 2, "until": "soon"}, "until"),
        ({"factor": -1, "for_s": 10}, "factor"),
        ({"factor": 1e9, "for_s": 10}, "factor"),
        ({"rate": 5, "for_s": 10}, "rate"),
        ({"rate": -5, "dimension": "requests", "for_s": 10}, "rate"),
        ({"factor": 2, "for_s": 1e12}, "for_s"),
        ({"factor": 2, "for_s": 10, "dimension": "a b"}, "dimension"),
    ],
)
def test_an_override_that_means_nothing_is_refused(
    rest: httpx.Client, unchanged: Any, fields: Any, field: str
) -> None:
    with unchanged():
        answer = put(rest, **fields)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_an_override_of_a_dimension_that_its_group_does_not_limit_is_refused(
    rest: httpx.Client, unchanged: Any
) -> None:
    reason = "group 'gold' limits only requests, tokens"
    wanted = {"group": "gold", "dimension": "bytes", "factor": 2}
    with unchanged():
        answer = put(rest, dimension="bytes", factor=2, for_s=10)
        applied = rest.post("/apply", json={"overrides": [{**wanted, "for_s": 10}]})
    assert (answer.status_code, applied.status_code) == (422, 422)
    assert answer.json()["errors"] == [{"field": "dimension", "reason": reason}]
    assert applied.json()["errors"] == [
        {"field": "overrides[0].dimension", "reason": reason}
    ]
    rest.put("/groups/bare", json={})
    nothing = put(rest, group="bare", dimension="bytes", factor=2, for_s=10)
    assert nothing.json()["detail"] == "dimension: group 'bare' limits nothing"


def test_a_file_may_bring_a_limit_and_its_override(rest: httpx.Client) -> None:
    override = {"group": "new", "dimension": "bytes", "factor": 2, "for_s": 10}
    limits = [{"dimension": "bytes", "rate": 5, "scope": "node"}]
    quotas = {"groups": {"new": {"limits": limits}}, "overrides": [override]}
    answer = rest.post("/apply", json=quotas)
    assert answer.status_code == 200, answer.text


def test_an_export_leaves_out_an_override_whose_limit_was_removed(
    rest: httpx.Client,
) -> None:
    put(rest, dimension="requests", factor=2, for_s=100)
    put(rest, dimension="tokens", factor=3, for_s=100)
    assert rest.put("/groups/gold", json={"limits": [TOKENS]}).is_success
    exported = rest.get("/export").json()
    assert [each["dimension"] for each in exported["overrides"]] == ["tokens"]
    assert rest.post("/apply", json=exported).is_success


def test_an_override_of_an_unknown_group_is_a_404(
    rest: httpx.Client, unchanged: Any
) -> None:
    with unchanged():
        answer = put(rest, group="none", factor=2, for_s=10)
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("limit", "override"),
    [
        ({"rate": 1, "period_s": 3600}, {"factor": 1e-10}),
        ({"rate": 5, "period": "month"}, {"factor": 1e-10}),
        ({"rate": 1e12, "burst": 10}, {"dimension": "requests", "rate": 1}),
        ({"rate": "unlimited", "burst": 3}, {"factor": 0}),
        ({"rate": 2**63 - 1}, {"factor": 1e6}),
    ],
)
def test_agents_accept_whatever_an_override_leaves(
    rest: httpx.Client, limit: dict[str, Any], override: dict[str, Any]
) -> None:
    body = {"limits": [{"dimension": "requests", **limit}]}
    assert rest.put("/groups/gold", json=body).is_success
    assert put(rest, **override, for_s=60).is_success
    snapshot = snapshot_from_json(rest.get("/snapshot").json())
    (group,) = snapshot.configuration.groups
    (found,) = group.limits
    assert (found.rate == 0) == (found.burst == 0) == (override.get("factor") == 0)
