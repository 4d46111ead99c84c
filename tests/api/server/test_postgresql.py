"""The store on a real PostgreSQL server, and several processes of the API on it."""

import os
import pwd
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import inspect, select
from tests.api.conftest import NOT_WOKEN_S, TIMEOUT_S, until_watched

from headgate.agent.bus.port import BusSettings
from headgate.api import Addresses, CannotStart, ServerSettings, run, running
from headgate.api.grants.schemas import LimitNamed
from headgate.api.grants.service import grant
from headgate.api.groups.schemas import GroupBody, GroupPatch, LimitBody
from headgate.api.groups.service import create_group, get_group, patch_group
from headgate.api.store import Author, Store
from headgate.api.store.bus_lock import BUS_LOCK, DatabaseLock
from headgate.api.store.migrate import upgrade
from headgate.api.store.tables import AuditRow, StoreTable
from headgate.api.store.transactions import open_engine

START_S = 60
"""Longest start of the database on a busy machine."""

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))

pytestmark = pytest.mark.skipif(
    not BINARIES, reason="needs Debian's package postgresql"
)


def as_other_than_root(*command: str) -> list[str]:
    """PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return list(command)
    runuser = shutil.which("runuser")
    assert runuser is not None
    return [runuser, "-u", "postgres", "--", *command]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of its own; gives its URL without a database."""
    binaries = BINARIES[-1].parent
    with ExitStack() as stack:
        folder = Path(
            subprocess.run(
                as_other_than_root("mktemp", "-d"),
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
        )
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if os.geteuid() == 0:
            assert folder.stat().st_uid == pwd.getpwnam("postgres").pw_uid
        create = [str(binaries / "initdb"), "-D", str(folder / "data"), "--no-sync"]
        access = ["-U", "headgate", "--auth=trust"]
        subprocess.run(
            as_other_than_root(*create, *access), check=True, capture_output=True
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        serve = [str(binaries / "postgres"), "-D", str(folder / "data"), "-F"]
        where = ["-h", "127.0.0.1", "-p", str(port), "-k", str(folder)]
        server = subprocess.Popen(
            as_other_than_root(*serve, *where),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(server.wait)
        stack.callback(server.terminate)
        url = f"postgresql://headgate@127.0.0.1:{port}"
        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(f"{url}/postgres").close()
                break
            except psycopg.OperationalError:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url


@pytest.fixture
def url(cluster: str, request: pytest.FixtureRequest) -> str:
    """An empty database."""
    name = f"d{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{cluster}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return f"{cluster}/{name}"


@pytest.fixture
def servers(url: str) -> Iterator[list[Addresses]]:
    """Two servers of the API on one database, as two hosts would be."""
    settings = ServerSettings(database=url, port=0, bus=COMMON_BUS)
    with running(settings) as one, running(settings) as two:
        yield [one, two]


COMMON_BUS = BusSettings(
    kind="zeromq", publish=("tcp://127.0.0.1:1",), subscribe=("tcp://127.0.0.1:2",)
)
"""A bus that exists elsewhere, though nobody listens there."""

ANNA = Author(name="anna")

KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
"""Ends all other sessions of a database, as a restart does."""


def test_migrations_make_the_tables_that_the_code_expects(url: str) -> None:
    store = Store(url)
    found = inspect(store.engine)
    for table in StoreTable.metadata.sorted_tables:
        columns = {column["name"]: column for column in found.get_columns(table.name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == column.nullable, column
    store.close()


def test_a_filled_database_of_the_first_version_comes_forward(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine, "0001")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO groups VALUES (1,'gold',NULL,1,'balanced',true,'fair',"
            "'reject',NULL,1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO limits VALUES (1,'requests','node',10,10,1,0,NULL)"
        )
        connection.exec_driver_sql(
            "INSERT INTO audit VALUES (1,0,'anna','','','"
            '[{"kind":"group","key":"gold","before":null,"after":{}}]'
            "')"
        )
        connection.exec_driver_sql("UPDATE state SET revision = 1")
    engine.dispose()
    store = Store(url)
    with store.reading() as session:
        gold = get_group(session, "gold")
    assert (gold.id, gold.per_partition, len(gold.limits)) == (1, False, 1)
    assert store.revision() == 1
    with running(ServerSettings(database=url, port=0, bus_ports=(0, 0))) as server:
        query = "kind=group&key=gold"
        audit = httpx.get(
            f"{server.api}/api/v1/audit?{query}", timeout=TIMEOUT_S
        ).json()["items"]
    assert [entry["revision"] for entry in audit] == [1]
    store.close()


def test_writers_in_several_processes_lose_no_update_and_leave_no_gap(
    url: str,
) -> None:
    """Each store stands for a process: they share no lock but the database's."""
    stores = [Store(url) for _ in range(5)]
    with stores[0].changing(ANNA) as change:
        create_group(change, "gold", GroupBody(weight=1))

    def add_some(number: int) -> None:
        store = stores[number % len(stores)]
        for _ in range(4):
            with store.changing(ANNA) as change:
                weight = get_group(change.session, "gold").weight
                patch_group(change, "gold", GroupPatch(weight=weight + 1))

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(add_some, range(50)))
    with stores[0].reading() as session:
        assert get_group(session, "gold").weight == 201
        revisions = sorted(session.scalars(select(AuditRow.revision)))
    assert revisions == list(range(1, 202))
    for store in stores:
        store.close()


def test_of_several_processes_that_grant_at_once_one_does(url: str) -> None:
    stores = [Store(url) for _ in range(5)]
    limit = LimitBody(dimension="requests", rate=10)
    body = GroupBody(mode="strict", limits=[limit], slots=3)
    with stores[0].changing(ANNA) as change:
        groups = [create_group(change, name, body).id for name in ("gold", "silver")]
    wanted = [
        LimitNamed(group=group, dimension=dimension)
        for group in groups
        for dimension in ("requests", "slots_in_flight")
    ]

    def ask(number: int) -> list[LimitNamed]:
        return grant(stores[number % len(stores)], wanted)

    with ThreadPoolExecutor(20) as pool:
        granted = list(pool.map(ask, range(20)))
    assert sorted(granted, key=len)[-1] == wanted
    assert sum(map(len, granted)) == len(wanted)
    for store in stores:
        store.close()


def test_a_change_through_one_process_wakes_watchers_of_the_others(
    servers: list[Addresses],
) -> None:
    one, two = servers
    woken: list[int] = []

    def watch() -> None:
        query: dict[str, Any] = {"revision": 0, "wait_s": NOT_WOKEN_S}
        snapshot = f"{two.api}/api/v1/snapshot"
        answer = httpx.get(snapshot, params=query, timeout=TIMEOUT_S, verify=False)
        woken.append(answer.json()["revision"])

    waiting = threading.Thread(target=watch)
    waiting.start()
    until_watched(two.api)
    httpx.put(f"{one.api}/api/v1/groups/gold", json={}, verify=False, timeout=TIMEOUT_S)
    waiting.join()
    assert woken == [1]


def test_odd_input_is_refused_here_as_on_sqlite(servers: list[Addresses]) -> None:
    with httpx.Client(
        base_url=servers[0].api, verify=False, timeout=TIMEOUT_S
    ) as client:
        good = client.put("/api/v1/groups/größe 金", json={})
        assert good.status_code == 201
        for body in ({"name": "a\u0000b"}, {"name": "x" * 300}, {"name": ""}):
            assert client.post("/api/v1/groups", json=body).status_code == 422
        number = {"Content-Type": "application/json"}
        text = b'{"x": "\\u0000", "y": 1e300}'
        client.put("/admin/v2/tenants/acme", json={})
        path = "/admin/v2/namespaces/acme/orders"
        assert client.put(path, content=text, headers=number).status_code < 500
        assert client.get(path).status_code < 500
        assert (
            client.get("/api/v1/groups", params={"after": "\u0000"}).status_code < 500
        )
        assert client.get("/api/v1/audit", params={"key": "\u0000"}).status_code < 500
        assert client.get("/admin/v2/resourcegroups/a%00b").status_code < 500
        assert client.get("/api/v1/tenants/a%00b").status_code < 500
        roles = {"admin_roles": ["a\u0000b"]}
        assert client.put("/api/v1/tenants/acme", json=roles).status_code < 500
        limits = [{"group": 1, "dimension": "a\u0000b"}]
        claim = {"agent": "a\u0000b", "limits": limits}
        assert client.post("/api/v1/grants", json=claim).status_code < 500
        subject = {"subject": {"user": "a\u0000b"}, "group": "größe 金"}
        assert client.put("/api/v1/attachments", json=subject).status_code == 422


def test_a_second_server_with_a_bus_of_its_own_is_refused(url: str) -> None:
    own = ServerSettings(database=url, port=0, bus_ports=(0, 0))
    common = ServerSettings(database=url, port=0, bus=COMMON_BUS)
    with running(own):
        for second in (own, common):
            with pytest.raises(CannotStart, match=r"give both the same bus"):
                run(second)
    another = pytest.raises(CannotStart, match=r"another server is using it")
    with running(common), running(common), another:
        run(own)
    secret = url.replace("headgate@", "headgate:secret@")
    with running(own), pytest.raises(CannotStart) as refusal:
        run(replace(own, database=secret))
    assert "secret" not in str(refusal.value)


def test_the_lock_of_the_bus_is_taken_again_when_the_database_restarts(
    url: str,
) -> None:
    own = ServerSettings(database=url, port=0, bus_ports=(0, 0))
    query = (
        "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        f" WHERE objid = {BUS_LOCK} AND granted AND datname = current_database()"
    )
    with running(own), psycopg.connect(url, autocommit=True) as connection:
        lost = connection.execute(query.encode()).fetchall()
        assert len(lost) == 1
        connection.execute(KILL.encode())
        deadline = time.monotonic() + START_S
        while (held := connection.execute(query.encode()).fetchall()) in (lost, []):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(held) == 1
        with pytest.raises(CannotStart, match=r"another server is using it"):
            run(own)


def test_the_lock_of_the_bus_is_free_as_soon_as_its_server_has_ended(url: str) -> None:
    query = (
        "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        f" WHERE objid = {BUS_LOCK} AND datname = current_database()"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(5):
            with DatabaseLock(url, shared=False).held() as held:
                assert held
            assert connection.execute(query.encode()).fetchall() == []


def test_a_database_that_restarts_is_heard_again(url: str, cluster: str) -> None:
    settings = ServerSettings(database=url, port=0, bus=COMMON_BUS)
    with running(settings) as one, running(settings) as two:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(KILL.encode())
        query: dict[str, Any] = {"revision": 0, "wait_s": NOT_WOKEN_S}
        made = httpx.put(
            f"{one.api}/api/v1/groups/gold", json={}, verify=False, timeout=TIMEOUT_S
        )
        assert made.status_code in {201, 503}, made.text
        if made.status_code == 503:
            httpx.put(
                f"{one.api}/api/v1/groups/gold", json={}, timeout=TIMEOUT_S
            ).raise_for_status()
        told = httpx.get(
            f"{two.api}/api/v1/snapshot",
            params=query,
            timeout=TIMEOUT_S,
            verify=False,
        )
        assert told.json()["revision"] == 1
