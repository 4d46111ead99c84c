"""The API's word on which agents live, told by the blocking query."""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import pytest
from tests.api.conftest import NOT_WOKEN_S, TIMEOUT_S

from headgate.api.live.liveness import ARRIVALS_S, GRACE_S, Presence


def ask(rest: httpx.Client, **query: Any) -> dict[str, Any]:
    answer = rest.get("/snapshot", params={"revision": 0, "wait_s": 0, **query})
    assert answer.status_code in {200, 304}, answer.text
    told: dict[str, Any] = {} if answer.status_code == 304 else answer.json()
    return told


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    @classmethod
    def run(cls, live: Callable[["Clock"], Coroutine[Any, Any, None]]) -> None:
        """Run `live` to its end."""
        with closing(cls()) as loop:
            loop.run_until_complete(live(loop))

    def time(self) -> float:
        return self.now_s

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and what is due be done."""
        self.now_s += seconds
        for _ in range(3):  # a timer becomes ready in one round and runs in the next
            await asyncio.sleep(0)


@contextmanager
def waiting(
    rest: httpx.Client, agent: str, incarnation: int = 1, more: str = ""
) -> Generator[None]:
    """A watch of `agent` that is cut when the block ends, as by SIGKILL."""
    query = f"agent={agent}&incarnation={incarnation}&wait_s=30&revision=0{more}"
    host, port = rest.base_url.host, rest.base_url.port
    assert port is not None
    with socket.create_connection((host, port)) as connection:
        text = f"GET /api/v1/snapshot?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        connection.sendall(text.encode())
        _until(rest, lambda told: agent in names(told, "present"))
        yield


def names(told: dict[str, Any], member: str) -> set[str]:
    return {item["agent"] for item in told["alive"][member]}


def _until(
    rest: httpx.Client, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        told: dict[str, Any] = rest.get("/snapshot", params={"alive": 0}).json()
        if holds(told):
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.02)


def test_an_agent_whose_watch_breaks_is_told_to_be_gone(rest: httpx.Client) -> None:
    with waiting(rest, "a"), waiting(rest, "b"):
        before = ask(rest, alive=99)["alive"]["version"]
    told = ask(rest, alive=before, wait_s=NOT_WOKEN_S)
    assert set(told) == {"alive"}
    told = _until(rest, lambda told: names(told, "gone") == {"a", "b"})
    assert names(told, "present") == set()
    assert told["revision"] == 0


def test_so_is_one_that_had_asked_not_to_be_answered_yet(rest: httpx.Client) -> None:
    """There is news for it, but it was answered twice just before."""
    began_s = time.monotonic()
    with waiting(rest, "a", more="&alive=99&rest_s=2"):
        assert ask(rest, alive=99, rest_s=0.3)["alive"]
        assert time.monotonic() - began_s >= 0.3
    _until(rest, lambda told: names(told, "gone") == {"a"})


def test_an_agent_that_asks_again_in_time_was_never_gone() -> None:
    stirred: list[int] = []

    async def live(clock: Clock) -> None:
        presence = Presence(lambda: stirred.append(1))
        presence.began("a", 1)
        await clock.pass_s(ARRIVALS_S)
        stirred.clear()
        presence.ended("a", 1, broken=True)
        for _ in range(3):
            presence.began("a", 1)
            presence.ended("a", 1, broken=True)
            await clock.pass_s(0.9 * GRACE_S)
        presence.began("a", 1)
        await clock.pass_s(2 * GRACE_S)
        assert presence.told()["gone"] == []

    Clock.run(live)
    assert stirred == []


def test_those_who_come_are_told_together() -> None:
    stirred: list[int] = []

    async def live(clock: Clock) -> None:
        presence = Presence(lambda: stirred.append(presence.version))
        for number in range(100):
            presence.began(f"agent-{number}", 1)
            await clock.pass_s(0.01)
        assert stirred == []
        await clock.pass_s(ARRIVALS_S)
        assert stirred == [1]
        presence.began("late", 1)
        presence.ended("agent-0", 1, broken=True)
        await clock.pass_s(GRACE_S)
        assert stirred == [1, 2]
        await clock.pass_s(2 * ARRIVALS_S)
        assert stirred == [1, 2]  # the late one was told with the one that went

    Clock.run(live)


def test_who_waits_is_told_of_one_that_comes(rest: httpx.Client) -> None:
    before = ask(rest, alive=99)["alive"]["version"]
    with waiting(rest, "a"):
        told = ask(rest, alive=before, wait_s=NOT_WOKEN_S)
    assert told["alive"]["present"] == [{"agent": "a", "incarnation": 1}]


def test_an_agent_that_comes_back_is_no_longer_gone(rest: httpx.Client) -> None:
    with waiting(rest, "a", incarnation=1):
        pass
    _until(rest, lambda told: names(told, "gone") == {"a"})
    with waiting(rest, "a", incarnation=2):
        told = ask(rest, alive=0)
        assert told["alive"]["present"] == [{"agent": "a", "incarnation": 2}]
        assert told["alive"]["gone"] == []


def test_an_older_life_of_an_agent_can_not_make_it_gone() -> None:
    async def live(clock: Clock) -> None:
        presence = Presence(lambda: None)
        presence.began("a", 2)
        presence.began("a", 1)
        presence.ended("a", 1, broken=True)
        await clock.pass_s(10 * GRACE_S)
        assert presence.told()["gone"] == []
        presence.ended("a", 2, broken=True)
        await clock.pass_s(2 * GRACE_S)
        assert presence.told()["gone"] == [{"agent": "a", "incarnation": 2}]

    Clock.run(live)


def test_a_life_after_one_that_is_gone_may_have_a_lower_number() -> None:
    async def live(clock: Clock) -> None:
        presence = Presence(lambda: None)
        presence.began("a", 3600)
        presence.ended("a", 3600, broken=True)
        await clock.pass_s(2 * GRACE_S)
        assert presence.began("a", 7)  # its clock was set back by an hour
        assert presence.told()["present"] == [{"agent": "a", "incarnation": 7}]
        presence.ended("a", 7, broken=True)
        await clock.pass_s(2 * GRACE_S)
        assert presence.told()["gone"] == [{"agent": "a", "incarnation": 7}]

    Clock.run(live)


def test_who_is_answered_and_asks_no_more_is_unknown(rest: httpx.Client) -> None:
    ask(rest, agent="a", incarnation=1)
    told = _until(rest, lambda told: names(told, "present") == set())
    assert told["alive"]["gone"] == []


def test_a_change_comes_with_who_lives(rest: httpx.Client) -> None:
    with waiting(rest, "a"):
        assert rest.put("/groups/gold", json={}).is_success
        told = ask(rest, alive=0)
    assert told["revision"] == 1
    assert names(told, "present") <= {"a"}


def test_a_version_of_a_server_that_is_no_more_is_answered(rest: httpx.Client) -> None:
    assert ask(rest, alive=7)["alive"] == {"version": 0, "present": [], "gone": []}


def test_callers_that_do_not_ask_are_told_nothing(rest: httpx.Client) -> None:
    with waiting(rest, "a"):
        assert "alive" not in rest.get("/snapshot").json()


@pytest.mark.parametrize(
    "query", [{"agent": ""}, {"agent": "x" * 300}, {"incarnation": -1}, {"alive": "x"}]
)
def test_a_name_that_is_none_is_refused(
    rest: httpx.Client, query: dict[str, Any]
) -> None:
    answer = rest.get("/snapshot", params={"revision": 0, **query})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] in query
