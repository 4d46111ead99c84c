"""A real broker for the Kafka wrappers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tools.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker for the whole session."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
