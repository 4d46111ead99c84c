"""Headers of every answer: no cache keeps it, no browser guesses what it is."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HSTS = "max-age=31536000"
"""A year: a browser that has used TLS with this host once uses nothing else."""


class ResponseHeaders:
    """ASGI middleware that adds the headers that a route did not set itself."""

    def __init__(self, app: ASGIApp, *, tls: bool = False) -> None:
        """Wrap `app`; with `tls`, tell browsers to use nothing else."""
        self._app = app
        self._more = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        if tls:
            self._more["Strict-Transport-Security"] = HSTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._more.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
