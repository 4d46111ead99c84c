"""A real server with a group of slots."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.integration.slots.rigs import PATIENCE_S, until

from headgate.agent import Agent, connect
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class SlotServer:
    """An API, and what an operator asks of it.

    Attributes:
        url: Of the API.
        rest: A client of it.
    """

    def __init__(self, url: str, rest: httpx.Client) -> None:
        self.url = url
        self.rest = rest

    def set_slots(self, count: int | None, **settings: object) -> None:
        """Give the tenant acme so many slots."""
        for path, body in (
            ("/groups/gold", {"slots": count, **settings}),
            ("/tenants/acme", {}),
            ("/attachments", {"subject": {"tenant": "acme"}, "group": "gold"}),
        ):
            answer = self.rest.put(path, json=body)
            assert answer.is_success, answer.text

    def saw_go(self, agent: str) -> float:
        """Wait until the API sees an agent's process go; return when, at the earliest.

        That is before the last question whose answer did not say so yet.
        """
        asked_s = [time.monotonic()]

        def is_gone() -> bool:
            asked_s.append(time.monotonic())
            alive = self.rest.get("/snapshot", params={"alive": 0}).json()["alive"]
            return agent in [life["agent"] for life in alive["gone"]]

        until(is_gone, f"the API to see {agent} go")
        return asked_s[-2]

    def in_use(self) -> dict[str, int]:
        """Return the slots that each agent holds, as the API shows them."""
        shown = self.rest.get("/groups/gold/slots").json()
        assert shown["in_use"] == sum(row["in_use"] for row in shown["agents"])
        return {row["agent"]: row["in_use"] for row in shown["agents"]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SlotServer]:
    """A real server on free ports."""
    settings = ServerSettings(
        port=0, bus_ports=(0, 0), database=str(tmp_path / "headgate.db")
    )
    with (
        running(settings) as addresses,
        httpx.Client(base_url=f"{addresses.api}/api/v1", timeout=PATIENCE_S) as rest,
    ):
        yield SlotServer(addresses.api, rest)


@pytest.fixture
def agent(server: SlotServer) -> Iterator[Agent]:
    """The only agent of a group of three slots."""
    server.set_slots(3)
    with connect(server.url, agent="only", keep_snapshot=False, wait_s=60.0) as one:
        yield one
