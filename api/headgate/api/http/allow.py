"""The `Allow` header of a 405: every method that some route has for the path.

Starlette names the methods of the first route that matches, and there is a route for
each method.
"""

import re
from typing import cast

from fastapi import FastAPI


def allowed_methods(app: FastAPI, path: str) -> str:
    """Return the methods of all operations of `app` at `path`, empty for none."""
    methods = {
        method.upper()
        for pattern, found in _patterns(app)
        if pattern.fullmatch(path)
        for method in found
    }
    return ", ".join(sorted(methods))


def _patterns(app: FastAPI) -> list[tuple[re.Pattern[str], list[str]]]:
    """Return each path of the document with its methods; made once for each app."""
    known: object = getattr(app.state, "allowed_methods", None)
    if known is None:
        known = app.state.allowed_methods = [
            (re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)), list(operations))
            for path, operations in app.openapi()["paths"].items()
        ]
    return cast("list[tuple[re.Pattern[str], list[str]]]", known)
