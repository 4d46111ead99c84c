"""Turn refusals into HTTP: RFC 9457 on `/api/v1`, Pulsar's `reason` elsewhere.

This module and the routes are the only places that know status codes.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from math import ceil
from typing import Any, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headgate.api.http.allow import allowed_methods
from headgate.api.values.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    Forbidden,
    InUse,
    Invalid,
    NotFound,
    Outdated,
    Refused,
)
from headgate.api.values.pulsar_wording import pulsar_reason
from headgate.api.values.text import Unstorable

PULSAR_PREFIX = "/admin/v2"
"""Answers below this path have Pulsar's form."""

MAX_ERRORS = 20
"""Most field errors in one answer; a body of junk could yield thousands."""

MAX_FIELD = 80
"""Most characters of a field's path in an answer; unknown fields can be any length."""

RETRY_AFTER_S = 1
"""When to come back after the database was too busy; it waited 10 s already."""

_UNREAD = "There was an error parsing the body"
"""What FastAPI says of a body that Python fails to read, though it may be JSON."""

_WORDING = re.compile(r"^\w+ should (be|have|match) ")
"""How pydantic begins, whatever kind of value it is about."""

_OWN_REASONS = {
    "extra_forbidden": "unknown field",
    "missing": "expected a value, but it is missing",
    "model_type": "expected an object",
    "model_attributes_type": "expected an object",
    "dict_type": "expected an object",
    "invalid_key": "expected text as the key",
    "timezone_aware": "expected a time zone, such as Z or +01:00",
}
"""Reasons in place of those of pydantic that speak of Python rather than JSON."""

_STATUSES: tuple[tuple[type[Refused], HTTPStatus, HTTPStatus], ...] = (
    (Invalid, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.PRECONDITION_FAILED),
    (NotFound, HTTPStatus.NOT_FOUND, HTTPStatus.NOT_FOUND),
    (InUse, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
    (AlreadyExists, HTTPStatus.CONFLICT, HTTPStatus.CONFLICT),
    (Conflict, HTTPStatus.CONFLICT, HTTPStatus.CONFLICT),
    (Forbidden, HTTPStatus.FORBIDDEN, HTTPStatus.FORBIDDEN),
    (Outdated, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_FAILED),
    (Busy, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.TOO_MANY_REQUESTS),
)
"""Refusal → status on `/api/v1`, status on Pulsar's paths."""


class FieldProblem(BaseModel):
    """An error in one field."""

    field: str
    reason: str


class Problem(BaseModel):
    """RFC 9457: why a request was refused."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem]


class Reason(BaseModel):
    """Why a request was refused, as Pulsar says it."""

    reason: str


_REFUSALS = (400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 429, 500, 503)


def _responses(media_type: str, schema: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in _REFUSALS
    }


RESPONSES = _responses("application/problem+json", "Problem")
"""OpenAPI description of error responses on `/api/v1`."""

PULSAR_RESPONSES = _responses("application/json", "Reason")
"""OpenAPI description of error responses on Pulsar's paths."""

_log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Make `app` answer every refusal and failure with a problem document."""
    app.add_exception_handler(Refused, _on_refused)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(DataError, _on_unstorable)
    app.add_exception_handler(OperationalError, _on_database)
    app.add_exception_handler(Exception, _on_failure)


def problem(
    path: str,
    status: int,
    detail: str,
    *,
    errors: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer to a refused request, in the form that belongs to `path`."""
    if path.startswith(PULSAR_PREFIX):
        return _json({"reason": detail}, status, "application/json", headers)
    phrase = HTTPStatus(status).phrase
    content: dict[str, object] = {
        "type": f"urn:headgate:problem:{phrase.lower().replace(' ', '-')}",
        "title": phrase,
        "status": int(status),
        "detail": detail,
        "errors": [{"field": field, "reason": why} for field, why in errors],
    }
    return _json(content, status, "application/problem+json", headers)


def field_and_reason(item: Mapping[str, object]) -> tuple[str, str]:
    """Return which field one of pydantic's errors is about, and what was expected."""
    return _field(item), _reason(item)


def reason_unread(error: BaseException | None) -> str:
    """Return what was expected of a body that made Python fail; empty if unknown."""
    if isinstance(error, RecursionError):
        return "expected fewer levels of nesting"
    if isinstance(error, UnicodeDecodeError):
        return "expected UTF-8"
    if "integer string conversion" in str(error):
        return f"expected integers of at most {sys.get_int_max_str_digits()} digits"
    return ""


def _json(
    content: Mapping[str, object],
    status: int,
    media_type: str,
    headers: Mapping[str, str] | None,
) -> Response:
    """Serialise in ASCII: echoed input may hold lone surrogates."""
    return Response(json.dumps(content), status, dict(headers or {}), media_type)


def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    path = request.url.path
    for kind, ours, pulsars in _STATUSES:
        if isinstance(error, kind):
            status = pulsars if path.startswith(PULSAR_PREFIX) else ours
            break
    else:
        status = HTTPStatus.BAD_REQUEST
    headers: dict[str, str] = {}
    if isinstance(error, Busy):
        headers["Retry-After"] = str(ceil(error.retry_after_s))
    if path.startswith(PULSAR_PREFIX):
        return problem(path, status, pulsar_reason(error), headers=headers)
    return problem(path, status, error.reason, errors=error.problems, headers=headers)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found: Sequence[Mapping[str, object]] = error.errors()
    path = request.url.path
    if any(item.get("type") == "json_invalid" for item in found):
        return problem(path, HTTPStatus.BAD_REQUEST, "expected a JSON body")
    told = [field_and_reason(item) for item in found[:MAX_ERRORS]]
    detail = "; ".join(f"{field}: {why}" for field, why in told[:3])
    return problem(path, HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=told)


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if detail == _UNREAD:
        detail = reason_unread(error.__cause__) or "expected a JSON body"
    elif detail == HTTPStatus(error.status_code).phrase:
        detail = f"{request.method} {request.url.path[:MAX_FIELD]}: {detail.lower()}"
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (
        allowed := allowed_methods(request.app, request.url.path)
    ):
        headers["Allow"] = allowed
    return problem(request.url.path, error.status_code, detail, headers=headers)


def _on_unstorable(request: Request, _error: Exception) -> Response:
    return problem(
        request.url.path,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "expected values that the database can hold",
    )


def _on_database(request: Request, error: Exception) -> Response:
    _log.error("the database did not answer: %s", error)
    return problem(
        request.url.path,
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the database did not answer in time; nothing was changed",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def _on_failure(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(
        request.url.path,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal error; nothing was changed; the server's log has the details",
    )


def _field(item: Mapping[str, object]) -> str:
    """Return where an error is, as ``limits[0].rate``, part of the request first."""
    place = cast("tuple[str | int, ...]", item.get("loc", ()))
    path = ""
    for step in place[1:]:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else str(step)
    context = cast("Mapping[str, object]", item.get("ctx", {}))
    cause = context.get("error")
    if isinstance(cause, Unstorable):
        path += cause.place
    return (path or str(place[0] if place else "body"))[:MAX_FIELD]


def _reason(item: Mapping[str, object]) -> str:
    own = _OWN_REASONS.get(str(item.get("type")))
    if own is not None:
        return own
    reason = str(item.get("msg", "not acceptable")).removeprefix("Value error, ")
    reason = _WORDING.sub("expected ", reason, count=1)
    return reason.replace(" after validation, not ", ", got ")
