"""Slots in flight: at most N requests at once, across the whole cluster.

::

    with limiter.slot(timeout_s=5.0):       # or: async with limiter.slot(...)
        answer = model(prompt)

A group with `slots` lets its callers hold that many slots at once, in all processes
together, and never one more.  Which part of them this process may hand out is decided
by the coordinator (`headgate.coordinator.escrow.slots`); taking one compares two
numbers.

How a slot can end:

===========================  ==========================================================
it is released               another caller can have it at once
it is released twice         `AlreadyReleased`, and nothing is given back a second time
it is forgotten              given back once it is garbage; counted as ``slots_dropped``
it is held beyond its lease  given back; counted as ``slots_expired``
its process is killed        the others take it when the API has seen the process go
its process was cut off      for so long that the others took it: `Slot.held` says so
its agent is closed          the others take it; whoever waits here is refused for good
===========================  ==========================================================
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING, Literal, Protocol, Self
from weakref import WeakValueDictionary, ref

from headgate.agent.decision import ADMITTED, Decision, LimitName, Refusal
from headgate.agent.errors import (
    AlreadyReleased,
    CallerError,
    InvalidSetting,
    Throttled,
)
from headgate.agent.limiter.deadlines import Deadlines, checked_seconds, longest_wait
from headgate.agent.ports import ChainResolver, LimiterT
from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.messages.events import SlotCount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from headgate.agent.bucket.costs import Number
    from headgate.agent.follow.subject import Subject
    from headgate.coordinator.config.configuration import Group
    from headgate.coordinator.messages.events import SetSlots

LEASE_S = 3600.0
"""How long a slot may be held by default: longer than requests take.  Too short a lease
lets more than N run; a slot that is never released costs one of N for that long."""

MOST_WAITERS = 100_000
"""Callers that wait for slots in one process; more are refused: "queue full"."""

HOLD_WEIGHT = 0.1
"""Weight of the newest slot in the mean time for which one is held."""

FIRST_HOLD_S = 1.0
"""What that time is assumed to be before any slot was released."""

AGENT_CLOSED = "agent closed"
"""The reason of a refusal after the agent has left the cluster."""

LEAST_DELAY_S = 0.01
"""Shortest delay that a refused caller gets."""

SlotState = Literal["refused", "held", "released", "expired", "dropped"]

logger = logging.getLogger("headgate.agent")


class SlotResolver(ChainResolver[LimiterT], Protocol[LimiterT]):
    """What made a limiter, if it knows about slots as well."""

    @property
    def slots(self) -> SlotBook:
        """The slots in flight of this process."""
        ...

    def slot_pools(self, subject: Subject) -> tuple[SlotPool, ...]:
        """Return the pools of slots that apply to a subject."""
        ...


class SlotPool:
    """The slots of one group in this process.

    Attributes:
        group_id: Id of the group.
        name: Name of the limit, for refusals.
        size: N, across the whole cluster.
        shadow: Refusals are only counted.
        waits: The group would rather have its callers wait.
        may_hold: How many callers here may hold now.
        until_s: When that ends, on the enforcer's clock.
        in_use: How many they hold.
        life: Grows when all slots held are lost.
        waiting: Callers that wait for one.
        peak: The most that were held at a time since the last count.
        refused: Callers refused since the last count.
        refusals: Callers refused since the start.
        mean_hold_s: Mean time for which one is held.
        ended: Why none is handed out any more; empty while some may be.
    """

    __slots__ = (
        "__weakref__",
        "ended",
        "group_id",
        "in_use",
        "life",
        "may_hold",
        "mean_hold_s",
        "name",
        "peak",
        "refusals",
        "refused",
        "shadow",
        "size",
        "until_s",
        "waiting",
        "waits",
    )

    def __init__(self, group_id: int, name: LimitName, size: int) -> None:
        """Begin with nothing to hand out, until the coordinator has spoken."""
        self.group_id = group_id
        self.name = name
        self.size = size
        self.shadow = self.waits = False
        self.may_hold: float = 0
        self.until_s = -inf
        self.in_use = self.life = self.waiting = 0
        self.peak = self.refused = self.refusals = 0
        self.mean_hold_s = FIRST_HOLD_S
        self.ended = ""

    def follow(self, group: Group, slots: int) -> None:
        """Adopt the group's number of slots, and its mode."""
        self.size = slots
        self.shadow = group.refusal == "shadow"
        self.waits = group.refusal == "wait"

    def open(self) -> None:
        """Stop limiting: the group has no limit any more, or is gone."""
        self.may_hold = self.until_s = inf

    def refusal(self, reason: str = "") -> Refusal:
        """Return a refused caller's delay: when the next slot should be free."""
        delay_s = max(self.mean_hold_s / max(self.in_use, 1), LEAST_DELAY_S)
        never = self.size == 0
        reason = self.ended or reason
        return Refusal(inf if never else delay_s, never, self.name, reason=reason)

    def end(self, reason: str) -> None:
        """Hand out none any more."""
        self.size, self.may_hold, self.ended = 0, 0, reason


class Slot:
    """One slot of each group that applies, or a refusal, which is falsy.

    As a context manager, it is released when the block ends.

    Attributes:
        decision: The answer to the attempt.
        state: ``held``, or how it ended.
        due_s: When its lease ends, on the limiter's clock.
    """

    __slots__ = (
        "__weakref__",
        "_book",
        "_lease_s",
        "_lives",
        "_pools",
        "_since_s",
        "decision",
        "due_s",
        "state",
    )

    def __init__(
        self,
        book: SlotBook,
        pools: tuple[SlotPool, ...],
        decision: Decision,
        *,
        now: float,
        lease_s: float,
    ) -> None:
        """Represent slots that were just taken from these pools."""
        self._book = book
        self._pools = pools
        self._lives = [pool.life for pool in pools]
        self._since_s = now
        self._lease_s = lease_s
        self.due_s = now + lease_s
        self.decision = decision
        self.state: SlotState = "held" if decision else "refused"

    def __bool__(self) -> bool:
        """Return whether the slot was granted, even if it has ended since."""
        return bool(self.decision)

    @property
    def held(self) -> bool:
        """Whether the slot still counts; else another may have it by now."""
        lost = any(p.life != x for p, x in zip(self._pools, self._lives, strict=True))
        return self.state == "held" and not lost

    def release(self) -> None:
        """Give the slot back.

        Raises:
            AlreadyReleased: It was released before.
        """
        if self.state == "released":
            raise AlreadyReleased("expected a held slot, but it was already released")
        self._end("released")

    def renew(self) -> bool:
        """Restart the lease; return whether the slot still counts."""
        if not self.held:
            return False
        self.due_s = self._book.clock() + self._lease_s
        return True

    def __enter__(self) -> Self:
        """Return the slot.

        Raises:
            Throttled: It was refused.
        """
        if not self.decision:
            raise Throttled(self.decision)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the slot back, unless it was already."""
        self._end("released")

    def expire(self, now: float) -> bool:
        """Give the slot back if its lease is over; return whether that was so."""
        return now >= self.due_s and self._end("expired")

    def _end(self, state: SlotState, *, wake: bool = True) -> bool:
        # No other thread can come in between these lines: two releases give back only
        # once.
        if self.state != "held":
            return False
        self.state = state
        self._book.give_back(self._pools, self._lives, self._since_s, wake=wake)
        return True

    def __del__(self) -> None:
        """Give back what nobody can release any more.

        This may run in any thread between any two lines, even under the book's lock:
        waiting callers are served at the next count.
        """
        if self.state == "held" and self._pools and self._end("dropped", wake=False):
            self._book.dropped += 1


class SlotClaim:
    """A slot that is taken when a ``with`` or ``async with`` block begins.

    It serves one block at a time; call `Limiter.slot` for each.
    """

    __slots__ = ("_book", "_entered", "_lease_s", "_pools", "_slot", "_timeout_s")

    def __init__(
        self,
        book: SlotBook,
        pools: tuple[SlotPool, ...],
        *,
        timeout_s: float,
        lease_s: float,
    ) -> None:
        """Hold no slot yet."""
        self._book = book
        self._pools = pools
        self._timeout_s = timeout_s
        self._lease_s = lease_s
        self._entered = False
        self._slot: Slot | None = None

    def take(self) -> Slot:
        """Return a slot, waiting for it; falsy when it is refused.  Blocks."""
        slot = self._book.take(self._pools, self._lease_s)
        if slot or slot.decision.never or self._timeout_s <= 0.0:
            return slot
        event = threading.Event()
        waiter = SlotWaiter(self._pools, self._lease_s, event.set)
        if self._book.queue(waiter):
            try:
                event.wait(longest_wait(self._timeout_s))
            except BaseException:  # a signal's: what came goes to the next one
                self._book.abandon(waiter)
                raise
        return self._book.answer(waiter)

    async def take_async(self) -> Slot:
        """Do what `take` does, without blocking the event loop."""
        slot = self._book.take(self._pools, self._lease_s)
        if slot or slot.decision.never or self._timeout_s <= 0.0:
            return slot
        import asyncio  # late: a process without an event loop never needs it

        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        waiter = SlotWaiter(
            self._pools,
            self._lease_s,
            lambda: loop.call_soon_threadsafe(event.set),
        )
        if not self._book.queue(waiter):
            return self._book.answer(waiter)
        try:
            async with asyncio.timeout(longest_wait(self._timeout_s)):
                await event.wait()
        except TimeoutError:
            pass
        except BaseException:  # cancelled: what came meanwhile goes to the next one
            self._book.abandon(waiter)
            raise
        return self._book.answer(waiter)

    def __enter__(self) -> Slot:
        """Return a slot, waiting for it.

        Raises:
            Throttled: None came in time, or none ever will.
            CallerError: Another block has it.
        """
        self._enter()
        try:
            self._slot = self.take().__enter__()
        except BaseException:
            self._entered = False
            raise
        return self._slot

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the slot back, unless it was already."""
        if self._slot is not None:
            self._slot.__exit__(kind, error, trace)
        self._entered = False

    async def __aenter__(self) -> Slot:
        """Return a slot, waiting for it; raises as ``with`` does."""
        self._enter()
        try:
            self._slot = (await self.take_async()).__enter__()
        except BaseException:
            self._entered = False
            raise
        return self._slot

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the slot back, unless it was already."""
        self.__exit__(kind, error, trace)

    def _enter(self) -> None:
        # No other thread can come in between these lines.
        if self._entered:
            raise CallerError(
                "expected one block at a time; call slot() for each block, as its slot"
                " would be given back when the next one begins"
            )
        self._entered = True


class SlotWaiter:
    """One caller that waits for a slot.

    Attributes:
        pools: It needs a slot of each.
        lease_s: How long it may hold them.
        wake: Called once `slot` is there.
        slot: The answer.
        reason: Why there is none, if it was not let into the queue.
    """

    __slots__ = ("lease_s", "pools", "reason", "slot", "wake")

    def __init__(
        self,
        pools: tuple[SlotPool, ...],
        lease_s: float,
        wake: Callable[[], object],
    ) -> None:
        """Make a waiter that is not in the queue yet."""
        self.pools = pools
        self.lease_s = lease_s
        self.wake = wake
        self.slot: Slot | None = None
        self.reason = "deadline"


class SlotBook:
    """All slots of one process, and who waits for them.

    Attributes:
        clock: Seconds, monotonic.
        expired: Slots that were held beyond their lease.
        dropped: Slots that became garbage before they were released.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        lock: threading.Lock | None = None,
    ) -> None:
        """Start without groups.

        Args:
            clock: Seconds, monotonic.
            lock: Held around each taking where threads may switch between any two
                lines.
        """
        self.clock = clock
        self.expired = self.dropped = 0
        self._taking = lock
        self._pools: dict[int, SlotPool] = {}
        self._opened = WeakValueDictionary[int, SlotPool]()
        self._leases: Deadlines[ref[Slot]] = Deadlines(_ended)
        self._lock = threading.RLock()  # around the queue and the leases
        self._waiting: deque[SlotWaiter] = deque()
        self._said = 0
        self._closed = False

    # What callers do.

    def take(self, pools: tuple[SlotPool, ...], lease_s: float) -> Slot:
        """Take a slot of each pool, or of none; the answer is falsy when refused."""
        now = self.clock()
        if not pools:
            return Slot(self, (), ADMITTED, now=now, lease_s=lease_s)
        with self._taking or nullcontext():
            stopped = _take_all(pools, now)
        if stopped is None:
            return self._made(pools, now, lease_s)
        for pool in pools:
            pool.refused += 1
        stopped.refusals += 1
        if stopped.shadow:
            admitted = Decision(limit=stopped.name, shadow=True)
            return Slot(self, (), admitted, now=now, lease_s=lease_s)
        return Slot(self, (), stopped.refusal(), now=now, lease_s=lease_s)

    def give_back(
        self,
        pools: tuple[SlotPool, ...],
        lives: list[int],
        since_s: float,
        *,
        wake: bool,
    ) -> None:
        """Free the slots that have been held since a time."""
        held_s = min(self.clock() - since_s, LEASE_S)  # a WebSocket may last for days
        waited_for = 0
        for pool, life in zip(pools, lives, strict=True):
            if pool.life == life:  # else it was lost, and no longer counts
                pool.in_use -= 1
                pool.mean_hold_s += HOLD_WEIGHT * (held_s - pool.mean_hold_s)
            waited_for += pool.waiting
        if waited_for and wake:
            self.serve()

    def queue(self, waiter: SlotWaiter) -> bool:
        """Queue a caller; return whether there was room."""
        with self._lock:
            if len(self._waiting) >= MOST_WAITERS:
                waiter.reason = "queue full"
                return False
            self._waiting.append(waiter)
            for pool in waiter.pools:
                pool.waiting += 1
        self.serve()
        return True

    def answer(self, waiter: SlotWaiter) -> Slot:
        """Return the slot, granted or refused, of a caller that no longer waits."""
        with self._lock:
            if waiter.slot is None:
                if waiter in self._waiting:
                    self._leave(waiter)
                refusal = waiter.pools[0].refusal(waiter.reason)
                return Slot(self, (), refusal, now=self.clock(), lease_s=0.0)
            return waiter.slot

    def abandon(self, waiter: SlotWaiter) -> None:
        """Forget a caller that is gone, and give back what it was given."""
        slot = self.answer(waiter)
        if slot:
            slot.release()

    def serve(self) -> None:
        """Give slots to waiting callers, in their order."""
        woken: list[SlotWaiter] = []
        with self._lock:
            now = self.clock()
            full: set[SlotPool] = set()
            for waiter in list(self._waiting):
                if any(pool in full for pool in waiter.pools):
                    continue
                closed = next((p for p in waiter.pools if p.size == 0), None)
                if closed is not None:
                    decision = closed.refusal()
                    waiter.slot = Slot(self, (), decision, now=now, lease_s=0.0)
                else:
                    with self._taking or nullcontext():
                        stopped = _take_all(waiter.pools, now, queued=True)
                    if stopped is not None:
                        full.add(stopped)
                        continue
                    waiter.slot = self._made(waiter.pools, now, waiter.lease_s)
                self._leave(waiter)
                woken.append(waiter)
        for waiter in woken:
            try:
                waiter.wake()
            except RuntimeError:  # its event loop is closed: nobody will ask
                if waiter.slot:
                    waiter.slot.release()

    def _leave(self, waiter: SlotWaiter) -> None:
        self._waiting.remove(waiter)
        for pool in waiter.pools:
            pool.waiting -= 1

    def _made(self, pools: tuple[SlotPool, ...], now: float, lease_s: float) -> Slot:
        slot = Slot(self, pools, ADMITTED, now=now, lease_s=lease_s)
        if lease_s < inf:
            with self._lock:
                self._leases.add(slot.due_s, ref(slot))
        return slot

    # What the agent's thread does.

    def pool_of(self, group: Group, level: str) -> SlotPool | None:
        """Return the pool of a group, None if it does not limit slots."""
        if group.slots is None:
            return None
        pool = self._pools.get(group.id)
        if pool is None:
            name = LimitName(group.name, IN_FLIGHT, level)
            new = SlotPool(group.id, name, group.slots)
            # Those in flight since before the limit was removed still count.
            pool = self._pools[group.id] = self._opened.pop(group.id, new)
            pool.name, pool.may_hold, pool.until_s = name, 0, -inf
            pool.follow(group, group.slots)
            if self._closed:
                pool.end(AGENT_CLOSED)
        return pool

    def close(self) -> None:
        """Hand out no slot any more, and answer those that wait for one.

        The agent has left the cluster: others have its slots.
        """
        self._closed = True
        for pool in list(self._pools.values()):
            pool.end(AGENT_CLOSED)
        self.serve()

    def follow(self, groups: Mapping[int, Group]) -> None:
        """Adopt a new configuration."""
        if self._closed:
            return
        for group_id, pool in list(self._pools.items()):
            group = groups.get(group_id)
            if group is None or group.slots is None:
                pool.open()
                self._opened[group_id] = self._pools.pop(group_id)
                continue
            pool.follow(group, group.slots)
            pool.may_hold = min(pool.may_hold, pool.size)
        self.serve()

    def __len__(self) -> int:
        """Return the number of groups with slots."""
        return len(self._pools)

    def counts(self, users: Iterable[int], now: float) -> tuple[SlotCount, ...]:
        """Return how many slots callers hold and want, for the groups in use.

        Args:
            users: Ids of groups for which somebody has a limiter.
            now: Seconds on the clock.
        """
        self._expire(now)
        if self.dropped + self.expired != self._said:
            self._said = self.dropped + self.expired
            logger.warning(
                "slots in flight that were never released: %d were garbage-collected,"
                " %d were held beyond their lease",
                self.dropped,
                self.expired,
            )
        if self._waiting:
            self.serve()
        used = set(users)
        told: list[SlotCount] = []
        for group_id, pool in sorted(self._pools.items()):
            if group_id not in used and not pool.in_use and not pool.waiting:
                continue
            refused, pool.refused = pool.refused, 0
            wanted = max(pool.peak, pool.in_use + pool.waiting + refused)
            pool.peak = pool.in_use
            told.append(SlotCount(group_id, pool.in_use, min(wanted, pool.size)))
        return tuple(told)

    def hold(self, effect: SetSlots) -> None:
        """Hand out slots as the coordinator decided."""
        for group_id, pool in self._pools.items():
            if effect.lost:
                # Life first: a release in between gives back nothing.
                pool.life += 1
                pool.in_use = 0
            pool.may_hold = min(effect.may_hold.get(group_id, 0), pool.size)
            pool.until_s = effect.deadline_s
        if self._waiting:
            self.serve()

    def metrics(self) -> dict[str, float]:
        """Return counters and sizes, by name."""
        pools = list(self._pools.values())
        return {
            "slots_in_use": sum(pool.in_use for pool in pools),
            "slots_may_hold": sum(pool.may_hold for pool in pools),
            "slots_refused": sum(pool.refusals for pool in pools),
            "slots_waiting": len(self._waiting),
            "slots_expired": self.expired,
            "slots_dropped": self.dropped,
        }

    def _expire(self, now: float) -> None:
        while True:
            with self._lock:
                held = self._leases.pop(now)
                if held is None:
                    return
                slot = held()
                if slot is None or slot.state != "held":
                    continue
                if slot.due_s > now:  # it was renewed
                    self._leases.add(slot.due_s, held)
                    continue
            self.expired += slot.expire(now)


def _ended(held: ref[Slot]) -> bool:
    slot = held()
    return slot is None or slot.state != "held"


def checked_lease(lease_s: Number) -> float:
    """Return the length of a lease.

    Raises:
        InvalidSetting: It is not a number above 0.
    """
    checked = checked_seconds("lease_s", lease_s)
    if checked <= 0.0:
        raise InvalidSetting(f"lease_s: expected seconds > 0, got {checked}")
    return checked


def _take_all(
    pools: tuple[SlotPool, ...], now: float, *, queued: bool = False
) -> SlotPool | None:
    """Take a slot of each pool, or of none; return the pool that has none left.

    Under the GIL no thread comes in between the test and the taking, because there is
    no call or backward jump between them (as in `headgate.agent.bucket.bucket`).
    """
    for index, pool in enumerate(pools):
        if (
            pool.in_use < pool.may_hold
            and now < pool.until_s
            and (queued or not pool.waiting)
        ):
            pool.in_use += 1
            if pool.in_use > pool.peak:
                pool.peak = pool.in_use
        else:
            for taken in pools[:index]:
                taken.in_use -= 1
            return pool
    return None
