"""The examples do what they say, against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headgate.agent import Admin, LimitSpec
from headgate.cli.demo.broker import check_bus, start_broker
from headgate.cli.failure import Failure
from headgate.cli.process.children import Children

if TYPE_CHECKING:
    from headgate.api import Addresses

PATIENCE_S = 180.0
"""How long an example may take; the machine may be busy."""

EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(server: Addresses, home: Path, name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={**os.environ, "HEADGATE_URL": server.api, "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quickstart_gets_what_its_group_allows(
    server: Addresses, tmp_path: Path
) -> None:
    said = _run(server, tmp_path, "quickstart.py")
    match = re.fullmatch(r"admitted (\d+), refused (\d+) in 3 s .*\n", said)
    assert match is not None, said
    # 20/s for 3 s, and up to a burst of 20 at the start.
    assert 40 <= int(match[1]) <= 85
    assert int(match[2]) > 0


def _limit(server: Addresses, **rates: float) -> None:
    """Give tenant acme a group with these limits and a small burst."""
    limits = [LimitSpec(name, rate, burst=rate / 2) for name, rate in rates.items()]
    with Admin(server.api) as admin:
        admin.put_group("examples", limits)
        admin.put_tenant("acme")
        admin.attach("examples", tenant="acme")


def test_every_way_to_refuse_is_shown_without_a_server(
    server: Addresses, tmp_path: Path
) -> None:
    said = _run(server, tmp_path, "limiter_local.py")
    for mode in ("reject", "delay", "wait", "suppress", "shadow"):
        assert re.search(rf"^{mode} +admitted", said, re.MULTILINE)


def test_a_web_service_refuses_and_its_client_comes_back_when_told(
    server: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(server, requests=10.0)
    monkeypatch.setenv("HEADGATE_URL", server.api)
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES / "services")]
    command += ["limiter_asgi:app", "--port", "0"]
    with Children() as children:
        log = tmp_path / "web.log"
        web = children.start("web", command, log=log, talks=False)
        said = _run(
            server, tmp_path, "services/limiter_http_client.py", _address_in(log)
        )
        children.check()
        assert web.returncode is None
    match = re.fullmatch(r"50 of 50 answered, (\d+) retries\n", said)
    assert match is not None, said
    assert int(match[1]) > 0


def test_a_grpc_service_says_when_to_come_back(
    server: Addresses, tmp_path: Path
) -> None:
    _limit(server, requests=20.0)
    said = _run(server, tmp_path, "services/limiter_grpc.py", server.api)
    assert re.search(r"^call \d+: .*requests", said, re.MULTILINE), said


def test_calls_of_litellm_s_library_are_refused_past_the_quota(
    server: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(server, tokens=20.0)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no network
    said = _run(server, tmp_path, "llm/limiter_litellm.py")
    match = re.search(r"^(\d+) answered, (\d+) refused: .*tokens", said, re.MULTILINE)
    assert match is not None, said
    assert int(match[1]) > 0
    assert int(match[1]) + int(match[2]) == 30


def test_a_kafka_producer_is_held_back_and_loses_nothing(
    server: Addresses, tmp_path: Path
) -> None:
    try:
        check_bus("kafka")
    except Failure as failure:
        pytest.skip(str(failure))
    _limit(server, publish_messages=100.0)
    with Children() as children:
        _, address = start_broker(children, directory=tmp_path)
        bootstrap, _, topic = address.removeprefix("kafka://").partition("/")
        arguments = (bootstrap, topic, server.api)
        said = _run(server, tmp_path, "messaging/limiter_kafka.py", *arguments)
    match = re.match(r"published (\d+), held back ([\d.]+) s\nconsumed (\d+), ", said)
    assert match is not None, said
    assert match[1] == match[3]
    assert float(match[2]) > 0


def test_a_broker_reads_a_backlog_at_the_rate_of_its_policy(
    server: Addresses, tmp_path: Path
) -> None:
    said = _run(server, tmp_path, "messaging/limiter_dispatcher.py")
    match = re.fullmatch(
        r"delivered 200 messages in ([\d.]+) s, waited (\d+) times\n", said
    )
    assert match is not None, said
    # A burst of 50 first, and less than 50 that the last read still owes, at 50/s.
    assert float(match[1]) >= 2.0
    assert int(match[2]) > 0


def _address_in(log: Path) -> str:
    """Return where uvicorn says that it listens."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        said = log.read_text() if log.exists() else ""
        if match := re.search(r"running on (http://127\.0\.0\.1:\d+) ", said):
            return f"{match[1]}/"
        time.sleep(0.05)
    pytest.fail(f"uvicorn does not listen: {log.read_text()}")


def test_a_worker_is_held_to_the_quota_and_says_so(
    server: Addresses, tmp_path: Path
) -> None:
    with Admin(server.api) as admin:
        admin.put_group("workers", [LimitSpec("requests", rate=100)])
        admin.put_tenant("workers")
        admin.attach("workers", tenant="workers")
    arguments = ("--tenant", "workers", "--rate", "300", "--seconds", "4.2")
    began = time.monotonic()
    said = _run(server, tmp_path, "worker.py", *arguments)
    took_s = time.monotonic() - began
    seconds = [int(one) for one in re.findall(r"admitted (\d+)\n", said)]
    assert len(seconds) >= 3
    # A worker that sleeps makes up for it in the next second: the sum tells.
    assert 60 * (len(seconds) - 1) <= sum(seconds[1:])
    assert sum(seconds) <= 100 + 100 * took_s
