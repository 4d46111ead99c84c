"""States of the configuration are kept revision by revision, from a real API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import httpx
import pytest
from tools.ports import free_port

from headgate.agent.follow.snapshot import configuration_from_json
from headgate.api import Addresses, ServerSettings, running
from headgate.pipeline.configured.history import ConfigurationFile, ConfigurationTable
from headgate.pipeline.configured.snapshots import SnapshotRecorder
from headgate.pipeline.settings import WrongSettings
from headgate.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headgate.coordinator.config.configuration import Configuration
    from headgate.pipeline.configured.history import ConfigurationHistory


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    return ServerSettings(
        database=str(tmp_path / "headgate.db"), port=free_port(), bus_ports=(0, 0)
    )


@pytest.fixture
def server(settings: ServerSettings) -> Iterator[Addresses]:
    with running(settings) as addresses:
        yield addresses


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> ConfigurationTable:
    return ConfigurationTable(spark, TableStore(spark, tmp_path.as_uri()))


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


def in_force(history: ConfigurationHistory, revision: int) -> Configuration:
    return [c for c in history.read() if c.revision <= revision][-1]


def same(a: Configuration, b: Configuration) -> bool:
    return sorted(a.groups, key=lambda g: g.id) == sorted(
        b.groups, key=lambda g: g.id
    ) and sorted(map(str, a.attachments)) == sorted(map(str, b.attachments))


def test_no_state_between_two_looks_is_missed(
    server: Addresses, table: ConfigurationTable, spark: SparkSession, tmp_path: Path
) -> None:
    operator = Operator(server.api)
    recorder = SnapshotRecorder(server.api, table)
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
    # Read anew, as another process does.
    again = ConfigurationTable(spark, TableStore(spark, tmp_path.as_uri()))
    for revision, told in operator.told.items():
        assert same(in_force(again, revision), told), revision
    # From revision 0, which is empty; a new tenant changes no group.
    assert len(again.read()) == 1 + len(operator.told) - 1
    assert SnapshotRecorder(server.api, again).look() == newest
    assert len(again.read()) == len(operator.told)


def test_an_api_that_is_down_costs_nothing_but_newer_names(
    settings: ServerSettings,
    table: ConfigurationTable,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running(settings) as server:
        Operator(server.api).limit("gold", 10)
        recorder = SnapshotRecorder(server.api, table)
        assert recorder.look() == 1
    with caplog.at_level(logging.WARNING, "headgate.pipeline"):
        assert recorder.look() == 1 == recorder.look()
    assert len(caplog.records) == 1
    with running(settings) as back:
        Operator(back.api).limit("gold", 20)
        assert recorder.look() == 2
    assert [c.revision for c in table.read()] == [0, 1, 2]


def test_a_last_line_that_was_cut_off_is_none_until_it_is_whole(
    server: Addresses, tmp_path: Path
) -> None:
    operator, lines = Operator(server.api), list[str]()
    for rate in (10, 20):
        operator.limit("gold", rate)
        lines.append(httpx.get(f"{server.api}/api/v1/snapshot", timeout=30.0).text)
    kept = tmp_path / "recorded.jsonl"
    kept.write_text(lines[0] + "\n" + lines[1][:-20])
    history = ConfigurationFile(kept)
    assert [c.revision for c in history.read()] == [1]
    kept.write_text("\n".join(lines) + "\n")
    assert [c.revision for c in history.read()] == [1, 2]


def test_a_line_that_is_no_snapshot_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "history.jsonl"
    kept.write_text('{"revision": 1, "cluster": "c", "groups": 7}\n')
    with pytest.raises(WrongSettings, match="line 1: "):
        ConfigurationFile(kept).read()
