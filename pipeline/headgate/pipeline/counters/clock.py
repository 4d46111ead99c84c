"""When a report's usage happened, and how far the stream is complete.

Agents' wall clocks differ and may be wrong.  A topic whose timestamps the broker
sets (``message.timestamp.type=LogAppendTime``) gives one clock for all: the
smallest delay ever seen from a sender is then its clock's error plus the least
latency, and is corrected for.  Without it (CreateTime is the sender's own clock) the
sender's time is believed and only the watermark is protected: it follows the
slowest live agent and ignores those whose clocks are far from the rest.

Rejected: Spark's own watermark, which is the maximum over all agents, so that one
fast clock closes everyone's windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN_US = 1 << 62
"""The smallest delay of a sender that has not been seen yet."""

TRUST_US = 2_000_000
"""Clock error that is tolerated, two seconds: NTP keeps clocks far closer, and such
an error moves no window by more than that."""

LONGEST_DELAY_US = 60_000_000
"""Longest time that a report may have been on its way, a minute: the bus gives up
after three seconds; if it looks older, the sender's clock jumped back."""

OUTLIER_US = 60_000_000
"""An agent whose time differs from the median's by more than this, a minute,
neither holds the watermark back nor advances it."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is known of the time of one message.

    Attributes:
        sent_us: Sender's wall clock, microseconds since the epoch.
        broker_us: Timestamp in the log.
        by_broker: The broker set it (LogAppendTime); else the sender did.
    """

    sent_us: int
    broker_us: int
    by_broker: bool


def event_time_us(stamp: Stamp, least_delay_us: int) -> tuple[int, int]:
    """Return the event time, and the sender's smallest delay from now on.

    Args:
        stamp: Of the message.
        least_delay_us: Smallest delay seen from this incarnation, or `UNKNOWN_US`.
    """
    if not stamp.by_broker:
        return stamp.sent_us, least_delay_us
    least_delay_us = min(least_delay_us, stamp.broker_us - stamp.sent_us)
    error_us = least_delay_us if abs(least_delay_us) > TRUST_US else 0
    at_us = stamp.sent_us + error_us
    # A clock may jump within an incarnation, so the broker's time bounds it.
    at_us = max(at_us, stamp.broker_us - LONGEST_DELAY_US)
    return min(at_us, stamp.broker_us + TRUST_US), least_delay_us


def reference_us(previous_us: int, heard_us: Sequence[int]) -> int:
    """Return the time up to which all live agents have reported; never falls.

    Args:
        previous_us: What this returned for the batch before, or 0.
        heard_us: Event time of each agent's last report in this batch.
    """
    if not heard_us:
        return previous_us
    middle = median_low(heard_us)
    slowest = min(t for t in heard_us if abs(t - middle) <= OUTLIER_US)
    return max(previous_us, slowest)
