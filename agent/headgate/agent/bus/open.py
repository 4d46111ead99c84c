"""Opens the bus that the settings name: the one place that knows all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.bus.options import resolved, without_signing
from headgate.agent.bus.signed import SignedBus, Signing

if TYPE_CHECKING:
    from headgate.agent.bus.port import Bus, BusSettings


def open_bus(settings: BusSettings) -> Bus:
    """Return the bus named in `settings`, without waiting for a connection.

    Raises:
        BusUnavailable: A setting is wrong, or a library is missing.
    """
    settings = resolved(settings)
    signing = Signing.of(settings.options)
    bus = _open(without_signing(settings))
    return bus if signing is None else SignedBus(bus, signing)


def _open(settings: BusSettings) -> Bus:
    """Return the bus of this kind; all options are its own."""
    # Imported late: an agent on ZeroMQ needs no Kafka client, and vice versa.
    if settings.kind == "memory":
        from headgate.agent.bus.memory import MemoryHub

        return MemoryHub.named(settings.topic).join(settings.max_age_s)
    if settings.kind == "zeromq":
        from headgate.agent.bus.zeromq.bus import ZeroMQBus

        return ZeroMQBus(settings)
    from headgate.agent.bus.kafka.bus import KafkaBus

    return KafkaBus(settings)
