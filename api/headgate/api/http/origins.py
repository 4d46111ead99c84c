"""Keep other web pages out: a browser sends whatever any page asks it to.

Two ways are closed.  A page of another origin may send a form or a `fetch` without
reading the answer; browsers then name the page's origin, so we can refuse it.  A page
may also point its own host name at this machine (DNS rebinding) and thus share its
origin; so while rights are off, only requests to names of this machine are answered.
"""

from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.api.http.problems import problem
from headgate.api.rights.rules import is_open
from headgate.api.rights.settings import RightsSettings

_OWN = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site`: from our own page, or from the address bar."""

_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})


class OwnPagesOnly:
    """ASGI middleware that refuses what a foreign page had a browser send."""

    def __init__(self, app: ASGIApp, settings: RightsSettings) -> None:
        """Wrap `app`."""
        self._app = app
        self._checks_host = not (settings.required or settings.trust_network)
        self._allowed = frozenset(host.lower() for host in settings.allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        reason = self._refusal(scope) if scope["type"] == "http" else None
        if reason is None:
            await self._app(scope, receive, send)
            return
        answer = problem(scope["path"], HTTPStatus.FORBIDDEN, reason)
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._checks_host and not is_of_this_machine(host, self._allowed):
            return (
                "while rights are off, expected a Host that names this machine, such "
                "as localhost; turn rights on, or allow it with --allowed-host"
            )
        is_harmless = scope["method"] in _LOOKS and (
            is_open(scope["path"]) or headers.get("sec-fetch-mode") == "navigate"
        )
        if not is_harmless and is_foreign(headers, host):
            return "expected a request from this server's own page, not another site's"
        return None


def is_foreign(headers: Headers, host: str) -> bool:
    """Return whether a browser sent a request on behalf of a page of another origin.

    `Sec-Fetch-Site` is the browser's own word, which also holds behind a proxy that
    changes `Host`.  Browsers leave it out on plain HTTP to other machines; then
    `Origin` is compared with `Host`.  Programs send neither.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in _OWN
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:
        return True


def is_of_this_machine(host: str, allowed: Collection[str] = ()) -> bool:
    """Return whether a `Host` header names this machine.

    >>> [is_of_this_machine(x) for x in ("localhost:8080", "[::1]:80", "127.0.0.9")]
    [True, True, True]
    >>> [is_of_this_machine(x) for x in ("evil.example", "127.0.0.1.nip.io")]
    [False, False]
    """
    if not host:
        return True  # HTTP/1.0, which no browser speaks
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in allowed or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
