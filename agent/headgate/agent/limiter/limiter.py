"""What a service developer uses: `try_acquire` for one subject.

A limiter keeps, for each dimension, the chain of buckets that apply to its
subject.  Either all admit and are charged, or none is charged and the longest delay
wins.  An attempt reads the clock once, takes no lock and does no I/O.

When the configuration changes, the enforcer empties the limiter's chains; the next
attempt of each dimension resolves them again.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.chain import (
    Chain,
    charge_chain_at,
    give_back,
    give_back_before,
    give_back_to,
)
from headgate.agent.bucket.compiled import mypyc_attr
from headgate.agent.bucket.costs import (
    MOST_COST,
    NOT_A_NUMBER,
    asked_costs,
    check_dimension,
    checked_costs,
    explained,
)
from headgate.agent.decision import ADMITTED, Decision, Partial, Refusal
from headgate.agent.errors import InvalidCost, InvalidDimension
from headgate.agent.limiter.deadlines import checked_seconds
from headgate.agent.limiter.handle import DimensionHandle
from headgate.agent.limiter.refusal import RECONSIDERED_S, refuse, settle_refusal
from headgate.agent.limiter.reservation import MOST_OPEN_S, Estimate, Reservation
from headgate.agent.limiter.slots import LEASE_S, SlotClaim, checked_lease

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from threading import Lock

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.chain import Link, Taken
    from headgate.agent.bucket.costs import Number
    from headgate.agent.follow.subject import Subject
    from headgate.agent.limiter.slots import Slot, SlotResolver
    from headgate.coordinator.config.configuration import Refusal as RefusalMode

MOST_DIMENSIONS = 64
"""Different dimensions of one limiter; more is a mistake such as a name per user."""


_NOTHING: Number = 0.0
"""The default of `requests`, recognised by identity: a caller's own 0 is a cost that
happens to be nothing, while no cost at all is probably a mistake."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Limiter:
    """Admits or refuses what one subject attempts.

    Made by `Agent.limiter` or `Enforcer.limiter`; safe to share among threads.

    Attributes:
        subject: Who asks.
        refusal: What a refusal means to this caller; None for what each group says.
        clock: Seconds, monotonic; read once per attempt.
    """

    __slots__ = (
        "_chains",
        "_handles",
        "_lock",
        "_requests",
        "_resolver",
        "clock",
        "refusal",
        "subject",
    )

    def __init__(
        self,
        subject: Subject,
        resolver: SlotResolver[Limiter],
        *,
        lock: Lock | None,
        refusal: RefusalMode | None = None,
    ) -> None:
        """Make a limiter whose chains are found when they are first needed.

        Args:
            subject: Who asks.
            resolver: Finds chains, and the limiters of the same subject.
            lock: Held around each attempt where there is no GIL, or None.
            refusal: What a refusal means to this caller.
        """
        self.subject = subject
        self.refusal: RefusalMode | None = refusal
        self._resolver = resolver
        self.clock = resolver.clock
        self._lock = lock
        self._chains: dict[str, Chain] = {}
        self._handles: dict[str, DimensionHandle[Limiter]] = {}
        # The chain of the commonest dimension, reached without a dictionary; None while
        # it must be resolved, or if a lock must be held.
        self._requests: Chain | None = None

    def try_acquire(self, *, requests: Number = _NOTHING, **costs: Number) -> Decision:
        """Admit and charge the costs by dimension, or refuse; never waits.

        Args:
            requests: Units of the dimension ``requests``.
            costs: Units of other dimensions, such as ``publish_messages=10``.  A
                cost of 0 asks for nothing and meets no limit.

        Returns:
            A decision, truthy when admitted.

        Raises:
            InvalidCost: A cost is negative, above 2**53, True, False or not a number.
            InvalidDimension: A dimension is not an identifier.
        """
        # These lines are repeated in `DimensionHandle.try_acquire`: calling it from
        # here makes the commonest attempt 8 % slower.
        now = self.clock()
        chain = self._requests
        try:
            # True adds up to 1; as 0 it is looked at closely, and refused.
            cost = (
                requests
                if type(requests) is float
                else 0.0
                if requests is True
                else float(requests + 0.0)
            )
            if chain is None or costs or not 0.0 < cost <= MOST_COST:
                if requests is not _NOTHING:
                    costs["requests"] = requests
                return self.attempt(now, costs)
            only = chain.only
            if only is not None:
                alone = only.bucket
                if now < alone.look_s and alone.spent <= alone.headroom:
                    alone.spent += cost
                    return chain.admitted
                if alone.since_s <= now < alone.ready_s:
                    return only.refuse_again(now, cost)
            for bucket in chain.buckets:
                if now < bucket.look_s and bucket.spent <= bucket.headroom:
                    bucket.spent += cost
                elif bucket.try_acquire_at(now, cost) > 0.0:
                    return refuse(chain, "requests", now, cost, bucket)
        except NOT_A_NUMBER as error:
            raise explained(error, {**costs, "requests": requests}) from None
        return chain.admitted

    def try_acquire_at(self, now: float, **costs: Number) -> Decision:
        """Do what `try_acquire` does at a given time of the limiter's clock."""
        return self.attempt(now, costs)

    def try_acquire_some(self, *, each: Number = 1.0, **costs: Number) -> Partial:
        """Admit the part of a batch that fits (KIP-599).

        Args:
            each: Units of one item: whole items are admitted.
            costs: Units of the whole batch, of one dimension.
        """
        now = self.clock()
        item = checked_costs({"each": each})["each"]
        if len(costs) != 1 or not 0.0 < item <= MOST_COST:
            raise InvalidCost("expected one dimension and a finite size `each` > 0")
        ((dimension, cost),) = checked_costs(costs).items()
        admitted = self._fitting(now, dimension, cost, item)
        if admitted > 0.0:
            decision = self.attempt(now, {dimension: admitted})
            if not decision:
                return Partial(0.0, cost, decision)
        rest = cost - admitted
        if rest <= 0.0:
            return Partial(cost, 0.0, ADMITTED)
        decision = self.attempt(now, {dimension: rest})
        if decision:  # a lenient mode, or another thread gave back in between
            return Partial(cost, 0.0, decision)
        return Partial(admitted, rest, decision)

    def validate(self, **costs: Number) -> Decision:
        """Return what `try_acquire` would answer; charges and counts nothing.

        KIP-599: a request with *validate only* costs nothing.
        """
        return self.foresee(self.clock(), costs)

    def charge(self, **costs: Number) -> None:
        """Charge what has already happened, whatever is left: any excess is owed."""
        now = self.clock()
        for dimension, cost in asked_costs(costs).items():
            chain = self.chain(dimension)
            with self._lock or nullcontext():
                for bucket in chain.buckets:
                    bucket.charge_at(now, cost)

    def count_refused(self, **costs: Number) -> None:
        """Count an attempt that was not made, where it would have been refused."""
        now = self.clock()
        for dimension, cost in asked_costs(costs).items():
            for bucket in self.chain(dimension).buckets:
                if bucket.delay_at(now, cost) > 0.0:
                    bucket.count_refused(cost)

    def reserve(
        self,
        *,
        estimate: Estimate | None = None,
        timeout_s: Number = MOST_OPEN_S,
        wait_s: Number | None = None,
        **costs: Number,
    ) -> Reservation:
        """Charge a cost that is known only afterwards; settle the actual one.

        ``with limiter.reserve(tokens=500) as reservation: ...
        reservation.settle(734)``, or ``async with``.  Entering a reservation that was
        refused raises `Throttled`, whose `decision` says which limit refused, when to
        come back, and why a caller who waited got nothing.

        Args:
            estimate: Running average that gives the cost of its dimension.
            timeout_s: When a reservation that nobody settled is returned.
            wait_s: Longest wait in the fair queue, which begins when the block is
                entered; by default nothing waits.
            costs: Units by dimension.

        Returns:
            A reservation, falsy when refused; with `wait_s`, falsy until its block is
            entered.

        Raises:
            InvalidCost: A cost is negative, above 2**53 or not a number, or the
                estimate gives it as well.
            InvalidDimension: A dimension is not an identifier.
        """
        if estimate is not None:
            if estimate.dimension in costs:
                raise InvalidCost(
                    f"{estimate.dimension}: expected an estimate or a cost, not both"
                )
            costs[estimate.dimension] = estimate.units
        units = asked_costs(costs)
        reservation = Reservation(
            units,
            self,
            clock=self.clock,
            keep_open=self._resolver.keep_open,
            open_s=checked_seconds("timeout_s", timeout_s),
            estimate=estimate,
            queue=None if wait_s is None else self._resolver.waiting,
            wait_s=0.0 if wait_s is None else checked_seconds("wait_s", wait_s),
            lock=self._lock,
        )
        if wait_s is None:
            chains = {dimension: self.chain(dimension) for dimension in units}
            reservation.began(
                self._charge_all(chains, self.clock(), units, reservation.taken)
            )
        return reservation

    def slot(self, *, timeout_s: Number = inf, lease_s: Number = LEASE_S) -> SlotClaim:
        """Return a context manager that holds a slot in flight.

        ``with limiter.slot(): ...`` or ``async with limiter.slot(): ...``.  It holds a
        slot of each group that applies and has `slots`; without such a group, nothing
        is limited.

        Args:
            timeout_s: How long to wait for a slot; then `Throttled` is raised.
            lease_s: When the slot goes to others even if the block goes on: choose it
                longer than the block takes, or call `Slot.renew`.

        Raises:
            InvalidSetting: The lease is not above 0.
        """
        return SlotClaim(
            self._resolver.slots,
            self._resolver.slot_pools(self.subject),
            timeout_s=checked_seconds("timeout_s", timeout_s),
            lease_s=checked_lease(lease_s),
        )

    def try_slot(self, *, lease_s: Number = LEASE_S) -> Slot:
        """Take a slot in flight if one is free now; never waits.

        Returns:
            A slot to be released, falsy when refused: see `Slot.decision`.

        Raises:
            InvalidSetting: The lease is not above 0.
        """
        pools = self._resolver.slot_pools(self.subject)
        return self._resolver.slots.take(pools, checked_lease(lease_s))

    @property
    def has_slots(self) -> bool:
        """Whether any group that applies limits slots in flight."""
        return bool(self._resolver.slot_pools(self.subject))

    @property
    def waits_for_slots(self) -> bool:
        """Whether a group that limits slots would rather have its callers wait."""
        return any(pool.waits for pool in self._resolver.slot_pools(self.subject))

    def wait(self, *, timeout_s: Number = inf, **costs: Number) -> Decision:
        """Wait in the fair queue until the costs are admitted; blocks the thread.

        FIFO within a tenant, round robin between tenants.

        Args:
            timeout_s: Longest wait, seconds.
            costs: Units by dimension.

        Returns:
            Admitted, or a refusal: never, the deadline, or the queue is full.
        """
        units, wait_s = asked_costs(costs), checked_seconds("timeout_s", timeout_s)
        return self._resolver.waiting.wait(self, units, wait_s)

    def wait_async(
        self, *, timeout_s: Number = inf, **costs: Number
    ) -> Coroutine[object, None, Decision]:
        """Do what `wait` does, without blocking the event loop; to be awaited.

        Cancelling it costs no tokens and nobody's place.
        """
        units, wait_s = asked_costs(costs), checked_seconds("timeout_s", timeout_s)
        return self._resolver.waiting.wait_async(self, units, wait_s)

    def refusing(self, mode: RefusalMode | None) -> Limiter:
        """Return a limiter of the same subject for callers with another mode.

        An old client that can't be refused takes ``delay``; None is each group's
        own mode.
        """
        return self._resolver.sibling(self.subject, mode)

    def waits(self, costs: Mapping[str, float]) -> bool:
        """Whether a caller with these costs should wait rather than be refused."""
        return any([self.chain(d).waits for d in costs])  # faster than a generator

    def links(self, costs: Mapping[str, float]) -> list[Link]:
        """Return the limits that apply to some costs."""
        return [link for dimension in costs for link in self.chain(dimension).links]

    def handle(self, dimension: str = "requests") -> DimensionHandle[Limiter]:
        """Return a handle of one dimension, the fastest way to attempt.

        Raises:
            InvalidDimension: It is not an identifier.
        """
        held = self._handles.get(dimension)
        if held is not None:
            return held
        check_dimension(dimension)
        made: DimensionHandle[Limiter] = DimensionHandle(self, dimension, self.clock)
        self.set_chain(dimension, self.chain(dimension), made)
        return made

    def gate(self, dimension: str = "requests") -> DimensionHandle[Limiter]:
        """Return `handle`; this older name will be removed in release 0.2."""
        warnings.warn(
            "Limiter.gate is now called Limiter.handle", DeprecationWarning, 2
        )
        return self.handle(dimension)

    # What follows is for the other modules of this package.

    def set_chain(
        self,
        dimension: str,
        chain: Chain,
        handle: DimensionHandle[Limiter] | None = None,
    ) -> None:
        """Keep a chain, and a new handle, until the configuration changes."""
        if len(self._chains) >= MOST_DIMENSIONS and dimension not in self._chains:
            raise InvalidDimension(
                f"expected at most {MOST_DIMENSIONS} different dimensions,"
                f" got {dimension!r} as well"
            )
        self._chains[dimension] = chain
        if handle is not None:
            self._handles[dimension] = handle
        if self._lock is None:
            if dimension == "requests":
                self._requests = chain
            handle = self._handles.get(dimension)
            if handle is not None:
                handle.chain = chain

    def forget_chains(self) -> None:
        """Resolve the chains again at the next attempts."""
        self._requests = None
        for handle in self._handles.values():
            handle.chain = None
        self._chains = {}

    def chains(self) -> Mapping[str, Chain]:
        """Return the chains resolved so far, by dimension."""
        return self._chains

    def chain(self, dimension: str) -> Chain:
        """Return the chain of a dimension, resolving it when first needed."""
        return self._chains.get(dimension) or self._resolver.resolve(self, dimension)

    def attempt(
        self, now: float, costs: Mapping[str, Number], taken: Taken | None = None
    ) -> Decision:
        """Admit and charge, or refuse; raises as `try_acquire` does.

        What is charged is added to `taken`.
        """
        if not costs:
            self._resolver.note_no_cost()
        if self._lock is None:  # a context costs as much as a charge
            decision = self._charge(self._chains, now, costs, taken)
        else:
            with self._lock:
                decision = self._charge(self._chains, now, costs, taken)
        if decision is not None:
            return decision
        # Something is odd or not resolved yet: look closely, then try again.
        units = asked_costs(costs)
        chains = {dimension: self.chain(dimension) for dimension in units}
        return self._charge_all(chains, now, units, taken)

    def charge_quietly(
        self, now: float, costs: Mapping[str, float], taken: Taken
    ) -> Decision | Bucket:
        """Admit and charge checked costs, or return the bucket that refuses, uncounted.

        What is charged is added to `taken`.  A limit in shadow refuses nobody.
        """
        links = [(d, link) for d in costs for link in self.chain(d).links]
        charged: Taken = {}
        shadows: list[tuple[str, Link]] = []
        with self._lock or nullcontext():
            for dimension, link in links:
                bucket, cost = link.bucket, costs[dimension]
                if bucket.try_acquire_at(now, cost) == 0.0:
                    charged.setdefault(dimension, []).append(bucket)
                elif link.mode == "shadow":
                    shadows.append((dimension, link))
                else:
                    bucket.uncount_refused(cost)
                    for passed, shadow in shadows:
                        shadow.bucket.uncount_refused(costs[passed])
                    give_back(charged, costs)
                    return bucket
        taken.update(charged)
        for dimension, shadow in shadows:
            shadow.local.shadow_refused += costs[dimension]
        return (
            Decision(limit=shadows[-1][1].limit, shadow=True) if shadows else ADMITTED
        )

    def foresee(self, now: float, costs: Mapping[str, Number]) -> Decision:
        """Return the answer that an attempt would get; charges and counts nothing."""
        firm = lenient = ADMITTED
        for dimension, cost in asked_costs(costs).items():
            for link in self.chain(dimension).links:
                with self._lock or nullcontext():
                    delay_s = link.bucket.delay_at(now, cost)
                never = cost > link.hopeless_above
                if not never and delay_s == inf:
                    delay_s = RECONSIDERED_S
                if delay_s <= 0.0 and not never:
                    continue
                if link.mode == "shadow":
                    if lenient is ADMITTED:
                        lenient = Decision(limit=link.limit, shadow=True)
                elif link.lenient and not never:
                    if delay_s > lenient.delay_s:
                        lenient = Decision(delay_s, limit=link.limit)
                elif never or (delay_s > firm.delay_s and not firm.never):
                    firm = Refusal(inf if never else delay_s, never, link.limit)
        return lenient if firm is ADMITTED else firm

    def _charge_all(
        self,
        chains: Mapping[str, Chain],
        now: float,
        costs: Mapping[str, float],
        taken: Taken | None,
    ) -> Decision:
        with self._lock or nullcontext():
            decision = self._charge(chains, now, costs, taken)
        return ADMITTED if decision is None else decision

    def _charge(
        self,
        chains: Mapping[str, Chain],
        now: float,
        costs: Mapping[str, Number],
        taken: Taken | None,
    ) -> Decision | None:
        """Charge all or nothing; None, and nothing, when a cost needs a closer look."""
        answer = ADMITTED
        for dimension, cost in costs.items():
            chain = chains.get(dimension)
            try:
                units = (
                    cost
                    if type(cost) is float
                    else 0.0
                    if cost is True
                    else float(cost + 0.0)
                )
                if chain is None or not 0.0 < units <= MOST_COST:
                    give_back_to(dimension, chains, costs)
                    return None
                stopped = charge_chain_at(chain.buckets, now, units)
            except NOT_A_NUMBER as error:
                give_back_to(dimension, chains, costs)
                raise explained(error, costs) from None
            if stopped is not None:
                give_back_before(chain.buckets, stopped, units)
                give_back_to(dimension, chains, costs)
                return settle_refusal(chains, now, checked_costs(costs), stopped, taken)
            if chain.admitted is not ADMITTED:
                answer = chain.admitted
        if taken is not None:
            taken.update((d, list(chains[d].buckets)) for d in costs)
        return answer

    def _fitting(self, now: float, dimension: str, cost: float, each: float) -> float:
        """Return how much of `cost` every limit admits now, in whole items."""
        fitting = cost
        for bucket in self.chain(dimension).buckets:
            fitting = min(fitting, bucket.fitting_at(now, each) * each)
        return fitting
