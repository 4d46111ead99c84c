"""`connect` raises for an address where something else than Headgate's API answers."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import until

from headgate.agent import Admin, AdminError, InvalidSetting, connect
from headgate.agent.follow import snapshot_file
from headgate.agent.follow.snapshot import Snapshot, snapshot_to_json
from headgate.coordinator.config.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

SNAPSHOT = Snapshot(configuration=Configuration(revision=3))
PATIENCE_S = 60.0


@contextmanager
def answering(
    status: int, body: bytes, *, location: str = "", after_s: float = 0.0
) -> Generator[str]:
    """Serve one answer to every request, from some time on; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=after_s == 0.0)
    if after_s:
        server.server_bind()  # the port is taken, but nobody listens

    def serve() -> None:
        if after_s:
            threading.Event().wait(after_s)
            server.server_activate()
        server.serve_forever(poll_interval=0.05)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (
            404,
            b"<html>\r\n<h1>Not Found</h1>\n</html>",
            "404: <html> <h1>Not Found</h1>",
        ),
        (404, b"", "404: an empty answer"),
        (200, b"<h1>It works!</h1>", "not JSON"),
        (200, b'{"hello": "world"}', "other JSON"),
        (400, b"The plain HTTP request was sent to HTTPS port", "HTTPS port"),
    ],
)
def test_another_server_at_the_address_is_an_error(
    status: int, body: bytes, says: str
) -> None:
    with answering(status, body) as url, pytest.raises(InvalidSetting) as caught:
        connect(url, keep_snapshot=False)
    assert "url: expected the address of Headgate's API" in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_another_server_says_to_an_admin_is_one_line() -> None:
    page = b"<p>\r\nIt works\n</p>"
    with (
        answering(200, page) as url,
        Admin(url) as admin,
        pytest.raises(AdminError, match="got 200: <p> It works </p>"),
    ):
        admin.group("gold")


def test_a_redirection_is_an_error_that_says_where_to() -> None:
    to = "https://api.example/api/v1/snapshot"
    with (
        answering(308, b"", location=to) as url,
        pytest.raises(InvalidSetting, match=f"redirected to {to}"),
    ):
        connect(url, keep_snapshot=False)


def test_https_where_http_is_spoken_is_an_error() -> None:
    with answering(200, b"{}") as url, pytest.raises(InvalidSetting, match="SSL"):
        connect(url.replace("http://", "https://"), keep_snapshot=False)


def test_a_server_that_is_only_failing_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with (
        answering(503, b"starting") as url,
        connect(url, keep_snapshot=False, wait_s=0.0) as agent,
    ):
        assert agent.limiter(tenant="acme").try_acquire(requests=1)
        until(lambda: "no configuration from" in caplog.text, "a failure to be said")
        assert agent.status().source == "none"
    assert "HTTP Request" not in caplog.text, "httpx's lines are not the user's"


REFUSED = (
    b'{"type": "urn:headgate:problem:unauthorized", "title": "Unauthorized",'
    b' "status": 401, "detail": "expected a valid bearer token"}'
)


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("wrong", "token: the API at {url} refuses this token (401)"),
        (None, "token: the API at {url} asks for a token (401)"),
    ],
)
def test_a_token_that_the_api_refuses_is_an_error(
    caplog: pytest.LogCaptureFixture, token: str | None, says: str
) -> None:
    with answering(401, REFUSED) as url, pytest.raises(InvalidSetting) as caught:
        connect(url, token=token, keep_snapshot=False, wait_s=PATIENCE_S)
    told = f"{says.format(url=url)}: expected a valid one of the role agent"
    assert str(caught.value) == told
    assert told.removeprefix("token: ") in caplog.text
    assert "Malformed" not in caplog.text
    assert "urn:" not in caplog.text


def test_a_refused_token_does_not_keep_an_agent_from_what_is_on_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "snapshot.json"
    snapshot_file.store(path, SNAPSHOT)
    with (
        answering(401, REFUSED) as url,
        connect(url, token="expired", snapshot_path=path, wait_s=PATIENCE_S) as agent,
    ):
        assert (agent.status().source, agent.status().revision) == ("disk", 3)
    assert f"the API at {url} refuses this token (401)" in caplog.text


def test_a_proxy_that_asks_for_a_password_is_no_error() -> None:
    with (
        answering(401, b"<h1>Authorization Required</h1>") as url,
        connect(url, keep_snapshot=False, wait_s=0.0) as agent,
    ):
        assert agent.limiter(tenant="acme").try_acquire(requests=1)
        assert agent.status().source == "none"


def test_a_snapshot_on_disk_goes_before_another_servers_answer(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    snapshot_file.store(path, SNAPSHOT)
    with (
        answering(404, b"default backend") as url,
        connect(url, snapshot_path=path, wait_s=PATIENCE_S) as agent,
    ):
        assert (agent.status().source, agent.status().revision) == ("disk", 3)


def test_a_wait_outlasts_an_api_that_is_still_starting() -> None:
    body = json.dumps(snapshot_to_json(SNAPSHOT)).encode()
    with (
        answering(200, body, after_s=1.0) as url,
        connect(url, keep_snapshot=False, wait_s=PATIENCE_S) as agent,
    ):
        assert (agent.status().source, agent.status().revision) == ("api", 3)
