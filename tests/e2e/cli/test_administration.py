"""Policies, overrides, files of quotas, history and rights by the command line."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.api import Addresses


class Headgate(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


FILE = """\
# What the shop may use.
tenants: {shop: {}}
namespaces: [shop/orders]
groups:
  shop.all:
    limits:
      - {dimension: requests, rate: 1000}
  shop.jobs:
    parent: shop.all
    limits:
      - {dimension: requests, rate: 100, burst: 50}
attachments:
  - {subject: {tenant: shop}, group: shop.all}
  - {subject: {namespace: shop/orders}, group: shop.jobs}
policies:
  - {level: namespace, target: shop/orders, kind: publish, policy: {messages: 10}}
"""


@pytest.fixture
def shop(headgate: Headgate, tmp_path: Path) -> Path:
    """A file of quotas that is applied."""
    file = tmp_path / "quotas.yaml"
    file.write_text(FILE, encoding="utf-8")
    assert headgate("apply", "-f", str(file))[0] == 0
    return file


def _revision(headgate: Headgate) -> int:
    newest = json.loads(headgate("audit", "-n", "1", "--json")[1])
    return int(newest[0]["revision"]) if newest else 0


def _rates(headgate: Headgate, group: str) -> list[float]:
    shown = json.loads(headgate("group", "show", group, "--json")[1])
    return [limit["rate"] for limit in shown["limits"]]


def test_a_file_is_planned_then_applied_then_changes_nothing(
    headgate: Headgate, tmp_path: Path
) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(FILE.replace("shop", "mill"), encoding="utf-8")
    before = _revision(headgate)
    code, plan, _ = headgate("apply", "-f", str(file), "--dry-run")
    assert (code, plan.count("\n+ ") + 1) == (0, 7)
    assert "+ attachment tenant mill" in plan
    assert plan.endswith("dry run: 7 created, 0 changed, 0 deleted\n")
    assert _revision(headgate) == before
    assert headgate("apply", "-f", str(file))[1].endswith(f"revision {before + 1}\n")
    again = headgate("apply", "-f", str(file))
    assert again == (0, "nothing to change\n", "")
    assert json.loads(headgate("apply", "-f", str(file), "--json")[1])["changes"] == []


def test_a_file_comes_on_stdin_as_yaml_or_json(
    headgate: Headgate, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = shop.read_text().replace("rate: 1000", "rate: 1500")
    limits = [{"dimension": "requests", "rate": 1700}]
    as_json = json.dumps({"groups": {"shop.all": {"limits": limits}}})
    for text, rate in ((changed, 1500.0), (as_json, 1700.0)):
        stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        code, said, _ = headgate("apply", "-f", "-")
        assert (code, said[0]) == (0, "~")
        assert _rates(headgate, "shop.all") == [rate]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rate: 1000", "rate: -5", ":7: groups.shop.all.limits[0].rate: expected"),
        ("parent: shop.all", "mother: x", ":9: groups.shop.jobs.mother: unknown"),
        ("group: shop.jobs", "group: gone", ":14: attachments[1].group: group 'gone'"),
        ("kind: publish", "kind: read", ":16: policies[0].kind: expected"),
        ("groups:", "groups: [", ":6: expected YAML: "),
        ("rate: 1000", "rate: 12:30", ":7: groups.shop.all.limits[0].rate: expected"),
        ("rate: 1000", "rate: 1, rate: 2", ":7: expected each key once, but 'rate' is"),
    ],
)
def test_a_refused_file_is_told_with_line_and_field(
    headgate: Headgate, tmp_path: Path, old: str, new: str, told: str
) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text(FILE.replace(old, new, 1), encoding="utf-8")
    code, said, error = headgate("apply", "-f", str(file))
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert told in error
    assert str(file) in error


def test_a_file_that_is_not_there_is_told(headgate: Headgate, tmp_path: Path) -> None:
    for file, why in ((tmp_path / "x.yaml", "No such file"), (tmp_path, "directory")):
        code, _, error = headgate("apply", "-f", str(file))
        assert (code, why in error, error.count("\n")) == (1, True, 1)


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_where_a_person_sits_it_is_done_after_a_yes(
    server: Addresses, headgate: Headgate, shop: Path, answer: str, code: int
) -> None:
    headgate("group", "update", "shop.all", "--limit", "requests=7")
    command = [sys.executable, "-m", "headgate.cli", "apply", "-f", str(shop)]
    master, slave = pty.openpty()
    os.write(master, f"{answer}\n".encode())
    done = subprocess.run(
        [*command, "--url", server.api],
        stdin=slave,
        stdout=slave,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    said = os.read(master, 65536).decode()
    os.close(master)
    os.close(slave)
    assert "~ group shop.all" in said
    assert "0 created, 1 changed, 0 deleted. Continue?" in said
    assert _rates(headgate, "shop.all") == [1000.0 if answer == "y" else 7.0]


@pytest.mark.usefixtures("shop")
def test_the_narrowest_level_that_says_a_rate_wins(headgate: Headgate) -> None:
    def applies() -> str:
        return headgate("policy", "get", "dispatch", "--topic", topic)[1]

    topic = "shop/orders/paid"
    assert "unlimited; no level sets a rate" in applies()
    places = (
        ("--broker", "30 messages/s, unlimited bytes, from the broker"),
        ("--namespace=shop/orders", "20 messages/s, unlimited bytes, from the nam"),
        (f"--topic={topic}", "10 messages/s, unlimited bytes\n"),
    )
    for (place, told), rate in zip(places, ("30", "20", "10"), strict=True):
        assert headgate("policy", "set", "dispatch", place, "--messages", rate)[0] == 0
        assert told in applies()
    listed = headgate("policy", "list")[1]
    assert [line.split()[0] for line in listed.splitlines() if "dispatch" in line] == [
        "broker",
        "namespace",
        "topic",
    ]
    for place, _ in places:
        assert headgate("policy", "remove", "dispatch", place, "--yes")[0] == 0
        code, _, error = headgate("policy", "remove", "dispatch", place, "--yes")
        assert (code, "does not exist" in error) == (1, True)
    assert "unlimited; no level sets a rate" in applies()


@pytest.mark.usefixtures("shop")
def test_a_broker_policy_of_several_keys_goes_in_one_change(headgate: Headgate) -> None:
    rates = ("--messages", "30", "--bytes", "1M", "--relative-to-publish-rate")
    assert headgate("policy", "set", "dispatch", "--broker", *rates)[0] == 0
    assert headgate("policy", "remove", "dispatch", "--broker", "--yes")[0] == 0
    last = json.loads(headgate("audit", "-n", "1", "--json")[1])[0]
    assert sorted((change["key"], change["after"]) for change in last["changes"]) == [
        ("dispatchThrottlingRatePerTopicInByte", None),
        ("dispatchThrottlingRatePerTopicInMsg", None),
        ("dispatchThrottlingRateRelativeToPublishRate", None),
    ]


@pytest.mark.usefixtures("shop")
def test_rates_of_all_kinds_are_set_and_described(headgate: Headgate) -> None:
    """Dispatch and KIP-599: alter and describe by command line."""
    kinds = ("subscription-dispatch", "replicator-dispatch", "publish", "subscribe")
    for kind in ("dispatch", *kinds):
        for place in ("--broker", "--namespace=shop/orders"):
            done = headgate("policy", "set", kind, place, "--messages", "5")
            assert done[0] == 0, done
            code, said, _ = headgate("policy", "get", kind, place, "--json")
            policy = json.loads(said)["policy"]
            assert (code, policy["messages"], policy["bytes"]) == (0, 5.0, "unlimited")
    relative = ("--namespace", "shop/orders", "--relative-to-publish-rate")
    headgate("policy", "set", "dispatch", *relative, "--bytes", "1Mi", "--period", "m")
    said = headgate("policy", "get", "dispatch", "--namespace", "shop/orders")[1]
    told = "unlimited messages, 1,048,576 bytes/m, on top of the publish rate"
    assert told in said
    headgate("rollback", "1", "--yes")


def test_settings_that_exclude_each_other_are_refused_together(
    headgate: Headgate,
) -> None:
    precise, batch = (
        "preciseDispatcherFlowControl",
        "dispatchThrottlingOnBatchMessageEnabled",
    )
    assert headgate("setting", "set", precise, "true")[0] == 0
    code, _, error = headgate("setting", "set", batch, "true", "--dry-run")
    assert (code, "not together" in error) == (1, True)
    assert json.loads(headgate("setting", "list", "--json")[1]) == {precise: "true"}
    assert headgate("setting", "unset", precise)[0] == 0


@pytest.mark.usefixtures("shop")
def test_an_override_is_made_listed_and_removed(headgate: Headgate) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    code, said, _ = headgate(
        "override", "create", "shop.all", "--by", "+50%", "--until", until
    )
    assert (code, "× 1.5 (+50 %) until 20" in said) == (0, True)
    more = ("--dimension", "requests", "--rate", "2k", "--for", "2h")
    assert headgate("override", "create", "shop.all", *more)[0] == 0
    listed = json.loads(headgate("override", "list", "--json")[1])
    assert [(one["factor"], one["rate"]) for one in listed] == [
        (1.5, None),
        (None, 2000.0),
    ]
    assert "shop.all" in headgate("override", "list")[1]
    assert headgate("override", "remove", "shop.all")[0] == 0
    dimension = ("--dimension", "requests")
    assert headgate("override", "remove", "shop.all", *dimension)[0] == 0
    assert headgate("override", "remove", "shop.all")[0] == 1


@pytest.mark.usefixtures("shop")
def test_kip599_validate_only_costs_nothing(headgate: Headgate) -> None:
    before = _revision(headgate)
    topic = "--topic=shop/orders/paid"
    for command in (
        ("group", "create", "fresh", "--limit", "requests=5"),
        ("group", "update", "shop.all", "--limit", "requests=5"),
        ("attach", "shop.jobs", "--tenant", "shop"),
        ("policy", "set", "publish", topic, "--messages", "5"),
        ("policy", "set", "publish", "--broker", "--messages", "5"),
        ("setting", "set", "preciseDispatcherFlowControl", "true"),
        ("override", "create", "shop.all", "--by", "-20%", "--for", "1h"),
        ("rollback", "0"),
    ):
        code, said, _ = headgate(*command, "--dry-run")
        assert (command, code, "dry run: " in said) == (command, 0, True)
        assert json.loads(headgate(*command, "--dry-run", "--json")[1])["changes"]
    assert _revision(headgate) == before


@pytest.mark.parametrize(
    "command",
    [
        ("group", "create", "shop.all", "--limit", "requests=5"),
        ("group", "update", "shop.none", "--limit", "requests=5"),
        ("group", "update", "shop.all", "--parent", "shop.none"),
        ("attach", "shop.none", "--tenant", "shop"),
        ("policy", "set", "publish", "--topic=no/where/x", "--messages", "5"),
        ("rollback", "999999"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_dry_run_refuses_what_would_be_refused(
    headgate: Headgate, command: tuple[str, ...]
) -> None:
    tried, done = headgate(*command, "--dry-run"), headgate(*command)
    assert tried == done
    assert (tried[0], tried[1], tried[2].count("\n")) == (1, "", 1)


def test_a_dry_run_of_an_update_is_what_the_update_does(headgate: Headgate) -> None:
    made = ("requests=10/m", "tokens=5,burst=50", "mutations=1,scope=node")
    limits = [word for limit in made for word in ("--limit", limit)]
    headgate("group", "create", "dry", *limits)
    change = ("--limit", "requests=20", "--limit", "tokens=7", "--mode", "strict")
    update = (
        "group",
        "update",
        "dry",
        *change,
        "--yes",
        "--remove-limit",
        "mutations,scope=node",
    )
    planned = json.loads(headgate(*update, "--dry-run", "--json")[1])["changes"]
    assert headgate(*update)[0] == 0
    entry = json.loads(headgate("audit", "-n", "1", "--json")[1])[0]
    assert entry["changes"] == planned


def test_a_limit_that_is_not_there_is_not_taken_away(headgate: Headgate) -> None:
    headgate("group", "create", "bare", "--limit", "requests=1", "--limit", "b=2")
    before = _revision(headgate)
    code, _, said = headgate("group", "update", "bare", "--remove-limit", "request")
    assert code == 2
    assert "--remove-limit request: group bare limits only b, requests" in said
    assert _revision(headgate) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("policy", "set", "publish", "--messages", "5"),
        ("policy", "set", "publish", "--broker", "--topic", "a/b/c", "--messages", "5"),
        ("policy", "set", "publish", "--broker"),
        ("policy", "set", "publish", "--broker", "--messages", "many"),
        ("policy", "set", "publish", "--broker", "--messages", "0"),
        ("policy", "get", "broker-dispatch", "--topic", "a/b/c"),
        ("policy", "get", "consume", "--broker"),
        ("override", "create", "g", "--for", "1h"),
        ("override", "create", "g", "--factor", "2"),
        ("override", "create", "g", "--factor", "2", "--rate", "3", "--for", "1h"),
        ("override", "create", "g", "--rate", "3", "--for", "1h"),
        ("override", "create", "g", "--factor", "nan", "--for", "1h"),
        ("override", "create", "g", "--by", "50%", "--for", "1h"),
        ("override", "create", "g", "--by", "-120%", "--for", "1h"),
        ("override", "create", "g", "--factor", "2", "--until", "25:00"),
        ("audit", "--since", "yesterday"),
        ("audit", "-n", "0"),
        ("rollback", "x"),
        ("apply",),
        ("explain",),
        ("top", "--sort", "size"),
        ("token", "delete", "x"),
    ],
)
def test_what_is_not_understood_returns_2_in_one_line(
    headgate: Headgate, arguments: tuple[str, ...]
) -> None:
    code, said, error = headgate(*arguments)
    assert (code, said) == (2, "")
    assert error.startswith("headgate: ")
    assert error.count("\n") == 1


def test_of_limits_per_node_explain_says_that_nothing_is_reported(
    headgate: Headgate,
) -> None:
    limit = "requests=5/s,scope=node"
    assert headgate("group", "create", "alone", "--limit", limit)[0] == 0
    told = "alone requests: scope node; each process enforces it on its own, so agents"
    assert told in headgate("explain", "alone")[1]
    code, _, error = headgate("explain", "alone", "--dimension", "requests")
    assert (code, told in error) == (1, True)


def test_of_a_template_explain_says_who_knows_its_values(headgate: Headgate) -> None:
    limit = ("--per", "user", "--limit", "requests=5/s")
    assert headgate("group", "create", "each", *limit)[0] == 0
    told = "each is a template: each user has its limits for itself"
    assert told in headgate("explain", "each")[1]


def test_a_tenant_that_is_not_there_yet_is_told_in_a_warning_with_similar_names(
    headgate: Headgate,
) -> None:
    headgate("tenant", "create", "foundry")
    create = ("group", "create", "warned", "--owner", "foundary")
    told = "headgate: warning: there is no tenant 'foundary' yet"
    similar = f"{told} (did you mean 'foundry'?)\n"
    for command in ((*create, "--dry-run"), create):
        code, _, error = headgate(*command)
        assert (code, error) == (0, similar)
    update = ("group", "update", "warned", "--offered-to", "foundry", "--offered-to")
    code, said, error = headgate(*update, "zzz", "--json")
    assert json.loads(said)["offered_to"] == ["foundry", "zzz"]
    assert (code, error) == (0, "headgate: warning: there is no tenant 'zzz' yet\n")
    quiet = headgate("group", "update", "warned", "--owner", "foundry")
    assert quiet[::2] == (0, "")
    assert headgate("group", "delete", "warned")[0] == 0


def test_the_name_of_another_cluster_is_told_in_a_warning(headgate: Headgate) -> None:
    headgate("group", "create", "everyone")
    attach = ("attach", "everyone", "--cluster")
    own = headgate(*attach, "*")
    assert own[::2] == (0, "")
    for command in ((*attach, "elsewhere", "--dry-run"), (*attach, "elsewhere")):
        code, _, error = headgate(*command)
        assert code == 0
        assert error.startswith("headgate: warning: the API is that of cluster '")
        assert error.endswith("of cluster 'elsewhere' has no effect here\n")
        assert error.count("\n") == 1
    name = error.split("'")[1]
    assert headgate(*attach, name)[::2] == (0, "")
    for each in ("*", "elsewhere", name):
        assert headgate("detach", "--cluster", each, "--yes")[0] == 0
    assert headgate("group", "delete", "everyone")[0] == 0
