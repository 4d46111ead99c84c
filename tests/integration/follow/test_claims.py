"""What an agent asks the API about strict limits that it may be the first to use."""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import PATIENCE_S, Cluster, snapshot, until
from tools.ports import free_port

from headgate.agent import connect
from headgate.agent.follow import claims
from headgate.agent.follow.claims import Claims
from headgate.coordinator import Claim, Granted, Restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headgate.coordinator.table.index import Key

    Answer = Callable[[frozenset[Key]], tuple[int, bytes]]

REQUESTS, TOKENS = ("requests", 1), ("tokens", 2)

ASKED_S = 7.0
"""When everything here was asked for, according to the agent's clock."""

HEADERS = {"Authorization": "Bearer sesame"}

LONG_S = 600.0
"""Longer than any test."""


def granted(limits: frozenset[Key]) -> tuple[int, bytes]:
    """Answer that all these are granted."""
    named = [{"group": group, "dimension": dimension} for dimension, group in limits]
    return 200, json.dumps({"granted": named}).encode()


class Api:
    """The route of claims, over real HTTP.

    Attributes:
        url: Where it listens once it was started.
        asked: The limits of each question.
        agents: Who asked.
        lines: Method and path of each.
        tokens: The header ``Authorization`` of each.
        answer: What to answer.
    """

    def __init__(self) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.asked: list[frozenset[Key]] = []
        self.agents: list[str] = []
        self.lines: list[str] = []
        self.tokens: list[str | None] = []
        self.answer: Answer = granted
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                question = json.loads(body)
                limits = question["limits"]
                asked = frozenset((each["dimension"], each["group"]) for each in limits)
                api.agents.append(question["agent"])
                api.lines.append(f"{self.command} {self.path}")
                api.tokens.append(self.headers["Authorization"])
                api.asked.append(asked)
                status, said = api.answer(asked)
                with suppress(ConnectionError):  # nobody waits for it any more
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said)

            def log_message(self, format: str, *_: object) -> None:
                del format

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


@pytest.fixture
def away() -> Iterator[Api]:
    """An API that nobody has started yet."""
    api = Api()
    yield api
    api.stop()


@pytest.fixture
def api(away: Api) -> Api:
    away.start()
    return away


@pytest.fixture
def heard() -> list[Granted]:
    return []


@pytest.fixture
def told() -> list[Restored]:
    return []


@pytest.fixture
def asking(away: Api, heard: list[Granted], told: list[Restored]) -> Iterator[Claims]:
    """The questions of one agent; its answers are in `heard` and `told`."""

    def take(answer: Granted | Restored) -> None:
        if isinstance(answer, Granted):
            heard.append(answer)
        else:
            told.append(answer)

    until(lambda: not threads(), "the threads of other tests to end")
    asking = Claims(away.url, take, headers=HEADERS)
    yield asking
    asking.close()


def ask(asking: Claims, *limits: Key) -> None:
    asking.ask(Claim("a", frozenset(limits), ASKED_S))


def threads() -> list[str]:
    named = [thread.name for thread in threading.enumerate()]
    return [name for name in named if name == "headgate-claims"]


def all_heard(heard: list[Granted], *limits: Key) -> None:
    """Wait until these have been granted, and no others."""
    until(lambda: sum(len(each.limits) for each in heard) >= len(limits), "the answers")
    assert {limit for each in heard for limit in each.limits} == set(limits)
    assert {each.asked_at_s for each in heard} == {ASKED_S}


def test_what_is_granted_is_delivered(
    api: Api, asking: Claims, heard: list[Granted]
) -> None:
    ask(asking, REQUESTS, TOKENS)
    all_heard(heard, REQUESTS, TOKENS)
    assert api.asked == [{REQUESTS, TOKENS}]
    assert api.agents == ["a"]
    assert api.lines == ["POST /api/v1/grants"]
    assert api.tokens == ["Bearer sesame"]


def test_what_was_not_asked_for_is_not_accepted(
    api: Api, asking: Claims, heard: list[Granted]
) -> None:
    api.answer = lambda _: granted(frozenset({REQUESTS, TOKENS, ("requests", 3)}))
    ask(asking, REQUESTS, ("bytes", 1))
    all_heard(heard, REQUESTS)


def test_where_nothing_is_granted_nothing_is_delivered(
    api: Api, asking: Claims, heard: list[Granted], caplog: pytest.LogCaptureFixture
) -> None:
    api.answer = lambda asked: granted(asked - {REQUESTS})
    ask(asking, REQUESTS)
    ask(asking, TOKENS)
    all_heard(heard, TOKENS)
    assert api.asked == [{REQUESTS}, {TOKENS}]
    assert (len(heard), caplog.text) == (1, "")


def test_a_thread_begins_with_the_first_question_and_asks_one_after_the_other(
    api: Api, asking: Claims, heard: list[Granted]
) -> None:
    going_on = threading.Event()

    def late(asked: frozenset[Key]) -> tuple[int, bytes]:
        going_on.wait(PATIENCE_S)
        return granted(asked)

    api.answer = late
    assert not threads()
    ask(asking, REQUESTS)
    until(lambda: bool(api.asked), "the first question")
    ask(asking, TOKENS)
    assert len(threads()) == 1
    assert api.asked == [{REQUESTS}]
    going_on.set()
    all_heard(heard, REQUESTS, TOKENS)
    assert api.asked == [{REQUESTS}, {TOKENS}]


def test_many_limits_are_asked_about_in_several_questions(
    api: Api,
    asking: Claims,
    heard: list[Granted],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "MOST_LIMITS", 2)
    limits = [("requests", group) for group in range(1, 6)]
    ask(asking, *limits)
    all_heard(heard, *limits)
    assert [len(asked) for asked in api.asked] == [2, 2, 1]


def test_what_is_left_of_a_limit_is_delivered(
    api: Api, asking: Claims, told: list[Restored], heard: list[Granted]
) -> None:
    level = {"group": 2, "dimension": "tokens", "level": 7.5, "age_s": 3.0}
    api.answer = answering({"granted": [], "levels": [level]})
    ask(asking, TOKENS)
    until(lambda: bool(told), "the level")
    (restored,) = told
    assert (restored.dimension, restored.age_s) == ("tokens", 3.0)
    assert restored.group_ids.tolist() == [2]
    assert restored.level.tolist() == [7.5]
    assert not heard


def answering(document: object) -> Answer:
    """Return what answers each question with a document."""
    return lambda _: (200, json.dumps(document).encode())


def test_a_question_that_fails_is_not_asked_again_and_later_ones_are_asked(
    away: Api, asking: Claims, heard: list[Granted], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        ask(asking, REQUESTS)
    until(lambda: bool(caplog.records), "the warning")
    away.start()
    ask(asking, TOKENS)
    until(lambda: frozenset({TOKENS}) in away.asked, "the question")
    until(lambda: any(TOKENS in each.limits for each in heard), "the answer")
    assert away.asked.count(frozenset({TOKENS})) == 1
    assert len(caplog.records) == 1


def test_after_an_answer_another_failure_is_said_again(
    api: Api, asking: Claims, caplog: pytest.LogCaptureFixture
) -> None:
    statuses = iter((503, 503, 200, 503))
    api.answer = lambda asked: (next(statuses), granted(asked)[1])
    for _ in range(4):
        ask(asking, REQUESTS)
    until(lambda: len(api.asked) == 4, "the questions")
    until(lambda: len(caplog.records) == 2, "both warnings")


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (404, b"<h1>Not Found</h1>", "404: <h1>Not Found</h1>"),
        (403, b"not with this token", "403: not with this token"),
        (302, b"", "302: an empty answer"),
        (200, b"<h1>It works!</h1>", "not JSON"),
        (200, b"[]", "object"),
        (200, b'{"granted": {}}', "granted"),
        (200, b'{"granted": [7]}', "granted[0]"),
        (200, b'{"granted": [{"dimension": "requests"}]}', "granted[0].group"),
        (
            200,
            b'{"granted": [{"dimension": 7, "group": 1}]}',
            "granted[0].dimension",
        ),
    ],
)
def test_an_answer_that_means_nothing_is_a_warning_that_says_why(
    api: Api,
    asking: Claims,
    heard: list[Granted],
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: bytes,
    says: str,
) -> None:
    api.answer = lambda asked: (status, body) if REQUESTS in asked else granted(asked)
    ask(asking, REQUESTS)
    ask(asking, TOKENS)
    all_heard(heard, TOKENS)
    assert api.asked == [{REQUESTS}, {TOKENS}]
    (warning,) = caplog.records
    assert (warning.name, warning.levelno) == ("headgate.agent", logging.WARNING)
    assert "a limit may start empty" in warning.getMessage()
    assert says in warning.getMessage()


def test_closing_does_not_wait_for_the_answer(
    api: Api, asking: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "ANSWER_S", LONG_S)
    going_on = threading.Event()

    def late(asked: frozenset[Key]) -> tuple[int, bytes]:
        going_on.wait(PATIENCE_S)
        return granted(asked)

    api.answer = late
    ask(asking, REQUESTS)
    until(lambda: bool(api.asked), "the question")
    began_s = time.monotonic()
    asking.close()
    assert time.monotonic() - began_s < PATIENCE_S / 2
    assert not going_on.is_set()
    going_on.set()
    until(lambda: not threads(), "the end of the thread")


def test_closing_ends_the_thread(
    api: Api, asking: Claims, heard: list[Granted]
) -> None:
    ask(asking, REQUESTS)
    all_heard(heard, REQUESTS)
    assert len(threads()) == 1
    asking.close()
    until(lambda: not threads(), "the end of the thread")
    assert len(api.asked) == 1


def test_who_never_asked_may_be_closed_and_asks_no_more(
    api: Api, asking: Claims
) -> None:
    asking.close()
    ask(asking, REQUESTS)
    assert not threads()
    assert not api.asked


def test_an_agent_that_is_closed_asks_no_more() -> None:
    cluster = Cluster()
    first = snapshot(cluster.bus)
    (gold,) = first.configuration.groups
    strict = replace(first.configuration, groups=(replace(gold, mode="strict"),))
    cluster.api.set(replace(first, configuration=strict))
    with connect(cluster.api.url, agent="a", keep_snapshot=False) as agent:
        agent.limiter(tenant="acme").try_acquire(requests=1)
        until(lambda: bool(threads()), "the question")  # this API answers none
    until(lambda: not threads(), "the end of the thread")
    cluster.close()
