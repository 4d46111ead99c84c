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
"""Older messages are discarded.  Past the lease (at most 9 reports) of a sender
they say nothing that the others did not have to assume already."""

MAX_WAITING = 4_096
"""Messages that wait for their reader, at most: 100 agents for 40 s.  A reader
that is further behind loses the rest, and the next report of each carries it."""

MAX_WAITING_BYTES = 64 << 20
"""Of all messages that wait, at most: five seconds of a hundred agents that each
change 5,000 rows of two dimensions."""

MAX_BATCH = 256
"""Messages that one `Bus.receive` returns: the agent sees to its buckets between
two batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    """Which bus, and how to reach it.

    Attributes:
        kind: ``memory`` (one process, for tests), ``zeromq`` or ``kafka``.
        publish: ZeroMQ: where proxies take reports, ``tcp://host:port``; with
            several, agents use all of them.
        subscribe: ZeroMQ: where the same proxies hand reports out.
        bootstrap: Kafka: ``host:port`` of brokers, comma between them.
        topic: Kafka: name of the topic.  Memory: name of the hub.
        options: Kafka: any option of kafka-python, by its name there; it wins
            over what Headgate sets.  ZeroMQ: see `headgate.agent.bus.zeromq.bus`.
            Both: how reports are signed, see `headgate.agent.bus.signed`; and any
            value may stand in a file, see `headgate.agent.bus.options`.
        max_age_s: Messages older than this are discarded, seconds.
    """

    kind: BusKind
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    bootstrap: str = ""
    topic: str = "headgate-usage"
    options: Mapping[str, Json] = field(default_factory=dict[str, "Json"])
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
        age_s: How old it was then, at least, as far as the bus can tell; 0 where
            it can't.  Two wall clocks may stand behind it: only large values mean
            anything.
        signer: For whom the key speaks that signed it; None where reports are not
            signed.
    """

    payload: bytes
    received_wall_s: float
    age_s: float = 0.0
    signer: Verdict | None = None


class Bus(Protocol):
    """A non-persistent topic that all agents of a cluster write and read."""

    @property
    def counters(self) -> Mapping[str, int]:
        """How often what happened, by name, such as ``dropped_old``."""
        ...

    @property
    def partitions(self) -> int:
        """Over how many partitions rows are spread by group; 1: all are together."""
        ...

    def read(self, partitions: frozenset[int]) -> None:
        """Read these partitions from now on, soon; all of them before."""
        ...

    def reads(self, partitions: frozenset[int]) -> bool:
        """Return whether what is published in all of these now would be heard."""
        ...

    def publish(self, payload: bytes, partition: int | None = None) -> bool:
        """Hand `payload` to the bus; never wait for it to be delivered.

        Args:
            payload: A report, or a part of one.
            partition: Where it belongs; None where nothing is cut.

        Returns:
            False when it was dropped at once, because the bus is down or full.
            True promises nothing: only its coming back shows that it arrived.
        """
        ...

    def receive(self, timeout_s: float) -> list[Message]:
        """Return what arrived, own messages included, oldest first.

        Waits up to `timeout_s` for the first message, not longer, even when the
        bus is down, and returns early when there is one.  At most `MAX_BATCH`.
        """
        ...

    def lag(self) -> float:
        """Return how long a message takes from publish to receive, seconds.

        Measured on the own messages that came back; 0 before the first.  It grows
        with time while an own message has not come back.
        """
        ...

    def close(self) -> None:
        """Send what waits, for a bounded time, and let go of all resources."""
        ...
