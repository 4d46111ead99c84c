"""The bus: what carries reports between agents, behind a port of a few verbs.

`headgate.agent.bus.open` opens the one that the settings name.  A bus may lose,
double and reorder: reports are cumulative, so nothing is lost for good.  What a bus
may not do is block or grow: `Bus.publish` drops rather than waits, `Bus.receive`
throws away what is old, and every queue has a bound.  One thread, the
agent's, uses a bus and closes it; `Bus.lag` and `Bus.counters` may be asked from any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.json_place import Json
    from headgate.agent.wire.signing import Verdict

BusKind = Literal["memory", "zeromq", "kafka"]

DEFAULT_MAX_AGE_S = 10.0
"""Older messages are discarded.  Once a sender's lease (at most 9 reports) is over,
they say nothing that the others have not had to assume already."""

MAX_WAITING = 4_096
"""Most messages that wait for their reader: 100 agents for 40 s.  A reader that falls
further behind loses the rest, which the next report of each agent makes up for."""

MAX_WAITING_BYTES = 64 << 20
"""Most bytes of all waiting messages: five seconds of a hundred agents that each change
5,000 rows of two dimensions."""

MAX_BATCH = 256
"""Most messages that one `Bus.receive` returns: between two batches the agent tends
its buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    """Which bus, and how to reach it.

    Attributes:
        kind: ``memory`` (one process, for tests), ``zeromq`` or ``kafka``.
        publish: ZeroMQ: where proxies take reports, ``tcp://host:port``; agents use
            all of several.
        subscribe: ZeroMQ: where the same proxies send reports.
        bootstrap: Kafka: ``host:port`` of brokers, separated by commas.
        topic: Kafka: name of the topic.  Memory: name of the hub.
        options: Kafka: any option of kafka-python, by its name there; it overrides
            what Headgate sets.  ZeroMQ: see `headgate.agent.bus.zeromq.bus`.
            Both: how reports are signed, see `headgate.agent.bus.signed`; any
            value may come from a file, see `headgate.agent.bus.options`.
        max_age_s: Messages older than this are discarded, seconds.
    """

    kind: BusKind
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    bootstrap: str = ""
    topic: str = "headgate-usage"
    # Not in messages or error reports: it may hold a password or a key.
    options: Mapping[str, Json] = field(default_factory=dict[str, "Json"], repr=False)
    max_age_s: float = DEFAULT_MAX_AGE_S

    def __post_init__(self) -> None:
        if self.kind == "zeromq" and not (self.publish and self.subscribe):
            raise BusUnavailable("zeromq: expected `publish` and `subscribe` addresses")
        if self.kind == "kafka" and not (self.bootstrap and self.topic):
            raise BusUnavailable("kafka: expected `bootstrap` and `topic`")
        if not self.max_age_s > 0:
            raise BusUnavailable(f"max_age_s: expected > 0, got {self.max_age_s}")


@dataclass(frozen=True, slots=True)
class Message:
    """One payload that came out of the bus.

    Attributes:
        payload: What was published.
        received_wall_s: This process's wall clock when it came out.
        age_s: Its least age at that time, as far as the bus can tell; 0 if it can't.
            It compares the clocks of two hosts: only large values mean anything.
        signer: Whom the signing key speaks for; None if reports are not signed.
    """

    payload: bytes
    received_wall_s: float
    age_s: float = 0.0
    signer: Verdict | None = None


class Bus(Protocol):
    """A non-persistent topic that all agents of a cluster write and read."""

    @property
    def counters(self) -> Mapping[str, int]:
        """Number of events by name, such as ``dropped_old``."""
        ...

    @property
    def partitions(self) -> int:
        """Number of partitions over which rows are spread by group; 1 if not at all."""
        ...

    def read(self, partitions: frozenset[int]) -> None:
        """Read only these partitions, soon; until this is called, all are read."""
        ...

    def reads(self, partitions: frozenset[int]) -> bool:
        """Return whether a message published now would be heard, in each of these."""
        ...

    def publish(self, payload: bytes, partition: int | None = None) -> bool:
        """Give `payload` to the bus, without waiting for delivery.

        Args:
            payload: A report, or a part of one.
            partition: Where it belongs; None if reports are not split.

        Returns:
            False if it was dropped at once because the bus is down or full.  True
            promises nothing: only when it comes back is it known to have arrived.
        """
        ...

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what arrived, own messages included, oldest first.

        Waits up to `timeout_s` for the first message and no longer, even while the
        bus is down.  Returns at most `MAX_BATCH` messages.
        """
        ...

    def lag(self) -> float:
        """Return how long a message takes from publish to receive, seconds.

        Measured on own messages that came back; 0 before the first.  While an own
        message is missing, it grows with time.
        """
        ...

    def close(self) -> None:
        """Send what is waiting, for a bounded time, and release all resources."""
        ...


class Unpartitioned:
    """The part of a `Bus` that is about partitions, for one that has none."""

    @property
    def partitions(self) -> int:
        """See `Bus.partitions`: reports are not split."""
        return 1

    def read(self, partitions: frozenset[int]) -> None:
        """See `Bus.read`: there is nothing to choose."""

    def reads(self, partitions: frozenset[int]) -> bool:
        """See `Bus.reads`."""
        return True
