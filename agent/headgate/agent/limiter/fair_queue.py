"""The fair queue, for callers that would rather wait than be refused.

It is FIFO within a tenant and round robin between tenants; sync and async callers share
one queue.  A tick of 16 ms wakes as many callers as its tokens admit (PIP-322), rather
than one thread per token.  The tick's thread runs only while someone is waiting.

A waiter counts as demand once, on arrival; what it counted as refused is taken back
when it is admitted.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from math import inf
from typing import TYPE_CHECKING

from headgate.agent.bucket.chain import give_back
from headgate.agent.decision import Decision, Refusal
from headgate.agent.errors import HeadgateError
from headgate.agent.limiter.deadlines import longest_wait

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.chain import Taken
    from headgate.agent.ports import ChargeableLimiter

TICK_S = 0.016
"""PIP-322's resolution: the tokens of one tick are given out at once."""

LEAST_TICK_S = 0.001
"""Shortest tick, for a bucket that fills sooner: a thread can't sleep for much less."""

LONGEST_SLEEP_S = 0.25
"""Longest time between checks while someone waits: a limit may have been raised."""

MOST_WAITERS = 100_000
"""Most callers waiting in one process; more are refused with reason "queue full"."""

MOST_GONE = 1_000
"""Waiters that gave up may outnumber those still waiting by this many before a
sweep."""

LINGER_S = 1.0
"""How long the thread lingers when nobody waits: starting one costs 0.1 ms."""

logger = logging.getLogger("headgate.agent")


class Waiter:
    """One caller in the queue.

    Attributes:
        limiter: Its limits apply.
        costs: Units by dimension.
        deadline_s: When the caller gives up, on the limiter's clock.
        answer: The decision, once there is one; or the error to be raised.
        gone: The caller gave up; the queue skips it.
        taken: Buckets charged when it was admitted.
        counted: Buckets that counted it as refused on arrival.
        event: A waiting thread's event.
        future: A waiting task's future.
    """

    __slots__ = (
        "answer",
        "costs",
        "counted",
        "deadline_s",
        "event",
        "future",
        "gone",
        "limiter",
        "taken",
    )

    def __init__(
        self,
        limiter: ChargeableLimiter,
        costs: Mapping[str, float],
        deadline_s: float,
        taken: Taken | None = None,
    ) -> None:
        """Make a waiter that is not in the queue yet."""
        self.limiter = limiter
        self.costs = costs
        self.deadline_s = deadline_s
        self.answer: Decision | HeadgateError | None = None
        self.gone = False
        self.taken: Taken = {} if taken is None else taken
        self.counted: list[tuple[Bucket, float]] = []
        self.event: threading.Event | None = None
        self.future: asyncio.Future[None] | None = None

    def give_back(self) -> None:
        """Give back what was charged, because the caller is gone.

        It goes to the buckets that were charged: the limits may have changed since.
        """
        give_back(self.taken, self.costs)
        self.taken.clear()


class FairQueue:
    """Waiters of one process, by tenant."""

    def __init__(
        self, clock: Callable[[], float], *, most_waiters: int = MOST_WAITERS
    ) -> None:
        """Make an empty queue; its thread starts with the first waiter.

        Args:
            clock: Seconds, monotonic; the limiters' own.
            most_waiters: Bound of the queue.
        """
        self._clock = clock
        self._most = most_waiters
        self._wake = threading.Condition()
        self._tenants: OrderedDict[str, deque[Waiter]] = OrderedDict()
        self._waiting = 0
        self._gone = 0
        self._asleep_until_s = 0.0
        self._thread: threading.Thread | None = None
        self._nudged = False
        self._by_hand = False
        self.woken = 0
        self.turned_away = 0

    def __len__(self) -> int:
        """Return the number of waiters."""
        return self._waiting

    def wait(
        self,
        limiter: ChargeableLimiter,
        costs: Mapping[str, float],
        timeout_s: float,
        taken: Taken | None = None,
    ) -> Decision:
        """Block the calling thread until the costs are admitted.

        What is charged is added to `taken`.
        """
        waiter = Waiter(limiter, costs, self._clock() + timeout_s, taken)
        waiter.event = threading.Event()
        answer = self._join(waiter)
        if answer is not None:
            return answer
        try:
            waiter.event.wait(longest_wait(timeout_s))
        except BaseException:  # KeyboardInterrupt: don't stay in the queue
            self._leave(waiter)
            raise
        if waiter.answer is None:
            self._leave(waiter, keep=True)
        return self._outcome(waiter)

    async def wait_async(
        self,
        limiter: ChargeableLimiter,
        costs: Mapping[str, float],
        timeout_s: float,
        taken: Taken | None = None,
    ) -> Decision:
        """Suspend the calling task until the costs are admitted.

        What is charged is added to `taken`.
        """
        waiter = Waiter(limiter, costs, self._clock() + timeout_s, taken)
        import asyncio  # late: a process without an event loop never needs it

        waiter.future = asyncio.get_running_loop().create_future()
        answer = self._join(waiter)
        if answer is not None:
            return answer
        try:
            async with asyncio.timeout(longest_wait(timeout_s)):
                await waiter.future
        except TimeoutError:
            self._leave(waiter, keep=True)
        except BaseException:
            self._leave(waiter)
            raise
        return self._outcome(waiter)

    def nudge(self) -> None:
        """Check now, because limits have changed."""
        if self._waiting:
            with self._wake:
                self._nudged = True
                self._wake.notify()

    def step_by_hand(self) -> None:
        """Start no thread: someone else, such as a simulation, calls `tick_at`."""
        self._by_hand = True

    def tick_at(self, now: float) -> float:
        """Admit as many as the tokens allow; return when to check again.

        Runs in the queue's thread; tests call it with their own times.
        """
        ready: list[Waiter] = []
        with self._wake:
            soonest = self._hand_out(now, ready)
        _deliver(ready)
        self.woken += len(ready)
        return min(soonest, now + LONGEST_SLEEP_S)

    def _join(self, waiter: Waiter) -> Decision | None:
        limiter, now = waiter.limiter, self._clock()
        tenant = _tenant_of(waiter)
        with self._wake:
            # Nobody who asks for anything overtakes earlier callers of the same tenant.
            if tenant not in self._tenants or not waiter.costs:
                answer = limiter.charge_quietly(now, waiter.costs, waiter.taken)
                if isinstance(answer, Decision):
                    return answer
            foreseen = limiter.foresee(now, waiter.costs)
            if foreseen.never or self._waiting >= self._most:
                # Counts the demand.
                decision = limiter.attempt(now, waiter.costs, waiter.taken)
                if foreseen.never or decision:
                    return decision
                self.turned_away += 1
                return Refusal(
                    decision.delay_s, limit=decision.limit, reason="queue full"
                )
            self._count_demand(waiter, now)
            self._tenants.setdefault(tenant, deque()).append(waiter)
            self._waiting += 1
            if self._by_hand:
                pass
            elif self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headgate-waiting", daemon=True
                )
                self._thread.start()
            elif self._waiting == 1 or self._asleep_until_s > now + TICK_S:
                self._wake.notify()
        return None

    def _count_demand(self, waiter: Waiter, now: float) -> None:
        links = [
            (link, cost)
            for dimension, cost in waiter.costs.items()
            for link in waiter.limiter.chain(dimension).links
        ]
        groups = {
            link.group_id for link, cost in links if link.bucket.delay_at(now, cost) > 0
        }
        for link, cost in links:
            if link.group_id in groups:
                link.bucket.count_refused(cost)
                waiter.counted.append((link.bucket, cost))

    def _hand_out(self, now: float, ready: list[Waiter]) -> float:
        """Go round the tenants, one waiter each, until no turn succeeds."""
        soonest = inf
        blocked: set[str] = set()
        while len(blocked) < len(self._tenants):
            tenant, waiters = next(iter(self._tenants.items()))
            self._tenants.move_to_end(tenant)
            if tenant in blocked:
                continue
            while waiters and waiters[0].gone:
                waiters.popleft()
                self._gone -= 1
            if not waiters:
                del self._tenants[tenant]
                continue
            first = waiters[0]
            answer: Decision | Bucket | HeadgateError
            try:
                answer = first.limiter.charge_quietly(now, first.costs, first.taken)
            except HeadgateError as error:
                # Its group is gone, and its agent is strict: it alone is told so.
                answer = error
            if not isinstance(answer, Decision | HeadgateError):
                # Since a change it may be more than its limit will ever admit.
                foreseen = first.limiter.foresee(now, first.costs)
                if foreseen.never:
                    self._answer(waiters.popleft(), foreseen, ready)
                    continue
                blocked.add(tenant)
                after_s = answer.retry_after_at(now, max(waiters[0].costs.values()))
                soonest = min(soonest, now + max(after_s, _tick_s(answer)))
                continue
            for bucket, cost in first.counted:
                bucket.uncount_refused(cost)
            self._answer(waiters.popleft(), answer, ready)
        return soonest

    def _answer(
        self,
        waiter: Waiter,
        answer: Decision | HeadgateError,
        ready: list[Waiter],
    ) -> None:
        self._waiting -= 1
        waiter.answer = answer
        ready.append(waiter)

    def _leave(self, waiter: Waiter, *, keep: bool = False) -> None:
        """Remove a waiter; return what it was charged unless `keep`."""
        with self._wake:
            if waiter.answer is not None:
                if not keep:
                    waiter.give_back()
                    self._nudged = True  # the next in line may get it
                    self._wake.notify()
                return
            waiter.gone = True
            self._waiting -= 1
            self._gone += 1
            if self._gone > MOST_GONE + self._waiting:
                self._sweep()

    def _sweep(self) -> None:
        for tenant, waiters in list(self._tenants.items()):
            left = deque(waiter for waiter in waiters if not waiter.gone)
            if left:
                self._tenants[tenant] = left
            else:
                del self._tenants[tenant]
        self._gone = 0

    def _outcome(self, waiter: Waiter) -> Decision:
        answer = waiter.answer
        if isinstance(answer, HeadgateError):
            raise answer
        if answer is not None:
            return answer
        foreseen = waiter.limiter.foresee(self._clock(), waiter.costs)
        return Refusal(foreseen.delay_s, limit=foreseen.limit, reason="deadline")

    def _run(self) -> None:
        while True:
            try:
                next_s = self.tick_at(self._clock())
            except Exception:
                logger.exception("the queue of waiting callers failed; it carries on")
                next_s = self._clock() + LONGEST_SLEEP_S
            with self._wake:
                if not self._waiting:
                    self._wake.wait(LINGER_S)
                    if not self._waiting:
                        self._thread = None
                        return
                elif not self._nudged:
                    self._asleep_until_s = next_s
                    self._wake.wait(max(next_s - self._clock(), 0.0))
                self._nudged = False


def _tick_s(bucket: Bucket) -> float:
    """Return how long tokens accumulate: a tick, or until a small bucket is full."""
    if bucket.quota * TICK_S <= bucket.capacity:
        return TICK_S
    return max(bucket.capacity / bucket.quota, LEAST_TICK_S)


def _tenant_of(waiter: Waiter) -> str:
    subject = waiter.limiter.subject
    return subject.tenant or subject.user or subject.client or ""


def _deliver(ready: list[Waiter]) -> None:
    """Wake the admitted: one call into each event loop, one event per thread."""
    futures: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in ready:
        if waiter.event is not None:
            waiter.event.set()
        elif waiter.future is not None:
            futures.setdefault(waiter.future.get_loop(), []).append(waiter)
    for loop, waiters in futures.items():
        try:
            loop.call_soon_threadsafe(_resolve, waiters)
        except RuntimeError:  # the loop is closed: its callers are gone
            for waiter in waiters:
                waiter.give_back()


def _resolve(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        future = waiter.future
        if future is not None and not future.done():
            future.set_result(None)
