"""`headgate envoy` behind real Envoy and nginx, and what it answers to nonsense."""

from __future__ import annotations

import signal
import socket
import sys
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.envoy.conftest import (
    EXAMPLES,
    START_S,
    Limited,
    RlsClient,
    Upstream,
    configured,
    headgate_envoy,
    listening,
    program,
    start_envoy,
)
from tests.integration.frameworks.rigs import PATIENCE_S, Quotas, until
from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headgate.api import Addresses
    from headgate.cli.process.children import Children

BURST = 5


@pytest.fixture(scope="module")
def tenants(quotas: Quotas) -> Quotas:
    """Tenants with five requests each, which come back within a day."""
    for name in ("acme", "bolt", "coil", "dune", "erne", "müller"):
        quotas.put(name, period_s=86_400.0, may_owe=False, requests=(BURST, BURST))
    return quotas


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=PATIENCE_S, trust_env=False) as made:
        yield made


def known(client: httpx.Client, limited: Limited, tenant: str) -> None:
    """Wait until the agent of the server knows the limits of a tenant."""
    asks = {"entries": [{"key": "tenant", "value": tenant}], "hitsAddend": "0"}

    def limits() -> bool:
        body = {"domain": "apis", "descriptors": [asks]}
        answer = client.post(f"{limited.http}/json", json=body).json()
        return "currentLimit" in answer["statuses"][0]

    until(limits, f"the limits of {tenant}")


def spent(ask: Callable[[], httpx.Response], units: int) -> list[httpx.Response]:
    """Ask until so many were admitted, then three times more, all to be refused.

    A process that knows a limit for less than a second may refuse what it may admit
    later; never more is admitted.
    """
    answers: list[httpx.Response] = []

    def admitted() -> bool:
        answers.append(ask())
        return sum(one.is_success for one in answers) == units

    until(admitted, f"{units} admitted")
    refused = [ask() for _ in range(3)]
    assert [one.status_code for one in refused] == [429] * 3
    return [one for one in answers if one.is_success] + refused


def test_real_envoy_admits_a_tenants_quota_and_says_what_is_left(
    tenants: Quotas,
    limited: Limited,
    upstream: Upstream,
    children: Children,
    client: httpx.Client,
    tmp_path: Path,
) -> None:
    known(client, limited, "acme")
    front = free_port()
    port = limited.grpc.rsplit(":", 1)[1]
    ports: dict[int, str | int]
    ports = {10000: front, 8000: upstream.server_port, 8081: port}
    start_envoy(children, tmp_path, "envoy.yaml", ports)
    url = f"http://127.0.0.1:{front}"
    listening(client, f"{url}/health")

    paid = {"x-tenant": "acme"}
    answers = spent(lambda: client.get(f"{url}/paid", headers=paid), BURST)
    assert upstream.served["/paid"] == BURST
    assert answers[0].headers["x-ratelimit-remaining"] == str(BURST - 1)
    assert int(answers[-1].headers["retry-after"]) > 0

    free = {"x-plan": "free", "x-user": "al"}
    spent(lambda: client.get(f"{url}/free", headers=free), 10)
    other = {"x-plan": "free", "x-user": "bo"}
    assert client.get(f"{url}/free", headers=other).status_code == 200
    assert client.get(f"{url}/any").status_code == 200


def test_envoy_fails_open_or_closed_while_the_server_is_killed(
    tenants: Quotas,
    server: Addresses,
    upstream: Upstream,
    children: Children,
    client: httpx.Client,
    tmp_path: Path,
) -> None:
    killed, limited = headgate_envoy(children, server, tmp_path, port=free_port())
    known(client, limited, "erne")
    port = limited.grpc.rsplit(":", 1)[1]
    fronts = free_port(), free_port()
    for front, deny in zip(fronts, ("false", "true"), strict=True):
        ports: dict[int, str | int]
        ports = {10000: front, 8000: upstream.server_port, 8081: port}
        lines = {
            "failure_mode_deny: false": f"failure_mode_deny: {deny}",
            COST_BEFORE: COST_AFTERWARDS,
        }
        folder = tmp_path / deny
        start_envoy(children, folder, "envoy.yaml", ports, lines)
    urls = [f"http://127.0.0.1:{front}" for front in fronts]
    for url in urls:
        listening(client, f"{url}/health")
    who = {"x-tenant": "erne"}

    def limited_by_both() -> bool:
        asked = [client.get(url, headers=who).status_code for url in urls]
        return asked == [429, 429]

    # Each request is let through while nothing is owed, and costs 4 afterwards.
    until(limited_by_both, "what requests have cost to be charged")
    assert upstream.served["/"] <= 2 * BURST
    children.forget(killed)
    until(lambda: client.get(urls[0], headers=who).is_success, "Envoy to fail open")
    assert client.get(urls[1], headers=who).status_code == 500
    headgate_envoy(children, server, tmp_path, port=int(port))
    until(limited_by_both, "the limit to hold again")


COST_BEFORE = "descriptor_key: tenant}\n"

COST_AFTERWARDS = """descriptor_key: tenant}
                          hits_addend: {number: 0}
                        - actions:
                            - request_headers:
                                header_name: x-tenant
                                descriptor_key: tenant
                          hits_addend: {number: 4}
                          apply_on_stream_done: true
"""
"""A check on the request path, and a cost that is charged when the request is over."""


def test_real_nginx_asks_by_auth_request_and_fails_open(
    tenants: Quotas,
    limited: Limited,
    upstream: Upstream,
    children: Children,
    client: httpx.Client,
    tmp_path: Path,
) -> None:
    known(client, limited, "bolt")
    fronts = free_port(), free_port()
    gone = free_port()
    answering = int(limited.http.rsplit(":", 1)[1])
    for front, asked in zip(fronts, (answering, gone), strict=True):
        folder = tmp_path / str(front)
        folder.mkdir()
        config = configured(
            "nginx.conf",
            folder,
            {
                10001: front,
                8000: upstream.server_port,
                8082: asked,
            },
        )
        config.write_text(f"pid {folder}/pid;\n" + config.read_text())
        command = [program("nginx"), "-p", str(folder), "-c", str(config)]
        command += ["-e", str(folder / "error.log"), "-g", "daemon off;"]
        children.start("nginx", command, log=folder / "nginx.log", talks=False)
        listening(client, f"http://127.0.0.1:{front}/health")

    asking, alone = (f"http://127.0.0.1:{front}/paid" for front in fronts)
    who = {"x-tenant": "bolt"}
    answers = spent(lambda: client.get(asking, headers=who), BURST)
    assert int(answers[-1].headers["retry-after"]) > 0
    assert upstream.served["/paid"] == BURST
    assert client.get(alone, headers=who).status_code == 200


def test_traefik_is_answered_429_with_retry_after(
    tenants: Quotas, limited: Limited, client: httpx.Client
) -> None:
    known(client, limited, "coil")
    url = f"{limited.http}/forward-auth/apis?tenant=X-Tenant"
    answers = spent(lambda: client.get(url, headers={"x-tenant": "coil"}), BURST)
    assert int(answers[-1].headers["retry-after"]) > 0
    assert '"coil.requests"' in answers[0].headers["ratelimit"]
    unknown = f"{limited.http}/forward-auth/nowhere?tenant=x-tenant"
    assert client.get(unknown).status_code == 404
    assert client.get(url).status_code == 200  # nobody in particular


def test_a_tenants_name_in_a_header_may_be_utf8(
    tenants: Quotas, limited: Limited, client: httpx.Client
) -> None:
    known(client, limited, "müller")
    url = f"{limited.http}/forward-auth/apis?tenant=x-tenant"
    who = {b"x-tenant": "müller".encode()}
    spent(lambda: client.get(url, headers=who), BURST)


@pytest.mark.parametrize(
    "name", ["x-t%E2%82%AC", "%ff", "x-%C3%A9", "", "a%20b", "a%00", "a:b", "a%0A"]
)
def test_what_can_t_be_a_headers_name_is_answered_400(
    limited: Limited, client: httpx.Client, name: str
) -> None:
    for path in ("forward-auth", "auth-request"):
        answer = client.get(f"{limited.http}/{path}/apis?tenant={name}")
        assert answer.status_code == 400
        assert answer.text.startswith("'tenant': expected the name of a header, got")


def test_a_header_without_a_key_is_answered_400(
    limited: Limited, client: httpx.Client
) -> None:
    answer = client.get(f"{limited.http}/forward-auth/apis?=x-tenant")
    assert answer.status_code == 400
    assert answer.text == "expected a descriptor's key before the header 'x-tenant'\n"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ('{"domain": "nowhere", "descriptors": [{}]}', 200, '"OK"'),
        ('{"domain": "apis", "descriptors": [{"entries": []}]}', 200, '"OK"'),
        ('{"domain": "apis", "descriptors": []}', 400, "descriptors: expected"),
        ('{"descriptors": [{}]}', 400, "domain: expected a name"),
        ('{"domain": "apis", "hitsAddend": -1, "descriptors": [{}]}', 400, "hits"),
        ("{", 400, "JSON"),
        ("null", 400, "expected a JSON object, got 'null'"),
        ("", 400, "expected a JSON object, got ''"),
        ("[" * 5_000, 400, "expected a JSON object"),
        (
            '{"domain": "apis", "descriptors": [{"limit": {"unit": 9}}]}',
            400,
            "unit",
        ),
        (
            '{"domain": "apis", "descriptors": [{"hitsAddend": "18446744073709551615",'
            ' "entries": [{"key": "tenant", "value": "dune"}]}]}',
            429,
            "OVER_LIMIT",
        ),
        (
            '{"domain": "apis", "descriptors": [{"entries":'
            ' [{"key": "tenant", "value": "' + "x" * 10_000 + '"}]}]}',
            429,
            "OVER_LIMIT",
        ),
        ("x" * (2 << 20), 413, "expected at most"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_nonsense_gets_an_answer_that_says_what_was_expected(
    tenants: Quotas,
    limited: Limited,
    client: httpx.Client,
    body: str,
    status: int,
    said: str,
) -> None:
    known(client, limited, "dune")
    answer = client.post(f"{limited.http}/json", content=body)
    assert answer.status_code == status, answer.text
    assert said in answer.text


def test_half_a_request_neither_holds_up_the_end_nor_fills_the_log(
    server: Addresses, children: Children, tmp_path: Path
) -> None:
    child, limited = headgate_envoy(children, server, tmp_path)
    address = urlsplit(limited.http)
    where = (str(address.hostname), cast("int", address.port))
    half = b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
    with socket.create_connection(where) as gone:
        gone.sendall(half)
    with socket.create_connection(where) as stays:
        stays.sendall(half)
        httpx.get(f"{limited.http}/healthcheck")  # served after both
        child.signal(signal.SIGTERM)
        assert child.wait(PATIENCE_S)
    assert "Traceback" not in (tmp_path / "headgate-envoy.log").read_text()


def test_the_unix_socket_answers_and_a_request_without_domain_is_an_error(
    limited: Limited,
) -> None:
    with RlsClient(f"unix:{limited.socket}") as client:
        assert client.admits(("plan", "none"))
        with pytest.raises(client.error, match="domain: expected a name"):
            client.admits(domain="")


def test_up_answers_the_rate_limit_filter_as_well(
    children: Children, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "headgate.cli", "up", "--port", "0"]
    command += ["--bus-ports", "0,0", "--database", str(tmp_path / "headgate.db")]
    command += ["--envoy", "0", "--envoy-config", str(EXAMPLES / "limits.yaml")]
    child = children.start("headgate up", command, log=tmp_path / "up.log")
    while not (line := child.line(START_S)).startswith("gRPC"):
        pass
    with RlsClient(line.split()[1]) as client:
        asked = list[bool]()

        def all_admitted() -> bool:
            asked.append(client.admits(("plan", "free"), ("user", "al")))
            return sum(asked) == 10

        until(all_admitted, "ten admitted")
        assert not client.admits(("plan", "free"), ("user", "al"))
    child.signal(signal.SIGTERM)
    assert child.wait(START_S)
    assert child.returncode == 0


def test_up_ends_when_it_cant_listen_for_envoy(
    limited: Limited, children: Children, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "headgate.cli", "up", "--port", "0"]
    command += ["--bus-ports", "0,0", "--database", str(tmp_path / "headgate.db")]
    command += ["--envoy", limited.grpc.rsplit(":", 1)[1]]
    command += ["--envoy-config", str(EXAMPLES / "limits.yaml")]
    log = tmp_path / "up.log"
    child = children.start("headgate up", command, log=log, talks=False)
    assert child.wait(START_S)
    assert f"--envoy: can't listen on {limited.grpc}" in log.read_text()
    children.forget(child)
