"""WSGI: Flask on gunicorn, in every way in which it makes workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import httpx
import pytest
from tests.integration.frameworks.rigs import (
    Hammer,
    check_admitted,
    gunicorn,
    start_server,
    until,
)
from tests.integration.limiter.making import make, node_limit

from headgate.wsgi import WsgiLimitMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIEnvironment

    from tests.integration.frameworks.rigs import Quotas

    from headgate.agent.enforcement.enforcer import Enforcer
    from headgate.agent.integrations.web.answers import Asker
    from headgate.cli.process.children import Children
    from headgate.coordinator.config.configuration import Refusal


@pytest.mark.parametrize(
    "options",
    [
        ("--workers", "2"),
        ("--workers", "2", "--threads", "4"),
        ("--workers", "2", "--threads", "4", "--preload"),
    ],
    ids=["pre-fork", "threads", "preload"],
)
def test_gunicorn_s_workers_share_one_quota(
    quotas: Quotas, children: Children, tmp_path: Path, options: tuple[str, ...]
) -> None:
    quotas.put("acme", requests=(30.0, 10.0))
    command = gunicorn("limiter_wsgi:app", *options)
    _, url = start_server(children, "gunicorn", command, tmp_path / "gunicorn.log")
    admitting: set[int] = set()

    def both_admit() -> bool:
        admitting.update(Hammer(url, seconds=1.0, headers={"x-tenant": "acme"}).pids)
        return len(admitting) == 2

    until(both_admit, "both workers to admit requests")
    hammer = Hammer(url, seconds=4.0, headers={"x-tenant": "acme"})
    assert set(hammer.statuses) == {200, 429}
    assert len(hammer.pids) == 2, hammer.pids  # each worker is an agent of its own
    check_admitted(
        hammer.statuses[200],
        rate=30.0,
        burst=10.0,
        elapsed_s=hammer.elapsed_s,
        processes=2,
    )
    agents = {use["agent"] for use in quotas.use("acme").json()["uses"][0]["agents"]}
    assert len(agents) == 2, agents
    # Not limited at all: the application said that nobody asks.
    assert httpx.get(f"{url}/health").json() == {"status": "fine"}


def _app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


def _get(
    source: Enforcer,
    *,
    subject: Callable[[WSGIEnvironment], Asker] = lambda _: "acme",
    **options: float,
) -> httpx.Response:
    """Ask once; the reference validator stands on both sides of the middleware."""
    app = WsgiLimitMiddleware(
        validator(_app),
        source=source,
        subject=subject,
        longest_wait_s=options.pop("longest_wait_s", 5.0),
        costs=(lambda _: options) if options else None,
    )
    transport = httpx.WSGITransport(app=validator(app))
    with httpx.Client(transport=transport, base_url="http://test") as client:
        return client.get("/")


def test_a_refusal_says_when_to_come_back() -> None:
    source = make(node_limit("requests", 0.5, 1.0))
    first = _get(source)
    assert (first.status_code, first.text) == (200, "hello")
    assert first.headers["ratelimit-policy"] == '"gold.requests";q=1;w=2'
    _get(source)  # owed
    refused = _get(source)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["reason"] == "quota exhausted"
    assert 0 < problem["throttle_time_ms"] <= 2_000
    assert int(refused.headers["retry-after"]) in (1, 2)


def test_what_is_refused_for_ever_says_so_and_to_come_back_in_an_hour() -> None:
    refused = _get(make(node_limit("requests", 0.0, 0.0)))
    assert refused.status_code == 429
    assert refused.json()["reason"] == "never"
    assert refused.headers["retry-after"] == "3600"


def test_a_tenant_that_can_t_be_one_is_answered_400() -> None:
    answer = _get(make(node_limit("requests", 1.0, 1.0)), subject=lambda _: "a/b")
    assert answer.status_code == 400
    assert "expected a name without '/', got 'a/b'" in answer.json()["detail"]


def test_a_tenant_that_nobody_attached_is_not_limited() -> None:
    source = make(node_limit("requests", 0.0, 0.0))
    assert _get(source, subject=lambda _: "nobody").status_code == 200


def test_costs_of_several_dimensions_are_charged_together() -> None:
    source = make(node_limit("requests", 100.0, 100.0), node_limit("tokens", 1.0, 10.0))
    assert _get(source, requests=1.0, tokens=20.0).status_code == 200
    refused = _get(source, requests=1.0, tokens=1.0)
    assert refused.status_code == 429
    assert "tokens" in refused.json()["detail"]


@pytest.mark.parametrize(("mode", "status"), [("wait", 200), ("delay", 200)])
def test_lenient_modes_admit_what_reject_refuses(mode: Refusal, status: int) -> None:
    source = make(node_limit("requests", 20.0, 1.0), refusal=mode)
    for _ in range(4):
        assert _get(source).status_code == status


def test_a_wait_that_would_be_too_long_is_refused() -> None:
    source = make(node_limit("requests", 0.1, 1.0), refusal="wait")
    answers = [_get(source, longest_wait_s=0.05) for _ in range(3)]
    assert answers[-1].status_code == 429
    assert "deadline" in answers[-1].json()["detail"]


def test_the_environment_reaches_the_application_unchanged() -> None:
    seen: list[WSGIEnvironment] = []

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        seen.append(dict(environ))
        return _app(environ, start)

    source = make(node_limit("requests", 1.0, 10.0))
    environ: WSGIEnvironment = {}
    setup_testing_defaults(environ)
    limited = WsgiLimitMiddleware(app, source=source, subject=lambda _: "acme")
    said: list[object] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> object:
        said.append((status, headers))
        return None

    body = b"".join(limited(dict(environ), start))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert body == b"hello"
    assert seen == [environ]
    assert json.dumps(said).count("ratelimit") == 2
