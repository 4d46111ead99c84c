"""A real Kafka broker; a real server, and an agent of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import PATIENCE_S
from tools.kafka_broker import Broker

from headgate.agent import connect
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headgate.agent import Agent
    from headgate.api import Addresses


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for the whole session."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Addresses]:
    """A server of its own for each test."""
    settings = ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )
    with running(settings) as addresses:
        yield addresses


@pytest.fixture
def agent(server: Addresses, tmp_path: Path) -> Iterator[Agent]:
    """An agent of that server."""
    with connect(
        server.api,
        agent="broker-1",
        snapshot_path=tmp_path / "snapshot.json",
        wait_s=PATIENCE_S,
    ) as agent:
        yield agent
