"""A bucket for each key that an application limits by, across all its processes.

Libraries that limit by key (`limits`, and with it slowapi and flask-limiter) know a
limit and a key, such as "10 a minute" and an address.  Headgate shares the quotas of
groups.  So each limit becomes a template group that is *per* user, and each key is a
user of it: the agent makes its bucket, without asking anyone (see
`headgate.coordinator.config.template_values`).

Only the template has to be created, once for each limit: a thread does so over the API,
and no request waits for it.  Until it is in force here, a bucket of this process stands
in for each key, and what that admitted is charged to the key's own bucket later.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from headgate.agent.bucket.costs import MOST_COST
from headgate.agent.enforcement.unlimited import BY_KEY
from headgate.agent.integrations.web.answers import ONE_REQUEST
from headgate.agent.limiter.keyed import KeyedLimiter
from headgate.coordinator.config.template_values import value_name

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from headgate.agent.bucket.chain import Link
    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter.limiter import Limiter

MOST_KEYS = 30_000
"""Most keys of one process that have a bucket across all processes, as many as a
template has values; further keys are limited by the process alone."""

MOST_QUOTAS = 1_000
"""Most different limits that templates are made for; an application that makes up
limits as it goes has more, which are enforced by the process alone."""

GATHER_S = 0.05
"""How long new limits are gathered for one request to the API."""

IDLE_S = 30.0
"""A key unused for this long is forgotten, and its bucket too, once it is full."""

SWEEP_STEPS = 2
"""Old keys looked at for each new one, as `KeyedLimiter` does."""

SWEEP_STEPS_WHEN_FULL = 64
"""The same if there is no room."""

ASKED_AGAIN_S = 5.0
"""How long after a failure, or after a template was gone, the API is asked again."""

WAIT_S = 30.0
"""Longest sleep of the thread."""

TIMEOUT_S = 10.0
"""Longest wait for an answer of the API."""

MOST_SHOWN = 200
"""Most characters of a key in its user's name; the digest tells keys apart."""

logger = logging.getLogger("headgate.agent")


@dataclass(frozen=True, slots=True)
class Quota:
    """What a key may do.

    Attributes:
        amount: Units per period, and at once.
        period_s: Seconds.
    """

    amount: float
    period_s: float


class _Template:
    """The group that has one limit for each key."""

    __slots__ = ("asked_s", "name", "quota")

    def __init__(self, quota: Quota) -> None:
        self.name = template_name(quota)
        self.quota = quota
        self.asked_s = float("-inf")


class _Held:
    """What is known about one key."""

    __slots__ = ("in_force", "limiter", "names", "template", "used_s")

    def __init__(self, user: str, template: _Template, limiter: Limiter) -> None:
        # Beyond the bound of a template, its own bucket governs.
        self.names = value_name(template.name, user), template.name
        self.template = template
        self.limiter = limiter
        self.used_s = 0.0
        self.in_force = False

    def governing(self) -> list[Link]:
        """Return the limits that apply; none until the key's own is among them."""
        links = self.limiter.links(ONE_REQUEST)
        return links if any(link.limit.group in self.names for link in links) else []


class KeyGroups:
    """Admits by key, across all processes that use the same API.

    Attributes:
        source: The agent.
        overflowed: Attempts of keys beyond `most_keys`, and of limits beyond
            `MOST_QUOTAS`: this process limits them alone.
        failed: Requests to the API that failed.
    """

    def __init__(
        self,
        source: LimiterSource,
        url: str,
        *,
        token: str | None = None,
        trust: ssl.SSLContext | None = None,
        most_keys: int = MOST_KEYS,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without keys.

        Args:
            source: The agent.
            url: Address of the API.
            token: Bearer token of the role *operator*: templates are made with it.
            trust: Certificate authorities to trust; None for the system's.
            most_keys: Most keys that have a bucket across all processes.
            idle_s: How long an unused key is remembered.
            clock: Seconds, monotonic.
        """
        self.overflowed = 0
        self.failed = 0
        self.source = source
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._trust = trust
        self._most = most_keys
        self._idle_s = idle_s
        self._clock = clock
        self._keys: dict[str, _Held] = {}
        self._templates: dict[Quota, _Template] = {}
        self._alone: dict[Quota, KeyedLimiter] = {}
        self._begin()

    def _begin(self) -> None:
        """Begin in this process: a fork has its parent's locks, but no thread."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._new: list[_Template] = []
        self._thread: threading.Thread | None = None
        self._closing = False
        for template in self._templates.values():
            template.asked_s = float("-inf")

    def __len__(self) -> int:
        """Return how many keys are known."""
        return len(self._keys)

    def try_acquire(self, key: str, quota: Quota, cost: float) -> Decision:
        """Admit and charge a key's cost, or refuse; never waits."""
        held = self._governed(key, quota)
        if held is None:
            return self._locally(quota).try_acquire(key, cost)
        return held.limiter.try_acquire(requests=cost)

    def charge(self, key: str, quota: Quota, cost: float) -> None:
        """Charge what a key has already cost, whatever is left; never waits."""
        held = self._governed(key, quota)
        if held is None:
            self._locally(quota).charge(key, cost)
        else:
            held.limiter.charge(requests=cost)

    def _governed(self, key: str, quota: Quota) -> _Held | None:
        """Return what is known about a key if its bucket is in force, or ask for it."""
        now = self._clock()
        held = self._keys.get(key)
        if held is None or held.template.quota != quota:
            held = self._add(key, quota, now)
        if held is None:
            self.overflowed += 1
            return None
        held.used_s = now
        if held.governing():
            if not held.in_force:
                self._take_over(key, held)
            return held
        held.in_force = False
        if now - held.template.asked_s >= ASKED_AGAIN_S:
            self._ask_for(held.template, now)
        return None

    def level(self, key: str, quota: Quota, cost: float = 1.0) -> tuple[float, float]:
        """Return the units that a key has left here, and the delay of `cost` units."""
        held = self._keys.get(key) or self._add(key, quota, self._clock())
        links = held.governing() if held is not None else []
        if held is None or not links:
            level = self._locally(quota).level(key)
            lack = max(cost - level, 0.0)
            return level, lack * quota.period_s / quota.amount
        now = held.limiter.clock()
        level = min(link.bucket.level_at(now) for link in links)
        decision = held.limiter.validate(requests=cost)
        return level, 0.0 if decision else decision.delay_s

    def limiter(self, key: str, quota: Quota) -> Limiter:
        """Return the limiter of a key, in force or not."""
        return self.source.limiter(user=user_name(key), client=template_name(quota))

    def governs(self, key: str) -> bool:
        """Return whether a key's bucket across all processes is in force here."""
        held = self._keys.get(key)
        return held is not None and bool(held.governing())

    def reachable(self) -> bool:
        """Return whether the API answers."""
        try:
            with self._client() as client:
                return client.get("/healthz").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Stop the thread; the templates stay."""
        self._closing = True
        self._wake.set()

    def _locally(self, quota: Quota) -> KeyedLimiter:
        local = self._alone.get(quota)
        if local is None:
            if len(self._alone) >= MOST_QUOTAS:
                self._alone.clear()
            local = self._alone[quota] = KeyedLimiter(
                rate=quota.amount / quota.period_s,
                burst=quota.amount,
                clock=self._clock,
                most_keys=self._most,
                may_owe=False,
            )
        return local

    def _take_over(self, key: str, held: _Held) -> None:
        """Charge a bucket that came into force with what this process admitted."""
        with self._lock:
            if held.in_force:
                return
            held.in_force = True
        missing = self._locally(held.template.quota).hand_over(key)
        held.limiter.charge(requests=missing)

    def _add(self, key: str, quota: Quota, now: float) -> _Held | None:
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            template = self._templates.get(quota)
            if template is None:
                if len(self._templates) >= MOST_QUOTAS:
                    return None
                template = self._templates[quota] = _Template(quota)
            self._keys.pop(key, None)
            if not self._has_room(now):
                return None
            limiter = self.limiter(key, quota)
            held = self._keys[key] = _Held(user_name(key), template, limiter)
            held.used_s = now
            return held

    def _has_room(self, now: float) -> bool:
        """Forget some idle keys; return whether there is room for another key."""
        full = len(self._keys) >= self._most
        for _ in range(SWEEP_STEPS_WHEN_FULL if full else SWEEP_STEPS):
            if not self._keys:
                break
            oldest = next(iter(self._keys))
            held = self._keys.pop(oldest)
            if now - held.used_s < self._idle_s:
                self._keys[oldest] = held  # at the end: the others come first
        return len(self._keys) < self._most

    def _ask_for(self, template: _Template, now: float) -> None:
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            template.asked_s = now
            self._new.append(template)
            if self._thread is None or not self._thread.is_alive():
                self._closing = False
                self._thread = threading.Thread(
                    target=self._run, name="headgate-keys", daemon=True
                )
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        """Send new limits to the API."""
        while not self._closing:
            self._wake.wait(WAIT_S)
            self._wake.clear()
            time.sleep(GATHER_S)
            with self._lock:
                new, self._new = self._new, []
            if not new:
                continue
            try:
                with self._client() as client:
                    self._write(client, new)
            except httpx.HTTPError as error:
                self._say(f"{type(error).__name__}: {error}")

    def _write(self, client: httpx.Client, new: list[_Template]) -> None:
        groups = {
            one.name: {
                "limits": [
                    {
                        "dimension": "requests",
                        "rate": one.quota.amount,
                        "burst": one.quota.amount,
                        "period_s": one.quota.period_s,
                    }
                ],
                "per": "user",
                "may_owe": False,
            }
            for one in new
        }
        attachments = [
            {"subject": {"user": None, "client": one.name}, "group": one.name}
            for one in new
        ]
        answer = client.post(
            "/api/v1/apply", json={"groups": groups, "attachments": attachments}
        )
        if not answer.is_success:
            self._say(f"{answer.status_code} {answer.text[:200]}")

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._url,
            headers=self._headers,
            timeout=TIMEOUT_S,
            trust_env=False,
            verify=True if self._trust is None else self._trust,
        )

    def _say(self, what: str) -> None:
        self.failed += 1
        if self.failed == 1:
            logger.warning(
                "limits by key: can't send new limits to the API; until that works,"
                " each process enforces them on its own: %s",
                what,
            )


def template_name(quota: Quota) -> str:
    """Return the name of the template that has a limit for each key."""
    return f"{BY_KEY}{_plain(quota.amount)} in {_plain(quota.period_s)} s"


def _plain(number: float) -> str:
    exact = float(number)
    whole = exact.is_integer() and abs(exact) < MOST_COST
    return f"{exact:.0f}" if whole else repr(exact)


def user_name(key: str) -> str:
    """Return a key's user name: no slash, and no longer than a name may be."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    shown = "".join(c if c.isprintable() and c not in "/ \ufffd" else "|" for c in key)
    return f"{BY_KEY}{shown[:MOST_SHOWN]}:{digest}"
