"""Costs known only afterwards: reserve an estimate, then settle the actual cost."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING, Self

from headgate.agent.bucket.costs import checked_costs, expected_cost, is_cost, shown
from headgate.agent.decision import Decision, Refusal
from headgate.agent.errors import AlreadySettled, InvalidCost, Throttled
from headgate.agent.limiter.deadlines import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from threading import Lock
    from types import TracebackType

    from headgate.agent.bucket.chain import Taken
    from headgate.agent.bucket.costs import Number
    from headgate.agent.bucket.level import BucketAbove
    from headgate.agent.ports import ChargeableLimiter, Returnable, WaitingLine

MOST_OPEN_S = 60.0
"""When an unsettled reservation is returned, by default: the caller is presumed dead.
A late settlement is still charged."""

MOST_OPEN = 100_000
"""Most open reservations: if more are found when those that have ended are cleared
away, the ones due first are returned."""

ESTIMATE_WEIGHT = 0.1
"""Weight of the newest settlement in the running average: ten dominate it."""


class Estimate:
    """The running average of settled costs, used for the next reservation.

    Pulsar estimates the messages of an entry this way; a language-model gateway can
    estimate the tokens of an answer.

    Attributes:
        dimension: What is counted.
        units: The estimate.
    """

    __slots__ = ("_weight", "dimension", "units")

    def __init__(
        self, dimension: str, *, first: float, weight: float = ESTIMATE_WEIGHT
    ) -> None:
        """Begin at `first` units.

        Args:
            dimension: What is counted.
            first: Estimate before anything is settled.
            weight: Weight of the newest settlement, in (0, 1].
        """
        if not (is_cost(first) and first > 0.0 and 0.0 < weight <= 1.0):
            raise InvalidCost(
                f"expected first > 0 and 0 < weight <= 1, got {first} and {weight}"
            )
        self.dimension = dimension
        self.units: float = first
        self._weight = weight

    def note(self, actual: float) -> None:
        """Include an actual cost in the average."""
        self.units += self._weight * (actual - self.units)


class Reservation:
    """A charge made in advance; truthy if admitted.

    As a context manager, it returns everything if the block raises, and keeps the
    charge if the block ends without a settlement; it can still be settled then.  One
    that waits charges nothing until its block is entered.

    Attributes:
        decision: The answer to the attempt.
        costs: Reserved units, by dimension.
        due_s: When it is returned if not settled, on the limiter's clock.
        state: ``waiting``, ``refused``, ``open``, ``kept`` (its block has ended),
            ``settled``, ``cancelled`` or ``returned``.
        taken: The buckets that hold the charge, by dimension.
    """

    __slots__ = (
        "_clock",
        "_estimate",
        "_keep_open",
        "_limiter",
        "_lock",
        "_open_s",
        "_paths",
        "_queue",
        "_state_lock",
        "_wait_s",
        "costs",
        "decision",
        "due_s",
        "state",
        "taken",
    )

    def __init__(
        self,
        costs: Mapping[str, float],
        limiter: ChargeableLimiter,
        *,
        clock: Callable[[], float],
        keep_open: Callable[[Returnable], None],
        open_s: float,
        lock: Lock | None,
        estimate: Estimate | None = None,
        queue: WaitingLine | None = None,
        wait_s: float = 0.0,
    ) -> None:
        """Reserve nothing yet; `began` does, or entering the block.

        Args:
            costs: Units by dimension.
            limiter: Its limits are charged.
            clock: Seconds, monotonic.
            keep_open: Called with an open reservation, to be returned when due.
            open_s: Seconds until it is returned if not settled.
            lock: Held around charges where there is no GIL.
            estimate: Updated with the actual cost.
            queue: Where the block waits for its tokens; None if it does not.
            wait_s: Longest wait.
        """
        self.costs = costs
        self.decision: Decision = Refusal(reason="its block was not entered")
        self.due_s = inf
        self.state = "waiting"
        self._limiter = limiter
        self._clock = clock
        self._keep_open = keep_open
        self._open_s = open_s
        self._lock = lock
        self._state_lock = threading.Lock()
        self._estimate = estimate
        self._queue = queue
        self._wait_s = wait_s
        self.taken: Taken = {}
        self._paths: dict[str, list[BucketAbove]] = {}

    def began(self, decision: Decision) -> None:
        """Keep an attempt that was admitted just now, and charged `taken`, or refused.

        Limits that change afterwards don't change where a charge is given back.
        """
        self.decision = decision
        self.state = "open" if decision else "refused"
        self.due_s = self._clock() + self._open_s
        if self.state == "open":
            for dimension, buckets in self.taken.items():
                paths = [each for bucket in buckets for each in bucket.path()]
                self._paths[dimension] = paths
            self._keep_open(self)

    def __bool__(self) -> bool:
        """Return whether the reservation was admitted."""
        return bool(self.decision)

    @property
    def is_open(self) -> bool:
        """Whether it would be returned if it were due now."""
        return self.state == "open"

    def __enter__(self) -> Self:
        """Return the reservation, after waiting for it if it waits.

        Raises:
            Throttled: It was refused; `Throttled.decision` says by which limit, when
                to come back, and ``deadline`` or ``queue full`` if it waited.
        """
        if self._queue is not None and self.state == "waiting":
            costs, wait_s = self.costs, self._wait_s
            wait = self._queue.wait
            self.began(wait(self._limiter, costs, wait_s, self.taken))
        return self._entered()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Keep the charge, or return it if the block failed, unless it was settled."""
        if self.state == "open" and kind is not None:
            self.cancel()
            return
        with self._state_lock:
            if self.state == "open":
                self.state = "kept"

    async def __aenter__(self) -> Self:
        """Do what `__enter__` does, without blocking the event loop."""
        if self._queue is not None and self.state == "waiting":
            costs, wait_s = self.costs, self._wait_s
            wait = self._queue.wait_async
            self.began(await wait(self._limiter, costs, wait_s, self.taken))
        return self._entered()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do what `__exit__` does."""
        self.__exit__(kind, error, trace)

    def settle(self, actual: Number | None = None, **actuals: Number) -> None:
        """Charge the actual cost: any excess is returned, any shortfall is owed.

        Args:
            actual: Units, if one dimension was reserved.
            actuals: Units by dimension; dimensions left out stay as reserved.

        Raises:
            AlreadySettled: It was settled or cancelled before.
            InvalidCost: A cost is negative, infinite or not a number, is given twice,
                or its dimension was not reserved.
        """
        if actual is not None:
            if len(self.costs) != 1:
                raise InvalidCost(f"expected costs by name, for {sorted(self.costs)}")
            if actuals:
                raise InvalidCost(
                    f"expected one actual cost, got {shown(actual)} and"
                    f" {', '.join(actuals)} as well"
                )
            actuals = {next(iter(self.costs)): actual}
        for dimension, units in actuals.items():
            if dimension not in self.costs or not is_cost(units):
                raise InvalidCost(
                    f"{dimension}: {expected_cost(units)}; the reserved dimensions"
                    f" are {sorted(self.costs)}"
                )
        settled = checked_costs(actuals)
        before = self._close("settled")
        # A charge that was returned as overdue is made after all.
        charged = before in ("open", "kept")
        reserved = self.costs if charged else dict.fromkeys(self.costs, 0.0)
        if before not in ("refused", "waiting"):
            self._correct(
                {d: settled.get(d, r) - reserved[d] for d, r in self.costs.items()}
            )
        if self._estimate is not None and self._estimate.dimension in settled:
            self._estimate.note(settled[self._estimate.dimension])

    def cancel(self) -> None:
        """Return everything, as if it had never been reserved.

        Raises:
            AlreadySettled: It was settled or cancelled before.
        """
        if self._close("cancelled") in ("open", "kept"):
            self._correct({d: -units for d, units in self.costs.items()})

    def return_overdue(self) -> bool:
        """Return everything if nobody settled; tell whether that was the case."""
        with self._state_lock:
            if self.state != "open":
                return False
            self.state = "returned"
        self._correct({d: -units for d, units in self.costs.items()})
        return True

    def _entered(self) -> Self:
        if not self.decision:
            raise Throttled(self.decision)
        return self

    def _close(self, state: str) -> str:
        with self._state_lock:
            before = self.state
            if before in ("settled", "cancelled"):
                raise AlreadySettled(
                    f"expected an open reservation, but it was already {before}"
                )
            self.state = state
            return before

    def _correct(self, more: Mapping[str, float]) -> None:
        now = self._clock()
        with self._lock or nullcontext():
            for dimension, units in more.items():
                if units < 0.0:
                    # A strict group that is above by now may not have been charged.
                    for each in self._paths.get(dimension, ()):
                        each.take_back(-units)
                elif units > 0.0:
                    for bucket in self.taken.get(dimension, ()):
                        bucket.charge_at(now, units)


class OpenReservations:
    """Open reservations in the order in which they are due; thread-safe."""

    def __init__(self) -> None:
        """Begin empty."""
        self._deadlines: Deadlines[Returnable] = Deadlines(lambda one: not one.is_open)
        self._lock = threading.Lock()
        self.returned = 0

    def __len__(self) -> int:
        """Return how many are open."""
        return sum(1 for _ in self._deadlines.open())

    def __bool__(self) -> bool:
        """Return whether any is open; faster than their number."""
        return any(True for _ in self._deadlines.open())

    def add(self, reservation: Returnable) -> None:
        """Keep a reservation until it is due, or has ended."""
        with self._lock:
            surplus = self._deadlines.add(reservation.due_s, reservation, MOST_OPEN)
        self._return(surplus)

    def return_overdue(self, now: float) -> None:
        """Return those that are due by `now` and unsettled."""
        due: list[Returnable] = []
        with self._lock:
            while (reservation := self._deadlines.pop(now)) is not None:
                due.append(reservation)
        self._return(due)

    def _return(self, due: Iterable[Returnable]) -> None:
        self.returned += sum(one.return_overdue() for one in due)
