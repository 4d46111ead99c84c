"""Grants: each new strict limit goes once to the first who asks, and so starts full."""

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.agent.observer import Observer
from headgate.api import Addresses, ServerSettings, running
from headgate.api.grants import routes
from headgate.api.groups.schemas import GroupBody
from headgate.api.groups.service import create_group
from headgate.api.levels import service
from headgate.api.levels.service import load
from headgate.api.observing.observing import Observing
from headgate.api.store import Author, Store
from headgate.coordinator.escrow.lives import View

NUMBERS = count(1)

REQUESTS = {"dimension": "requests", "rate": 10, "burst": 100}
TOKENS = {"dimension": "tokens", "rate": 10}
BALANCED = {"limits": [REQUESTS]}
STRICT = {"mode": "strict", **BALANCED}
SLOTS = "slots_in_flight"

ASKERS = 8


def answers(value: object) -> Callable[..., Any]:
    """Return a function that returns `value` whatever it is asked."""

    def answer(*_: object, **__: object) -> object:
        return value

    return answer


@contextmanager
def listening(settings: ServerSettings) -> Generator[Addresses]:
    """A server that listens on the bus, as if it heard there all agents that ask."""
    with (
        pytest.MonkeyPatch.context() as patch,
        running(settings) as addresses,
        httpx.Client(base_url=f"{addresses.api}/api/v1", timeout=TIMEOUT_S) as rest,
    ):
        patch.setattr(routes, "FOLLOWS_WITHIN_S", TIMEOUT_S / 2)
        patch.setattr(View, "knows", answers(True))
        deadline = time.monotonic() + TIMEOUT_S
        while not claim(rest, make(rest, STRICT)):
            assert time.monotonic() < deadline
        yield addresses


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """One server for all."""
    database = str(tmp_path_factory.mktemp("grants") / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with listening(settings) as addresses:
        yield addresses


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the listener be sure that nobody owns a part of any limit."""
    monkeypatch.setattr(Observer, "grantable", answers(True))


def put(rest: httpx.Client, name: str, body: Any) -> int:
    """Create or replace a group; return its id."""
    answer = rest.put(f"/groups/{name}", json=body)
    assert answer.is_success, answer.text
    number: int = answer.json()["id"]
    return number


def new_name() -> str:
    return f"g{next(NUMBERS)}"


def make(rest: httpx.Client, body: Any) -> int:
    """Create a group; return its id."""
    return put(rest, new_name(), body)


def claim(rest: httpx.Client, *groups: int, of: str = "requests") -> list[int]:
    """Ask for a limit of some groups as an agent does; return which are granted."""
    limits = [{"group": group, "dimension": of} for group in groups]
    answer = rest.post("/grants", json={"agent": "a", "limits": limits})
    assert answer.status_code == 200, answer.text
    granted = answer.json()["granted"]
    assert {each["dimension"] for each in granted} <= {of}
    return [each["group"] for each in granted]


def revision(rest: httpx.Client) -> int:
    number: int = rest.get("/snapshot").json()["revision"]
    return number


def test_a_new_strict_limit_is_granted_once(rest: httpx.Client) -> None:
    gold, silver = make(rest, STRICT), make(rest, STRICT)
    assert claim(rest, gold) == [gold]
    assert claim(rest, gold) == []
    assert claim(rest, gold, silver, silver) == [silver]
    assert claim(rest, gold, silver) == []


def test_slots_are_granted_once(rest: httpx.Client) -> None:
    gold, silver = make(rest, {"slots": 3}), make(rest, {**STRICT, "slots": 3})
    assert claim(rest, gold, silver, of=SLOTS) == [gold, silver]
    assert claim(rest, gold, silver, of=SLOTS) == []
    assert claim(rest, silver) == [silver]


def test_a_limit_that_a_used_group_gets_is_granted(rest: httpx.Client) -> None:
    name = new_name()
    group = put(rest, name, STRICT)
    claim(rest, group)
    assert put(rest, name, {**STRICT, "limits": [REQUESTS, TOKENS]}) == group
    limits = [{"group": group, "dimension": name} for name in ("requests", "tokens")]
    answer = rest.post("/grants", json={"agent": "a", "limits": limits})
    assert answer.json()["granted"] == limits[1:]


def test_who_begins_to_use_a_limit_is_told_what_is_left_of_it(
    rest: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold, silver = make(rest, BALANCED), make(rest, BALANCED)
    limits = [{"group": group, "dimension": "requests"} for group in (gold, silver)]

    def stored(store: Store, only: set[tuple[int, str]]) -> object:
        assert only == {(gold, "requests"), (silver, "requests")}
        found = {each.group_id: each for each in load(store, only)}
        assert found.keys() == {gold, silver}
        return [replace(found[gold], level=7.5, at_s=time.time() - 3.0), found[silver]]

    body = {"agent": "a", "limits": limits}
    monkeypatch.setattr(Observing, "watches", answers(False))
    answer = rest.post("/grants", json=body).json()
    assert answer == {"granted": [], "levels": []}, "nobody knows who has used them"
    monkeypatch.setattr(service, "load", stored)
    age_s = pytest.approx(3.0, abs=1.0)
    told = {**limits[0], "level": 7.5, "age_s": age_s, "counted": None, "others": None}
    answer = rest.post("/grants", json=body).json()
    assert answer == {"granted": [], "levels": [told]}


@pytest.mark.usefixtures("unheard")
def test_a_limit_that_was_gone_for_a_while_is_not_granted_again(
    rest: httpx.Client,
) -> None:
    name = new_name()
    group = put(rest, name, STRICT)
    claim(rest, group)
    put(rest, name, {"mode": "strict"})
    assert put(rest, name, STRICT) == group
    assert claim(rest, group) == []


@pytest.mark.parametrize(
    ("body", "dimension"),
    [
        (BALANCED, "requests"),
        (STRICT, "tokens"),
        ({"mode": "strict"}, "requests"),
        ({**STRICT, "limits": [{**REQUESTS, "scope": "node"}]}, "requests"),
        (STRICT, SLOTS),
    ],
)
def test_only_slots_and_strict_limits_of_the_cluster_are_granted(
    rest: httpx.Client, body: Any, dimension: str
) -> None:
    assert claim(rest, make(rest, body), of=dimension) == []


def test_a_claim_of_what_does_not_exist_yet_spends_nothing(rest: httpx.Client) -> None:
    last = make(rest, STRICT)
    assert claim(rest, last + 1) == []
    assert claim(rest, last + 1, of=SLOTS) == []
    assert make(rest, {**STRICT, "slots": 3}) == last + 1
    assert claim(rest, last + 1) == [last + 1]
    assert claim(rest, last + 1, of=SLOTS) == [last + 1]


def test_what_is_older_than_the_server_is_not_granted(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    store = Store(settings.database_url)
    with store.changing(Author(name="anna")) as change:
        body = GroupBody.model_validate({**STRICT, "slots": 3})
        old = create_group(change, "old", body).id
    store.close()
    with listening(settings) as addresses:
        base = f"{addresses.api}/api/v1"
        with httpx.Client(base_url=base, timeout=TIMEOUT_S) as rest:
            assert claim(rest, old) == []
            assert claim(rest, old, of=SLOTS) == []


def patched(rest: httpx.Client, name: str) -> httpx.Response:
    return rest.patch(f"/groups/{name}", json={"mode": "strict"})


def replaced(rest: httpx.Client, name: str) -> httpx.Response:
    return rest.put(f"/groups/{name}", json=STRICT)


def applied(rest: httpx.Client, name: str) -> httpx.Response:
    return rest.post("/apply", json={"groups": {name: STRICT}})


@pytest.mark.parametrize("become_strict", [patched, replaced, applied])
def test_what_was_balanced_is_never_granted(
    rest: httpx.Client, become_strict: Callable[[httpx.Client, str], httpx.Response]
) -> None:
    name = new_name()
    group = put(rest, name, BALANCED)
    assert claim(rest, group) == []  # the listener has seen it by now
    answer = become_strict(rest, name)
    assert answer.is_success, answer.text
    assert rest.get(f"/groups/{name}").json()["mode"] == "strict"
    assert claim(rest, group) == []


def test_under_the_id_of_a_deleted_group_nothing_is_granted(
    rest: httpx.Client,
) -> None:
    name = new_name()
    group = put(rest, name, STRICT)
    then = revision(rest)
    assert rest.delete(f"/groups/{name}").is_success
    assert claim(rest, group) == []
    assert rest.post(f"/revisions/{then}/rollback").is_success
    assert claim(rest, group) == []


@pytest.mark.usefixtures("unheard")
def test_of_several_who_ask_at_once_one_gets_it(rest: httpx.Client) -> None:
    groups = [make(rest, STRICT) for _ in range(5)]

    def ask(_: int) -> list[int]:
        return claim(rest, *groups)

    with ThreadPoolExecutor(ASKERS) as pool:
        granted = list(pool.map(ask, range(ASKERS)))
    assert sorted(group for each in granted for group in each) == groups


def no_listener(patch: pytest.MonkeyPatch) -> None:
    book = SimpleNamespace(of=answers([]))
    unheard = answers(False)
    nobody = SimpleNamespace(observer=None, levels=book, watches=unheard)
    patch.setattr(routes, "observing_of", answers(nobody))


def no_bus(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Observer, "listening", property(answers(False)))


def old_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(routes, "FOLLOWS_WITHIN_S", 0.0)
    patch.setattr(Observer, "revision", 0)
    patch.setattr(Observer, "grantable", answers(True))


@pytest.mark.parametrize("without", [no_listener, no_bus, old_limits])
def test_a_listener_that_can_not_know_grants_nothing(
    rest: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    without: Callable[[pytest.MonkeyPatch], None],
) -> None:
    group = make(rest, STRICT)
    with monkeypatch.context() as patch:
        without(patch)
        assert claim(rest, group) == []
    assert claim(rest, group) == [group]


def test_a_claim_makes_no_revision_and_is_not_audited(
    rest: httpx.Client, unchanged: Any
) -> None:
    group = make(rest, STRICT)
    audit = rest.get("/audit").json()
    with unchanged():
        assert claim(rest, group) == [group]
    assert rest.get("/audit").json() == audit
    before = revision(rest)
    put(rest, new_name(), STRICT)
    assert revision(rest) == before + 1


LIMIT = {"group": 1, "dimension": "requests"}
FIRST = "limits[0]"
CLAIM: dict[str, Any] = {"agent": "a", "limits": [LIMIT]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"agent": "a"}, "limits"),
        ({**CLAIM, "limits": {}}, "limits"),
        ({**CLAIM, "limits": [LIMIT] * 501}, "limits"),
        ({**CLAIM, "rank": 1}, "rank"),
        ({**CLAIM, "limits": [7]}, "limits[0]"),
        ({**CLAIM, "limits": [{"group": 1}]}, f"{FIRST}.dimension"),
        ({**CLAIM, "limits": [{"dimension": "requests"}]}, "limits[0].group"),
        ({**CLAIM, "limits": [LIMIT, {**LIMIT, "group": 0}]}, "limits[1].group"),
        ({**CLAIM, "limits": [{**LIMIT, "group": 1.5}]}, "limits[0].group"),
        ({**CLAIM, "limits": [{**LIMIT, "group": "gold"}]}, "limits[0].group"),
        ({**CLAIM, "limits": [{**LIMIT, "group": 1 << 63}]}, "limits[0].group"),
        ({**CLAIM, "limits": [{**LIMIT, "dimension": ""}]}, f"{FIRST}.dimension"),
        (
            {**CLAIM, "limits": [{**LIMIT, "dimension": "d" * 65}]},
            "limits[0].dimension",
        ),
        ({**CLAIM, "limits": [{**LIMIT, "dimension": 7}]}, f"{FIRST}.dimension"),
        ({**CLAIM, "limits": [{**LIMIT, "rate": 7}]}, "limits[0].rate"),
        ({"limits": []}, "agent"),
        ({**CLAIM, "agent": ""}, "agent"),
        ({**CLAIM, "agent": "a" * 300}, "agent"),
        ([], "body"),
    ],
)
def test_a_wrong_field_of_a_claim_is_named(
    rest: httpx.Client, body: Any, field: str
) -> None:
    answer = rest.post("/grants", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_broken_claim_is_refused(rest: httpx.Client) -> None:
    json = {"Content-Type": "application/json"}
    answer = rest.post("/grants", content=b'{"limits": [', headers=json)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "expected a JSON body"
