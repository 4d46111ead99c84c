"""What the tests of a whole agent share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
from tests.integration.agent.rigs import PATIENCE_S, Cluster

from headgate.agent import Agent, connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Join(Protocol):
    """Makes an agent of the test's cluster, closed after the test."""

    def __call__(self, agent: str, **options: object) -> Agent: ...


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """An API and a bus."""
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def join(cluster: Cluster, tmp_path: Path) -> Iterator[Join]:
    """Make agents, each with a snapshot file of its own."""
    agents: list[Agent] = []

    def join(agent: str, **options: object) -> Agent:
        without = options.pop("without_configuration", "admit")
        assert without in ("admit", "refuse")
        strict = bool(options.pop("strict", False))
        assert not options
        joined = connect(
            cluster.api.url,
            agent=agent,
            snapshot_path=tmp_path / f"{agent}.json",
            wait_s=PATIENCE_S,
            without_configuration=without,
            strict=strict,
        )
        agents.append(joined)
        return joined

    yield join
    for joined in agents:
        joined.close()
