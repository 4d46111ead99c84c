"""An agent goes on when the API, the disk or the bus is away, and returns by itself."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tests.integration.agent.rigs import (
    PATIENCE_S,
    Api,
    Load,
    explained,
    other_rate,
    rates,
    settle,
    snapshot,
    until,
)
from tools.ports import free_port

from headgate.agent import Admin, LimitSpec, connect
from headgate.agent.bus.open import open_bus
from headgate.agent.follow.snapshot_file import load, store
from headgate.api import ServerSettings, running
from headgate.coordinator import ApiAnswers, Coordinator

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster

    from headgate.agent.follow.snapshot import Snapshot
    from headgate.coordinator import Effect

NOBODY = "http://127.0.0.1:9"
"""The discard port: nobody listens there."""


def test_an_agent_goes_on_while_the_api_is_away_and_follows_it_again(
    cluster: Cluster, join: Join
) -> None:
    agent = join("a")
    with Load(agent.limiter(tenant="acme"), 2000) as load:
        until(lambda: rates([load], 0.5)[0] > 900, "the quota to be used")
        cluster.api.stop()
        until(lambda: not agent.status().api_reachable, "the outage to be noticed")
        settle([load], least=900, most=1100, seconds=3.0)
        assert agent.metrics()["watch_api_failures"] > 0
        cluster.api.start()
        cluster.api.set_rate(200.0)
        until(lambda: agent.status().revision == 2, "the agent to follow again")
        settle([load], least=0, most=280)


def test_the_coordinator_is_told_when_the_api_is_away_and_when_it_is_back(
    cluster: Cluster, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second word each later outage of the bus would stop strict groups."""
    told: list[object] = []
    step = Coordinator.step

    def noted(*args: Any, **more: Any) -> list[Effect]:
        told.extend(each for each in args if isinstance(each, ApiAnswers))
        return step(*args, **more)

    monkeypatch.setattr(Coordinator, "step", noted)
    join("a")
    cluster.api.stop()
    until(lambda: told == [ApiAnswers(False)], "the outage to be told")
    cluster.api.start()
    until(lambda: told[1:] == [ApiAnswers(True)], "its end to be told")


def test_an_outage_is_said_once(
    cluster: Cluster, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    agent = join("a")
    cluster.api.stop()
    until(lambda: agent.metrics().get("watch_api_failures", 0) >= 3, "three failures")
    said = [r for r in caplog.records if "no configuration from" in r.getMessage()]
    assert len(said) == 1


def test_an_agent_starts_from_its_disk_while_the_api_is_away(
    tmp_path: Path, cluster: Cluster
) -> None:
    path = tmp_path / "snapshot.json"
    store(path, snapshot(cluster.bus, rate=100.0, revision=7))
    with connect(NOBODY, agent="a", snapshot_path=path) as agent:
        status = agent.status()
        assert (status.source, status.revision) == ("disk", 7)
        assert not status.api_reachable
        with Load(agent.limiter(tenant="acme"), 1000) as load:
            settle([load], least=0, most=140)


class Silent(Api):
    """Accepts connections, and answers nobody yet.

    Attributes:
        speaks: Set it to answer.
    """

    def __init__(self, first: Snapshot) -> None:
        self.speaks = threading.Event()
        super().__init__(first)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer once it may."""
        self.speaks.wait(PATIENCE_S)
        return super().answer(path)


def test_an_agent_starts_from_its_disk_while_the_api_is_silent_and_takes_its_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "snapshot.json"
    store(path, snapshot(None, rate=1.0, revision=7))
    api = Silent(snapshot(None, rate=2.0, revision=8))
    with connect(api.url, agent="a", snapshot_path=path, wait_s=0.3) as agent:
        assert agent.status().source == "disk"
        assert not agent.status().api_reachable
        limiter = agent.limiter(tenant="acme")
        until(lambda: not limiter.try_acquire(requests=1), "the limit on disk")
        assert agent.status().revision == 7
        assert agent.metrics().get("watch_api_failures", 0) == 0, "it still may answer"
        assert caplog.text.count("using the configuration on disk") == 1
        api.speaks.set()
        until(lambda: agent.status().revision == 8, "the answer")
        assert agent.status().source == "api"
        assert agent.status().api_reachable
    api.stop()


def test_without_a_disk_an_api_that_is_silent_is_still_waited_for(
    tmp_path: Path,
) -> None:
    api = Silent(snapshot(None))
    path = tmp_path / "none.json"
    with connect(
        api.url,
        agent="a",
        snapshot_path=path,
        wait_s=0.1,
        without_configuration="refuse",
    ) as agent:
        limiter = agent.limiter(tenant="acme")
        assert not limiter.try_acquire(requests=1)
        assert agent.status().source == "none"
        api.speaks.set()
        until(lambda: bool(limiter.try_acquire(requests=1)), "the answer")
    api.stop()


def test_what_the_api_answers_is_kept_on_disk(
    cluster: Cluster, join: Join, tmp_path: Path
) -> None:
    join("a")
    path = tmp_path / "a.json"
    until(path.exists, "the first snapshot")
    assert load(path) == snapshot(cluster.bus)
    cluster.api.set_rate(5.0)
    new = snapshot(cluster.bus, rate=5.0, revision=2)
    until(lambda: load(path) == new, "the second snapshot")


def test_without_api_and_disk_all_is_admitted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(NOBODY, agent="a", snapshot_path=tmp_path / "none.json") as agent:
        limiter = agent.limiter(tenant="acme")
        assert all(limiter.try_acquire(requests=1e6) for _ in range(100))
        assert agent.status().source == "none"
        assert agent.metrics()["attempts_without_configuration"] > 0
        until(lambda: "every attempt is admitted" in caplog.text, "the policy")
    assert any("no configuration from" in r.getMessage() for r in caplog.records)


def test_without_api_and_disk_all_is_refused_when_that_is_the_policy(
    tmp_path: Path,
) -> None:
    with connect(
        NOBODY,
        agent="a",
        snapshot_path=tmp_path / "none.json",
        without_configuration="refuse",
    ) as agent:
        limiter = agent.limiter(tenant="acme")
        assert not any(limiter.try_acquire(requests=1) for _ in range(100))


def test_an_agent_that_started_without_the_api_follows_it_when_it_comes(
    cluster: Cluster, join: Join
) -> None:
    cluster.api.stop()
    agent = join("a", without_configuration="refuse")
    limiter = agent.limiter(tenant="acme")
    assert not limiter.try_acquire(requests=1)
    cluster.api.start()
    until(lambda: bool(limiter.try_acquire(requests=1)), "the configuration")
    assert agent.status().source == "api"


def test_a_snapshot_that_is_nonsense_changes_nothing(
    cluster: Cluster, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    agent = join("a")
    cluster.api.broken = (HTTPStatus.OK, b'{"revision": "two"}')
    cluster.api.set_rate(1.0)
    until(lambda: agent.metrics().get("watch_api_failures", 0) >= 1, "the refusal")
    assert agent.status().revision == 1
    reasons = ("cluster: expected a non-empty string", "revision: exp")
    until(lambda: any(reason in caplog.text for reason in reasons), "the reason")
    cluster.api.broken = None
    until(lambda: agent.status().revision == 2, "a good one to be followed")


def test_an_api_that_refuses_the_agent_changes_nothing(
    cluster: Cluster, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    agent = join("a")
    cluster.api.broken = (HTTPStatus.FORBIDDEN, b"not with this token")
    cluster.api.set_rate(1.0)
    until(lambda: agent.metrics().get("watch_api_failures", 0) >= 1, "the refusal")
    assert agent.status().revision == 1
    until(lambda: "403: not with this token" in caplog.text, "the reason")


def test_a_store_that_was_restored_to_an_earlier_revision_is_followed(
    cluster: Cluster, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    agent = join("a")
    cluster.api.set_rate(2000.0)
    until(lambda: agent.status().revision == 2, "the second revision")
    cluster.api.stop()
    until(lambda: not agent.status().api_reachable, "the outage to be noticed")
    cluster.api.set(other_rate(snapshot(cluster.bus), 300.0))
    cluster.api.start()
    until(lambda: agent.status().revision == 1, "the first revision again")
    until(lambda: "went back from revision 2 to 1" in caplog.text, "it to be said")


def test_a_disk_that_can_not_be_written_stops_nothing(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" / "snapshot.json"
    with connect(cluster.api.url, agent="a", snapshot_path=path) as agent:
        until(lambda: agent.metrics().get("watch_disk_failures", 0) == 1, "the failure")
        assert agent.status().revision == 1
        until(lambda: "can't be written to disk" in caplog.text, "it to be said")


def test_after_a_change_that_could_not_be_written_the_whole_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "snapshot.json"
    obstacle = tmp_path / "snapshot.json.changes"
    where = ServerSettings(database=str(tmp_path / "headgate.db"), port=0)
    with running(where) as server, Admin(server.api) as admin:
        admin.put_group("gold", [LimitSpec("requests", rate=1.0)])
        with connect(server.api, agent="a", snapshot_path=path) as agent:
            until(path.exists, "the first snapshot")
            obstacle.mkdir()
            admin.set_limit("gold", "requests", 2.0)
            until(lambda: "watch_disk_failures" in agent.metrics(), "the failure")
            obstacle.rmdir()
            admin.set_limit("gold", "requests", 3.0)

            def kept() -> bool:
                stored = load(path)
                assert stored is not None
                return stored.configuration.groups[0].limits[0].rate == 3.0

            until(kept, "the last change on disk")


def test_reports_flow_again_after_the_proxy_was_away(
    cluster: Cluster, join: Join
) -> None:
    agents = [join("a"), join("b")]
    limiters = [agent.limiter(tenant="acme") for agent in agents]
    with Load(limiters[0], 800) as first, Load(limiters[1], 800) as second:
        until(lambda: all(len(a.status().members) == 2 for a in agents), "both to meet")
        cluster.restart_proxy(away_s=2.0)
        heard = [agent.metrics()["bus_received"] for agent in agents]
        until(
            lambda: all(
                agent.metrics()["bus_received"] > before + 3
                for agent, before in zip(agents, heard, strict=True)
            ),
            "reports to flow again",
        )
        # What both admitted before they knew of each other is paid back first.
        until(
            lambda: all(
                len(told.agents) == 2 and told.level > 0.0
                for told in (explained(agent) for agent in agents)
            ),
            "the debt to be paid",
        )
        settle([first, second], least=850, most=1150, seconds=3.0)
    # The machine may be busy; a call that waited for the bus would take 2 s.
    assert max(first.slowest_s, second.slowest_s) < 1.0


def test_a_restart_of_the_server_takes_nothing_of_a_large_burst(tmp_path: Path) -> None:
    """All asked for the level then, none told one, and they went on at the margin."""
    where = ServerSettings(
        database=str(tmp_path / "headgate.db"),
        port=free_port(),
        bus_ports=(free_port(), free_port()),
    )
    with ExitStack() as joined:
        with running(where) as server, Admin(server.api) as admin:
            admin.put_group("gold", [LimitSpec("requests", rate=1.0, burst=1000.0)])
            admin.put_tenant("acme")
            admin.attach("gold", tenant="acme")
            agents = [
                joined.enter_context(connect(server.api, agent=n, keep_snapshot=False))
                for n in ("a", "b")
            ]
            limiters = [agent.limiter(tenant="acme") for agent in agents]

            def all_know(least: float, most: float) -> bool:
                told = [explained(agent) for agent in agents]
                return all(least < each.level < most for each in told)

            assert all([limiter.try_acquire(requests=1) for limiter in limiters])
            until(lambda: all_know(990.0, 1000.0), "both to know the level")
            until(lambda: bool(limiters[0].try_acquire(requests=600)), "its turn")
            until(lambda: all_know(390.0, 500.0), "both to know of it")
        until(lambda: all(explained(each).cut_off for each in agents), "the outage")
        until(lambda: bool(limiters[1].try_acquire(requests=100)), "its part")
        with running(where):
            until(lambda: not any(explained(a).cut_off for a in agents), "reports")
            until(lambda: all_know(290.0, 400.0), "both to know of that")
            time.sleep(1.0)  # the answers would be in
            assert all_know(290.0, 400.0)


def test_a_lone_agent_whose_bus_is_away_keeps_its_quota(
    cluster: Cluster, join: Join
) -> None:
    agent = join("a")
    with Load(agent.limiter(tenant="acme"), 2000) as load:
        until(lambda: rates([load], 0.5)[0] > 900, "the quota to be used")
        cluster.proxy.close()
        settle([load], least=500, most=1200, seconds=6.0)


def test_garbage_on_the_bus_is_dropped_and_counted(
    cluster: Cluster, join: Join
) -> None:
    agent = join("a")
    intruder = open_bus(cluster.bus)
    try:
        with Load(agent.limiter(tenant="acme"), 2000) as load:
            until(lambda: rates([load], 0.5)[0] > 900, "the quota to be used")

            def counted() -> bool:
                intruder.publish(b"garbage \xff\x00" * 20)
                intruder.receive(0.05)
                return agent.metrics().get("agent_malformed_report", 0) > 10

            until(counted, "garbage to be counted")
            settle([load], least=900, most=1100)
        assert agent.metrics().get("agent_failed_turns", 0) == 0
    finally:
        intruder.close()
