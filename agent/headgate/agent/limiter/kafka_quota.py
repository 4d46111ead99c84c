"""KIP-599's numbers: a quota's burst, and an answer's throttle time and error code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.decision import Decision, Refusal

if TYPE_CHECKING:
    from headgate.agent.errors import Throttled

SAMPLES = 11
"""Kafka's `quota.window.num`: the samples it keeps, the current one included."""

WINDOW_S = 1.0
"""Kafka's `quota.window.size.seconds`."""

NONE = 0
"""Kafka's error code for an admitted request."""

THROTTLING_QUOTA_EXCEEDED = 89
"""Kafka's error code for a request refused by a quota; each topic of a batch has
one."""


def error_code(decision: Decision) -> int:
    """Return the error code that a broker answers with."""
    return NONE if decision else THROTTLING_QUOTA_EXCEEDED


def burst_units(
    rate: float, *, samples: int = SAMPLES, window_s: float = WINDOW_S
) -> float:
    """Return B = Q * S * W, the burst that a rate quota of Kafka allows.

    Args:
        rate: Q, units/s.
        samples: S.
        window_s: W, seconds.
    """
    return rate * samples * window_s


def throttle_time_ms(
    request_delay_s: float, controller_delay_s: float, *, waited_s: float = 0.0
) -> int:
    """Return the throttle time that a broker sends to its client.

    A broker that forwards to the controller receives the controller's delay; the time
    that the client has already waited is subtracted from it.

    Args:
        request_delay_s: Delay by the broker's own request quota.
        controller_delay_s: Delay by the controller's mutation quota.
        waited_s: Seconds since the controller answered.
    """
    longest_s = max(request_delay_s, controller_delay_s - waited_s, 0.0)
    return round(longest_s * 1e3)


def composed(request: Decision, controller: Throttled, now: float) -> Refusal:
    """Return the refusal for a client: the one with the longer delay.

    Args:
        request: The decision on the request here: refused, or admitted and to be muted.
        controller: What the controller said; the client has waited since then.
        now: Seconds on the monotonic clock.
    """
    waited_s = 0.0 if controller.at_s is None else now - controller.at_s
    left_s = max(controller.decision.delay_s - waited_s, 0.0)
    longer = request if request.delay_s > left_s else controller.decision
    return Refusal(
        delay_s=max(request.delay_s, left_s),
        never=controller.decision.never,
        limit=longer.limit,
        reason=controller.decision.reason,
    )
