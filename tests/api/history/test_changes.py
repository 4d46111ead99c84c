"""What changed since a revision: the same as the whole, and on disk as well."""

import random
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.follow import snapshot_file
from headgate.agent.follow.snapshot import (
    Snapshot,
    snapshot_from_changes,
    snapshot_from_json,
)
from headgate.api.snapshot import service as snapshots

GROUPS = ("gold", "silver", "bronze", "root")
SUBJECTS: tuple[dict[str, Any], ...] = (
    {"user": "alice"},
    {"user": "alice", "client": None},
    {"client": "c"},
    {"topic": "acme/orders/new"},
    {"namespace": "acme/orders"},
    {"tenant": None},
)
TARGETS = (("namespace", "acme/orders"), ("topic", "acme/orders/new"))


def whole(rest: httpx.Client) -> Snapshot:
    return snapshot_from_json(rest.get("/snapshot").json())


def changes(rest: httpx.Client, since: int) -> dict[str, Any]:
    query: dict[str, Any] = {"revision": since, "changes": True}
    return cast("dict[str, Any]", rest.get("/snapshot", params=query).json())


def unordered(snapshot: Snapshot) -> tuple[object, ...]:
    """Return what two snapshots have in common that say the same."""
    configuration = snapshot.configuration
    return (
        configuration.revision,
        configuration.cluster,
        sorted(configuration.groups, key=lambda group: group.id),
        set(configuration.attachments),
        snapshot.policies,
        snapshot.bus,
        snapshot.report_interval_s,
    )


def something(rest: httpx.Client, chance: random.Random) -> httpx.Response:
    """Do one thing at random; much of it is refused, which is no change."""
    group, subject = chance.choice(GROUPS), chance.choice(SUBJECTS)
    level, target = chance.choice(TARGETS)
    query = {kind: name or "" for kind, name in subject.items()}
    limits = [{"dimension": "requests", "rate": chance.randint(1, 9)}]
    policy = {"level": level, "target": target, "kind": "dispatch"}
    at = {"dispatchThrottlingRateInMsg": "7", "resourceUsagePublishIntervalInSecs": "2"}
    key, text = chance.choice(list(at.items()))
    verb, path, body = cast(
        "tuple[str, str, Any]",
        chance.choice(
            (
                ("PUT", f"/groups/{group}", {"limits": limits}),
                (
                    "PATCH",
                    f"/groups/{group}",
                    {"parent": chance.choice((None, "root"))},
                ),
                ("DELETE", f"/groups/{group}", None),
                ("PUT", "/attachments", {"subject": subject, "group": group}),
                ("PUT", "/attachments", {"subject": subject, "group": group}),
                ("DELETE", "/attachments", query),
                ("PUT", "/policies", {**policy, "policy": {"messages": 5.0}}),
                ("DELETE", "/policies", policy),
                ("PUT", "/overrides", {"group": group, "factor": 2, "for_s": 999}),
                ("DELETE", "/overrides", {"group": group}),
                ("PUT", f"/settings/{key}", {"text": text}),
                ("DELETE", f"/settings/{key}", None),
                ("PUT", "/tenants/acme", {}),
                ("PUT", "/namespaces/acme/orders", None),
                ("DELETE", "/namespaces/acme/orders", None),
                ("POST", f"/revisions/{chance.randint(0, 40)}/rollback", None),
            )
        ),
    )
    if verb == "DELETE":
        return rest.delete(path, params=body)
    return rest.request(verb, path, json=body)


def test_what_changed_since_any_revision_makes_the_whole(rest: httpx.Client) -> None:
    chance = random.Random(5)
    known = [whole(rest)]
    for _ in range(250):
        something(rest, chance)
        now = whole(rest)
        if now.configuration.revision == known[-1].configuration.revision:
            continue
        earlier = (known[-1], chance.choice(known))
        for before in earlier:
            told = changes(rest, before.configuration.revision)
            assert told["since"] == before.configuration.revision
            assert unordered(snapshot_from_changes(before, told)) == unordered(now)
        known.append(now)
    assert len(known) > 60


def test_one_change_among_many_is_told_alone(rest: httpx.Client) -> None:
    for number in range(20):
        rest.put(f"/groups/g{number}", json={})
        rest.put(
            "/attachments", json={"subject": {"user": f"u{number}"}, "group": "g0"}
        )
    revision = rest.get("/snapshot").json()["revision"]
    rest.patch("/groups/g7", json={"weight": 2})
    told = changes(rest, revision)
    assert [group["name"] for group in told["groups"]] == ["g7"]
    assert (told["attachments"], told["detached"], told["groups_gone"]) == ([], [], [])
    assert "policies" not in told
    rest.delete("/attachments", params={"user": "u3"})
    assert changes(rest, revision + 1)["detached"] == [{"user": "u3"}]


def test_too_much_or_an_unknown_revision_is_answered_whole(
    rest: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.put("/groups/a", json={})
    rest.put("/groups/b", json={})
    assert "since" in changes(rest, 0)
    monkeypatch.setattr(snapshots, "MAX_CHANGED", 1)
    rest.put("/groups/c", json={})
    assert "since" not in changes(rest, 0)
    assert len(changes(rest, 0)["groups"]) == 3
    assert "since" not in changes(rest, 1000)
    assert "since" not in rest.get("/snapshot", params={"revision": 0}).json()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"since": 9}, "since: expected at most 1"),
        ({"since": "1"}, "since: expected a whole number"),
        ({"groups": [{"id": 2, "name": "y", "parent": 7}]}, "parent"),
        ({"groups": [{"id": 1, "name": "y"}]}, "expected ids that are used only"),
        ({"attachments": [{"subject": {"user": "x"}, "group": 8}]}, "expected ids of"),
        ({"detached": [{"planet": "mars"}]}, "planet"),
        (
            {"groups_gone": ["x"], "groups": [{"id": 2, "name": "y", "parent": 1}]},
            "par",
        ),
        ({"policies": {"topic": {"a/b/c": {"publish": 7}}}}, "expected an object"),
    ],
)
def test_changes_that_mean_nothing_are_refused(
    change: dict[str, Any], says: str
) -> None:
    document = {"revision": 1, "cluster": "c", "groups": [{"id": 1, "name": "x"}]}
    known = snapshot_from_json(document)
    good = {"since": 1, "revision": 2, "cluster": "c"}
    assert snapshot_from_changes(known, good).configuration.revision == 2
    with pytest.raises(MalformedSnapshot, match=says):
        snapshot_from_changes(known, {**good, **change})


def line(since: int, revision: int) -> bytes:
    group = f'{{"id": {revision}, "name": "g{revision}"}}'
    return (
        f'{{"since": {since}, "revision": {revision}, "cluster": "c",\n'
        f'"groups": [{group}]}}'
    ).encode()


def test_changes_beside_the_snapshot_on_disk_are_read_up_to_the_first_gap(
    tmp_path: Path,
) -> None:
    path = tmp_path / "snapshot.json"
    assert not snapshot_file.append(path, line(1, 2))  # there is nothing to add to
    first = snapshot_from_json({"revision": 1, "cluster": "c"})
    snapshot_file.store(path, first)
    for since, revision in ((1, 2), (1, 2), (1, 3), (2, 3), (3, 4), (5, 6), (6, 7)):
        assert snapshot_file.append(path, line(since, revision))
    loaded = snapshot_file.load(path)
    assert loaded is not None
    assert loaded.configuration.revision == 4
    assert [group.name for group in loaded.configuration.groups] == ["g2", "g3", "g4"]
    snapshot_file.store(path, loaded)
    assert snapshot_file.load(path) == loaded
    with (tmp_path / "snapshot.json.changes").open("ab") as torn:
        torn.write(line(4, 5).replace(b"\n", b" ") + b"\n" + line(5, 6)[:20])
    loaded = snapshot_file.load(path)
    assert loaded is not None
    assert loaded.configuration.revision == 5
    long = line(5, 6).ljust(snapshot_file.MOST_CHANGES_BYTES)
    assert not snapshot_file.append(path, long)
