"""The live view over HTTP: events, history, the overview's window, explanations."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar, cast

import httpx
import numpy as np
import pytest
from tests.web.pictures import agent_use, picture, use
from tests.web.rigs import TIMEOUT_S, Server

from headgate.api.history.history import STEP_S, UsageHistory
from headgate.api.live.schemas import explanation_shown
from headgate.coordinator import Explanation

T = TypeVar("T")

Event = tuple[str, dict[str, object]]

GOLD = {"limits": [{"dimension": "requests", "rate": 100}]}


def followed(server: Server, query: str = "") -> Iterator[Event]:
    """Yield the events of a stream until it ends."""
    url = f"{server.url}/api/v1/events?{query}"
    with httpx.stream("GET", url, timeout=TIMEOUT_S) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                value = cast("object", json.loads(line.removeprefix("data: ")))
                yield name, cast("dict[str, object]", value)


def until(
    events: Iterator[Event],
    name: str,
    holds: Callable[[dict[str, object]], bool] = lambda _: True,
) -> dict[str, object]:
    """Return the first event of that name for which `holds` is true."""
    deadline = time.monotonic() + TIMEOUT_S
    for each, value in events:
        if each == name and holds(value):
            return value
        assert time.monotonic() < deadline, (each, value)
    pytest.fail(f"the stream ended before {name}")


def until_told(ask: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Ask until `holds` is true of the answer; return it."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def agents_of(shown: object) -> set[str]:
    """Return the agents that a part of an answer names."""
    rows = cast("dict[str, list[dict[str, str]]]", shown)["agents"]
    return {row["agent"] for row in rows}


def test_a_change_is_told_on_a_stream_at_once(
    server: Server, rest: httpx.Client
) -> None:
    events = followed(server)
    assert until(events, "hello")["revision"] == 0
    until(events, "overview")
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    assert until(events, "revision")["revision"] == 1
    until(events, "overview", lambda shown: shown["total"] == 1)


def test_streams_end_when_the_server_stops(server: Server) -> None:
    events = followed(server)
    until(events, "overview")
    process = server.process
    assert process is not None
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    for _ in events:  # a stream that is cut, not ended, raises here
        pass
    stopper.join()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/groups/nobody/use", 404),
        ("/groups/nobody/history", 404),
        ("/groups/nobody/explain?dimension=requests", 404),
        ("/groups/gold/explain?dimension=unheard_of", 404),
        ("/groups/gold/explain", 422),
        ("/overview?limit=0", 422),
        ("/overview?sort=colour", 422),
        ("/events?view=nothing", 422),
    ],
)
def test_what_is_not_there_or_not_meant_is_refused(
    filled_server: Server, path: str, status: int
) -> None:
    url = f"{filled_server.url}/api/v1"
    until_told(
        lambda: httpx.get(f"{url}/live", timeout=TIMEOUT_S).json()["at_s"],
        lambda at_s: at_s is not None,  # somebody listens on the bus
    )
    answer = httpx.get(f"{url}{path}", timeout=TIMEOUT_S)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


def test_what_agents_do_is_seen_explained_and_remembered(
    server: Server,
    rest: httpx.Client,
    working_agents: Callable[..., AbstractContextManager[None]],
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    rest.put("/tenants/acme").raise_for_status()
    attachment = {"subject": {"tenant": "acme"}, "group": "gold"}
    rest.put("/attachments", json=attachment).raise_for_status()
    with working_agents(tenant="acme", per_s=300):
        events = followed(server, "group=gold")
        both = {"one", "two"}

        def is_over(shown: dict[str, object]) -> bool:
            uses = cast("list[dict[str, object]]", shown["uses"])
            over = [use for use in uses if use["standing"] == "over"]
            return any(agents_of(use) == both for use in over)

        until(events, "group", is_over)
        query = {"standing": "over"}
        until_told(
            lambda: rest.get("/overview", params=query).json()["rows"],
            lambda rows: (
                [(row["group"], row["agents"]) for row in rows] == [("gold", 2)]
            ),
        )
        until_told(
            lambda: rest.get("/agents").json(), lambda told: agents_of(told) == both
        )
        explain = "/groups/gold/explain?dimension=requests"
        explained = until_told(
            lambda: rest.get(explain).json(),
            lambda told: "agents" in told and agents_of(told) == both,
        )
        assert explained["rate"] == 100.0
        until_told(
            lambda: rest.get("/live?group=gold").json()["items"],
            lambda items: bool(items) and items[0]["agents"][0]["demand"] > 0,
        )
        history = until_told(
            lambda: rest.get("/groups/gold/history").json()["dimensions"],
            lambda told: bool(told) and agents_of(told[0]) == both,
        )
        assert history[0]["rate"][-1] == 100.0


def test_an_explanation_without_a_bound_is_told_as_null() -> None:
    # Of a group with isolation `open`, by an observer that hears nobody.
    given: dict[str, object] = dict.fromkeys(Explanation.__dataclass_fields__, 0.0)
    given |= dict.fromkeys(("dimension", "agent", "mode", "isolation", "formula"), "")
    given |= {"revision": 1, "members": 0, "agents": (), "bound": float("inf")}
    assert explanation_shown(Explanation(**given)).bound is None  # type: ignore[arg-type]


def test_history_keeps_the_largest_agents_apart_and_sums_the_rest() -> None:
    history = UsageHistory(limits=10, agent_lines=10)
    rows = [agent_use(f"a{n}", demand=float(n), admitted=float(n)) for n in range(1, 6)]
    history.record(picture(use(1, *rows), at_s=10.0 * STEP_S))
    course = history.course(1, "requests", agents=2)
    assert course is not None
    assert [line.agent for line in course.agents] == ["a5", "a4", ""]
    assert [line.share[-1] for line in course.agents] == [5.0, 4.0, 6.0]
    assert np.isnan(course.columns["admitted"][:-1]).all()
    assert course.columns["admitted"][-1] == 15.0


def test_history_is_bounded_however_many_agents_come_and_go() -> None:
    history = UsageHistory(limits=10, agent_lines=50)
    for step in range(100):
        row = agent_use(f"agent-{step}", demand=1.0, admitted=1.0)
        history.record(picture(use(step, row), at_s=step * STEP_S))
    assert history.nbytes < 60 * 360 * 7 * 4 + 60 * 10 * 8
