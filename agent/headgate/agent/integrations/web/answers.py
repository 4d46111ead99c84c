"""The answer to a refused HTTP request, whatever the framework.

429 with ``application/problem+json`` (RFC 9457), an exact ``throttle_time_ms`` and a
Retry-After in whole seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.decision import Decision
    from headgate.agent.errors import InvalidSubject
    from headgate.agent.limiter.limiter import Limiter

Asker = Mapping[str, str | None] | str | None
"""Who asks: a tenant's name, any subject such as ``{"tenant": "acme", "user": "al"}``,
or None for a request that no limit applies to."""

TOO_MANY_REQUESTS = 429
BAD_REQUEST = 400

PROBLEM_JSON = "application/problem+json"

ONE_REQUEST: Mapping[str, float] = {"requests": 1.0}
"""What a request costs unless the application says otherwise."""

LONGEST_RETRY_S = 3_600.0
"""Retry-After if refused for ever, or by a limit that is closed: an hour."""


def refusal_body(decision: Decision) -> bytes:
    """Return the body of a 429: which limit refused, and when to come back."""
    return json.dumps(
        {
            "type": "about:blank",
            "title": "Too Many Requests",
            "status": TOO_MANY_REQUESTS,
            "detail": str(decision),
            "reason": "never" if decision.never else "quota exhausted",
            "throttle_time_ms": decision.throttle_time_ms,
        }
    ).encode()


def unusable_subject_body(error: InvalidSubject) -> bytes:
    """Return the body of a 400: the request names a subject that can't exist."""
    return json.dumps(
        {
            "type": "about:blank",
            "title": "Bad Request",
            "status": BAD_REQUEST,
            "detail": f"the caller can't be determined: {error}",
        }
    ).encode()


def retry_after_s(decision: Decision) -> int:
    """Return the whole seconds of a Retry-After header."""
    return ceil(min(decision.delay_s, LONGEST_RETRY_S))


def subject_of(asker: Mapping[str, str | None] | str) -> Mapping[str, str | None]:
    """Return a subject by kind; a text is a tenant's name."""
    return {"tenant": asker} if isinstance(asker, str) else asker


def admit(
    limiter: Limiter, costs: Mapping[str, float], longest_wait_s: float
) -> Decision:
    """Attempt, or wait in the fair queue where the group says ``wait``."""
    if limiter.waits(costs):
        return limiter.wait(timeout_s=longest_wait_s, **costs)
    return limiter.try_acquire(**costs)


async def admit_async(
    limiter: Limiter, costs: Mapping[str, float], longest_wait_s: float
) -> Decision:
    """Do what `admit` does without blocking the event loop."""
    if limiter.waits(costs):
        return await limiter.wait_async(timeout_s=longest_wait_s, **costs)
    return limiter.try_acquire(**costs)
