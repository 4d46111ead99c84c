"""The token bucket: admits, charges and counts, without a lock, clock or call.

One that *may owe* admits iff K >= 0 and then charges K -= n, so a single cost may
exceed what is there and the next callers wait until the debt is paid: -K/Q
seconds.  Q = 5/s, B = 500 and a burst of 560 leave K = -60: 12 s (KIP-599,
PIP-322).  One that may not admits iff K >= n, and never a cost above B.

Where agents share a bucket, a request must also fit into what this agent may spend
unseen: iff V <= a, or V <= 0, the first that the others don't know of
(`headgate.coordinator.allocation.window`).

How the level K changes with time, and why no lock is needed, see
`headgate.agent.bucket.level`.
"""

from __future__ import annotations

from math import floor, inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.level import LEAST_DELAY_S, LULL_S, RACE_S, Level
from headgate.agent.bucket.suppression import WINDOW_S

if TYPE_CHECKING:
    from headgate.agent.bucket.level import BucketAbove
    from headgate.agent.bucket.suppression import AttemptedRate

PART_GROWS_S = 0.25
"""Shortest delay for what an agent's part of a strict group is too small for, seconds:
the time in which the others hear what it wants, and it hears what they gave up."""


class Bucket(Level):
    """One local bucket: of a node's limit, or an agent's view of a group's."""

    __slots__ = ()

    def try_acquire_at(self, now: float, cost: float) -> float:
        """Admit and charge `cost` units, or refuse.

        Returns:
            0.0 when admitted, else the seconds until a retry is sensible; infinity
            when that is never, or not before the rate is changed.
        """
        # No call, no backward jump from the comparison to the store.
        if now < self.look_s and self.spent <= self.headroom:
            self.spent += cost
            return 0.0
        if self.since_s <= now < self.ready_s:
            self.refused += cost if cost < self.most_counted else self.most_counted
            delay_s = self.clear_s - now
            return delay_s if delay_s > self.least_delay_s else self.least_delay_s
        return self.look_at(now, cost)

    def look_at(self, now: float, cost: float) -> float:  # noqa: C901, PLR0915  # a stretch without calls can't be split
        """Refill the bucket, then do what `try_acquire_at` does."""
        # From here to the store of the level: no call, no backward jump.
        self.moved[self.place] = 1
        self.sampled_units += cost if cost < self.most_counted else self.most_counted
        self.sampled += 1
        if not self.plain or now > self.deadline_s:
            return self._try_uncommon_at(now, cost)
        spent, capacity = self.spent, self.capacity
        level, room = self.free - spent, self.room - spent
        elapsed = now - self.since_s
        over = 0.0
        if elapsed > 0.0:
            level += elapsed * self.rate
            room += elapsed * self.expected_rate
            if level > capacity:
                over = level - capacity
                level = capacity
            if room > self.room_cap:
                room = self.room_cap
        if level >= 0.0 and room >= 0.0:
            self.folded += spent + cost
            self.spent = 0.0
            self.overflowed += over
            self.free = level = level - cost
            self.room = room = room - cost
            self.headroom = level if level < room else room
            if elapsed > 0.0:
                self.since_s = now
            # The lull ends before the bucket could overflow.
            look_s = now + LULL_S
            if level + LULL_S * self.rate > capacity:
                look_s = now + (capacity - level) / self.rate
            self.look_s = look_s if look_s < self.deadline_s else self.deadline_s
            return 0.0
        if spent > 0.0 or over > 0.0:
            # Later refusals find nothing to settle, so even a thousand of them cause no
            # rounding error.
            self.folded += spent
            self.spent = 0.0
            self.overflowed += over
            self.free, self.room = level, room
            self.look_s = -inf
            if elapsed > 0.0:
                self.since_s = now
        self.refused += cost if cost < self.most_counted else self.most_counted
        if elapsed < -RACE_S:
            self.settle(now)
        # When it could pass as far as known here; the delay is computed from the quota.
        ready_s = now
        if level < 0.0:
            ready_s = now - level / self.rate if self.rate > 0.0 else inf
        if room < 0.0:
            rate = self.expected_rate
            other_s = now - room / rate if rate > 0.0 else inf
            ready_s = other_s if other_s > ready_s else ready_s
        delay_s = 0.0
        if level < 0.0:
            delay_s = -level / self.quota if self.quota > 0.0 else inf
            if delay_s > self.renewed_s - now:
                delay_s = self.renewed_s - now
        if elapsed >= 0.0 and ready_s < self.deadline_s:
            self.ready_s = ready_s
            self.clear_s = now + delay_s
        return delay_s if delay_s > self.least_delay_s else self.least_delay_s

    def delay_at(self, now: float, cost: float) -> float:
        """Return the delay that a request would get, counting nothing.

        Returns:
            0.0 when it would be admitted, else seconds.
        """
        if self.since_s <= now < self.ready_s:
            delay_s = self.clear_s - now
            return delay_s if delay_s > self.least_delay_s else self.least_delay_s
        if self.closed or cost > self.maximum_cost:
            return inf
        above = self.above
        above_s = 0.0 if above is None else above.delay_at(now, cost)
        if self.attempted is not None and self.capacity > 0.0:
            return above_s
        self.settle(now)
        delay_s = self._wait_s(cost)
        return delay_s if delay_s > above_s else above_s

    def retry_after_at(self, now: float, cost: float) -> float:
        """Return the seconds until a retry of a cost just refused is sensible."""
        if self.attempted is not None and cost <= self.maximum_cost:
            return self._mean_wait_s(cost)
        delay_s = self.delay_at(now, cost)
        return delay_s if delay_s > LEAST_DELAY_S else LEAST_DELAY_S

    def fitting_at(self, now: float, each: float) -> float:
        """Return how many items of `each` units would pass one after another."""
        fits = self._fitting_here(now, each)
        above = self.above
        if above is not None and fits > 0.0:
            fits = min(fits, above.fitting_at(now, each))
        return fits

    def _fitting_here(self, now: float, each: float) -> float:
        if self.closed or each > self.maximum_cost:
            return 0.0
        if self.attempted is not None and self.capacity > 0.0:
            return inf  # chance decides on the whole batch
        self.settle(now)
        level, room = self.free, self.room
        if level == inf:
            return inf
        # One that may owe admits items while its level is >= 0.
        fits = float(floor(level / each)) + (1.0 if self.may_owe else 0.0)
        if room < inf:
            seen = float(floor(room / each)) + (0.0 if self.cautious else 1.0)
            if seen < 1.0 and room >= self.window:
                seen = 1.0  # the first that the others don't know of
            fits = seen if seen < fits else fits
        return fits if fits > 0.0 else 0.0

    def charge_at(self, now: float, cost: float) -> None:
        """Charge `cost` units whatever the level, and count them as admitted.

        For callers that can't be refused and for reservations settled for more.
        """
        self.settle(now)
        if self.above is not None:
            self.above.charge_at(now, cost)
        # From here to the end: no call, no backward jump.
        self.moved[self.place] = 1
        self.free -= cost
        self.room -= cost
        self.folded += cost
        self.sampled_units += cost if cost < self.most_counted else self.most_counted
        self.sampled += 1

    def give_back(self, cost: float) -> None:
        """Take back a charge made just now, or a part of it, here and above."""
        for each in self.path():
            each.take_back(cost)

    def path(self) -> list[BucketAbove]:
        """Return this bucket and those above that a charge takes from now."""
        above = self.above
        return [self] if above is None else [self, *above.path()]

    def take_back(self, cost: float) -> None:
        """Take back what this bucket was charged, as if it had never been."""
        # No call, no backward jump.
        self.moved[self.place] = 1
        self.folded -= cost
        self.look_s = self.ready_s = -inf
        free = self.free + cost
        if free - self.spent > self.capacity:
            free = self.capacity + self.spent
        self.free = free
        self.room += cost

    def count_refused(self, cost: float) -> None:
        """Count a request that was refused because of this bucket."""
        self.moved[self.place] = 1
        self.refused += cost if cost < self.most_counted else self.most_counted
        self.sampled_units += cost if cost < self.most_counted else self.most_counted
        self.sampled += 1

    def uncount_refused(self, cost: float) -> None:
        """Undo the count of a refusal, because the request was admitted after all."""
        self.moved[self.place] = 1
        self.refused -= cost if cost < self.most_counted else self.most_counted

    def _try_uncommon_at(self, now: float, cost: float) -> float:
        """Try a bucket that is closed, unlimited, cautious, or past its end."""
        self.settle(now)
        if self.attempted is not None and not self.closed:
            return self._try_suppressed_at(self.attempted, now, cost)
        need = 0.0 if self.may_owe else cost
        # From here to the store of the level: no call, no backward jump.
        self.moved[self.place] = 1
        level, room = self.free - self.spent, self.room - self.spent
        if (
            level >= need
            and room >= (cost if self.cautious and room < self.window else 0.0)
            and cost <= self.maximum_cost
            and not self.closed
        ):
            self.free -= cost
            self.room -= cost
            self.folded += cost
            above = self.above
            return 0.0 if above is None else self._ask(above, now, cost)
        self.refused += cost if cost < self.most_counted else self.most_counted
        if self.closed or cost > self.maximum_cost:
            return inf
        delay_s = self._wait_s(cost)
        return delay_s if delay_s > LEAST_DELAY_S else LEAST_DELAY_S

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
        self.settle(now)
        spendable = self.ceiling + max(self.free, 0.0) / WINDOW_S
        lucky = rate <= spendable or self.chance.draw() < spendable / rate
        need = 0.0 if self.may_owe else cost
        # From here to the end: no call, no backward jump.
        self.moved[self.place] = 1
        if lucky and self.free - self.spent >= need and cost <= self.maximum_cost:
            self.free -= cost
            self.room -= cost
            self.folded += cost
            above = self.above
            return 0.0 if above is None else self._ask(above, now, cost)
        self.refused += cost if cost < self.most_counted else self.most_counted
        return inf if cost > self.maximum_cost else self._mean_wait_s(cost)

    def _ask(self, above: BucketAbove, now: float, cost: float) -> float:
        """Let the bucket above admit as well, or take back what was just charged."""
        delay_s = above.try_acquire_at(now, cost)
        if delay_s > 0.0:
            self.take_back(cost)
            self.refused += cost if cost < self.most_counted else self.most_counted
        return delay_s

    def _wait_s(self, cost: float) -> float:
        """Return the delay of a bucket that was just settled; 0.0 if it admits."""
        need = 0.0 if self.may_owe else cost
        level, room = self.free - self.spent, self.room - self.spent
        passes = room >= (cost if self.cautious and room < self.window else 0.0)
        if level >= need and passes:
            return 0.0
        if self.whole_rate > 0.0 and (self.quota <= 0.0 or cost > self.capacity):
            # Others give up what they don't need for it: no sooner than they hear of
            # it, and no faster than the whole rate.
            return max((need - level) / self.whole_rate, PART_GROWS_S)
        # With a largest cost, the capacity is only a part of the burst, and may grow.
        never = cost > self.capacity and self.maximum_cost == inf
        if self.quota <= 0.0 or (not self.may_owe and never):
            return inf
        delay_s = min((need - level) / self.quota, self.renewed_s - self.since_s)
        return max(delay_s, self.least_delay_s)

    def _mean_wait_s(self, cost: float) -> float:
        """Return how long the next admission of `cost` takes at the ceiling."""
        return cost / self.ceiling if self.ceiling > 0.0 else inf
