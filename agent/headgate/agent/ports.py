"""What the parts of an agent need from one another, each named by its job.

A limiter asks its maker for its chains, and the fair queue asks a limiter to
charge; the thread of an agent drives whatever enforces in its process.  Each side knows
the other only by what is declared here, so that nothing imports what is above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from headgate.agent.bucket.bucket import Bucket
    from headgate.agent.bucket.chain import Chain, Taken
    from headgate.agent.bucket.costs import Number
    from headgate.agent.decision import Decision
    from headgate.agent.follow.policies import Policies
    from headgate.agent.follow.subject import Subject
    from headgate.coordinator import Configuration, Counted, SetCeilings, SetSlots
    from headgate.coordinator.config.configuration import Refusal as RefusalMode

LimiterT = TypeVar("LimiterT", covariant=True)
"""The limiters of a resolver."""


class EnforcementPort(Protocol):
    """What enforces in this process: an `Enforcer`, or nothing for an observer."""

    def configure(
        self,
        configuration: Configuration,
        now: float,
        policies: Policies,
        wall_s: float | None = None,
    ) -> None:
        """Follow a new configuration, with its rate policies, at `wall_s`."""

    def counts(self, now: float) -> Counted:
        """Return what was counted so far."""
        ...

    def at_rest(self) -> bool:
        """Return whether `counts` would return what it returned last; cheap."""
        ...

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Set the ceilings of buckets."""

    def hold(self, slots: SetSlots) -> None:
        """Set how many slots callers may hold."""


class ChainHolder(Protocol):
    """A limiter, as the resolver of its chains sees it."""

    @property
    def subject(self) -> Subject:
        """Who asks."""
        ...

    @property
    def refusal(self) -> RefusalMode | None:
        """What a refusal means to this caller; None for what each group says."""
        ...

    def set_chain(self, dimension: str, chain: Chain) -> None:
        """Keep a chain until the configuration changes."""


class ChargeableLimiter(Protocol):
    """A limiter, as the fair queue, a handle and a reservation see it."""

    @property
    def subject(self) -> Subject:
        """Who asks."""
        ...

    def chain(self, dimension: str) -> Chain:
        """Return the chain of a dimension."""
        ...

    def attempt(
        self, now: float, costs: Mapping[str, Number], taken: Taken | None = None
    ) -> Decision:
        """Admit and charge, or refuse."""
        ...

    def charge_quietly(
        self, now: float, costs: Mapping[str, float], taken: Taken
    ) -> Decision | Bucket:
        """Admit and charge, or return the bucket that refuses, uncounted."""
        ...

    def foresee(self, now: float, costs: Mapping[str, Number]) -> Decision:
        """Return the answer an attempt would get, charging and counting nothing."""
        ...


class WaitingLine(Protocol):
    """Where callers wait until their costs are admitted."""

    def wait(
        self,
        limiter: ChargeableLimiter,
        costs: Mapping[str, float],
        timeout_s: float,
        taken: Taken | None = None,
    ) -> Decision:
        """Block the calling thread; what is charged is added to `taken`."""
        ...

    def wait_async(
        self,
        limiter: ChargeableLimiter,
        costs: Mapping[str, float],
        timeout_s: float,
        taken: Taken | None = None,
    ) -> Coroutine[object, None, Decision]:
        """Suspend the calling task; what is charged is added to `taken`."""
        ...


class Returnable(Protocol):
    """A reservation that is returned when nobody settles it in time."""

    @property
    def due_s(self) -> float:
        """When that is, on the limiter's clock."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it would be returned if it were due now."""
        ...

    def return_overdue(self) -> bool:
        """Return everything if nobody settled; tell whether that was the case."""
        ...


class ChainResolver(Protocol[LimiterT]):
    """What made a limiter: it resolves chains, and keeps what outlives a call."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, monotonic."""
        ...

    @property
    def waiting(self) -> WaitingLine:
        """Where callers wait."""
        ...

    def resolve(self, limiter: ChainHolder, dimension: str) -> Chain:
        """Build a limiter's chain, give it to `ChainHolder.set_chain`, return it."""
        ...

    def note_no_cost(self) -> None:
        """Note an attempt that named no cost."""

    def sibling(self, subject: Subject, refusal: RefusalMode | None) -> LimiterT:
        """Return the limiter of a subject with a mode of its own."""
        ...

    def keep_open(self, reservation: Returnable) -> None:
        """Return the reservation when its time is over."""
