"""The commands against a real server: what they do, say and return."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

import pytest

from headgate.cli import main
from headgate.cli.options.bus_address import parse_bus
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from pathlib import Path


class Headgate(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


def test_a_group_lives_from_create_to_delete(headgate: Headgate) -> None:
    assert headgate("group", "create", "life", "--limit", "requests=1k/s")[0] == 0
    shown = json.loads(headgate("group", "show", "life", "--json")[1])
    assert shown["limits"][0]["rate"] == 1000.0
    assert shown["limits"][0]["burst"] == 1000.0
    code, said, _ = headgate("group", "update", "life", "--limit", "requests=2k")
    assert (code, "requests=2,000/s" in said) == (0, True)
    assert headgate("group", "delete", "life") == (0, "group life deleted\n", "")
    code, _, error = headgate("group", "show", "life")
    assert (code, error) == (1, "headgate: group 'life' does not exist\n")


def test_an_update_changes_what_is_said_and_nothing_else(headgate: Headgate) -> None:
    headgate(
        "group", "create", "part", "--limit", "requests=5/m,burst=7", "--weight", "3"
    )
    headgate("group", "update", "part", "--limit", "tokens=9", "--isolation", "hold")
    code, said, _ = headgate("group", "show", "part", "--json")
    shown = json.loads(said)
    assert code == 0
    assert (shown["weight"], shown["isolation"]) == (3.0, "hold")
    limits = {one["dimension"]: one for one in shown["limits"]}
    assert limits["requests"]["burst"] == 7.0
    assert limits["requests"]["period_s"] == 60.0
    headgate("group", "update", "part", "--remove-limit", "requests", "--yes")
    left = json.loads(headgate("group", "show", "part", "--json")[1])["limits"]
    assert [one["dimension"] for one in left] == ["tokens"]


def test_all_groups_are_listed_over_all_pages(
    headgate: Headgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.cli.client.rest.PAGE", 2)
    names = [f"page-{index}" for index in range(5)]
    for name in names:
        headgate("group", "create", name)
    listed = json.loads(headgate("group", "list", "--json")[1])
    assert [one["name"] for one in listed if one["name"] in names] == names
    assert "page-4" in headgate("group", "list")[1]


def test_subjects_are_attached_and_detached(headgate: Headgate) -> None:
    headgate("group", "create", "shared", "--limit", "requests=10")
    headgate("tenant", "create", "acme")
    headgate("namespace", "create", "acme/orders")
    for subject in (
        ("--tenant", "acme"),
        ("--namespace", "acme/orders"),
        ("--user", "alice", "--client", "*"),
    ):
        assert headgate("attach", "shared", *subject)[0] == 0
    listed = json.loads(headgate("attachments", "--json")[1])
    subjects = [one["subject"] for one in listed if one["group"] == "shared"]
    assert subjects == [
        {"tenant": "acme"},
        {"namespace": "acme/orders"},
        {"user": "alice", "client": None},
    ]
    code, _, error = headgate("group", "delete", "shared")
    assert (code, "in use" in error) == (1, True)
    assert headgate("detach", "--user", "alice", "--client", "*", "--yes")[0] == 0
    assert headgate("detach", "--tenant", "acme", "--yes")[0] == 0
    assert headgate("detach", "--namespace", "acme/orders", "--yes")[0] == 0
    code, _, error = headgate("detach", "--tenant", "acme", "--yes")
    assert (code, "is attached to no group" in error) == (1, True)


def test_tenants_and_namespaces_come_and_go(headgate: Headgate) -> None:
    assert headgate("tenant", "create", "globex")[0] == 0
    assert headgate("namespace", "create", "globex/a")[0] == 0
    assert "globex" in headgate("tenant", "list")[1]
    assert "globex/a" in headgate("namespace", "list", "globex")[1]
    assert headgate("namespace", "delete", "globex/a")[0] == 0
    assert headgate("tenant", "delete", "globex")[0] == 0
    assert headgate("tenant", "delete", "globex")[0] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("group", "create", "bad", "--limit", "requests=5", "--limit", "requests=6"),
        ("group", "create", "x" * 10_000),
        ("group", "create", "new\nline"),
        ("attach", "no-such-group", "--tenant", "acme"),
        ("group", "list", "--url", "http://127.0.0.1:1"),
        ("group", "list", "--url", "gopher://here"),
        ("status", "--once", "--url", "http://127.0.0.1:1"),
    ],
)
def test_what_is_refused_is_told_in_one_line_and_returns_1(
    headgate: Headgate, arguments: tuple[str, ...]
) -> None:
    code, said, error = headgate(*arguments)
    assert (code, said) == (1, "")
    assert error.startswith("headgate: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("frob",),
        ("group", "create"),
        ("group", "create", "x", "--limit", "requests"),
        ("group", "create", "x", "--mode", "loose"),
        ("group", "create", "x", "--weight", "nan"),
        ("group", "show", ".."),
        ("group", "show", "a/b"),
        ("group", "show", "\udcff"),
        ("tenant", "create", "a/b"),
        ("tenant", "delete", ".."),
        ("group", "update", "x"),
        ("attach", "gold"),
        ("detach",),
        ("namespace", "create", "no-tenant"),
        ("status", "--every", "0"),
        ("demo", "--seconds", "1"),
        ("demo", "--bus", "pigeons"),
        ("up", "--bus", "kafka"),
        ("up", "--bus-ports", "7410"),
        ("up", "--bus-ports", "99999,100000"),
        ("up", "--bus-ports", "7410," + "9" * 5000),
        ("up", "--invoices", __file__),
        ("up", "--port", "70000"),
        ("up", "--interval", "inf"),
        ("up", "--interval", "nan"),
        ("up", "--interval", "61"),
        ("attach", "gold", "--cluster"),
    ],
)
def test_what_is_not_understood_is_told_in_one_line_and_returns_2(
    headgate: Headgate, arguments: tuple[str, ...]
) -> None:
    code, said, error = headgate(*arguments)
    assert (code, said) == (2, "")
    assert error.startswith("headgate: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("group", "list"), "'json', 'yaml', 'wide', 'name'"),
        (("top",), "'json', 'yaml', 'wide', 'name'"),
        (("export",), "'yaml', 'json'"),
    ],
)
def test_a_format_that_is_none_is_told_with_those_that_are(
    headgate: Headgate, command: tuple[str, ...], expected: str
) -> None:
    code, _, error = headgate(*command, "-o", "nonsense")
    said = f"'--output' / '-o': 'nonsense' is not one of {expected}."
    assert (code, error.split(" (see")[0]) == (2, f"headgate: Invalid value for {said}")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("attach", "own", "--cluster"), "headgate attach"),
        (("group", "create", "own", "--limit"), "headgate group create"),
        (("simulate", "--seed"), "headgate simulate"),
    ],
)
def test_an_option_without_its_value_is_told_with_the_help_of_its_command(
    headgate: Headgate, arguments: tuple[str, ...], command: str
) -> None:
    code, _, error = headgate(*arguments)
    assert (code, error) == (
        2,
        f"headgate: Option '{arguments[-1]}' requires an argument. "
        f"(see `{command} --help`)\n",
    )


@pytest.mark.parametrize("command", ["up", "token create ops"])
def test_a_database_of_another_kind_is_told_with_those_that_are_supported(
    headgate: Headgate, command: str
) -> None:
    database = "mysql+pymysql://root:secret@db/headgate"
    code, _, error = headgate(*command.split(), "--database", database)
    assert (code, error) == (
        1,
        "headgate: database mysql+pymysql://…: expected an SQLite file, "
        "sqlite://… or postgresql://…\n",
    )


def test_a_limit_that_no_number_can_hold_is_told_with_its_option(
    headgate: Headgate,
) -> None:
    code, _, error = headgate("group", "create", "x", "--limit", "requests=1e400")
    assert code == 2
    assert error.startswith("headgate: --limit 'requests=1e400': '1e400': expected at ")
    code, _, error = headgate("group", "create", "x", "--soft-threshold", "inf")
    assert code == 2
    assert error == "headgate: --soft-threshold inf: expected a number\n"


def test_a_token_of_two_lines_is_a_misuse_and_is_not_shown(headgate: Headgate) -> None:
    code, said, error = headgate("group", "list", "--token", "secret\nline")
    assert (code, said) == (2, "")
    assert error.startswith("headgate: --token: expected")
    assert "secret" not in error


def test_a_ready_file_that_can_not_be_written_is_told_in_one_line(
    headgate: Headgate, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "nowhere" / "ready")
    database = str(tmp_path / "headgate.db")
    code, said, error = headgate(
        "up", "--port", "0", "--ready-file", nowhere, "--database", database
    )
    assert (code, said) == (1, "")
    assert error == f"headgate: can't write {nowhere}: No such file or directory\n"


def test_a_server_of_another_kind_is_recognised(
    headgate: Headgate, server: object
) -> None:
    code, _, error = headgate("group", "list", "--url", f"{_api(server)}/docs?")
    assert (code, error.count("\n")) == (1, 1)


def _api(server: object) -> str:
    return str(getattr(server, "api", ""))


@pytest.mark.parametrize(
    ("arguments", "teaches"),
    [
        ((), "headgate up"),
        (("group", "create"), "headgate group create gold --limit requests=1000/s"),
        (("attach",), "headgate attach gold --tenant acme"),
        (("up",), "headgate up --bus kafka://"),
        (("demo",), "headgate demo --seconds 30 --bus kafka"),
        (("status",), "headgate status gold --once"),
    ],
)
def test_help_teaches_by_example(
    headgate: Headgate, arguments: tuple[str, ...], teaches: str
) -> None:
    code, said, _ = headgate(*arguments, "--help")
    assert code == 0
    assert teaches in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("group", "list"),
        ("group", "list", "--json"),
        ("audit", "--follow"),
    ],
)
def test_a_reader_that_has_had_enough_is_no_failure(
    headgate: Headgate, server: object, arguments: tuple[str, ...]
) -> None:
    headgate("tenant", "create", "read")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "headgate.cli", *arguments],
        env={**os.environ, "HEADGATE_URL": _api(server)},
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_the_server_extra_up_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("headgate.api")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["up"]) == 1
    assert capsys.readouterr().err == (
        "headgate: `headgate up` needs fastapi: pip install 'headgate[server]'\n"
    )


def test_a_port_that_is_taken_is_told_in_one_line(
    headgate: Headgate, server: object, tmp_path: Path
) -> None:
    port = _api(server).rpartition(":")[2]
    database = str(tmp_path / "headgate.db")
    code, _, error = headgate("up", "--port", port, "--database", database)
    assert code == 1
    assert error.startswith("headgate: can't listen on 127.0.0.1:")


def test_kip599_the_command_line_does_not_retry_by_itself(headgate: Headgate) -> None:
    asked: list[str] = []

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(503)
            self.end_headers()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Busy) as busy:
        thread = threading.Thread(target=busy.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{busy.server_port}"
        code, _, error = headgate("group", "create", "x", "--url", url)
        busy.shutdown()
        thread.join()
    assert (code, error) == (1, f"headgate: the API at {url} answered 503\n")
    assert asked == ["/api/v1/groups"]


def test_kip599_quotas_of_users_are_altered_and_described_by_command_line(
    headgate: Headgate,
) -> None:
    headgate("group", "create", "alice", "--limit", "mutations=5/s,burst=500")
    assert headgate("attach", "alice", "--user", "alice")[0] == 0
    assert headgate("group", "update", "alice", "--limit", "mutations=10")[0] == 0
    code, said, _ = headgate("group", "show", "alice")
    assert code == 0
    assert "mutations=10/s burst 500" in said
    assert "user alice" in headgate("attachments")[1]
    assert headgate("detach", "--user", "alice", "--yes")[0] == 0


def test_the_version_is_that_of_the_package(headgate: Headgate) -> None:
    assert headgate("--version") == (0, f"headgate {version('headgate')}\n", "")


def test_the_simulation_is_a_command_like_the_others(headgate: Headgate) -> None:
    code, said, _ = headgate("simulate", "--help")
    assert (code, "headgate simulate" in said) == (0, True)
    assert "-completion" not in said
    assert headgate("simulate", "-h") == (0, said, "")
    code, _, error = headgate("simulate", "--no-such-option")
    assert (code, error.count("\n")) == (2, 1)


def test_a_proxy_of_ones_own_says_where_it_is_and_ends_on_sigterm(
    tmp_path: Path,
) -> None:
    ready_file = tmp_path / "bus"
    command = [sys.executable, "-m", "headgate.cli", "bus", "proxy"]
    command += ["--reports-port", "0", "--subscribe-port", "0"]
    command += ["--ready-file", str(ready_file)]
    with Children() as children:
        log = tmp_path / "log"
        child = children.start("proxy", command, log=log, talks=False)
        address = child.file(ready_file, 30.0).strip()
        settings = parse_bus(address)
        assert settings is not None
        assert log.read_text() == f"bus   {address}\n"
        child.signal(signal.SIGTERM)
        assert child.wait(30.0)
        assert child.returncode == 0


def test_a_topic_is_of_kafka_and_of_nothing_else(headgate: Headgate) -> None:
    code, _, error = headgate("bus", "init", "zeromq://127.0.0.1:1/2")
    assert (code, "expected kafka://" in error) == (2, True)
    # In a process of its own: kafka-python forgets a socket when nobody answers.
    command = [sys.executable, "-m", "headgate.cli", "bus", "init"]
    done = subprocess.run(
        [*command, "kafka://127.0.0.1:1/usage"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("headgate: kafka: ")
