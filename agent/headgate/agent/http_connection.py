"""One connection to an HTTP server, kept open between requests.

The agent, `Admin` and the command line all speak to the API through it.  It uses only
the standard library: an HTTP client package would take a quarter of an agent's memory,
and most of the CPU time of a command.  Proxies that the environment names are not used:
an agent's API is in its own network.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from http.client import HTTPResponse

EXPECTED_URL = "expected a URL such as http://127.0.0.1:8080"

MAX_ANSWER_BYTES = 256 << 20
"""Largest answer that is read: the plan of an apply of 250,000 things is smaller."""

MAX_SAID = 200
"""Most bytes of an unexpected answer that an error shows."""

MAX_HOST = 253
"""The longest name that DNS can hold."""


class NoAnswer(Exception):
    """The server did not answer, or its answer is not HTTP.

    Attributes:
        was_sent: The request was sent in full, so it may have had an effect.
        is_late: The answer did not come in time.
    """

    def __init__(
        self, why: str, *, was_sent: bool = False, is_late: bool = False
    ) -> None:
        super().__init__(why)
        self.was_sent = was_sent
        self.is_late = is_late


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered.

    Attributes:
        status: Code of the status line.
        body: Without any transfer encoding.
        location: Where a redirection points to; empty otherwise.
    """

    status: int
    body: bytes
    location: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return self.status // 100 == 2


class Address(NamedTuple):
    """Where a server is.

    Attributes:
        is_tls: The URL begins with ``https://``.
        host: Name or address, without brackets.
        port: 80 or 443 by default.
        path: Put before each target; without a slash at its end.
    """

    is_tls: bool
    host: str
    port: int
    path: str


def address_of(url: str) -> Address:
    """Return the address of a server.

    >>> address_of("http://[::1]:8080/a/")
    Address(is_tls=False, host='::1', port=8080, path='/a')

    Raises:
        ValueError: It is malformed, or has a user, a query or a fragment.
    """
    if any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise ValueError(EXPECTED_URL)
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port
    if parts.scheme not in ("http", "https") or not host or "%" in host or port == 0:
        raise ValueError(EXPECTED_URL)
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected a URL without a user or password")
    if parts.query or parts.fragment:
        raise ValueError("expected a URL without a query")
    if not host.isascii():
        host.encode("idna")  # refuses what no name can hold
    elif len(host) > MAX_HOST or not all(host.rstrip(".").split(".")):
        raise ValueError(EXPECTED_URL)
    is_tls = parts.scheme == "https"
    default = 443 if is_tls else 80
    return Address(is_tls, host, port or default, parts.path.rstrip("/"))


class Connection:
    """Sends one request after the other, over one socket while it stays open."""

    def __init__(
        self,
        url: str,
        *,
        trust: ssl.SSLContext | None,
        timeout_s: float,
        most_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        """Prepare it; nothing is sent yet.

        Args:
            url: Begins with ``http://`` or ``https://``; a path is put before each
                target.
            trust: Authorities to trust; None for the system's.
            timeout_s: Longest wait for the connection, s.
            most_bytes: Largest body of an answer.

        Raises:
            ValueError: The URL is malformed.
        """
        at = address_of(url)
        if at.is_tls:
            self._connection: HTTPConnection = HTTPSConnection(
                at.host, at.port, timeout=timeout_s, context=trust
            )
        else:
            self._connection = HTTPConnection(at.host, at.port, timeout=timeout_s)
        self._connect_s = timeout_s
        self._path = at.path
        self._most_bytes = most_bytes

    def send(
        self,
        verb: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> HttpAnswer:
        """Send a request and return the answer.

        Args:
            verb: Such as ``GET``.
            target: Path and query.
            headers: All but ``Host`` and ``Content-Length``.
            body: None for none.
            timeout_s: Longest wait for a part of the answer, s.

        Raises:
            NoAnswer: There was none, or it was too large.
        """
        was_sent = False
        try:
            self._open(timeout_s)
            whole = dict(headers)
            self._connection.request(verb, self._path + target, body, whole)
            was_sent = True
            response = self._connection.getresponse()
            read = _body(response, self._most_bytes)
            location = response.getheader("Location") or ""
            return HttpAnswer(response.status, read, location)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise NoAnswer(
                str(error) or type(error).__name__,
                was_sent=was_sent,
                is_late=was_sent and isinstance(error, TimeoutError),
            ) from error

    def close(self) -> None:
        """Close the socket; the next request opens another."""
        self._connection.close()

    def interrupt(self) -> None:
        """End a wait for an answer in another thread; that thread's `send` raises."""
        opened: socket.socket | None = self._connection.sock
        if opened is not None:
            with suppress(OSError):  # it was closed already
                opened.shutdown(socket.SHUT_RDWR)

    def _open(self, timeout_s: float) -> None:
        """Connect, unless the socket of the last request is still usable."""
        if self._connection.sock is not None and self._is_over():
            self.close()
        if self._connection.sock is None:
            self._connection.timeout = min(self._connect_s, timeout_s)
            self._connection.connect()
        opened = self._connection.sock
        assert opened is not None
        opened.settimeout(timeout_s)

    def _is_over(self) -> bool:
        """Return whether the server closed the socket: its end can be read."""
        poll = select.poll()
        poll.register(self._connection.sock, select.POLLIN)
        return bool(poll.poll(0))


def beginning_of(body: bytes) -> str:
    r"""Return the beginning of an unexpected answer in one line.

    >>> beginning_of(b"<h1>\n Not Found</h1>"), beginning_of(b"")
    ('<h1> Not Found</h1>', 'an empty answer')
    """
    said = " ".join(body[:MAX_SAID].decode(errors="replace").split())
    return said or "an empty answer"


def _body(response: HTTPResponse, most_bytes: int) -> bytes:
    """Return the body of an answer; raise if it is larger or not complete."""
    if response.length is not None and response.length <= most_bytes:
        return response.read()
    # Given a number, `read` doesn't mind if less arrives than was announced.
    if response.length is None:
        body = response.read(most_bytes + 1)
        if len(body) <= most_bytes:
            return body
    raise ValueError(f"an answer larger than {most_bytes} bytes")
