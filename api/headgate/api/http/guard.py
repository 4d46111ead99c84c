"""The guard: before any route, check the request rate, the caller and their rights.

Plain ASGI, outermost.  Rates are held by Headgate's own keyed limiter.
"""

import time
from collections import OrderedDict
from http import HTTPStatus
from math import ceil

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.agent.limiter.keyed import KeyedLimiter
from headgate.api.http.problems import PULSAR_PREFIX, problem
from headgate.api.rights import tokens
from headgate.api.rights.jwts import KeySet
from headgate.api.rights.principal import ANYONE, Principal
from headgate.api.rights.rules import is_open, may
from headgate.api.rights.settings import RightsSettings
from headgate.api.store import Store

REQUESTS_PER_S = 1000.0
"""Per address; no more than what one process of the service can answer anyway."""

BURST = 4000.0
"""Enough for a thousand agents behind one address to start: a few requests each."""

MOST_ADDRESSES = 10_000
"""Most addresses that are distinguished; further ones share what is left."""

MOST_KNOWN = 10_000
"""Most valid tokens that are cached."""

KNOWN_S = 5.0
"""How long a valid token is cached, seconds: a token deleted by another process stays
valid this long; one deleted by this process is refused at once."""

LOOK_AGAIN_S = 0.5
"""If an answer takes longer, such as a stream, its token is checked again with each
part; a stream sends one a second."""

MAX_TOKEN = 8192
"""Most characters of a token."""

PRINCIPAL = "headgate.principal"
"""Member of the ASGI scope that routes find the principal in."""

_SUPER_USER = "This operation requires super-user access"
"""Pulsar's words for a group operation without the right to it."""


class Guard:
    """ASGI middleware that lets only permitted requests through."""

    def __init__(self, app: ASGIApp, store: Store, settings: RightsSettings) -> None:
        """Wrap `app`; valid tokens are in `store` or signed by a key of `settings`."""
        self._app = app
        self._store = store
        self._required = settings.required
        self._keys = None if settings.key_set is None else KeySet(settings)
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        store.on_change(lambda _revision: self._known.clear())
        self._rates = KeyedLimiter(
            rate=REQUESTS_PER_S,
            burst=BURST,
            clock=time.monotonic,
            most_keys=MOST_ADDRESSES,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refused_by_rate(scope) or await self._refused_by_right(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
        elif scope[PRINCIPAL] is ANYONE:
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, self._while_good(scope, receive, send))

    def _while_good(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """Return a `send` that cuts off an answer that outlives its token."""
        looked_at = time.monotonic()
        has_ended = False

        async def send_while_good(message: Message) -> None:
            nonlocal looked_at, has_ended
            if has_ended:
                return
            now = time.monotonic()
            if now - looked_at >= LOOK_AGAIN_S:
                looked_at = now
                has_ended = await self._bearer(scope) is None
            if not has_ended:
                await send(message)
            elif message["type"] == "http.response.start":
                await _unauthorized(scope["path"])(scope, receive, send)
            else:
                await send({"type": "http.response.body", "body": b""})

        return send_while_good

    def _refused_by_rate(self, scope: Scope) -> Response | None:
        decision = self._rates.try_acquire((scope["client"] or ("local",))[0])
        if decision:
            return None
        return problem(
            scope["path"],
            HTTPStatus.TOO_MANY_REQUESTS,
            f"expected at most {REQUESTS_PER_S:.0f} requests/s",
            headers={"Retry-After": str(ceil(decision.delay_s))},
        )

    async def _refused_by_right(self, scope: Scope) -> Response | None:
        """Return the refusal, or None if the request may proceed; record the caller."""
        path: str = scope["path"].rstrip("/") or "/"
        scope[PRINCIPAL] = ANYONE
        if not self._required or is_open(path):
            return None
        principal = await self._bearer(scope)
        if principal is None:
            return _unauthorized(path)
        if not may(principal, scope["method"], path):
            return problem(path, HTTPStatus.FORBIDDEN, _forbidden(principal, path))
        scope[PRINCIPAL] = principal
        return None

    async def _bearer(self, scope: Scope) -> Principal | None:
        """Return the bearer of the request's token; None if the token is invalid."""
        header = Headers(scope=scope).get("authorization", "")
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= MAX_TOKEN:
            return None
        now = time.monotonic()
        known = self._known.get(token)
        if known is not None and now < known[0]:
            return known[1]
        self._known.pop(token, None)
        principal = await run_in_threadpool(self._look_up, token)
        if principal is not None:
            self._known[token] = (now + _known_for_s(principal), principal)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return principal

    def _look_up(self, token: str) -> Principal | None:
        if token.startswith(f"{tokens.PREFIX}_"):
            with self._store.reading() as session:
                return tokens.bearer(session, token)
        return None if self._keys is None else self._keys.bearer(token)


def _known_for_s(principal: Principal) -> float:
    """Return how long a good token need not be looked up again, seconds."""
    if principal.ends_at_s is None:
        return KNOWN_S
    return min(KNOWN_S, principal.ends_at_s - time.time())


def _unauthorized(path: str) -> Response:
    return problem(
        path,
        HTTPStatus.UNAUTHORIZED,
        "expected a valid bearer token",
        headers={"WWW-Authenticate": 'Bearer realm="headgate"'},
    )


def _forbidden(principal: Principal, path: str) -> str:
    if path.startswith(f"{PULSAR_PREFIX}/resourcegroup"):
        return _SUPER_USER
    return f"{principal.name} ({principal.role}) may not do this"
