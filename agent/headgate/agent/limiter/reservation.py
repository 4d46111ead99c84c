"""A cost that is known only afterwards: reserve an estimate, settle the actual."""

from __future__ import annotations

import heapq
import threading
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Self

from headgate.agent.bucket.chain import give_back_before
from headgate.agent.bucket.costs import expected_cost, is_cost
from headgate.agent.errors import AlreadySettled, InvalidCost, Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Lock
    from types import TracebackType

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.decision import Decision
    from headgate.agent.ports import Returnable

MOST_OPEN_S = 60.0
"""When a reservation that nobody settled is returned, by default: the caller is
taken to be dead.  A late settlement is charged none the less."""

MOST_OPEN = 100_000
"""Open reservations that are watched; of more, the ones due first are returned."""

ESTIMATE_WEIGHT = 0.1
"""Part of the newest settlement in the running average: ten make most of it."""


class Estimate:
    """The running average of what was settled, for the next reservation.

    Pulsar estimates the messages of an entry like this, a gateway of language
    models the tokens of an answer.

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
            first: Estimate before anything was settled.
            weight: Part of the newest settlement, in (0, 1].
        """
        if not (is_cost(first) and first > 0.0 and 0.0 < weight <= 1.0):
            raise InvalidCost(
                f"expected first > 0 and 0 < weight <= 1, got {first} and {weight}"
            )
        self.dimension = dimension
        self.units: float = first
        self._weight = weight

    def note(self, actual: float) -> None:
        """Take an actual cost into the average."""
        self.units += self._weight * (actual - self.units)


class Reservation:
    """What was charged in advance; truthy when admitted.

    As a context it returns everything when the block raises, and stands as
    charged when the block ends without a settlement.

    Attributes:
        decision: The answer to the attempt.
        costs: What was reserved, units by dimension.
        due_s: When it is returned, on the limiter's clock.
    """

    __slots__ = (
        "_clock",
        "_estimate",
        "_lock",
        "_state_lock",
        "_taken",
        "costs",
        "decision",
        "due_s",
        "state",
    )

    def __init__(
        self,
        decision: Decision,
        costs: Mapping[str, float],
        taken: Mapping[str, tuple[Bucket, ...]],
        *,
        clock: Callable[[], float],
        lock: Lock | None,
        due_s: float,
        estimate: Estimate | None = None,
    ) -> None:
        """Hold what was charged.

        Args:
            decision: The answer to the attempt.
            costs: Units by dimension.
            taken: The buckets that were charged, by dimension.
            clock: Seconds, monotonic.
            lock: Held around charges where there is no GIL.
            due_s: When it is returned.
            estimate: To be told the actual cost.
        """
        self.decision = decision
        self.costs = costs
        self.due_s = due_s
        self.state = "open" if decision and not decision.shadow else "refused"
        self._taken = taken
        self._clock = clock
        self._lock = lock
        self._state_lock = threading.Lock()
        self._estimate = estimate

    def __bool__(self) -> bool:
        """Return whether the reservation was admitted."""
        return bool(self.decision)

    def __enter__(self) -> Self:
        """Return the reservation.

        Raises:
            Throttled: It was refused.
        """
        if not self.decision:
            raise Throttled(self.decision)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Return what was reserved if the block failed without a settlement."""
        if self.state == "open" and kind is not None:
            self.cancel()

    def settle(self, actual: float | None = None, **actuals: float) -> None:
        """Charge the actual cost: what is over comes back, what is short is owed.

        Args:
            actual: Units, where one dimension was reserved.
            actuals: Units by dimension; what is not named stands as reserved.

        Raises:
            AlreadySettled: It was settled or cancelled before.
            InvalidCost: A cost is negative, infinite or not a number, or of a
                dimension that was not reserved.
        """
        if actual is not None:
            if len(self.costs) != 1:
                raise InvalidCost(f"expected costs by name of {sorted(self.costs)}")
            actuals = {next(iter(self.costs)): actual, **actuals}
        for dimension, units in actuals.items():
            if dimension not in self.costs or not is_cost(units):
                raise InvalidCost(
                    f"{dimension}: {expected_cost(units)}; reserved was"
                    f" {sorted(self.costs)}"
                )
        before = self._close("settled")
        # What was returned for want of a settlement is charged after all.
        reserved = self.costs if before == "open" else dict.fromkeys(self.costs, 0.0)
        if before != "refused":
            self._correct(
                {d: actuals.get(d, r) - reserved[d] for d, r in self.costs.items()}
            )
        if self._estimate is not None and self._estimate.dimension in actuals:
            self._estimate.note(actuals[self._estimate.dimension])

    def cancel(self) -> None:
        """Return everything, as if it had never been reserved.

        Raises:
            AlreadySettled: It was settled or cancelled before.
        """
        if self._close("cancelled") == "open":
            self._correct({d: -units for d, units in self.costs.items()})

    def return_overdue(self) -> bool:
        """Return everything if nobody settled; tell whether that was so."""
        with self._state_lock:
            if self.state != "open":
                return False
            self.state = "returned"
        self._correct({d: -units for d, units in self.costs.items()})
        return True

    def _close(self, state: str) -> str:
        with self._state_lock:
            before = self.state
            if before in ("settled", "cancelled"):
                raise AlreadySettled(f"expected an open reservation, it was {before}")
            self.state = state
            return before

    def _correct(self, more: Mapping[str, float]) -> None:
        now = self._clock()
        with self._lock or nullcontext():
            for dimension, units in more.items():
                buckets = self._taken[dimension]
                if units < 0.0:
                    give_back_before(buckets, None, -units)
                elif units > 0.0:
                    for bucket in buckets:
                        bucket.charge_at(now, units)


class OpenReservations:
    """Reservations by the time at which they are due; thread-safe."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._heap: list[tuple[float, int, Returnable]] = []
        self._number = count()
        self._lock = threading.Lock()
        self.returned = 0

    def __len__(self) -> int:
        """Return how many are watched, settled ones included until they are due."""
        return len(self._heap)

    def add(self, reservation: Returnable) -> None:
        """Watch a reservation until it is due."""
        with self._lock:
            entry = (reservation.due_s, next(self._number), reservation)
            heapq.heappush(self._heap, entry)
            full = len(self._heap) > MOST_OPEN
        if full:
            self.return_overdue(self._heap[0][0])

    def return_overdue(self, now: float) -> None:
        """Return those that were due by `now` and that nobody settled."""
        due: list[Returnable] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                due.append(heapq.heappop(self._heap)[2])
        self.returned += sum(reservation.return_overdue() for reservation in due)
