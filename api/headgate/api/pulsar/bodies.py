"""Bodies as Pulsar's server reads them: Jackson's leniency, but never a 500."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from math import isfinite, isinf
from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from headgate.api.apply.parsing import check_depth
from headgate.api.tenants.schemas import MAX_LISTED
from headgate.api.values.text import check_storable

JsonObject = Mapping[str, object]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

UNLIMITED = -1
"""Pulsar's word for no limit; other negative rates mean nothing."""

MAX_DEPTH = 40
"""Nested lists and objects; a file of quotas may have ten more around them."""

MAX_SHOWN = 40
"""Most characters of a wrong value in an answer."""


async def json_object(request: Request) -> JsonObject:
    """Return the request's JSON object.

    Raises:
        HTTPException: 415 for another content type or none, 400 for another body.
    """
    body = await json_object_or_none(request)
    if body is None:
        raise _bad_request("expected a JSON object, got nothing")
    return body


async def json_object_or_none(request: Request) -> JsonObject | None:
    """Return the request's JSON object, or None when the body is empty or null.

    It can be part of a file of quotas, as an export of what it makes will be.
    """
    raw = await request.body()
    if not raw.strip():
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "expected Content-Type application/json",
        )
    try:
        value: object = json.loads(raw, parse_constant=_no_number, parse_float=_finite)
        check_storable(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        raise _bad_request("expected a JSON object, but the body is not JSON") from None
    try:
        check_depth(value, MAX_DEPTH)
    except ValueError as error:
        raise _bad_request(str(error)) from error
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _bad_request(f"expected a JSON object, got {type(value).__name__}")
    return cast("JsonObject", value)


def integer(body: JsonObject, field: str, *, largest: int) -> int | None:
    """Return an integer member as Jackson would: ``"12"`` is 12, 1.9 is 1.

    Returns:
        None when the member is missing or null.

    Raises:
        HTTPException: 400 if it is not an integer, or not within ±`largest`.
    """
    value = body.get(field)
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        number = int(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not -largest - 1 <= number <= largest:
        bits = 32 if largest == INT32_MAX else 64
        shown = ascii(value)[:MAX_SHOWN]
        raise _bad_request(f"{field}: expected a {bits}-bit integer, got {shown}")
    return number


def shown_rate(rate: float, *, largest: int) -> int:
    """Return a rate as an integer that clients can read; only 0 admits none."""
    if isinf(rate):
        return UNLIMITED
    return 0 if rate == 0 else min(largest, max(1, round(rate)))


def flag(body: JsonObject, field: str, *, default: bool) -> bool:
    """Return a boolean member, `default` when it is missing or null."""
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise _bad_request(f"{field}: expected true or false")


def strings(body: JsonObject, field: str) -> list[str]:
    """Return a member that is a list of strings, empty when missing or null."""
    value = body.get(field)
    if value is None:
        return []
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    found = [item for item in items if isinstance(item, str)]
    if len(found) < len(items):
        raise _bad_request(f"{field}: expected a list of strings")
    if len(found) > MAX_LISTED:
        raise _bad_request(f"{field}: expected at most {MAX_LISTED} strings")
    for item in found:
        if not item.isprintable():
            raise _bad_request(f"{field}: expected printable strings")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _no_number(text: str) -> float:
    raise ValueError(text)  # NaN and Infinity, which are not JSON


def _bad_request(reason: str) -> HTTPException:
    return HTTPException(HTTPStatus.BAD_REQUEST, reason)


ObjectOf = Annotated[JsonObject, Depends(json_object)]
OptionalObjectOf = Annotated[JsonObject | None, Depends(json_object_or_none)]
