"""The real parts that the bus tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.bus.rigs import KafkaRig, MemoryRig, Rig, ZeroMQRig
from tools.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for the whole session."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that asks for SCRAM over TLS and knows access control lists."""
    directory = tmp_path_factory.mktemp("guarded")
    with Broker(directory, auth="scram", tls=True) as broker:
        yield broker


@pytest.fixture(params=["memory", "zeromq", "kafka"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Each kind of bus, on real parts."""
    kind: str = request.param
    if kind == "memory":
        rig: Rig = MemoryRig()
    elif kind == "zeromq":
        rig = ZeroMQRig()
    else:
        rig = KafkaRig(request.getfixturevalue("broker"))
    yield rig
    rig.close()
