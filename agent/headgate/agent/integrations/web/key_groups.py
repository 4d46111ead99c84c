"""A group for each key that an application limits by, made as the keys come.

Libraries that limit by key (`limits`, and with it slowapi and flask-limiter) know a
limit and a key, such as "10 a minute" and an address.  Headgate shares the quotas of
groups.  So each pair of a limit and a key becomes a group, attached to a user of that
name; until the group is in force here, a bucket of this process stands in for it, and
what that admitted is charged to the group when it comes.

No request waits for any of it: a thread tells the API what is new, all keys of 50 ms
in one request, and removes what has been full and unused for long.  A group that is
removed when it is full loses nothing: one that is made anew begins full.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import httpx

from headgate.agent.integrations.web.answers import ONE_REQUEST
from headgate.agent.limiter.keyed import KeyedLimiter

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from headgate.agent.bucket.chain import Link
    from headgate.agent.decision import Decision
    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter.limiter import Limiter

MOST_KEYS = 10_000
"""Pairs of a limit and a key that one process asks groups for.  Each is a row in every
report that it is used in; of more, the process alone keeps the limit."""

MOST_QUOTAS = 1_000
"""Different limits whose buckets of this process are kept; an application that makes
limits up as it goes begins them anew."""

GATHER_S = 0.05
"""How long new keys are gathered for one request to the API."""

IDLE_S = 600.0
"""How long a key is unused here before its group is removed; two periods at least."""

SWEEP_S = 30.0
"""How often idle keys are looked for."""

ASKED_AGAIN_S = 5.0
"""How long after a failure, or after a group was gone, the API is asked again."""

TIMEOUT_S = 10.0
"""Of a request to the API."""

PREFIX = "limits:"
"""What the names of these groups begin with."""

MOST_SHOWN = 200
"""Characters of a key that stand in its group's name; the digest tells keys apart."""

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


class _Held:
    """What is known of one key."""

    __slots__ = ("asked_s", "in_force", "limiter", "name", "quota", "used_s")

    def __init__(self, name: str, quota: Quota, limiter: Limiter) -> None:
        self.name = name
        self.quota = quota
        self.limiter = limiter
        self.asked_s = float("-inf")
        self.used_s = 0.0
        self.in_force = False

    def governing(self) -> list[Link]:
        """Return the limits that apply once the key's own is among them."""
        links = self.limiter.links(ONE_REQUEST)
        return links if any(link.limit.group == self.name for link in links) else []


class KeyGroups:
    """Admits by key, over all processes that use the same API.

    Attributes:
        source: The agent.
        overflowed: Attempts of keys beyond `most_keys`: this process limits them alone.
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
        """Know no key yet.

        Args:
            source: The agent.
            url: Of the API.
            token: Bearer token of the role *operator*: groups are made with it.
            trust: Which authorities are believed; None for the usual ones.
            most_keys: Keys that groups are made for.
            idle_s: How long an unused key's group is kept.
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
        self._alone: dict[Quota, KeyedLimiter] = {}
        self._begin()

    def _begin(self) -> None:
        """Begin in this process: a forked child has the parent's locks, no thread."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._new: list[_Held] = []
        self._thread: threading.Thread | None = None
        self._closing = False
        for held in self._keys.values():
            held.asked_s = float("-inf")

    def __len__(self) -> int:
        """Return how many keys are known."""
        return len(self._keys)

    def try_acquire(self, key: str, quota: Quota, cost: float) -> Decision:
        """Admit and charge a key's cost, or refuse; never waits."""
        now = self._clock()
        held = self._keys.get(key) or self._add(key, quota)
        if held is None:
            self.overflowed += 1
            return self._locally(quota).try_acquire(key, cost)
        held.used_s = now
        if held.governing():
            if not held.in_force:
                self._take_over(key, held)
            return held.limiter.try_acquire(requests=cost)
        held.in_force = False
        if now - held.asked_s >= ASKED_AGAIN_S:
            self._ask_for(held, now)
        return self._locally(quota).try_acquire(key, cost)

    def level(self, key: str, quota: Quota, cost: float = 1.0) -> tuple[float, float]:
        """Return the units that a key has left here, and the delay of `cost` units."""
        held = self._keys.get(key)
        links = held.governing() if held is not None else []
        if held is None or not links:
            level = self._locally(quota).level(key)
            lack = max(cost - level, 0.0)
            return level, lack * quota.period_s / quota.amount
        now = held.limiter.clock()
        level = min(link.bucket.level_at(now) for link in links)
        decision = held.limiter.validate(requests=cost)
        return level, 0.0 if decision else decision.delay_s

    def governs(self, key: str) -> bool:
        """Say whether a key's group is in force here."""
        held = self._keys.get(key)
        return held is not None and bool(held.governing())

    def reachable(self) -> bool:
        """Say whether the API answers."""
        try:
            with self._client() as client:
                return client.get("/healthz").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Stop the thread; the groups stay."""
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
        """Charge a group that came into force with what this process admitted."""
        with self._lock:
            if held.in_force:
                return
            held.in_force = True
        missing = held.quota.amount - self._locally(held.quota).level(key)
        if missing > 0.0:
            held.limiter.charge(requests=missing)

    def _add(self, key: str, quota: Quota) -> _Held | None:
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            held = self._keys.get(key)
            if held is None and len(self._keys) < self._most:
                name = group_name(key)
                held = _Held(name, quota, self.source.limiter(user=name))
                self._keys[key] = held
            return held

    def _ask_for(self, held: _Held, now: float) -> None:
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            held.asked_s = now
            self._new.append(held)
            if self._thread is None or not self._thread.is_alive():
                self._closing = False
                self._thread = threading.Thread(
                    target=self._run, name="headgate-keys", daemon=True
                )
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        """Tell the API what is new, and remove what is idle."""
        swept_s = self._clock()
        while not self._closing:
            self._wake.wait(SWEEP_S)
            self._wake.clear()
            time.sleep(GATHER_S)
            with self._lock:
                new, self._new = self._new, []
            try:
                with self._client() as client:
                    if new:
                        self._write(client, new)
                    if self._clock() - swept_s >= SWEEP_S:
                        swept_s = self._clock()
                        self._sweep(client)
            except httpx.HTTPError as error:
                self._say(f"{type(error).__name__}: {error}")

    def _write(self, client: httpx.Client, new: list[_Held]) -> None:
        groups = {
            held.name: {
                "limits": [
                    {
                        "dimension": "requests",
                        "rate": held.quota.amount,
                        "burst": held.quota.amount,
                        "period_s": held.quota.period_s,
                    }
                ],
                "may_owe": False,
            }
            for held in new
        }
        attachments = [
            {"subject": {"user": held.name}, "group": held.name} for held in new
        ]
        answer = client.post(
            "/api/v1/apply", json={"groups": groups, "attachments": attachments}
        )
        if not answer.is_success:
            self._say(f"{answer.status_code} {answer.text[:200]}")

    def _sweep(self, client: httpx.Client) -> None:
        """Remove the groups of keys that are full, and that nobody uses."""
        now = self._clock()
        idle = [
            (key, held)
            for key, held in list(self._keys.items())
            if now - held.used_s > max(self._idle_s, 2.0 * held.quota.period_s)
        ]
        for key, held in idle:
            if self._in_use(client, held.name):
                held.used_s = now
                continue
            client.delete("/api/v1/attachments", params={"user": held.name})
            client.delete(_path(held.name))
            with self._lock:
                self._keys.pop(key, None)

    def _in_use(self, client: httpx.Client, name: str) -> bool:
        """Say whether any process uses a group, or its bucket is not full."""
        answer = client.get(f"{_path(name)}/use")
        if not answer.is_success:
            return False  # gone already
        shown = cast("Mapping[str, object]", answer.json())
        uses = cast("list[Mapping[str, float | None]]", shown["uses"])
        return any(
            (use["demand"] or 0.0) > 0.0
            or (use["level"] or 0.0) < (use["burst"] or 0.0) - 0.5
            for use in uses
        )

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
                "limits by key: the API could not be told of new keys; each process"
                " limits them alone until it can be: %s",
                what,
            )


def _path(name: str) -> str:
    return f"/api/v1/groups/{quote(name, safe='')}"


def group_name(key: str) -> str:
    """Return the name of a key's group: no slash, never longer than a name may be."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    shown = "".join(c if c.isprintable() and c not in "/ \ufffd" else "|" for c in key)
    return f"{PREFIX}{shown[:MOST_SHOWN]}:{digest}"
