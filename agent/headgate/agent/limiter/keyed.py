"""Limits per key, in bounded memory, that never forget a debt.

A key that comes once must not stay for ever.  A bucket that is full again is as
good as a new one, so dropping it changes nothing; what is not full is kept.  When
all keys hold debts or missing tokens and the bound is reached, a new key shares
one bucket with all others that came too late: refused rather than forgotten.

The bucket of a key is a level and a time only (KIP-599's K and T): all keys have
the same rate, nobody reports them, and there may be a hundred thousand.
"""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.costs import MOST_COST, NOT_A_NUMBER, expected_cost, is_cost
from headgate.agent.bucket.level import RACE_S
from headgate.agent.decision import ADMITTED, Decision, LimitName, Refusal
from headgate.agent.errors import InvalidCost

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from headgate.agent.bucket.costs import Number

MOST_KEYS = 100_000
"""Keys at once by default: about 200 bytes each, 20 MB."""

IDLE_S = 60.0
"""A key is dropped when it has been full and unused for this long, or when there is no
room: one that is full again within a millisecond would be dropped and made again with
each attempt."""

SWEEP_STEPS = 2
"""Old keys looked at for each new one: two shrink a table that has grown,
and no attempt ever pays for a whole sweep."""

SWEEP_STEPS_WHEN_FULL = 64
"""The same when there is no room: rather 50 microseconds than a key turned away."""

DROPPED = -inf
"""Level of a key that is out of the table: code that still holds it is refused and
looks again, so that no charge is lost with it."""


class _Key:
    __slots__ = ("level", "since_s")

    def __init__(self, level: float, since_s: float) -> None:
        self.level: float = level
        self.since_s: float = since_s


class KeyedLimiter:
    """One limit for each key, of this process: per API key, per address, per user.

    Attributes:
        evicted: Keys dropped since the start; each was full.
        overflowed: Attempts of new keys that found the table full of debts.
    """

    __slots__ = (
        "_burst",
        "_clock",
        "_keys",
        "_lock",
        "_may_owe",
        "_most",
        "_name",
        "_overflow",
        "_rate",
        "evicted",
        "overflowed",
    )

    def __init__(
        self,
        *,
        rate: float,
        burst: float,
        clock: Callable[[], float],
        most_keys: int = MOST_KEYS,
        may_owe: bool = True,
        name: str = "keyed",
    ) -> None:
        """Make a limiter without keys.

        Args:
            rate: Units/s of each key, finite and > 0.
            burst: Units that a key may spend at once, > 0.
            clock: Seconds, monotonic.
            most_keys: Bound of the table, > 0.
            may_owe: Admit while the level is >= 0 and then charge.
            name: What decisions call the group.
        """
        if not (0.0 < rate < inf and 0.0 < burst < inf and most_keys > 0):
            raise InvalidCost(
                "expected rate, burst and most_keys finite and > 0, got"
                f" {rate}, {burst}, {most_keys}"
            )
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._most = most_keys
        self._may_owe = may_owe
        self._keys: dict[Hashable, _Key] = {}
        self._lock = threading.Lock()  # guards the table, not the buckets
        self._overflow = _Key(burst, clock())
        self._name = LimitName(name, "requests", "key", "node")
        self.evicted = 0
        self.overflowed = 0

    def __len__(self) -> int:
        """Return how many keys are kept."""
        return len(self._keys)

    def try_acquire(self, key: Hashable, cost: Number = 1.0) -> Decision:
        """Admit and charge `cost` units to `key`, or refuse.

        Raises:
            InvalidCost: The cost is negative, above 2**53 or not a number.
        """
        now = self._clock()
        held = self._keys.get(key)
        try:
            units = (
                cost
                if type(cost) is float
                else 0.0
                if cost is True
                else float(cost + 0.0)
            )
            if held is None or not 0.0 < units <= MOST_COST:
                if not is_cost(cost):
                    raise InvalidCost(expected_cost(cost))
                if units == 0.0:
                    return ADMITTED
                with self._lock:
                    held = self._find_or_add(key, now)
            # From here to the store of the level: no call, no backward jump.
            level = held.level + (now - held.since_s) * self._rate
            if level > self._burst:
                level = self._burst
            if level >= (0.0 if self._may_owe else units):
                held.level = level - units
                held.since_s = now
                return ADMITTED
        except NOT_A_NUMBER:
            if is_cost(cost):
                raise
            raise InvalidCost(expected_cost(cost)) from None
        return self._refuse(key, held, now, units)

    def charge(self, key: Hashable, cost: Number) -> None:
        """Charge what has already happened, whatever is left: any excess is owed.

        Raises:
            InvalidCost: The cost is negative, above 2**53 or not a number.
        """
        if not is_cost(cost):
            raise InvalidCost(expected_cost(cost))
        units = float(cost + 0.0)
        if units == 0.0:
            return
        now = self._clock()
        with self._lock:  # nobody drops the key meanwhile
            held = self._find_or_add(key, now)
            # From here to the store of the level: no call, no backward jump.
            level = held.level + (now - held.since_s) * self._rate
            if level > self._burst:
                level = self._burst
            held.level = level - units
            held.since_s = now

    def level(self, key: Hashable) -> float:
        """Return the units that a key holds; below zero a debt."""
        held = self._keys.get(key)
        if held is None:
            return self._burst
        level = held.level + (self._clock() - held.since_s) * self._rate
        return min(level, self._burst)

    def hand_over(self, key: Hashable) -> float:
        """Forget a key; return the units that it lacked, to be charged elsewhere."""
        now = self._clock()
        with self._lock:
            held = self._keys.pop(key, None)
            if held is None:
                return 0.0
            # From here to the store of the level: no call, no backward jump.
            level = held.level + (now - held.since_s) * self._rate
            held.level = DROPPED
        return max(self._burst - level, 0.0)

    def _refuse(self, key: Hashable, held: _Key, now: float, cost: float) -> Decision:
        if held.level == DROPPED:
            return self.try_acquire(key, cost)
        if now < held.since_s - RACE_S:
            held.since_s = now  # the clock was set back: follow it
        if not self._may_owe and cost > self._burst:
            return Refusal(inf, True, self._name)
        level = held.level + (now - held.since_s) * self._rate
        need = 0.0 if self._may_owe else cost
        return Refusal(max((need - level) / self._rate, 0.0), False, self._name)

    def _find_or_add(self, key: Hashable, now: float) -> _Key:
        """Return what a key holds; call it with the lock held."""
        held = self._keys.get(key)
        if held is not None:
            return held
        full = len(self._keys) >= self._most
        for _ in range(SWEEP_STEPS_WHEN_FULL if full else SWEEP_STEPS):
            self._look_at_oldest(now, 0.0 if full else IDLE_S)
            if full and len(self._keys) < self._most:
                break
        if len(self._keys) >= self._most:
            self.overflowed += 1
            return self._overflow
        held = self._keys[key] = _Key(self._burst, now)
        return held

    def _look_at_oldest(self, now: float, idle_s: float) -> None:
        """Drop the key that was looked at longest ago if it is full and idle."""
        if not self._keys:
            return
        key = next(iter(self._keys))
        held = self._keys.pop(key)
        # From here to the store of the level: no call, no backward jump.
        idle = now - held.since_s
        if idle >= idle_s and held.level + idle * self._rate >= self._burst:
            held.level = DROPPED
            self.evicted += 1
            return
        self._keys[key] = held  # at the end: the others come first
