"""The level of a token bucket: how it refills, is set, and expires.

A level earns R units/s up to its capacity B::

    K = min(B, K + (now - T) * R)           then T = now

The state is (K, T), not one float such as the time at which the bucket is full:
after a year, floats near T are 4 ns apart, four units at 10^9 units/s, so a single
float would lose every charge of 1.  K is held as `free` - `spent`, so that what was
charged is counted exactly even if what was earned is not a whole number.

**The window.**  Where several agents share one bucket, K is the level of the whole
bucket as the coordinator replayed it, extrapolated to now, and a second number says
how much this agent may still spend before the others know of it::

    room = a - V         V: spent beyond what the others know of or expect
                         a: this agent's part of the common level

Both fall with each charge.  The room grows at the rate that the others expect of this
agent.  A bucket that nobody else shares has infinite room.

**The lull.**  PIP-322 looks at the clock only every 16 ms.  Here a bucket that has
just been looked at is charged for up to `LULL_S` without being refilled: one
comparison of times, one of levels, one addition, a third of the cost.  It never
differs from an exact bucket: if K >= 0 without the refill, it is so with it; if not,
the bucket is looked at again; and a lull ends before the bucket could overflow.

**Overflow is counted**, because the ledger has to know how much of what it credited
was lost while this bucket was full.

No lock.  Under the GIL a thread is switched only at calls and backward jumps, so
the lines from reading the level to storing it hold neither; each method says
where that stretch begins.  Where there is no GIL, or a tracer runs between the
lines, the caller holds a lock around every method (see
`headgate.agent.limiter.limiter`).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from headgate.agent.bucket.chance import Chance

if TYPE_CHECKING:
    from headgate.agent.bucket.suppression import AttemptedRate
    from headgate.agent.bucket.terms import SharedTerms

LULL_S = 0.001
"""Longest time for which a bucket is charged without being refilled: however fast
charges come, about a thousand a second are expensive."""

RACE_S = 10.0
"""How far a time may lie behind the bucket's: a thread reads the clock and is then
switched out, on a busy machine for seconds.  A larger step means that the clock was set
back; the bucket follows it."""

LEAST_DELAY_S = 1e-6
"""No delay is shorter: 0 means that a request was admitted, and a rounding error of the
level must not make a caller return within the same reading of the clock."""

NOBODY_COUNTS = bytearray(1)
"""Mark of buckets that nobody counts."""


class BucketAbove(Protocol):
    """What a bucket asks of the one above it; see `Bucket` for each method."""

    def try_acquire_at(self, now: float, cost: float) -> float:
        """Admit and charge, or refuse."""
        ...

    def charge_at(self, now: float, cost: float) -> None:
        """Charge whatever the level."""
        ...

    def path(self) -> list[BucketAbove]:
        """Return it and those above."""
        ...

    def take_back(self, cost: float) -> None:
        """Take back a charge of this bucket alone."""
        ...

    def delay_at(self, now: float, cost: float) -> float:
        """Return the delay that a request would get."""
        ...

    def fitting_at(self, now: float, each: float) -> float:
        """Return how many items would pass."""
        ...

    def available_at(self, now: float) -> float:
        """Return what may be spent."""
        ...


class Level:
    """What a bucket holds, and how that changes with time.

    Attributes:
    free: K as of `since_s`, units; infinite when unlimited.
    room: Units that this agent may spend unseen, as of `since_s`; infinite when no
        other agent shares the bucket.
    spent: Units charged since then, so that the level is `free` - `spent`.
    headroom: The smaller of `free` and `room`: while `spent` is no more, the next
        request passes.
    since_s: T, seconds on the caller's monotonic clock.
    look_s: Until when the bucket may be charged without being refilled.
    ready_s: Until when every request is refused.
    clear_s: When the debt that was met last will be paid, by the whole quota.
    rate: R, units/s until `deadline_s`; below zero while others spend more than Q.
    capacity: B, units.
    expected_rate: Units/s by which `room` grows: what the others expect and
        have left.
    window: a, units.
    room_cap: Most that `room` may become, units.
    cautious: The others expect nothing of this agent: a request must fit into the
        window, unless it is the first that they don't know of.
    quota: Units/s by which a debt is paid back, for computing delays.
    whole_rate: Units/s of all agents, where the bucket is one agent's own part, which
        may grow; 0 otherwise.
    least_delay_s: Shortest delay given: until the others could be heard.
    renewed_s: When a calendar period ends and the bucket is filled: no delay is longer.
    ceiling: Units/s for people, and for a bucket that suppresses.
    deadline_s: When `rate` ends and `reserve` begins.
    reserve: Units/s after the deadline.
    closed: Nothing passes, ever.
    may_owe: Admit while K >= 0, rather than only while K >= cost.
    maximum_cost: A cost above this is refused for ever.
    above: This process's part of the nearest strict group that the limit's is inside
        of, or of its own: it must admit as well, and is charged as well.
    plain: May owe, is not cautious, refuses no cost for ever, asks no bucket above:
        the short way applies.
    attempted: For a bucket that suppresses: the rate that it compares with its own,
        in addition to counting tokens (Ably).
    chance: Draws the numbers that suppression compares with a probability.
    folded: Units admitted before `since_s`.
    refused: Units refused by this bucket since the start.
    most_counted: Units that one attempt counts as at most when it is refused, and
        in the mean cost: one absurd cost must not look like the demand of
        thousands, for which all others would have to make room.
    overflowed: Units that were earned while the bucket was full, since the start.
    clipped: Units that were taken away because the capacity was lowered, since the
        start; what overflows because the bucket is full is not among them.
    sampled: Requests whose cost was noted: all but those within a lull.
    sampled_units: Their units; divided by `sampled`, the mean cost.
    moved: Shared with those who count: at `place`, 1 says that what is counted
        or held may have changed since they looked
        (`headgate.agent.enforcement.sampling`).
    place: Position of this bucket in `moved`.
    """

    __slots__ = (
        "above",
        "attempted",
        "capacity",
        "cautious",
        "ceiling",
        "chance",
        "clear_s",
        "clipped",
        "closed",
        "deadline_s",
        "expected_rate",
        "folded",
        "free",
        "headroom",
        "least_delay_s",
        "look_s",
        "maximum_cost",
        "may_owe",
        "most_counted",
        "moved",
        "overflowed",
        "place",
        "plain",
        "quota",
        "rate",
        "ready_s",
        "refused",
        "renewed_s",
        "reserve",
        "room",
        "room_cap",
        "sampled",
        "sampled_units",
        "since_s",
        "spent",
        "whole_rate",
        "window",
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
        """Hold min(`level`, `capacity`) units at `now`; shared with nobody.

        Args:
            now: Seconds on the caller's monotonic clock.
            rate: Units/s; 0 lets nothing through, infinity everything.
            capacity: Units that it may hold.
            level: Units at the start; full by default.
            may_owe: Admit while the level is >= 0 and then charge.
            maximum_cost: Refuse a larger cost for ever, whatever the level.
            seed: Seed of the generator that suppression draws from.
        """
        bottomless = rate == inf
        self.may_owe: bool = may_owe
        self.maximum_cost: float = maximum_cost
        self.closed: bool = rate <= 0.0
        self.free: float = inf if bottomless else min(level, capacity)
        self.room: float = inf
        self.spent: float = 0.0
        self.headroom: float = self.free
        self.since_s: float = now
        self.look_s: float = -inf
        self.ready_s: float = -inf
        self.clear_s: float = -inf
        self.rate: float = 0.0 if bottomless else rate
        self.capacity: float = inf if bottomless else capacity
        self.expected_rate: float = 0.0
        self.window: float = inf
        self.room_cap: float = inf
        self.cautious: bool = False
        self.quota: float = self.rate
        self.whole_rate: float = 0.0
        self.least_delay_s: float = LEAST_DELAY_S
        self.renewed_s: float = inf
        self.ceiling: float = rate
        self.deadline_s: float = inf
        self.reserve: float = 0.0
        self.above: BucketAbove | None = None
        self.plain: bool = False
        self.chance: Chance = Chance(seed)
        self.attempted: AttemptedRate | None = None
        self.folded: float = 0.0
        self.refused: float = 0.0
        self.overflowed: float = 0.0
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

        Grows, except when a charge is given back (by a chain that refused, or a
        reservation that was settled for less).
        """
        return self.folded + self.spent

    def held_at(self, now: float) -> float:
        """Return what may be spent at `now`, for people and reports; 0 if none.

        A closed or unlimited bucket has nothing to account for.
        """
        if self.closed or self.free == inf:
            return 0.0
        return self.available_at(now)

    def level_at(self, now: float) -> float:
        """Return the level at `now`, changing nothing; infinite when unlimited."""
        # No call, no backward jump before everything is read.
        level, since_s, rate = self.free - self.spent, self.since_s, self.rate
        capacity, deadline_s, reserve = self.capacity, self.deadline_s, self.reserve
        if now > deadline_s:
            level = min(level + max(deadline_s - since_s, 0.0) * rate, capacity)
            since_s, rate = max(deadline_s, since_s), reserve
        return min(level + max(now - since_s, 0.0) * rate, capacity)

    def available_at(self, now: float) -> float:
        """Return what this agent may spend at `now`, changing nothing, units.

        The level, or what may be spent unseen or is there above if that is less.
        """
        level = self.level_at(now)
        room = self.room - self.spent
        room += max(min(now, self.deadline_s) - self.since_s, 0.0) * self.expected_rate
        held = min(level, room, self.room_cap)
        above = self.above
        return held if above is None else min(held, above.available_at(now))

    def lower_at(
        self, now: float, *, rate_part: float, burst_part: float, capacity: float
    ) -> None:
        """Scale what this agent may do until new terms come: the limit was lowered.

        Args:
            now: Seconds on the caller's monotonic clock.
            rate_part: New rate over the one before, at most 1.
            burst_part: New burst over the one before, at most 1.
            capacity: The limit's burst, units.
        """
        self.settle(now)
        # From here to the end: no call, no backward jump.
        self.moved[self.place] = 1
        self.rate *= rate_part
        self.expected_rate *= rate_part
        self.quota *= rate_part
        self.whole_rate *= rate_part
        self.ceiling *= rate_part
        self.reserve *= rate_part
        self.room *= rate_part
        self.window *= rate_part
        if self.room == inf:  # this agent's own part
            self.capacity *= burst_part
        if capacity < self.capacity:
            self.capacity = capacity
        if self.free > self.capacity:
            self.free = self.capacity

    def set_rate_at(
        self,
        now: float,
        *,
        rate: float,
        capacity: float,
        deadline_s: float = inf,
        reserve: float = 0.0,
        credit: float = 0.0,
        whole_rate: float = 0.0,
    ) -> None:
        """Make this a bucket of this process alone: `rate` applies until the deadline.

        For limits of a node, and for an agent's own part of a strict group.  What
        was earned before `now` was earned at the old rate, and is clipped to the new
        capacity: no burst of old tokens follows a lowered limit.  What is clipped is
        counted, in the same stretch of lines.  A debt stays; but who has seen a shared
        bucket until now (an agent that is cut off, a group that becomes strict) takes
        the fraction rate/quota of its level or debt, as past a deadline.

        Args:
            now: Seconds on the caller's monotonic clock.
            rate: Units/s; infinite where unlimited.
            capacity: Units that the bucket may hold; 0 closes it.
            deadline_s: When the rate ends.
            reserve: Units/s after the deadline.
            credit: Units that others gave up for this bucket, put in once.
            whole_rate: Units/s of all agents, where this is the part of one.
        """
        self.settle(now)
        # From here to the end: no call, no backward jump.
        level = self.free - self.spent
        if self.room < inf and 0.0 < rate < self.quota:
            # So far a view of a bucket that all share: only a part of what that holds,
            # and has not been spent unseen, or of what it owes, is this agent's.
            level *= rate / self.quota
            room = self.room - self.spent
            if level > room:
                level = room if room > 0.0 else 0.0
        if rate == inf:
            # inf * 0 s is not a number, so an unlimited bucket does not refill.
            level = capacity = inf
        elif level == inf:
            level = 0.0  # tokens are not kept for later; what is owed is
        else:
            level += credit
            if level > capacity:
                self.clipped += level - capacity
        if capacity != self.capacity or credit:
            self.moved[self.place] = 1
        self.folded += self.spent
        self.spent = 0.0
        self.free = level if level < capacity else capacity
        self.room = self.window = self.room_cap = inf
        self.expected_rate = 0.0
        self.least_delay_s = LEAST_DELAY_S
        self.cautious = False
        self.ceiling = rate
        self.rate = self.quota = 0.0 if rate == inf else rate
        self.whole_rate = whole_rate
        self.capacity = capacity
        self.closed = capacity <= 0.0 and whole_rate <= 0.0
        self.deadline_s = deadline_s
        self.reserve = reserve
        self.plain = False
        self.choose_way()

    def share_at(
        self,
        now: float,
        terms: SharedTerms,
        *,
        as_of_s: float,
        counted: float,
        burst: float,
        may_owe: bool,
        deadline_s: float,
    ) -> None:
        """Make this the agent's view of a bucket that several agents share.

        Args:
            now: Seconds on the caller's monotonic clock.
            terms: What it may do until the deadline.
            as_of_s: When `terms` held.
            counted: What `admitted` was then.
            burst: Units that the bucket may hold now; less than the capacity in
                `terms` where the limit has been lowered since.
            may_owe: Admit while the level is >= 0 and then charge.
            deadline_s: When all this ends.
        """
        ceiling, level, rate, capacity, room, window, *more = terms  # 12 getters: slow
        expected_rate, room_cap, _, quota, least_delay_s, reserve = more
        if capacity > burst:
            capacity = burst
        overflowed = self.overflowed
        self.settle(now)
        # From here to the end: no call, no backward jump.
        # The ledger has cut its level at B itself, up to now.
        self.overflowed = overflowed
        old_capacity, old_room = self.capacity, self.room
        passed_s = now - as_of_s
        spent = self.folded + self.spent - counted
        if level == level:  # not NaN
            level += passed_s * rate - spent
        else:
            level = self.free - self.spent
            if level == inf:
                level = 0.0
        if room == room:
            room += passed_s * expected_rate - spent
        else:
            room = self.room - self.spent
        self.folded += self.spent
        self.spent = 0.0
        self.free = level if level < capacity else capacity
        self.room = room if room < room_cap else room_cap
        self.window, self.room_cap = window, room_cap
        self.expected_rate = expected_rate
        self.cautious = terms.cautious
        self.may_owe = may_owe
        self.rate, self.quota, self.ceiling = rate, quota, ceiling
        self.whole_rate, least = 0.0, LEAST_DELAY_S
        self.least_delay_s = least_delay_s if least_delay_s > least else least
        self.capacity = capacity
        if level < capacity or capacity != old_capacity or self.room != old_room:
            self.moved[self.place] = 1  # else a bucket at rest stays at rest
        self.closed = False
        self.deadline_s, self.reserve = deadline_s, reserve
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
        """Admit with probability ceiling/attempted from now on, or by tokens again."""
        self.attempted = attempted
        self.choose_way()

    def stand_inside(self, above: BucketAbove | None) -> None:
        """Ask and charge a bucket `above`, too, from now on, or none."""
        self.above = above
        self.choose_way()

    def fill(self) -> None:
        """Hold as much as the capacity allows, as a new bucket does."""
        self.free = self.capacity + self.spent
        self.look_s = self.ready_s = -inf

    def close_at(self, now: float) -> None:
        """Admit nothing from now on: the limit's rate is 0."""
        self.set_rate_at(now, rate=0.0, capacity=0.0)

    def choose_way(self) -> None:
        """Find out whether the short way applies from now on."""
        self.look_s = self.ready_s = -inf
        self.plain = (
            self.may_owe
            and not self.closed
            and not self.cautious
            and self.free < inf
            and self.maximum_cost == inf
            and self.attempted is None
            and self.above is None
        )

    def settle(self, now: float) -> None:
        """Bring the level to `now`; past the deadline, switch to the reserve."""
        if now > self.deadline_s:
            self._expire(self.deadline_s)
        self._refill(now)

    def _refill(self, now: float) -> None:
        # From here to the end: no call, no backward jump.
        spent = self.spent
        level, room = self.free - spent, self.room - spent
        elapsed = now - self.since_s
        if elapsed > 0.0:
            level += elapsed * self.rate
            room += elapsed * self.expected_rate
            if level > self.capacity:
                self.overflowed += level - self.capacity
                level = self.capacity
            if room > self.room_cap:
                room = self.room_cap
            self.since_s = now
        elif elapsed < -RACE_S:
            self.since_s = now
        self.look_s = self.ready_s = -inf
        self.folded += spent
        self.spent = 0.0
        self.free = level
        self.room = room

    def _expire(self, deadline_s: float) -> None:
        """Switch to the reserve: what this agent may spend without its coordinator.

        A shared bucket becomes this agent's own.  It keeps as much of the level as the
        window left it, and of the capacity, or of a debt, the fraction reserve/quota.
        """
        self._refill(deadline_s)
        # From here to the end: no call, no backward jump.
        if self.deadline_s != deadline_s:
            return  # another thread was here, or new terms came
        self.deadline_s = inf
        level, room = self.free - self.spent, self.room - self.spent
        reserve = self.reserve
        if reserve == inf:  # open: nothing is limited any more
            self.folded += self.spent
            self.spent = 0.0
            self.free = self.room = self.room_cap = self.capacity = inf
            self.rate = self.expected_rate = 0.0
            self.choose_way()
            return
        if room < inf:
            part = reserve / self.quota if self.quota > 0.0 else 0.0
            part = part if part < 1.0 else 1.0
            if level < 0.0:
                level *= part
            else:
                level = room if room < level else level
                level = level if level > 0.0 else 0.0
            self.capacity *= part
            self.folded += self.spent
            self.spent = 0.0
            self.free = level if level < self.capacity else self.capacity
            self.room = self.room_cap = self.window = inf
            self.quota = reserve
            self.closed = reserve <= 0.0
        self.expected_rate = 0.0
        self.cautious = False
        self.rate = self.ceiling = reserve
        self.choose_way()
