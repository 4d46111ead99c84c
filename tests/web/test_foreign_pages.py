"""Other web pages, in a real browser: none can change anything here."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import Page
from tests.web.rigs import TIMEOUT_S, Server

FORM = """<!doctype html><title>kittens</title>
<form method="post" action="{url}/api/v1/revisions/0/rollback"></form>"""


class _Foreign(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = FORM.format(url=self.path.partition("?")[2]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def foreign() -> Iterator[str]:
    """A page of another origin on this machine: the same site, another port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Foreign) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def gold(rest: httpx.Client) -> None:
    body = {"limits": [{"dimension": "requests", "rate": 100}]}
    rest.put("/groups/gold", json=body).raise_for_status()


def test_a_form_of_another_page_does_not_wipe_the_configuration(
    page: Page, server: Server, rest: httpx.Client, foreign: str, gold: None
) -> None:
    page.goto(f"{foreign}/?{server.url}")
    with page.expect_navigation():
        page.evaluate("document.forms[0].submit()")
    assert '"status": 403' in page.content()
    assert rest.get("/groups/gold").status_code == 200


@pytest.mark.parametrize("site", ["127.0.0.1", "evil.localhost"])
def test_a_script_of_another_page_changes_nothing_and_vouches_for_no_agent(
    page: Page, server: Server, rest: httpx.Client, foreign: str, gold: None, site: str
) -> None:
    page.goto(foreign.replace("127.0.0.1", site))
    for method, path in (
        ("POST", "/api/v1/revisions/0/rollback"),
        ("POST", "/admin/v2/tenants/acme/resourcegroup/gold"),
        ("GET", "/api/v1/snapshot?revision=99&agent=evil&incarnation=9"),
    ):
        page.evaluate(
            "([url, method]) => fetch(url, {method, mode: 'no-cors'})",
            [server.url + path, method],
        )
    assert rest.get("/groups/gold").status_code == 200
    told = rest.get("/snapshot", params={"revision": 99, "alive": 99}).json()
    assert told["alive"]["present"] == []


def test_a_host_name_that_was_pointed_at_this_machine_is_not_answered(
    server: Server, gold: None
) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "[::1"):
        for path in ("/", "/api/v1/snapshot", "/metrics"):
            answer = httpx.get(
                server.url + path, headers={"Host": host}, timeout=TIMEOUT_S
            )
            assert answer.status_code == 403, (host, path)
    for host in ("localhost:8080", "[::1]:8080", "127.0.0.1"):
        answer = httpx.get(server.url, headers={"Host": host}, timeout=TIMEOUT_S)
        assert answer.is_success
