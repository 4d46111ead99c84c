"""The server as a process: ports, signals, a crash in the middle of writes."""

import os
import re
import signal
import socket
import stat
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.api.conftest import START_S, TIMEOUT_S, process, until_watched

from headgate.agent.bus.port import BusSettings
from headgate.api import (
    CannotStart,
    RightsSettings,
    ServerSettings,
    run,
    running,
)
from headgate.api.server import bound


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_cleanly_while_watchers_wait(
    tmp_path: Path, number: int
) -> None:
    with process(tmp_path) as (server, addresses):
        answers: list[int] = []

        def watch() -> None:
            query = {"revision": 0, "wait_s": 30}
            url = f"{addresses['api']}/api/v1/snapshot"
            answers.append(httpx.get(url, params=query, timeout=40).status_code)

        waiting = threading.Thread(target=watch)
        waiting.start()
        until_watched(addresses["api"])
        assert addresses["pid"] == server.pid
        assert stat.S_IMODE((tmp_path / "ready.json").stat().st_mode) == 0o600
        server.send_signal(number)
        _, errors = server.communicate(timeout=START_S)
        waiting.join()
    assert (server.returncode, errors.decode()) == (0, "")
    assert answers == [304]


def test_a_kill_in_the_middle_of_writes_leaves_whole_changes(tmp_path: Path) -> None:
    confirmed: list[int] = []

    def write(url: str) -> None:
        with httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
            for number in range(100_000):
                limits = [{"dimension": f"d{n}", "rate": number + 1} for n in range(9)]
                body = {"limits": limits}
                try:
                    answer = client.put(f"/api/v1/groups/g{number}", json=body)
                except httpx.TransportError:
                    return
                confirmed.append(int(answer.headers["Headgate-Revision"]))

    with process(tmp_path) as (server, addresses):
        writing = threading.Thread(target=write, args=(addresses["api"],))
        writing.start()
        while len(confirmed) < 25:
            time.sleep(0.01)
        os.kill(server.pid, signal.SIGKILL)
        writing.join()
    with process(tmp_path) as (_, addresses):
        snapshot = httpx.get(
            f"{addresses['api']}/api/v1/snapshot", timeout=TIMEOUT_S
        ).json()
    assert confirmed == list(range(1, len(confirmed) + 1))
    assert snapshot["revision"] in {len(confirmed), len(confirmed) + 1}
    assert len(snapshot["groups"]) == snapshot["revision"]
    for group in snapshot["groups"]:
        assert {limit["rate"] for limit in group["limits"]} == {float(group["id"])}
        assert len(group["limits"]) == 9


def test_a_usual_port_that_is_taken_gives_way_to_a_free_one(tmp_path: Path) -> None:
    first = ServerSettings(database=str(tmp_path / "a.db"))
    second = ServerSettings(database=str(tmp_path / "b.db"))
    with running(first) as one, running(second) as two:
        assert one.api != two.api
        assert one.bus["publish"] != two.bus["publish"]
        for addresses in (one, two):
            assert (
                httpx.get(f"{addresses.api}/healthz", timeout=TIMEOUT_S).json()[
                    "status"
                ]
                == "ok"
            )


def test_a_given_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: int = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=f"can't listen on 127.0.0.1:{port}"):
            run(ServerSettings(database=database, port=port))
        with pytest.raises(CannotStart, match="bus: zeromq"):
            run(ServerSettings(database=database, port=0, bus_ports=(port, 0)))


@pytest.mark.parametrize("host", ["192.0.2.1", "none.invalid", "ü..b"])
@pytest.mark.parametrize("port", [None, 0])
def test_a_host_that_is_not_this_machine_is_an_error_that_names_it(
    tmp_path: Path, host: str, port: int | None
) -> None:
    rights = RightsSettings(trust_network=True)
    settings = ServerSettings(
        database=str(tmp_path / "x.db"), host=host, port=port, rights=rights
    )
    with pytest.raises(CannotStart, match=f"can't listen on {re.escape(host)}:"):
        run(settings)


def test_a_usual_port_that_is_bound_but_not_yet_listened_on_is_left_alone() -> None:
    # Two processes that start at the same moment: the first is between its two calls.
    first = bound("127.0.0.1", 0)
    port: int = first.getsockname()[1]
    with first, pytest.raises(OSError, match="in use"):
        bound("127.0.0.1", port).close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": ""}, "host: expected an address"),
        ({"database": ""}, "database: expected an SQLite file"),
        ({"cluster": ""}, "cluster: expected a name"),
        ({"cluster": "x" * 257}, "cluster: expected at most 256 characters, got 257"),
    ],
)
def test_a_setting_that_can_not_be_is_an_error_that_names_it(
    tmp_path: Path, settings: dict[str, str], message: str
) -> None:
    given = {"database": str(tmp_path / "x.db"), **settings}
    with pytest.raises(CannotStart, match=message):
        run(ServerSettings(**given, port=0, bus_ports=(0, 0)))  # type: ignore[arg-type]


def test_the_password_of_a_database_is_not_told() -> None:
    database = "postgresql+psycopg://me:s3cret@127.0.0.1:1/x"
    with pytest.raises(CannotStart, match=r"me:\*\*\*@127") as caught:
        run(ServerSettings(database=database, port=0, bus_ports=(0, 0)))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "database",
    [
        "/nowhere/at/all.db",
        "nodialect://x/y",
        "postgresql://127.0.0.1:1/x",
        "sqlite://",
        ":memory:",
    ],
)
def test_a_database_that_can_not_be_opened_is_an_error_of_one_line(
    database: str,
) -> None:
    with pytest.raises(CannotStart, match="database") as caught:
        run(ServerSettings(database=database, port=0, bus_ports=(0, 0)))
    assert "\n" not in str(caught.value)


def test_a_password_of_the_database_is_not_told() -> None:
    database = "postgresql://me:sesame@127.0.0.1:1/x"
    with pytest.raises(CannotStart, match=r"me:\*\*\*@127") as caught:
        run(ServerSettings(database=database, port=0, bus_ports=(0, 0)))
    assert "sesame" not in str(caught.value)


def test_a_second_server_of_one_file_with_a_bus_of_its_own_is_refused(
    tmp_path: Path,
) -> None:
    database = str(tmp_path / "a.db")
    bus = BusSettings(
        kind="zeromq", publish=("tcp://127.0.0.1:1",), subscribe=("tcp://127.0.0.1:2",)
    )
    own = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    common = ServerSettings(database=database, port=0, bus=bus)
    with running(own):
        for second in (own, common):
            with pytest.raises(CannotStart, match=r"give both the same bus") as caught:
                run(second)
            assert "\n" not in str(caught.value)
    with running(common), running(common) as addresses:
        assert httpx.get(f"{addresses.api}/healthz", timeout=TIMEOUT_S).is_success
        with pytest.raises(CannotStart, match=r"another server is using it"):
            run(own)
    with running(own) as addresses:
        assert httpx.get(f"{addresses.api}/healthz", timeout=TIMEOUT_S).is_success


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    settings = ServerSettings(
        database=str(tmp_path / "a.db"), port=0, bus_ports=(0, 0), cluster="west"
    )
    with running(settings) as addresses:
        httpx.put(
            f"{addresses.api}/api/v1/groups/gold", json={}, timeout=TIMEOUT_S
        ).raise_for_status()
        before = httpx.get(f"{addresses.api}/api/v1/snapshot", timeout=TIMEOUT_S).json()
    with running(settings) as addresses:
        after = httpx.get(f"{addresses.api}/api/v1/snapshot", timeout=TIMEOUT_S).json()
    assert before["cluster"] == "west"
    assert {**before, "bus": None} == {**after, "bus": None}


def test_a_bus_on_all_addresses_is_told_by_the_name_that_the_agent_used(
    tmp_path: Path,
) -> None:
    settings = ServerSettings(
        host="0.0.0.0",
        port=0,
        bus_ports=(0, 0),
        database=str(tmp_path / "a.db"),
        rights=RightsSettings(trust_network=True),
    )
    with running(settings) as addresses:
        port = addresses.api.rpartition(":")[2]
        url = f"http://127.0.0.1:{port}/api/v1/snapshot"
        for host in ("127.0.0.1", "quotas.example", "[::1]"):
            bus = httpx.get(
                url, headers={"Host": f"{host}:80"}, timeout=TIMEOUT_S
            ).json()["bus"]
            assert bus["publish"].startswith(f"tcp://{host}:")
        bus = httpx.get(url, headers={"Host": 'x"y'}, timeout=TIMEOUT_S).json()["bus"]
        assert bus["publish"].startswith("tcp://127.0.0.1:")


def test_only_its_owner_reads_a_new_database(tmp_path: Path) -> None:
    settings = ServerSettings(database=str(tmp_path / "x.db"), port=0, bus_ports=(0, 0))
    with running(settings) as addresses:
        httpx.put(f"{addresses.api}/api/v1/groups/gold", json={}).raise_for_status()
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in tmp_path.glob("x.db*")
        }
    assert {"x.db", "x.db-wal", "x.db.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}
