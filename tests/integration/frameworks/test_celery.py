"""Celery: real workers and a real broker; one rate of a task over all of them."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured
from celery.worker.state import revoked, revoked_stamps
from tests.integration.frameworks.rigs import AGE_S, EXAMPLES, PATIENCE_S, until
from tests.integration.limiter.making import make, node_limit

from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.integrations.workers.celery import HeldTasks
from headgate.celery import limit_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from celery.worker.request import Request
    from tests.integration.frameworks.rigs import Quotas

    from headgate.cli.process.children import Child, Children

MESSAGING = EXAMPLES.parent / "messaging"

RATE_PER_S = 5.0

BURST = 5.0

MAILS = 40


def _worker(children: Children, name: str, log: Path, *options: str) -> Child:
    command = [sys.executable, "-m", "celery", "--workdir", str(MESSAGING)]
    command += ["-A", "limiter_celery", "worker", "--hostname", f"{name}@test"]
    command += ["--loglevel", "INFO", "--without-mingle", "--without-gossip", *options]
    worker = children.start(name, command, log=log, talks=False)

    def ready() -> bool:
        said = log.read_text() if log.exists() else ""
        assert worker.returncode is None, said
        return " ready." in said

    until(ready, f"{name} to be ready: {log}")
    return worker


def _redis(children: Children, folder: Path) -> str:
    """Start a Redis server without a disk; return its address as a broker."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--dir", str(folder)]
    log = folder / "redis.log"
    server = children.start("redis", command, log=log, talks=False)

    def ready() -> bool:
        said = log.read_text() if log.exists() else ""
        assert server.returncode is None, said
        return "Ready to accept connections" in said

    until(ready, f"Redis to be ready: {log}")
    return f"redis://127.0.0.1:{port}/0"


@pytest.mark.parametrize(
    ("pool", "broker"), [("prefork", "redis"), ("threads", "a folder")]
)
def test_the_workers_of_a_task_keep_to_one_rate(
    quotas: Quotas,
    children: Children,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pool: str,
    broker: str,
) -> None:
    quotas.put("mailer", requests=(RATE_PER_S, BURST))
    redis = broker == "redis"
    address = _redis(children, tmp_path) if redis else str(tmp_path)
    monkeypatch.setenv("MAIL_BROKER", address)
    for name in ("one", "two"):
        options = ("--pool", pool, "--concurrency", "2")
        _worker(children, name, tmp_path / f"{name}.log", *options)
    done = tmp_path / "done.txt"
    outbox = tmp_path / "outbox"
    if not redis:
        # A worker that reads a file while kombu is still writing it ends.
        monkeypatch.setenv("MAIL_BROKER", str(outbox))
    sent = subprocess.run(
        [sys.executable, str(MESSAGING / "limiter_celery.py"), str(MAILS), str(done)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert sent.stdout == f"sent {MAILS}\n", sent.stderr
    for message in outbox.glob("queue/*"):
        message.rename(tmp_path / "queue" / message.name)

    def all_done() -> bool:
        return done.exists() and done.read_text().count("\n") == MAILS

    until(all_done, f"{MAILS} mails: {tmp_path}")
    mails = [line.split() for line in done.read_text().splitlines()]
    assert {int(number) for number, *_ in mails} == set(range(MAILS)), "each once"
    workers = {mail[2] if pool == "prefork" else mail[1] for mail in mails}
    assert len(workers) == 2, workers
    times = sorted(float(mail[3]) for mail in mails)
    # In every window, not only in all.
    for first, began_s in enumerate(times):
        for last, ended_s in enumerate(times[first:], first):
            most = RATE_PER_S * (ended_s - began_s + AGE_S) + BURST + len(workers)
            assert last - first + 1 <= most, (began_s, ended_s, times)


def test_a_rule_for_a_task_that_is_not_there_ends_the_worker(
    children: Children, tmp_path: Path
) -> None:
    app = tmp_path / "misnamed.py"
    app.write_text(
        "import headgate\n"
        "from celery import Celery\n"
        "from headgate.celery import limit_tasks\n"
        "app = Celery(broker='memory://')\n"
        "limit_tasks(app, lambda: headgate.connect('http://127.0.0.1:9'),"
        " {'mial': {'tenant': 'a'}})\n"
        "@app.task(name='mail')\n"
        "def mail() -> None: ...\n"
    )
    log = tmp_path / "worker.log"
    command = [sys.executable, "-m", "celery", "--workdir", str(tmp_path)]
    command += ["-A", "misnamed", "worker", "--pool", "solo"]
    worker = children.start("misnamed", command, log=log, talks=False)
    assert worker.wait(PATIENCE_S)
    assert worker.returncode == 78, log.read_text()
    assert "headgate: expected tasks among ['mail'], got ['mial']" in log.read_text()
    assert "Traceback" not in log.read_text()
    children.forget(worker)


def test_rules_that_can_t_be_say_what_was_expected() -> None:
    app = Celery()
    connect = partial(make, node_limit("requests", 1.0, 1.0))
    with pytest.raises(ImproperlyConfigured, match=r"expected tasks among \['a'\]"):
        limit_tasks(app, connect, {"a": {"tenant": "acme"}}, costs={"b": {}})
    app.conf.worker_disable_rate_limits = True
    with pytest.raises(ImproperlyConfigured, match="no task would be held"):
        limit_tasks(app, connect, {"a": {"tenant": "acme"}})
    for wrong, said in (
        ({"connect": connect()}, "connect: expected a function"),
        ({"subjects": {"a": "acme"}}, "subjects: a: expected such as"),
        ({"costs": {"a": {"requests": -1.0}}}, "costs: a: requests: expected a finite"),
        ({"costs": {"a": {"requests": "1"}}}, "costs: a: requests: expected a finite"),
    ):
        rules = {"connect": connect, "subjects": {"a": {"tenant": "acme"}}, **wrong}
        with pytest.raises(ImproperlyConfigured, match=said):
            limit_tasks(Celery(), **cast("Any", rules))


@pytest.mark.filterwarnings("ignore:You.re running the worker with superuser")
def test_settings_that_come_after_the_rules_do_not_end_them() -> None:
    app = Celery(broker="memory://")
    connect = partial(make, node_limit("requests", 1.0, 1.0))
    limit_tasks(app, connect, {"a": {"tenant": "acme"}})
    app.config_from_object({"worker_prefetch_multiplier": 1})
    worker = cast("Any", app.Worker(pool="solo"))
    assert worker.consumer_cls.endswith(":QuotaConsumer")
    app.conf.worker_disable_rate_limits = True
    with pytest.raises(SystemExit, match="78"):
        app.Worker(pool="solo")


class _Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class _Request(str):
    """A received task of a tenant."""

    expired: bool
    id: str
    expires = True
    stamps: Mapping[str, object]

    @property
    def stamped_headers(self) -> list[str]:
        return list(self.stamps)

    def maybe_expire(self) -> bool:
        return self.expired


def _held(clock: _Clock, *, strict: bool = False) -> HeldTasks:
    """Return held tasks whose subject is their tenant."""
    source = make(node_limit("requests", 1.0, 1.0), strict=strict)

    def subject(request: Request) -> dict[str, str | None] | None:
        tenant = str(request)
        return None if tenant == "free" else {"tenant": tenant}

    costs = {"requests": 1.0}
    return HeldTasks("mail", subject, limiter_cache(source), costs, clock=clock)


def _request(
    tenant: str, *, expired: bool = False, id_: str = "", **stamps: object
) -> Request:
    request = _Request(tenant)
    request.stamps = stamps
    request.expired = expired
    request.id = id_
    return cast("Request", request)


def test_tasks_that_celery_will_discard_are_charged_nothing() -> None:
    held = _held(_Clock())
    for n in range(20):
        held.add((_request("acme", expired=n > 0), 1))
    revoked.add("taken back")
    for _ in range(5):
        held.add((_request("acme", id_="taken back"), 1))
    # As `control.revoke_by_stamped_headers` notes it.
    stamps = cast("dict[str, list[str]]", revoked_stamps)  # not as its stubs say
    stamps["batch"] = ["one", "two"]
    held.add((_request("acme", batch="two"), 1))
    held.add((_request("acme", mark="x", batch=["three", "one"]), 1))
    out = [held.pop()[1] for _ in range(27)]
    revoked.discard("taken back")
    assert out == [1.0] * 27
    for _ in range(2):
        held.add((_request("acme", batch="three"), 1))
    last = [held.pop()[1] for _ in range(2)]
    stamps.clear()
    assert last == [1.0, 0.0], "one of 27 was charged"


def test_a_subject_in_debt_does_not_hold_up_the_others() -> None:
    held = _held(_Clock())
    for tenant in ("acme", "acme", "acme", "other", "free"):
        held.add((_request(tenant), 1))
    out = [str(held.pop()[0]) for _ in range(4)]
    assert sorted(out) == ["acme", "acme", "free", "other"]  # acme owes one now
    request, tokens = held.pop()
    assert (str(request), held.can_consume(tokens)) == ("acme", False)
    held.contents.appendleft((request, tokens))
    assert 0.0 < held.expected_time(tokens) <= 1.0
    assert held.pop() == (request, 0.0), "it is still there, once"
    held.clear_pending()
    with pytest.raises(IndexError):
        held.pop()


def test_a_task_whose_subject_can_t_be_told_runs_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = _held(_Clock())
    with caplog.at_level(logging.ERROR, "headgate.agent"):
        for _ in range(3):
            held.add((_request("a/b"), 1))
    assert [held.can_consume(held.pop()[1]) for _ in range(3)] == [True] * 3
    (said,) = caplog.messages
    assert "mail: a task whose limit can't be determined runs without one" in said


def test_a_tenant_without_a_limit_does_not_end_a_worker_of_a_strict_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = _held(_Clock(), strict=True)
    with caplog.at_level(logging.ERROR, "headgate.agent"):
        for _ in range(3):
            held.add((_request("nobody"), 1))
            assert held.pop()[1] == 1.0
    (said,) = caplog.messages
    assert "NoLimitApplies" in said
