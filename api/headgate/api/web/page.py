"""Serve the page: plain files, no build step, nothing from another host.

The page is an ordinary client of `/api/v1`: its token decides what it may do.  The
files themselves hold no secret and are served to anyone.
"""

from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
"""Where the files lie, inside the installed package too."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""No inline script or style, no other host, no frame around the page."""

SECURITY_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Revalidate each time (usually a 304): a page never runs yesterday's modules.
    "Cache-Control": "no-cache",
}
"""Headers of every file."""


DOCS_HEADERS = {
    **SECURITY_HEADERS,
    # Swagger UI writes styles into its elements and has icons inside its style sheet.
    "Content-Security-Policy": _POLICY.replace(
        "style-src 'self'; img-src 'self'",
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:",
    ),
}
"""Headers of the documentation."""


class _Files(StaticFiles):
    """Files with `SECURITY_HEADERS`."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file at `path`."""
        response = await super().get_response(path, scope)
        response.headers.update(SECURITY_HEADERS)
        return response


def mount(app: FastAPI) -> None:
    """Make `app` answer `/`, `/docs` and `/static/…`."""

    def index() -> Response:
        return FileResponse(STATIC / "index.html", headers=SECURITY_HEADERS)

    def docs() -> Response:
        return FileResponse(STATIC / "docs.html", headers=DOCS_HEADERS)

    app.add_api_route("/", index, methods=["GET"], include_in_schema=False)
    app.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    app.mount("/static/swagger", _Files(directory=_swagger()), name="swagger")
    app.mount("/static", _Files(directory=STATIC), name="static")


def _swagger() -> Path:
    """Return the folder of Swagger UI's files, which come in a package of their own."""
    found = find_spec("fastapi_offline")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "static"
