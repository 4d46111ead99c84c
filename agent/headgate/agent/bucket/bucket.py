"""The token bucket: admits, charges and counts, without a lock, clock or call.

One that *may owe* admits iff K >= 0 and then charges K -= n, so a single cost may
exceed what is there and the next callers wait until the debt is paid: -K/R
seconds.  R = 5/s, B = 500 and a burst of 560 leave K = -60: 12 s (KIP-599,
PIP-322).  A *strict* bucket admits iff K >= n, and never a cost above B.

How the level K changes with time, and why no lock is needed, see
`headgate.agent.bucket.level`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.level import LULL_S, RACE_S, Level
from headgate.agent.bucket.suppression import WINDOW_S

if TYPE_CHECKING:
    from headgate.agent.bucket.suppression import AttemptedRate

LEAST_DELAY_S = 1e-6
"""No delay is shorter: a rounding error of the level must not become a caller who
returns within the same reading of the clock."""


class Bucket(Level):
    """One local bucket: of a node's limit, or of an agent's part of a group's."""

    __slots__ = ()

    def try_acquire_at(self, now: float, cost: float) -> float:
        """Admit and charge `cost` units, or refuse.

        Returns:
            0.0 when admitted, else the seconds until a retry is sensible; infinity
            when that is never, or not before the rate is changed.
        """
        # No call, no backward jump from the comparison to the store.
        if now < self.look_s and self.spent <= self.free:
            self.spent += cost
            return 0.0
        if self.since_s <= now < self.ready_s:
            self.refused += cost if cost < self.most_counted else self.most_counted
            return self.ready_s - now
        return self.look_at(now, cost)

    def look_at(self, now: float, cost: float) -> float:  # noqa: C901  # a stretch without calls can't be split
        """Refill the bucket, then do what `try_acquire_at` does."""
        # From here to the store of the level: no call, no backward jump.
        self.moved[self.place] = 1
        self.sampled_units += cost if cost < self.most_counted else self.most_counted
        self.sampled += 1
        if not self.plain or now > self.deadline_s:
            return self._try_uncommon_at(now, cost)
        free, spent = self.free, self.spent
        level = free - spent
        elapsed = now - self.since_s
        if elapsed > 0.0:
            rate = self.rate
            if spent > 0.0:
                earned = (elapsed if elapsed < LULL_S else LULL_S) * rate
                excess = free + earned - self.capacity
                if excess > 0.0:
                    level -= excess if excess < earned else earned
            level += elapsed * rate
        if level > self.capacity:
            level = self.capacity
        if level >= 0.0:
            self.free = level - cost
            self.spent = 0.0
            self.folded += spent + cost
            if elapsed > 0.0:
                self.since_s = now
            look_s = now + LULL_S
            self.look_s = look_s if look_s < self.deadline_s else self.deadline_s
            return 0.0
        if spent > 0.0:
            # What a full bucket lost within the lull is settled now: a delay that is
            # told must not grow.  Later refusals find nothing to settle, so that a
            # thousand of them round nothing.
            self.free = level
            self.spent = 0.0
            self.folded += spent
            if elapsed > 0.0:
                self.since_s = now
        self.refused += cost if cost < self.most_counted else self.most_counted
        if elapsed < -RACE_S:
            self.settle(now)
        if self.rate <= 0.0:
            return inf
        ready_s = now - level / self.rate
        if elapsed >= 0.0 and ready_s < self.deadline_s:
            self.ready_s = ready_s
        delay_s = -level / self.rate
        return delay_s if delay_s > LEAST_DELAY_S else LEAST_DELAY_S

    def delay_at(self, now: float, cost: float) -> float:
        """Return the delay that a request would meet, counting nothing.

        Returns:
            0.0 when it would be admitted, else seconds.  A bucket without tokens
            answers 0 unless it is closed: it draws no number for a question.
        """
        if self.since_s <= now < self.ready_s:
            return self.ready_s - now
        if cost > self.maximum_cost:
            return inf
        if now > self.deadline_s:
            self.settle(now)
        if self.tokenless:
            return 0.0 if self.probability > 0.0 else inf
        return self._wait_s(self.level_at(now), cost)

    def retry_after_at(self, now: float, cost: float) -> float:
        """Return the seconds until a retry of a cost just refused is sensible."""
        delay_s = self.delay_at(now, cost)
        by_chance = self.tokenless or self.attempted is not None
        if by_chance and cost <= self.maximum_cost:
            mean_s = self._mean_wait_s(cost)
            return mean_s if mean_s > delay_s or self.tokenless else delay_s
        return delay_s if delay_s > LEAST_DELAY_S else LEAST_DELAY_S

    def charge_at(self, now: float, cost: float) -> None:
        """Charge `cost` units whatever the level, and count them as admitted.

        For callers that can't be refused and for reservations settled for more.
        """
        self.settle(now)
        # From here to the end: no call, no backward jump.
        self.moved[self.place] = 1
        if not self.tokenless:
            self.free -= cost
        self.folded += cost
        self.sampled_units += cost if cost < self.most_counted else self.most_counted
        self.sampled += 1

    def give_back(self, cost: float) -> None:
        """Take back a charge, or a part of one, as if it had never been made."""
        # No call, no backward jump.
        self.moved[self.place] = 1
        self.folded -= cost
        self.ready_s = -inf
        if not self.tokenless:
            free = self.free + cost
            if free - self.spent > self.capacity:
                free = self.capacity + self.spent
            self.free = free

    def count_refused(self, cost: float) -> None:
        """Count a request that was refused on this bucket's account."""
        self.moved[self.place] = 1
        self.refused += cost if cost < self.most_counted else self.most_counted
        self.sampled_units += cost if cost < self.most_counted else self.most_counted
        self.sampled += 1

    def uncount_refused(self, cost: float) -> None:
        """Take back what was counted of a refusal: it was admitted after all."""
        self.moved[self.place] = 1
        self.refused -= cost if cost < self.most_counted else self.most_counted

    def _try_uncommon_at(self, now: float, cost: float) -> float:
        """Try a bucket that is strict, unlimited, without tokens, or past its end."""
        self.settle(now)
        if self.tokenless:
            return self._try_chance(cost)
        if self.attempted is not None:
            return self._try_suppressed_at(self.attempted, now, cost)
        need = 0.0 if self.may_owe else cost
        # From here to the store of the level: no call, no backward jump.
        self.moved[self.place] = 1
        level = self.free - self.spent
        if level >= need and cost <= self.maximum_cost:
            self.free -= cost
            self.folded += cost
            return 0.0
        self.refused += cost if cost < self.most_counted else self.most_counted
        return inf if cost > self.maximum_cost else self._wait_s(level, cost)

    def _try_suppressed_at(
        self, attempted: AttemptedRate, now: float, cost: float
    ) -> float:
        """Admit with probability rate/attempted, and never beyond what is there.

        The probability alone would admit thousands of a burst at one instant, before
        the attempted rate is known.  What the bucket holds is spent over a window, so
        that chance does not leave it full: admitted = rate in the long run.
        """
        most = self.most_counted
        rate = attempted.note_at(now, cost if cost < most else most)
        spendable = self.rate + max(self.free - self.spent, 0.0) / WINDOW_S
        self.probability = spendable / rate if rate > spendable else 1.0
        lucky = self.probability >= 1.0 or self.chance.draw() < self.probability
        need = 0.0 if self.may_owe else cost
        # From here to the end: no call, no backward jump.
        self.moved[self.place] = 1
        level = self.free - self.spent
        if lucky and level >= need and cost <= self.maximum_cost:
            self.free -= cost
            self.folded += cost
            return 0.0
        self.refused += cost if cost < most else most
        return inf if cost > self.maximum_cost else self._mean_wait_s(cost)

    def _try_chance(self, cost: float) -> float:
        lucky = self.chance.draw() < self.probability
        self.moved[self.place] = 1
        if lucky and cost <= self.maximum_cost:
            self.folded += cost
            return 0.0
        self.refused += cost if cost < self.most_counted else self.most_counted
        return inf if cost > self.maximum_cost else self._mean_wait_s(cost)

    def _wait_s(self, level: float, cost: float) -> float:
        need = 0.0 if self.may_owe else cost
        if level >= need:
            return 0.0
        # Of a limit with a largest cost the capacity is a part, which may grow.
        never = cost > self.capacity and self.maximum_cost == inf
        if self.rate <= 0.0 or (not self.may_owe and never):
            return inf
        return max((need - level) / self.rate, LEAST_DELAY_S)

    def _mean_wait_s(self, cost: float) -> float:
        """Return how long the next admission of `cost` takes at the ceiling."""
        return cost / self.rate if self.rate > 0.0 else inf
