"""The level of a token bucket: how it refills, changes its rate, and ends.

A level earns R units/s up to its capacity B::

    K = min(B, K + (now - T) * R)           then T = now

The state is (K, T), not one float such as the time at which the bucket is full:
after a year, floats near T are 4 ns apart, four units at 10^9 units/s, so a single
float would lose every charge of 1.  K is held as `free` - `spent`, so that what
was charged is counted exactly while what was earned is not a whole number.

**The lull.**  PIP-322 looks at the clock every 16 ms only.  Here a bucket that has
just been looked at is charged for `LULL_S` without being refilled: one comparison
of times, one of levels, one addition, a third of the cost.  It is never wrong in
the caller's disfavour or in the quota's: while K >= 0 without the refill it is so
with it, and when it is not the bucket is looked at again, exactly.  Only how much of
a full bucket's refill was lost is unknown, since the charges within a lull have no
times; it is taken to be the most possible, at most R * LULL_S units.  Never more than
was earned: what was charged within a lull and given back is no overflow.

No lock.  Under the GIL a thread is switched only at calls and backward jumps, so
the lines from reading the level to storing it hold neither; each method says
where that stretch begins.  Where there is no GIL, or a tracer runs between the
lines, the caller holds a lock around every method (see
`headgate.agent.limiter.limiter`).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.chance import Chance

if TYPE_CHECKING:
    from headgate.agent.bucket.suppression import AttemptedRate

LULL_S = 0.001
"""How long a bucket is charged without being refilled: 0.1 % of a second's burst
may be lost when it was full, and of a thousand charges a second one is dear."""

RACE_S = 10.0
"""How far a time may lie behind the bucket's: a thread reads the clock and is then
switched, on a busy machine for seconds.  A larger step is a clock that was set
back; the bucket follows it."""

NOBODY_COUNTS = bytearray(1)
"""Of buckets that are not told of: a mark that nobody reads."""


class Level:
    """What a bucket holds, and how that changes with time.

    Attributes:
    free: K as of `since_s`, units; infinite when unlimited.
    spent: Units charged since then, so that the level is `free` - `spent`.
    since_s: T, seconds on the caller's monotonic clock.
    look_s: Until when the bucket may be charged without being refilled.
    rate: R, units/s until `deadline_s`.
    capacity: B, units.
    deadline_s: When `rate` ends and `reserve` begins.
    reserve: Units/s after the deadline.
    probability: Chance of each request in a bucket without tokens.
    tokenless: The bucket holds no tokens; `probability` decides.
    may_owe: Admit while K >= 0, rather than only while K >= cost.
    maximum_cost: A cost above this is refused for ever.
    plain: May owe, holds tokens, refuses no cost for ever: the short way.
    attempted: Of a bucket that suppresses: the rate that it compares with its
        own, besides counting tokens (Ably).
    chance: Draws the numbers that `probability` is compared with.
    folded: Units admitted before `since_s`.
    refused: Units refused by this bucket since the start.
    most_counted: Units that one attempt counts as at most when it is refused, and
        in the mean cost: one absurd cost must not look like the demand of
        thousands, for which all others would have to make room.
    clipped: Units that were taken away because the capacity was lowered, since the
        start; what overflows because the bucket is full is not among them.
    sampled: Requests whose cost was noted: all but those within a lull.
    sampled_units: Their units; divided by `sampled` the mean cost.
    moved: Shared with those who count: at `place`, 1 says that what is counted
        or held may have changed since they looked
        (`headgate.agent.enforcement.sampling`).
    place: Of this bucket in `moved`.
    """

    __slots__ = (
        "attempted",
        "capacity",
        "chance",
        "clipped",
        "deadline_s",
        "folded",
        "free",
        "look_s",
        "maximum_cost",
        "may_owe",
        "most_counted",
        "moved",
        "place",
        "plain",
        "probability",
        "rate",
        "ready_s",
        "refused",
        "reserve",
        "sampled",
        "sampled_units",
        "since_s",
        "spent",
        "tokenless",
    )

    def __init__(
        self,
        now: float,
        *,
        rate: float,
        capacity: float,
        level: float = inf,
        may_owe: bool = True,
        maximum_cost: float = inf,
        seed: int = 1,
    ) -> None:
        """Hold min(`level`, `capacity`) units at `now`.

        Args:
            now: Seconds on the caller's monotonic clock.
            rate: Units/s; 0 lets nothing through, infinity everything.
            capacity: Units that it may hold.
            level: Units at the start; full by default.
            may_owe: Admit while the level is >= 0 and then charge.
            maximum_cost: Refuse a larger cost for ever, whatever the level.
            seed: Of the generator that decides when a probability is set.
        """
        closed = rate <= 0.0
        bottomless = rate == inf
        self.may_owe: bool = may_owe
        self.maximum_cost: float = maximum_cost
        self.free: float = inf if bottomless else min(level, capacity)
        self.spent: float = 0.0
        self.since_s: float = now
        self.look_s: float = -inf
        self.ready_s: float = -inf
        self.rate: float = 0.0 if bottomless else rate
        self.capacity: float = inf if bottomless else capacity
        self.deadline_s: float = inf
        self.reserve: float = 0.0
        self.probability: float = 0.0 if closed else 1.0
        self.tokenless: bool = closed
        self.plain: bool = False
        self.chance: Chance = Chance(seed)
        self.attempted: AttemptedRate | None = None
        self.folded: float = 0.0
        self.refused: float = 0.0
        self.clipped: float = 0.0
        self.most_counted: float = inf
        self.sampled: int = 0
        self.sampled_units: float = 0.0
        self.moved: bytearray = NOBODY_COUNTS
        self.place: int = 0
        self.choose_way()

    @property
    def admitted(self) -> float:
        """Units admitted since the start.

        Grows, but for what was charged and given back (a chain that refused, a
        reservation that was settled for less).
        """
        return self.folded + self.spent

    def held_at(self, now: float) -> float:
        """Return the tokens held at `now`; 0 where the bucket holds none at all.

        A bucket without tokens, and an unlimited one, has nothing to account for.
        """
        level = self.level_at(now)
        return 0.0 if self.tokenless or level == inf else level

    def level_at(self, now: float) -> float:
        """Return the level at `now`, changing nothing; infinite when unlimited."""
        # No call, no backward jump before everything is read.
        free, spent, since_s, rate = self.free, self.spent, self.since_s, self.rate
        deadline_s, reserve, capacity = self.deadline_s, self.reserve, self.capacity
        level = free - spent
        if spent > 0.0 and now > since_s:
            earned = min(now - since_s, LULL_S) * rate
            level -= min(max(0.0, free + earned - capacity), earned)
        if now > deadline_s:
            level = min(level + max(deadline_s - since_s, 0.0) * rate, capacity)
            since_s, rate = max(deadline_s, since_s), reserve
        return min(level + max(now - since_s, 0.0) * rate, capacity)

    def set_ceiling_at(
        self,
        now: float,
        *,
        ceiling: float,
        capacity: float,
        probability: float = 1.0,
        deadline_s: float = inf,
        reserve: float = 0.0,
        credit: float = 0.0,
    ) -> None:
        """Refill at `ceiling` units/s from now on, until the deadline.

        What was earned before `now` was earned at the old rate, and is clipped to
        the new capacity: no burst of old tokens follows a lowered limit.  What is
        clipped is counted, in the same stretch of lines.  A debt stays, also
        where no tokens are held any more: an agent may lose all of its part of a
        strict group and get it back, and what it owes would be admitted twice.

        Args:
            now: Seconds on the caller's monotonic clock.
            ceiling: Units/s; infinite where unlimited.
            capacity: Units that the bucket may hold.
            probability: Below 1, or with `capacity` 0: no tokens are held, each
                request is admitted with this chance (small quotas).
            deadline_s: When the ceiling ends.
            reserve: Units/s after the deadline.
            credit: Units that others gave up for this bucket, put in once.
        """
        if now > self.deadline_s:
            self._expire(self.deadline_s)
        self._refill(now)
        # From here to the end: no call, no backward jump.
        bottomless = ceiling == inf
        tokenless = not bottomless and (probability < 1.0 or capacity <= 0.0)
        level = self.free - self.spent
        if bottomless:
            # inf * 0 s is not a number, so an unlimited bucket does not refill.
            level = capacity = inf
            ceiling = 0.0
        elif level == inf or (level > 0.0 and (tokenless or self.tokenless)):
            level = 0.0  # tokens are not kept for later; what is owed is
        if not (tokenless or bottomless):
            level += credit
            if level > capacity:
                self.clipped += level - capacity
        if capacity != self.capacity or tokenless != self.tokenless or credit:
            self.moved[self.place] = 1
        self.folded += self.spent
        self.spent = 0.0
        self.free = level if level < capacity else capacity
        self.look_s = self.ready_s = -inf
        self.rate = ceiling
        self.capacity = capacity
        self.tokenless = tokenless
        self.probability = probability if ceiling > 0.0 else 0.0
        self.deadline_s = deadline_s
        self.reserve = reserve
        self.plain = False
        self.choose_way()

    def set_policy(self, *, may_owe: bool, maximum_cost: float) -> None:
        """Change what the bucket admits, not what it holds.

        Args:
            may_owe: Admit while the level is >= 0 and then charge.
            maximum_cost: Refuse a larger cost for ever.
        """
        self.may_owe = may_owe
        self.maximum_cost = maximum_cost
        self.choose_way()

    def suppress(self, attempted: AttemptedRate | None) -> None:
        """Admit with probability rate/attempted from now on, or by tokens again."""
        self.attempted = attempted
        self.choose_way()

    def fill(self) -> None:
        """Hold as much as the capacity allows, as a new bucket does."""
        self.free = self.capacity + self.spent
        self.ready_s = -inf

    def close_at(self, now: float) -> None:
        """Let nothing through from now on: the limit's rate is 0."""
        self.set_ceiling_at(now, ceiling=0.0, capacity=0.0)

    def choose_way(self) -> None:
        """Find out whether the short way applies from now on."""
        self.look_s = self.ready_s = -inf
        self.plain = (
            self.may_owe
            and not self.tokenless
            and self.free < inf
            and self.maximum_cost == inf
            and self.attempted is None
        )

    def settle(self, now: float) -> None:
        """Bring the level to `now`; past the deadline, go over to the reserve."""
        if now > self.deadline_s:
            self._expire(self.deadline_s)
        self._refill(now)

    def _refill(self, now: float) -> None:
        # From here to the end: no call, no backward jump.
        free, spent = self.free, self.spent
        level = free - spent
        elapsed = now - self.since_s
        if elapsed > 0.0:
            if spent > 0.0:
                earned = (elapsed if elapsed < LULL_S else LULL_S) * self.rate
                excess = free + earned - self.capacity
                if excess > 0.0:
                    level -= excess if excess < earned else earned
            level += elapsed * self.rate
            self.since_s = now
        elif elapsed < -RACE_S:
            self.since_s = now
        self.look_s = self.ready_s = -inf
        self.folded += spent
        self.spent = 0.0
        self.free = level if level < self.capacity else self.capacity

    def _expire(self, deadline_s: float) -> None:
        self._refill(deadline_s)
        # From here to the end: no call, no backward jump.
        if self.deadline_s != deadline_s:
            return  # another thread was here, or a new ceiling came
        if self.tokenless and self.reserve > 0.0:
            # No chance keeps to a rate whatever the demand, so the reserve is an
            # ordinary bucket that holds nothing but may owe.
            self.tokenless = False
            self.capacity = self.free = 0.0
            self.choose_way()
        elif self.tokenless:
            self.probability = 0.0
        self.rate = self.reserve
        self.deadline_s = inf
