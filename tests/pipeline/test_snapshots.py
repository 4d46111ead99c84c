"""States of the configuration are kept revision by revision, from a real API."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest

from headgate.agent.follow.snapshot import configuration_from_json
from headgate.api import Addresses, ServerSettings, running
from headgate.pipeline.configured.history import History
from headgate.pipeline.configured.snapshots import Recorder
from headgate.pipeline.settings import WrongSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headgate.coordinator.config.configuration import Configuration


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    return ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )


@pytest.fixture
def server(settings: ServerSettings) -> Iterator[Addresses]:
    with running(settings) as addresses:
        yield addresses


class Operator:
    """Changes things through the API, and remembers what it answered each time."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1"
        self.told: dict[int, Configuration] = {}

    def limit(self, group: str, rate: float) -> None:
        limits = [{"dimension": "requests", "rate": rate}]
        self.ask("PUT", f"/groups/{group}", {"limits": limits})

    def ask(self, method: str, path: str, body: object = None) -> None:
        with httpx.Client(base_url=self._url, timeout=30.0) as rest:
            answer = rest.request(method, path, json=body)
            assert answer.is_success, answer.text
            now = configuration_from_json(rest.get("/snapshot").json())
        self.told[now.revision] = now


def in_force(history: History, revision: int) -> Configuration:
    return [c for c in history.read() if c.revision <= revision][-1]


def same(a: Configuration, b: Configuration) -> bool:
    return sorted(a.groups, key=lambda g: g.id) == sorted(
        b.groups, key=lambda g: g.id
    ) and sorted(map(str, a.attachments)) == sorted(map(str, b.attachments))


def test_no_state_between_two_looks_is_missed(
    server: Addresses, tmp_path: Path
) -> None:
    operator = Operator(server.api)
    kept = tmp_path / "seen" / "configurations.jsonl"
    recorder = Recorder(server.api, kept)
    for rate in (10, 20):  # before the first look
        operator.limit("gold", rate)
    assert recorder.look() == 2
    operator.limit("gold", 30)
    operator.ask("PUT", "/tenants/acme", {})
    operator.ask(
        "PUT", "/attachments", {"subject": {"tenant": "acme"}, "group": "gold"}
    )
    operator.limit("passing", 5)
    operator.ask("DELETE", "/groups/passing")
    operator.limit("passing", 6)  # another group of that name
    operator.ask("PUT", "/overrides", {"group": "gold", "factor": 3, "for_s": 999})
    operator.ask("DELETE", "/groups/passing")
    operator.limit("gold", 40)
    newest = max(operator.told)
    assert recorder.look() == newest == recorder.look()
    history = History(kept)
    for revision, told in operator.told.items():
        assert same(in_force(history, revision), told), revision
    lines = kept.read_text().splitlines()
    # From revision 0, which is empty; a new tenant changes no group.
    assert len(lines) == 1 + len(operator.told) - 1
    again = Recorder(server.api, kept)
    assert again.look() == newest
    assert kept.read_text().splitlines() == lines


def test_an_api_that_is_down_costs_nothing_but_newer_names(
    settings: ServerSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "configurations.jsonl"
    with running(settings) as server:
        Operator(server.api).limit("gold", 10)
        recorder = Recorder(server.api, kept)
        assert recorder.look() == 1
        port = int(server.api.rsplit(":", 1)[1])
    with caplog.at_level(logging.WARNING, "headgate.pipeline"):
        assert recorder.look() == 1 == recorder.look()
    assert len(caplog.records) == 1
    with running(replace(settings, port=port)) as back:
        Operator(back.api).limit("gold", 20)
        assert recorder.look() == 2
    assert [c.revision for c in History(kept).read()] == [0, 1, 2]


def test_a_line_that_a_crash_cut_off_is_written_again(
    server: Addresses, tmp_path: Path
) -> None:
    operator = Operator(server.api)
    operator.limit("gold", 10)
    kept = tmp_path / "configurations.jsonl"
    Recorder(server.api, kept).look()
    operator.limit("gold", 20)
    Recorder(server.api, kept).look()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-20])
    assert [c.revision for c in History(kept).read()] == [0, 1]
    assert Recorder(server.api, kept).look() == 2
    assert kept.read_bytes() == whole


def test_a_line_that_is_no_snapshot_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "history.jsonl"
    kept.write_text('{"revision": 1, "cluster": "c", "groups": 7}\n')
    with pytest.raises(WrongSettings, match="line 1: "):
        History(kept).read()
