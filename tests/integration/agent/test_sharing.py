"""Agents of one process's test share a quota over a real bus and a real API."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from math import inf
from typing import TYPE_CHECKING

import pytest
from tests.integration.agent.rigs import (
    PATIENCE_S,
    Load,
    explained,
    rates,
    settle,
    snapshot,
    until,
)

from headgate.agent import AgentClosed, HeadgateError, connect, connect_async
from headgate.agent.connecting import _Joining  # pyright: ignore[reportPrivateUsage]
from headgate.agent.observer import Observer

if TYPE_CHECKING:
    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster

    from headgate.agent import Agent


pytestmark = pytest.mark.alone


def know_each_other(agents: list[Agent]) -> None:
    """Wait until every agent has heard every other."""
    names = {agent.id for agent in agents}
    until(
        lambda: all(
            names <= {m.agent for m in agent.status().members} for agent in agents
        ),
        "the agents to hear each other",
    )


def test_two_agents_hold_one_quota_together(join: Join) -> None:
    agents = [join("a"), join("b")]
    limiters = [agent.limiter(tenant="acme") for agent in agents]
    with Load(limiters[0], 2000) as heavy, Load(limiters[1], 200) as light:
        know_each_other(agents)
        settle([heavy, light], least=850, most=1150, seconds=3.0)

        def satisfied() -> bool:
            attempted, admitted = light.attempted, light.admitted
            rates([light], 2.0)
            return light.admitted - admitted > 0.8 * (light.attempted - attempted)

        # A busy machine lets the load sleep and then makes it burst: not all pass.
        until(satisfied, "who asks for less than his part to get it")


def test_a_change_is_in_force_in_every_agent(cluster: Cluster, join: Join) -> None:
    agents = [join("a"), join("b")]
    limiters = [agent.limiter(tenant="acme") for agent in agents]
    with Load(limiters[0], 600) as first, Load(limiters[1], 600) as second:
        know_each_other(agents)
        cluster.api.set_rate(100.0)
        until(lambda: all(a.status().revision == 2 for a in agents), "the change")
        settle([first, second], least=0, most=140, seconds=3.0)


def test_an_agent_tells_how_it_does(join: Join) -> None:
    agent, other = join("a"), join("b")
    limiter = agent.limiter(tenant="acme")
    other.limiter(tenant="acme")
    with Load(limiter, 300):
        know_each_other([agent, other])
        until(lambda: explained(agent).demand > 100, "a demand")
    status = agent.status()
    assert (status.agent, status.source, status.bus) == ("a", "api", "zeromq")
    assert status.alive
    assert status.api_reachable
    assert 0.0 < status.lag_s < 10.0
    assert agent.explain("gold", "requests").formula.startswith("Q' =")
    metrics = agent.metrics()
    assert metrics["agent_reports_published"] > 0
    assert metrics["bus_received"] > 0
    assert metrics["revision"] == 1
    assert "agent_failed_turns" not in metrics


def test_what_is_not_used_here_can_not_be_explained(join: Join) -> None:
    agent = join("a")
    with pytest.raises(HeadgateError, match="limit on 'tokens' of group 'gold'"):
        agent.explain("gold", "tokens")


def test_an_agent_that_was_closed_says_so_and_leaves(join: Join) -> None:
    staying, leaving = join("a"), join("b")
    know_each_other([staying, leaving])
    leaving.close()
    leaving.close()
    with pytest.raises(AgentClosed):
        leaving.limiter(tenant="acme")
    until(
        lambda: "b" not in {m.agent for m in staying.status().members},
        "the farewell, which comes long before the end of a lease",
    )


def test_an_agent_in_an_event_loop_joins_and_leaves_by_itself(
    cluster: Cluster,
) -> None:
    async def life() -> Agent:
        async with connect_async(
            cluster.api.url, agent="async", keep_snapshot=False, wait_s=PATIENCE_S
        ) as agent:
            assert agent.limiter(tenant="acme").try_acquire(requests=1)
            return agent

    agent = asyncio.run(life())
    with pytest.raises(AgentClosed):
        agent.limiter(tenant="acme")


def test_an_agent_that_nobody_waits_for_any_more_leaves() -> None:
    before = set(threading.enumerate())

    async def life(url: str) -> None:
        async with asyncio.timeout(0.2), connect_async(url, keep_snapshot=False):
            pytest.fail("the API doesn't answer")

    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(TimeoutError):
            asyncio.run(life(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        until(lambda: set(threading.enumerate()) <= before, "its threads to end")


def test_an_agent_that_had_joined_when_nobody_wanted_it_any_more_leaves(
    cluster: Cluster,
) -> None:
    joining = _Joining(lambda: connect(cluster.api.url, keep_snapshot=False))
    agent = joining.join()
    joining.abandon()

    def has_left() -> bool:
        try:
            agent.limiter(tenant="acme")
        except AgentClosed:
            return True
        return False

    until(has_left, "the agent to be closed")


def test_of_two_processes_with_one_id_one_takes_another(join: Join) -> None:
    first = join("twin")
    second = join("twin")
    until(lambda: first.id != second.id, "one of the twins to be renamed")
    assert second.id == "twin", "the younger one keeps it"
    know_each_other([first, second])


@pytest.mark.parametrize("cost", [1e6, 1e15])
def test_one_huge_refused_cost_locks_nobody_out(join: Join, cost: float) -> None:
    agent = join("a")
    limiter = agent.limiter(tenant="acme")
    with Load(limiter, 2000) as load:
        until(lambda: rates([load], 0.5)[0] > 900, "the quota to be used")
        until(lambda: not limiter.try_acquire(requests=1), "a refusal")
        # So that the next is refused for certain, should this thread sleep for 2 s.
        limiter.charge(requests=2000)
        assert not limiter.try_acquire(requests=cost)
        settle([load], least=800, most=inf, seconds=3.0)
    assert "agent_failed_turns" not in agent.metrics()


def test_an_observer_sees_all_and_is_seen_by_nobody(
    cluster: Cluster, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    agent = join("a")
    newest = snapshot(cluster.bus)
    with Observer(lambda: newest) as observer, Load(agent.limiter(tenant="acme"), 2000):
        until(
            lambda: any(
                row.admitted_per_s > 500 and row.refused_per_s > 300
                for limit in observer.look().limits
                for row in limit.agents
            ),
            "the observer to see the load",
        )
        sight = observer.look()
        assert [limit.group.name for limit in sight.limits] == ["gold"]
        assert [row.agent for row in sight.limits[0].agents] == ["a"]
        assert {member.agent for member in sight.members} == {"a"}
        assert sight.revision == 1
        assert "Q' =" in observer.explain(1, "requests").formula
        time.sleep(3.0)  # longer than an agent takes to miss its own reports
        assert {member.agent for member in agent.status().members} == {"a"}
    assert "cut_off" not in caplog.text


def test_an_agent_with_token_shows_it(cluster: Cluster) -> None:
    async def life() -> None:
        async with connect_async(
            cluster.api.url,
            agent="t",
            token="secret",
            keep_snapshot=False,
            wait_s=PATIENCE_S,
        ):
            pass

    asyncio.run(life())
    assert cluster.api.headers["Authorization"] == "Bearer secret"
    assert cluster.api.headers["Headgate-Agent"] == "t"
