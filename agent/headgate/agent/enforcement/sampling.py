"""What the coordinator learns about the local buckets, as columns.

**Who moved.**  An agent may have ten thousand buckets, most of them full and not asked
for anything; walking over all of them twenty times a second would take a tenth of a
core.  So each bucket marks itself in an array of bytes whenever it is charged or counts
a refusal, and only marked ones are looked at.  A mark is cleared when a bucket is *at
rest*: full, and not within a lull.  Charges within a lull are not marked, on purpose:
that is the short way.  Hence the same stretch of lines that clears a mark makes the
bucket take the long way at its next attempt, and nothing is lost between the two.

Not thread-safe: the enforcer holds its lock around every method.
"""

from __future__ import annotations

from itertools import repeat, starmap
from math import inf, nan
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.bucket.terms import SharedTerms
from headgate.coordinator.messages.events import Counted, Keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.local import LocalBucket
    from headgate.coordinator.messages.events import SetCeilings

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

KEYS_KEPT = 2
"""Generations of keys that `SetCeilings` may point into: the present one, and the
one that a step under way in the agent's thread was given."""

COST_WEIGHT = 0.3
"""Weight of the newest tick in the mean cost: three ticks make up most of it."""

FIRST_COST = 1.0
"""Mean cost before the first request: most dimensions count single things."""

RENEWED_PART = 0.25
"""Terms that still hold are extended once this fraction of a lease has passed."""

FEW = 12
"""Up to this many buckets are read one by one: columns cost as much as twelve."""

READ = (
    "spent",
    "folded",
    "refused",
    "sampled",
    "sampled_units",
    "free",
    "since_s",
    "rate",
    "capacity",
    "deadline_s",
    "reserve",
    "closed",
    "look_s",
    "clipped",
    "overflowed",
    "room",
    "room_cap",
    "expected_rate",
)
"""What is read of a bucket; the getter is in C, so no other thread runs in between."""

_read = attrgetter(*READ)

_packed = Struct(f"{len(READ)}d").pack
"""Makes a row of doubles; letting numpy take them one by one costs a quarter more."""


class Columns:
    """The buckets of one `Keys`, and what was last reported about them."""

    def __init__(self, locals_: list[LocalBucket], before: Columns | None) -> None:
        """Order the buckets; carry over what `before` knew of those that stay.

        Args:
            locals_: The cluster-scoped buckets in use.
            before: The columns of the last keys.
        """
        self.locals = sorted(
            locals_, key=lambda local: (local.limit.dimension, local.group.id)
        )
        self.buckets: list[Bucket] = [local.bucket for local in self.locals]
        self._strict = any(local.group.mode == "strict" for local in self.locals)
        names = tuple(sorted({local.limit.dimension for local in self.locals}))
        index = {name: position for position, name in enumerate(names)}
        self.keys = Keys(
            names,
            _integers([index[local.limit.dimension] for local in self.locals]),
            _integers([local.group.id for local in self.locals]),
            {
                local.group.id: local.group.template
                for local in self.locals
                if local.group.template is not None
            },
        )
        count = len(self.locals)
        self._refused, self._admitted = np.zeros((2, count))
        self._held = np.full(count, nan)
        self._clipped, self._overflowed = np.zeros((2, count))
        self._sampled, self._sampled_units = np.zeros((2, count))
        self._cost = np.full(count, FIRST_COST)
        self._said: Counted | None = None
        self._uses: Mapping[int, int] | None = None
        self._subjects = np.zeros(count, dtype=np.int64)
        self._lease_s, self._renewed_at = 0.0, -inf
        self.moved = bytearray(b"\x01" * count)
        if before is not None:
            self._carry_over(before)
        for place, bucket in enumerate(self.buckets):
            # No call, no backward jump.
            bucket.moved = self.moved
            bucket.place = place
        self._allowances = [
            (row, local.allowance)
            for row, local in enumerate(self.locals)
            if local.allowance is not None
        ]

    @property
    def at_rest(self) -> bool:
        """Whether no bucket moved since the last look, and no group is strict."""
        return not self._strict and 1 not in self.moved

    def counted(self, now: float, uses: Mapping[int, int]) -> Counted:
        """Read the counters of all buckets that are not at rest.

        Args:
            now: Seconds on the enforcer's clock.
            uses: Number of limiters by group id; never changed once given.
        """
        if now - self._renewed_at > RENEWED_PART * self._lease_s:
            self._renew(now)
        # Search a copy: numpy would let other threads set marks meanwhile.
        rows = np.frombuffer(bytes(self.moved), np.uint8).nonzero()[0]
        if uses is not self._uses and uses != self._uses:
            self._count_subjects(uses)
        elif self._said is not None and not len(rows):
            return self._said
        if len(rows) <= FEW:
            for row in rows.tolist():
                self._look(row, self.buckets[row], now)
        else:
            self._look_at_many(rows, now)
        for row, allowance in self._allowances:
            # Permits are about these; their tokens may not be at rest.
            self._held[row] = allowance.held_at(now)
            self._clipped[row] = allowance.clipped
            self.moved[row] = 1
        self._said = Counted(
            keys=self.keys,
            refused=self._refused.copy(),
            admitted=self._admitted.copy(),
            held=self._held.copy(),
            cost=self._cost.copy(),
            subjects=self._subjects,
            clipped=self._clipped.copy(),
            overflowed=self._overflowed.copy(),
        )
        return self._said

    def _renew(self, now: float) -> None:
        """Extend the terms of shared buckets by another lease.

        They have a deadline because a coordinator may hang.  One that asks for counters
        is alive, and sets new terms where anything has changed, but not for a full
        bucket at rest, which would otherwise shrink to this agent's part.
        """
        self._renewed_at, deadline_s = now, now + self._lease_s
        for bucket in self.buckets:
            # Terms that have ended, or are not those of a shared bucket, stay.
            if bucket.window < inf and now < bucket.deadline_s < deadline_s:
                bucket.deadline_s = deadline_s

    def _count_subjects(self, uses: Mapping[int, int]) -> None:
        self._uses = uses
        groups: list[int] = self.keys.group_ids.tolist()
        self._subjects = _integers([uses.get(group_id, 0) for group_id in groups])

    def _look(self, row: int, bucket: Bucket, now: float) -> None:
        """Read one bucket."""
        # Counters first: what is charged meanwhile is seen at the next look.
        spent, folded, refused = bucket.spent, bucket.folded, bucket.refused
        sampled = bucket.sampled
        # A charge that is given back lowers a counter; the others must never see
        # it fall, so it stands still until new charges have caught up.
        self._admitted[row] = max(self._admitted.item(row), folded + spent)
        self._refused[row] = max(self._refused.item(row), refused)
        if sampled != self._sampled.item(row):
            self._sample(row, sampled, bucket.sampled_units)
        held = bucket.held_at(now)
        self._held[row] = held
        self._clipped[row] = bucket.clipped
        self._overflowed[row] = bucket.overflowed
        level = bucket.level_at(now)
        still = bucket.expected_rate == 0.0 or level == held
        if (
            bucket.closed
            or bucket.capacity == inf
            or (still and bucket.capacity == level)
        ):
            self._rest([row], [[spent], [folded], [refused], [sampled]], now)

    def _sample(self, row: int, sampled: int, sampled_units: float) -> None:
        """Bring the mean cost of one bucket's requests up to date."""
        before = self._sampled.item(row)
        units, made = sampled_units - self._sampled_units.item(row), sampled - before
        if made > 0 and units > 0.0:
            mean = units / made
            cost = self._cost.item(row)
            self._cost[row] = (
                mean if before == 0 else cost + COST_WEIGHT * (mean - cost)
            )
        self._sampled[row], self._sampled_units[row] = sampled, sampled_units

    def _look_at_many(self, rows: Ints, now: float) -> None:
        """Do what `_look` does, on columns."""
        of, at = self.buckets, rows.tolist()
        values = starmap(_packed, map(_read, map(of.__getitem__, at)))
        read = np.frombuffer(b"".join(values), np.float64)
        columns: dict[str, Floats] = dict(
            zip(READ, read.reshape(len(at), len(READ)).T.copy(), strict=True)
        )
        admitted = columns["folded"] + columns["spent"]
        self._admitted[rows] = np.maximum(self._admitted[rows], admitted)
        self._refused[rows] = np.maximum(self._refused[rows], columns["refused"])
        self._sample_many(rows, columns["sampled"], columns["sampled_units"])
        level, held = levels_of(columns, now)
        self._held[rows] = held
        # Not at rest while what may be spent unseen still grows.
        still = (columns["expected_rate"] == 0.0) | (level == held)
        self._clipped[rows] = columns["clipped"]
        self._overflowed[rows] = columns["overflowed"]
        capacity = columns["capacity"]
        full = (
            (still & (level == capacity))
            | (capacity == inf)
            | (columns["closed"] > 0.0)
        )
        full &= columns["look_s"] <= now
        if np.count_nonzero(full):
            known = [columns[name][full].tolist() for name in READ[:4]]
            self._rest(rows[full].tolist(), known, now)

    def _sample_many(self, rows: Ints, sampled: Floats, units: Floats) -> None:
        """Do what `_sample` does, on columns."""
        before, cost = self._sampled[rows], self._cost[rows]
        grown, made = units - self._sampled_units[rows], sampled - before
        some = (made > 0.0) & (grown > 0.0)
        mean = grown / np.where(some, made, 1.0)
        mixed = np.where(before == 0.0, mean, cost + COST_WEIGHT * (mean - cost))
        self._cost[rows] = np.where(some, mixed, cost)
        self._sampled[rows], self._sampled_units[rows] = sampled, units

    def _rest(self, rows: list[int], known: list[list[float]], now: float) -> None:
        """Clear the marks of full buckets that have not changed since they were read.

        Args:
            rows: Rows of the buckets.
            known: Their `spent`, `folded`, `refused` and `sampled`.
            now: Seconds on the enforcer's clock.
        """
        moved, buckets = self.moved, self.buckets
        row: int
        for row, spent, folded, refused, sampled in zip(rows, *known, strict=True):
            bucket = buckets[row]
            # From here to the end of the loop: no call.  No attempt by the short
            # way comes after it, and each by the long way sets the mark again.
            if (
                bucket.look_s <= now
                and bucket.spent == spent
                and bucket.folded == folded
                and bucket.refused == refused
                and bucket.sampled == sampled
            ):
                bucket.look_s = bucket.ready_s = -inf
                moved[row] = 0

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Set what the coordinator decided, where the limit still has a rate."""
        new, given = ceilings.ceilings, ceilings.credit
        columns = (getattr(new, name).tolist() for name in SharedTerms._fields)
        if len(ceilings.index):
            self._lease_s = ceilings.deadline_s.item(0) - ceilings.as_of_s
        changes = zip(
            map(self.locals.__getitem__, ceilings.index.tolist()),
            new.shared.tolist(),
            new.share.tolist(),
            map(SharedTerms._make, zip(*columns, strict=True)),
            ceilings.counted.tolist(),
            ceilings.deadline_s.tolist(),
            repeat(0.0) if given is None else given.tolist(),
            strict=False,  # `repeat` has no end
        )
        for local, shared, share, terms, counted, deadline_s, credit in changes:
            limit = local.limit
            # The step may have been taken before the limit was closed or opened.
            if not 0.0 < limit.rate < inf:
                continue
            local.share = share
            if shared:
                local.bucket.share_at(
                    now,
                    terms,
                    as_of_s=ceilings.as_of_s,
                    counted=counted,
                    burst=limit.burst,
                    may_owe=local.group.may_owe,
                    deadline_s=deadline_s,
                )
            else:
                whole_rate = terms.quota if local.group.mode == "strict" else 0.0
                if local.allowance is not None:
                    local.allowance.set_rate_at(
                        now,
                        rate=share,
                        capacity=share / limit.rate_per_s * limit.burst,
                        deadline_s=deadline_s,
                        reserve=terms.reserve,
                        credit=credit,
                        whole_rate=whole_rate,
                    )
                local.bucket.set_rate_at(
                    now,
                    rate=terms.rate,
                    capacity=min(terms.capacity, limit.burst),
                    deadline_s=deadline_s,
                    reserve=terms.reserve,
                    credit=credit,
                    whole_rate=whole_rate,
                )

    def _carry_over(self, before: Columns) -> None:
        self._lease_s = before._lease_s
        old = {id(bucket): row for row, bucket in enumerate(before.buckets)}
        pairs = [(row, old.get(id(bucket))) for row, bucket in enumerate(self.buckets)]
        to = _integers([row for row, place in pairs if place is not None])
        of = _integers([place for _, place in pairs if place is not None])
        for name in ("_refused", "_admitted", "_sampled", "_sampled_units", "_cost"):
            getattr(self, name)[to] = getattr(before, name)[of]


def levels_of(read: Mapping[str, Floats], now: float) -> tuple[Floats, Floats]:
    """Return ``float64[K]`` what `Level.level_at` and `Level.held_at` return.

    Args:
        read: Columns by the names of `READ`.
        now: Seconds on the enforcer's clock.
    """
    free, spent, since_s = read["free"], read["spent"], read["since_s"]
    rate, capacity, deadline_s = read["rate"], read["capacity"], read["deadline_s"]
    # Infinite values become 0 below, whatever happens to them on the way.
    with np.errstate(invalid="ignore"):
        room = read["room"] - spent
        passed_s = np.maximum(np.minimum(now, deadline_s) - since_s, 0.0)
        room = np.minimum(room + passed_s * read["expected_rate"], read["room_cap"])
        level = free - spent
        over = now > deadline_s
        if np.count_nonzero(over):
            ended = level + np.maximum(deadline_s - since_s, 0.0) * rate
            level = np.where(over, np.minimum(ended, capacity), level)
            since_s = np.where(over, np.maximum(deadline_s, since_s), since_s)
            rate = np.where(over, read["reserve"], rate)
        level = np.minimum(level + np.maximum(now - since_s, 0.0) * rate, capacity)
        nothing = (read["closed"] > 0.0) | (free == inf)
        return level, np.where(nothing, 0.0, np.minimum(level, room))


def _integers(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
