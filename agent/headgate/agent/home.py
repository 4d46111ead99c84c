"""What a limiter needs of the enforcer that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.agent.bucket.chain import Chain
    from headgate.agent.limiter.fair_queue import FairQueue
    from headgate.agent.limiter.limiter import Limiter
    from headgate.agent.limiter.reservation import Reservation
    from headgate.coordinator.config.configuration import Refusal as RefusalMode


class Home(Protocol):
    """Resolves chains, and keeps what outlives a call."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, monotonic."""
        ...

    @property
    def waiting(self) -> FairQueue:
        """Where callers wait."""
        ...

    def resolve(self, limiter: Limiter, dimension: str) -> Chain:
        """Build a limiter's chain, give it to `Limiter.set_chain`, return it."""
        ...

    def sibling(self, limiter: Limiter, refusal: RefusalMode | None) -> Limiter:
        """Return the limiter of the same subject with another mode."""
        ...

    def keep_open(self, reservation: Reservation) -> None:
        """Return the reservation when its time is over."""
        ...
