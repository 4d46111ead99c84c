"""KIP-599's worked example, from REST to the decisions of a real agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from tests.integration.agent.rigs import PATIENCE_S, until

from headgate.agent import connect
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headgate.agent import Limiter

LIMIT = {
    "dimension": "mutations",
    "rate": 5.0,
    "samples": 100,
    "window_s": 1.0,
    "scope": "node",
}


@pytest.fixture
def limiter(tmp_path: Path) -> Iterator[Limiter]:
    """A limiter of Q = 5/s, S = 100, W = 1 s in each process."""
    database = str(tmp_path / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with running(settings) as addresses:
        with httpx.Client(
            base_url=f"{addresses.api}/api/v1", timeout=PATIENCE_S
        ) as rest:
            rest.put("/groups/kafka", json={"limits": [LIMIT]}).raise_for_status()
            rest.put("/tenants/acme", json={}).raise_for_status()
            attachment = {"subject": {"tenant": "acme"}, "group": "kafka"}
            rest.put("/attachments", json=attachment).raise_for_status()
        with connect(
            addresses.api, agent="a", keep_snapshot=False, wait_s=PATIENCE_S
        ) as agent:
            limiter = agent.limiter(tenant="acme")
            until(lambda: bool(limiter.links({"mutations": 1.0})), "the limit")
            yield limiter


def test_kip599_a_burst_of_560_leaves_60_owed_and_12_s_to_wait(
    limiter: Limiter,
) -> None:
    assert limiter.try_acquire(mutations=560)
    refused = limiter.try_acquire(mutations=1)
    assert not refused
    assert 11.0 < refused.delay_s <= 12.0


def test_kip599_seven_batches_of_80_are_admitted_and_the_eighth_waits(
    limiter: Limiter,
) -> None:
    admitted = [bool(limiter.try_acquire(mutations=80)) for _ in range(8)]
    assert admitted == [True] * 7 + [False]


def test_kip599_501_of_a_batch_of_560_are_accepted(limiter: Limiter) -> None:
    partial = limiter.try_acquire_some(mutations=560)
    assert (partial.admitted, partial.refused) == (501.0, 59.0)
    assert not partial.decision
