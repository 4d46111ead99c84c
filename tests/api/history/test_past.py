"""Snapshots of the past equal what the API had answered then."""

from itertools import pairwise
from random import Random
from typing import Any

import httpx

FIELDS = ("groups", "attachments")
NAMES = ("gold", "silver", "bronze")


def content(document: dict[str, Any]) -> dict[str, Any]:
    """What is compared, in an order that is always the same."""
    return {
        "groups": sorted(document["groups"], key=lambda group: group["id"]),
        "attachments": sorted(document["attachments"], key=str),
    }


def change_something(rest: httpx.Client, random: Random) -> None:
    """Ask for one change; the API may well refuse it."""
    name, other = random.sample(NAMES, 2)
    limit = {"dimension": "requests", "rate": random.randrange(1, 99)}
    wish = random.randrange(8)
    if wish == 0:
        rest.put(f"/groups/{name}", json={"limits": [limit], "parent": None})
    elif wish == 1:
        rest.put(f"/groups/{name}", json={"limits": [limit], "parent": other})
    elif wish == 2:
        rest.put("/attachments", json={"subject": {"user": "u"}, "group": name})
    elif wish == 3:
        rest.delete("/attachments", params={"user": "u"})
    elif wish == 4:
        factor = random.choice([0, 0.5, 3])
        rest.put("/overrides", json={"group": name, "factor": factor, "for_s": 999})
    elif wish == 5:
        rest.put("/tenants/acme", json={"admin_roles": [str(random.random())]})
    else:
        rest.delete(f"/groups/{name}")


def test_each_state_of_the_past_is_told_as_it_was(rest: httpx.Client) -> None:
    random, seen = Random(5), dict[int, dict[str, Any]]()
    for _ in range(120):
        change_something(rest, random)
        document = rest.get("/snapshot").json()
        seen[document["revision"]] = content(document)
    assert len(seen) > 40
    states = [seen[revision] for revision in sorted(seen)]
    assert any(a == b for a, b in pairwise(states))
    for revision, state in seen.items():
        past = rest.get("/snapshot", params={"at": revision}).json()
        assert content(past) == state, revision
        since = past["revision"]
        assert all(seen[r] == state for r in seen if since <= r <= revision)
        assert seen.get(since - 1) != state
    answer = rest.get("/snapshot", params={"at": max(seen) + 1})
    assert answer.status_code == 404
