"""A new strict group is full for the first agents that use it, and never again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import delete

from headgate.agent import connect
from headgate.api import RightsSettings, ServerSettings, create_token, running
from headgate.api.grants.table import GrantRow
from headgate.api.store.transactions import open_engine
from headgate.cli.client.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from headgate.agent import Agent, Limiter

PATIENCE_S = 60.0
"""How long a test waits for what must come; the machine may be busy."""

RATE, BURST = 2.0, 100.0

MOST = 80
"""Admitted at once if the group is full, and within 40 s if it is empty."""

FULL_S = 20.0
"""Until then `MOST` are admitted, if the group is full."""

EMPTY_S = 8.0
"""For so long a group that is not full must be seen not to be."""

PAUSE_S = 0.01


@dataclass
class Load:
    """Attempts by one thread, on one limiter after the other.

    Attributes:
        admitted: When each one that passed began and ended, monotonic seconds.
    """

    admitted: list[tuple[float, float]] = field(
        default_factory=list[tuple[float, float]]
    )

    def run(self, agents: Iterable[Agent], *, for_s: float, most: int = 0) -> None:
        """Attempt for a while, or until `most` more have passed."""
        limiters: list[Limiter] = [agent.limiter(tenant="acme") for agent in agents]
        before, until_s = len(self.admitted), time.monotonic() + for_s
        while time.monotonic() < until_s:
            for limiter in limiters:
                began_s = time.monotonic()
                if limiter.try_acquire(requests=1):
                    self.admitted.append((began_s, time.monotonic()))
            if 0 < most <= len(self.admitted) - before:
                return
            time.sleep(PAUSE_S)

    def over(self) -> float:
        """Return by how much some stretch of time held more than Q·W + B."""
        return (
            max(
                last - first + 1 - RATE * (ended_s - begun_s)
                for first, (begun_s, _) in enumerate(self.admitted)
                for last, (_, ended_s) in enumerate(self.admitted)
                if first <= last
            )
            - BURST
        )


@dataclass(frozen=True)
class Group:
    """A server that requires tokens, and a strict group there that nobody has used.

    Attributes:
        url: Of the API.
        token: Of an agent.
        database: Where grants are kept.
    """

    url: str
    token: str
    database: str

    def join(self, agent: str) -> Agent:
        return connect(self.url, agent=agent, token=self.token, keep_snapshot=False)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """Its heartbeats are so far apart that no grant expires on a busy machine."""
    settings = ServerSettings(
        database=str(tmp_path / "headgate.db"),
        port=0,
        bus_ports=(0, 0),
        report_interval_s=3.0,
        rights=RightsSettings(required=True),
    )
    admin = create_token(settings, "ada", "admin")
    agent = create_token(settings, "agents", "agent")
    limit = {"dimension": "requests", "rate": RATE, "burst": BURST}
    with running(settings) as addresses, Rest(addresses.api, token=admin) as rest:
        until_s = time.monotonic() + PATIENCE_S
        while not rest.call("GET", "/api/v1/agents")["bus_open"]:
            assert time.monotonic() < until_s
            time.sleep(PAUSE_S)
        rest.call("PUT", "/api/v1/tenants/acme", body={})
        body = {"mode": "strict", "limits": [limit]}
        rest.call("PUT", "/api/v1/groups/g", body=body)
        attachment = {"subject": {"tenant": "acme"}, "group": "g"}
        rest.call("PUT", "/api/v1/attachments", body=attachment)
        yield Group(addresses.api, agent, settings.database_url)


def test_the_first_agents_find_a_new_strict_group_full_and_later_ones_do_not(
    group: Group,
) -> None:
    load = Load()
    with group.join("a") as first, group.join("b") as second:
        load.run([first, second], for_s=FULL_S, most=MOST)
        assert len(load.admitted) >= MOST
        load.run([first, second], for_s=EMPTY_S)
    with group.join("c") as third, group.join("d") as fourth:
        load.run([third, fourth], for_s=PATIENCE_S, most=1)
        load.run([third, fourth], for_s=EMPTY_S)
    assert load.over() <= 0.0


def test_what_agents_own_is_not_granted_though_the_grants_were_lost(
    group: Group,
) -> None:
    limits = [{"group": 1, "dimension": "requests"}]
    load = Load()
    with group.join("a") as agent, Rest(group.url, token=group.token) as rest:
        load.run([agent], for_s=PATIENCE_S, most=1)
        assert load.admitted
        load.run([agent], for_s=EMPTY_S)  # the listener hears of it
        engine = open_engine(group.database)
        with engine.begin() as connection:
            connection.execute(delete(GrantRow))
        engine.dispose()
        claim = {"agent": "a", "limits": limits}
        answer = rest.call("POST", "/api/v1/grants", body=claim)
    assert answer["granted"] == []
