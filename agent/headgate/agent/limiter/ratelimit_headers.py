"""How close a subject is to its tightest limit, as the IETF's RateLimit headers.

What remains is what is left across all processes that share the limit, as the agent
last knew it (`LocalBucket.level_at`), not the part that this process may spend now.

Encoding the two fields takes 1.5 microseconds, as long as everything else that a
middleware does.  So for a limit with more than `EXACT_BELOW` units left, the same
headers are reused for a lull (`LULL_S`), and for longer the more is left, up to
`LONGEST_TOLD_S`: what is used meanwhile is an equally small part of it.
"""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.level import LULL_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.agent.bucket.chain import Link
    from headgate.coordinator.config.configuration import Limit

Header = tuple[bytes, bytes]

MOST_WHOLE = 999_999_999_999_999
"""The largest integer of a structured field (RFC 9651)."""

EXACT_BELOW = 1_000.0
"""Below this many units, every response gives the exact number: a client that is using
its last ones counts them."""

LONGEST_TOLD_S = 0.1
"""Longest reuse of the same headers: they give the reset time in whole seconds."""


def ratelimit_headers(links: Sequence[Link], now: float) -> list[Header]:
    """Return RateLimit-Policy and RateLimit of the tightest limit.

    Args:
        links: The limits that apply.
        now: Seconds on the limiter's clock.

    Returns:
        The quota and its window; what remains, and the seconds until the bucket is
        full.  Empty if no limit has a quota to show.
    """
    link = links[0] if len(links) == 1 else tightest(links, now)
    if link is None:
        return []
    if link.told_since_s <= now < link.told_until_s:
        return link.told
    return _tell(link, now) if _tells(link) else []


def tightest(links: Sequence[Link], now: float) -> Link | None:
    """Return the limit that has the smallest part left.

    Unlimited limits are left out, and those that decide by chance unless what is left
    across the whole cluster is known.
    """
    found: Link | None = None
    least = inf
    for link in links:
        if _tells(link):
            level, full, _ = _state(link, now)
            part = level / full if full > 0.0 else 0.0
            if part < least:
                found, least = link, part
    return found


def _tell(link: Link, now: float) -> list[Header]:
    level, full, rate = _state(link, now)
    full_in_s = (full - level) / rate if rate > 0.0 else 0.0
    full_in_s = min(full_in_s, link.bucket.renewed_s - now)
    remaining = int(max(0.0, min(level, MOST_WHOLE)))
    reset_s = ceil(max(0.0, min(full_in_s, MOST_WHOLE)))
    if not link.told:  # the first time under this configuration
        link.label = _quoted(f"{link.limit.group}.{link.limit.dimension}")
        policy: Header = (b"ratelimit-policy", link.label + _policy(link.local.limit))
    else:
        policy = link.told[0]
    fields = b"%s;r=%d;t=%d" % (link.label, remaining, reset_s)
    link.told = [policy, (b"ratelimit", fields)]
    link.told_since_s = now
    held_s = min(LULL_S * level / EXACT_BELOW, LONGEST_TOLD_S)
    link.told_until_s = now + held_s if level > EXACT_BELOW else now
    return link.told


def _state(link: Link, now: float) -> tuple[float, float, float]:
    """Return the units left, the units when full, and the units/s that come back."""
    local, bucket = link.local, link.bucket
    open_ = local.limit.rate > 0.0
    if local.asked is None:
        level = bucket.available_at(now) if open_ else 0.0
        return level, bucket.capacity, bucket.quota
    level = local.level_at(now) if open_ else 0.0
    return level, local.limit.burst, local.limit.rate_per_s


def _tells(link: Link) -> bool:
    return link.local.limit.rate != inf


def _policy(limit: Limit) -> bytes:
    """Return quota and window as parameters of a policy."""
    rate, window_s = limit.rate, limit.period_s
    if 0.0 < rate < 1.0:  # quotas are whole numbers: one in so many seconds
        rate, window_s = 1.0, window_s / rate
    quota, window = min(rate, MOST_WHOLE), ceil(min(window_s, MOST_WHOLE))
    return b";q=%d;w=%d" % (quota, window)


def _quoted(name: str) -> bytes:
    """Return a name as a string in a structured field (RFC 9651)."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in name)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.encode()
