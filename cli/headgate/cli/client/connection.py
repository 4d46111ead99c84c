"""One connection to an HTTP server, kept open between requests.

It stands on the standard library, because a command lives for a quarter of a second,
and importing an HTTP client would take most of that.
"""

from __future__ import annotations

import select
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping


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
    """

    status: int
    body: bytes


class Connection:
    """Sends one request after the other, over one socket while it stays open."""

    def __init__(
        self, url: str, *, trust: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        """Prepare it; nothing is sent yet.

        Args:
            url: Begins with ``http://`` or ``https://``; a path is put before each
                target.
            trust: Authorities to trust; None for the system's.
            timeout_s: Longest wait for the connection, s.

        Raises:
            ValueError: The URL is malformed.
        """
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if not host or any(ord(c) <= 32 for c in url):
            raise ValueError("expected a URL such as http://127.0.0.1:8080")
        if parts.username is not None or parts.password is not None:
            raise ValueError("expected a URL without a user or password")
        host.encode("idna")  # refuses what no name can hold
        if parts.scheme == "https":
            self._connection: HTTPConnection = HTTPSConnection(
                host, port, timeout=timeout_s, context=trust
            )
        else:
            self._connection = HTTPConnection(host, port, timeout=timeout_s)
        self._connect_s = timeout_s
        self._path = parts.path.rstrip("/")

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
            NoAnswer: There was none.
        """
        was_sent = False
        try:
            self._open(timeout_s)
            whole = dict(headers)
            self._connection.request(verb, self._path + target, body, whole)
            was_sent = True
            response = self._connection.getresponse()
            return HttpAnswer(response.status, response.read())
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
        """Return whether the server closed the socket: there is an end to be read."""
        poll = select.poll()
        poll.register(self._connection.sock, select.POLLIN)
        return bool(poll.poll(0))
