"""How long a throttled response says to wait, whichever client received it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from headgate.agent.decision import LONGEST_MS

THROTTLED = 429

DEADLINE_S = 30.0
"""How long a request is retried by default, KIP-599's request.timeout.ms."""

DEFAULT_DELAY_S = 1.0
"""Delay when the server names none."""

LEAST_DELAY_S = 0.001
"""Shortest delay: a server that says 0 is not asked in a busy loop."""


def delay_of(body: bytes, retry_after: str | None) -> float:
    """Return the seconds that a 429 says to wait.

    The exact ``throttle_time_ms`` of the body takes precedence over Retry-After, which
    has only whole seconds.

    Args:
        body: Body of the response, whatever it holds.
        retry_after: Value of that header, seconds or a date.
    """
    try:
        read: object = json.loads(body)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict):
        milliseconds: object = read.get("throttle_time_ms")  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # JSON of a stranger
        if isinstance(milliseconds, int) and milliseconds >= 0:
            return max(min(milliseconds, LONGEST_MS) / 1e3, LEAST_DELAY_S)
    return max(_retry_after_s(retry_after), LEAST_DELAY_S)


def _retry_after_s(value: str | None) -> float:
    if value is None:
        return DEFAULT_DELAY_S
    if value.strip().isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # such as a year of twenty digits
        return DEFAULT_DELAY_S
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return (at - datetime.now(UTC)).total_seconds()
