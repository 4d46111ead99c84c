"""The snapshot and the blocking query on its revision."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from tests.api.conftest import NOT_WOKEN_S, TIMEOUT_S, until_watched

from headgate.agent.follow.snapshot import snapshot_from_json
from headgate.api import Addresses
from headgate.coordinator.config.configuration import Attachment, Group, Limit


def test_agents_can_read_the_snapshot(rest: httpx.Client) -> None:
    rest.put("/groups/root", json={"limits": []})
    limit = {"dimension": "requests", "rate": "unlimited", "minimum": 5}
    rest.put("/groups/gold", json={"limits": [limit], "parent": "root"})
    subject = {"user": "alice", "client": None}
    rest.put("/attachments", json={"subject": subject, "group": "gold"})
    snapshot = snapshot_from_json(rest.get("/snapshot").json())
    unlimited = float("inf")
    assert snapshot.configuration.revision == 3
    assert snapshot.configuration.cluster == "default"
    assert snapshot.configuration.groups[1] == Group(
        id=2,
        name="gold",
        parent=1,
        limits=(
            Limit(dimension="requests", rate=unlimited, burst=unlimited, minimum=5),
        ),
    )
    assert snapshot.configuration.attachments == (
        Attachment((("user", "alice"), ("client", None)), 2),
    )
    assert snapshot.bus is not None
    assert snapshot.bus.kind == "zeromq"


def test_a_known_revision_is_answered_with_304_after_the_wait(
    rest: httpx.Client,
) -> None:
    began = time.monotonic()
    answer = rest.get("/snapshot", params={"revision": 0, "wait_s": 0.3})
    assert (answer.status_code, answer.content) == (304, b"")
    assert time.monotonic() - began >= 0.3


def test_an_older_revision_is_answered_at_once(rest: httpx.Client) -> None:
    rest.put("/groups/gold", json={})
    answer = rest.get("/snapshot", params={"revision": 0, "wait_s": 30})
    assert answer.json()["revision"] == 1


def test_a_revision_that_was_never_made_is_answered_with_the_present(
    rest: httpx.Client,
) -> None:
    """Else an agent would wait forever after the database was put back."""
    rest.put("/groups/gold", json={})
    answer = rest.get("/snapshot", params={"revision": 1000, "wait_s": 0.1})
    assert answer.json()["revision"] == 1


def test_a_change_wakes_every_watcher(rest: httpx.Client, server: Addresses) -> None:
    watchers = 60  # more than the worker threads (40) and the connections (40)

    def watch(_number: int) -> int:
        with httpx.Client(base_url=rest.base_url, timeout=TIMEOUT_S) as client:
            query = {"revision": 0, "wait_s": NOT_WOKEN_S}
            revision: int = client.get("/snapshot", params=query).json()["revision"]
            return revision

    with ThreadPoolExecutor(watchers) as pool:
        pending = [pool.submit(watch, number) for number in range(watchers)]
        until_watched(server.api, watchers=watchers)
        assert rest.get("/groups").status_code == 200  # waiting takes no thread
        rest.put("/groups/gold", json={})
        assert [future.result() for future in pending] == [1] * watchers


def test_what_changes_nothing_wakes_nobody(rest: httpx.Client) -> None:
    rest.put("/groups/gold", json={})
    answers: list[int] = []

    def watch() -> None:
        query: dict[str, Any] = {"revision": 1, "wait_s": 1}
        answers.append(
            httpx.get(
                f"{rest.base_url}snapshot", params=query, timeout=TIMEOUT_S
            ).status_code
        )

    waiting = threading.Thread(target=watch)
    waiting.start()
    rest.put("/groups/gold", json={})
    rest.put("/groups/bad", json={"weight": -1})
    waiting.join()
    assert answers == [304]
