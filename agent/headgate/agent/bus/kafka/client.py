"""kafka-python, set up to drop rather than wait; nothing else imports it.

kafka-python has no types, so the parts used here are written down as protocols.  Each
setting below was measured on kafka-python 3.0.12; its defaults suit logs that must
keep everything, while a bus of reports must forget quickly.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from headgate.agent.bus.options import resolved
from headgate.agent.bus.port import MAX_BATCH, BusSettings
from headgate.agent.errors import BusUnavailable
from headgate.agent.wire.bounds import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from headgate.agent.json_place import Json

COMMON: Mapping[str, object] = {
    # Pinned, so that constructors don't use the network and return at once.
    "api_version": (4, 0),
    "reconnect_backoff_ms": 50,
    # With the default, 30 s, reports stayed away that long after a broker came back.
    "reconnect_backoff_max_ms": 500,
    # A topic that was deleted and created again is found within this time.
    "metadata_max_age_ms": 30_000,
}

PRODUCER: Mapping[str, object] = {
    # Not 0: with acks=0 a future is done before its bytes reach the socket, nothing
    # bounds the buffer while a broker hangs, and close() drops the tail.
    "acks": 1,
    "enable_idempotence": False,
    # The next report is better than a second attempt at this one.
    "retries": 0,
    "request_timeout_ms": 2_000,
    # The only bound on what the client buffers, and for how long.
    "delivery_timeout_ms": 3_000,
    # Only the first send to a topic blocks, in the writing thread.
    "max_block_ms": 200,
    "linger_ms": 0,
    "batch_size": 262_144,
    "max_request_size": MAX_PAYLOAD_BYTES + 4_096,  # headers and batch around it
    "compression_type": "lz4",
}

FETCH_BYTES = 2 << 20
"""Most bytes that one fetch brings from a partition: a fifth of a second of a hundred
agents that each change 10,000 rows a second."""

CONSUMER: Mapping[str, object] = {
    # No group: every agent reads everything, nothing is committed.
    "group_id": None,
    "enable_auto_commit": False,
    "auto_offset_reset": "latest",
    # 1 MB and 200 ms would save four fifths of the CPU and cost 100 ms of lag.
    "fetch_min_bytes": 1,
    "fetch_max_wait_ms": 500,
    "max_partition_fetch_bytes": FETCH_BYTES,
    "request_timeout_ms": 5_000,
    "max_poll_records": MAX_BATCH,
    "allow_auto_create_topics": False,
}

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols of Kafka."""

LEAST_PAUSE_MS = 10
"""While a node is connecting or hung, kafka-python's sender asks how long to wait, gets
0 and spins at half a core; with this pause it takes 2 %."""


ADMIN_TIMEOUT_MS = 10_000
"""Longest wait for an answer to an admin request; a slower broker is not ready for
agents."""


class Future(Protocol):
    """The result of a send."""

    def add_callback(self, done: Callable[[object], None]) -> object:
        """Call `done` with the record's metadata once it is delivered."""
        ...

    def add_errback(self, failed: Callable[[BaseException], None]) -> object:
        """Call `failed` if it can't be delivered."""
        ...


class ProducerClient(Protocol):
    """The part of ``kafka.KafkaProducer`` used here; safe to share between threads."""

    def send(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        headers: list[tuple[str, bytes]],
        partition: int | None,
    ) -> Future:
        """Queue a record; the first for a topic waits for its metadata."""
        ...

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions, or raise after ``max_block_ms``."""
        ...

    def close(self, timeout: float) -> None:
        """Deliver what is waiting, for at most `timeout` seconds."""
        ...


class ConsumedRecord(Protocol):
    """A record that was read."""

    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    timestamp: int


class ConsumerClient(Protocol):
    """The part of ``kafka.KafkaConsumer`` used here; for one thread only."""

    def assign(self, partitions: Sequence[object]) -> None:
        """Read these partitions, without a group."""
        ...

    def seek_to_end(self, *partitions: object) -> None:
        """Read only what is written from now on."""
        ...

    def position(self, partition: object, timeout_ms: int) -> int | None:
        """Return the next offset to read, None if unknown; raises without rights."""
        ...

    def poll(self, timeout_ms: int) -> Mapping[object, Iterable[ConsumedRecord]]:
        """Return what arrived."""
        ...

    def close(self, timeout_ms: int) -> None:
        """Close the connections."""
        ...


def check_installed() -> None:
    """Raise if kafka-python or its fast CRC is not installed.

    Raises:
        BusUnavailable: Says what to install.
    """
    for module in ("kafka", "crc32c", "lz4.frame"):
        try:
            import_module(module)
        except ImportError:
            # Without crc32c a report of 40 kB costs 4 ms of CPU instead of 0.2.
            raise BusUnavailable(
                f"kafka: {module} is missing: pip install 'headgate[kafka]'"
            ) from None
    theirs = logging.getLogger("kafka")
    if theirs.level == logging.NOTSET:
        # By default it logs ten errors a second while a broker is away; the bus logs
        # that once and counts.  A level set by the user stays.
        theirs.setLevel(logging.CRITICAL)


def open_producer(settings: BusSettings) -> ProducerClient:
    """Return a producer, without waiting for a broker.

    Raises:
        BusUnavailable: An option is unknown or its value is wrong.
    """
    return cast("ProducerClient", _open("KafkaProducer", PRODUCER, settings))


def open_consumer(settings: BusSettings) -> ConsumerClient:
    """Return a consumer that reads nothing yet, without waiting for a broker.

    Raises:
        BusUnavailable: As `open_producer`.
    """
    return cast("ConsumerClient", _open("KafkaConsumer", CONSUMER, settings))


def fetch_bytes(settings: BusSettings) -> int:
    """Return the most bytes that one fetch brings from a partition."""
    asked = settings.options.get("max_partition_fetch_bytes")
    return asked if isinstance(asked, int) else FETCH_BYTES


@contextmanager
def administrator(settings: BusSettings, what: str = "topic") -> Generator[object]:
    """Open an admin client for as long as the block lasts; waits for a broker.

    Args:
        settings: The bus, with the credentials of a user who may do what the block
            does.
        what: What the block is about, for its error, such as ``rights to``.

    Raises:
        BusUnavailable: As `open_producer`, or no broker answers; or the block raised,
            whatever it was.  Names the topic.
    """
    check_installed()
    settings = resolved(settings)
    bounds = {
        "bootstrap_timeout_ms": ADMIN_TIMEOUT_MS,
        "request_timeout_ms": ADMIN_TIMEOUT_MS,
    }
    admin = cast("_Closeable", _open("KafkaAdminClient", bounds, settings))
    try:
        yield admin
    except Exception as error:  # kafka-python raises what it likes
        raise BusUnavailable(
            f"kafka: {what} {settings.topic} on {settings.bootstrap}: "
            f"{type(error).__name__}: {error}"
        ) from None
    finally:
        admin.close()


def partition(topic: str, number: int) -> object:
    """Return kafka-python's object for a partition."""
    make = cast("Callable[[str, int], object]", import_module("kafka").TopicPartition)
    return make(topic, number)


def check_options(settings: BusSettings) -> None:
    """Raise for options that neither producer nor consumer knows.

    Raises:
        BusUnavailable: Says which one.
    """
    known = _known("KafkaProducer") | _known("KafkaConsumer")
    for name in settings.options:
        if name not in known:
            raise BusUnavailable(f"kafka: kafka-python has no option {name!r}")
    protocol = settings.options.get("security_protocol", "PLAINTEXT")
    if protocol not in SECURITY_PROTOCOLS:  # would be noticed only on connecting
        raise BusUnavailable(
            f"kafka: security_protocol: expected one of "
            f"{', '.join(SECURITY_PROTOCOLS)}, got {protocol!r}"
        )


def _open(name: str, ours: Mapping[str, object], settings: BusSettings) -> object:
    """Return a client with the settings above, overridden by the operator's."""
    make = cast("Callable[..., object]", getattr(import_module("kafka"), name))
    known = _known(name)
    theirs = {
        option: _as_python(value)
        for option, value in settings.options.items()
        if option in known
    }
    options = {"kafka_client": _calm_client, **COMMON, **ours, **theirs}
    try:
        return make(bootstrap_servers=settings.bootstrap.split(","), **options)
    except Exception as error:  # kafka-python raises what it likes, KafkaError or not
        raise BusUnavailable(f"kafka: {type(error).__name__}: {error}") from None


def _known(name: str) -> set[str]:
    """Return the names of a client's options."""
    client = getattr(import_module("kafka"), name)
    return set(cast("dict[str, object]", client.DEFAULT_CONFIG))


def _as_python(value: Json) -> object:
    """Return an option as kafka-python expects it: JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


class _Closeable(Protocol):
    def close(self) -> None: ...


class _Network(Protocol):
    """The part of ``kafka.net.compat.KafkaNetClient`` used here."""

    connection_delay: Callable[[object], float]


def _calm_client(**configuration: object) -> _Network:
    """Return kafka-python's network client without its busy loop (see above).

    Its only caller mistakes the seconds that it returns for milliseconds.
    """
    module = import_module("kafka.net.compat")
    make = cast("Callable[..., _Network]", module.KafkaNetClient)
    client = make(**configuration)
    in_seconds = client.connection_delay

    def in_milliseconds(node_id: object) -> float:
        return max(in_seconds(node_id) * 1000, LEAST_PAUSE_MS)

    client.connection_delay = in_milliseconds
    return client
