"""An hourly quota is still what it was when the whole cluster comes back."""

import time

import httpx
from tests.web.rigs import TIMEOUT_S, Server

import headgate.agent

HOURLY = {"limits": [{"dimension": "requests", "rate": 1000, "period_s": 3600}]}


def admitted(server: Server, *, attempts: int, within_s: float, wait: bool) -> int:
    """Return how many of some attempts an agent of its own is granted."""
    count = 0
    with headgate.agent.connect(server.url, agent="x", keep_snapshot=False) as agent:
        if wait:  # a group that is made while an agent lives begins full
            url = f"{server.url}/api/v1"
            httpx.put(f"{url}/groups/hourly", json=HOURLY).raise_for_status()
            httpx.put(f"{url}/tenants/acme").raise_for_status()
            attachment = {"subject": {"tenant": "acme"}, "group": "hourly"}
            httpx.put(f"{url}/attachments", json=attachment).raise_for_status()
            time.sleep(1.0)
        limiter = agent.limiter(tenant="acme")
        if wait:
            count += bool(limiter.try_acquire(requests=1))
            time.sleep(2.0)  # what comes before a first report is a base line
        deadline = time.monotonic() + within_s
        while count < attempts and time.monotonic() < deadline:
            count += bool(limiter.try_acquire(requests=1))
            time.sleep(0.002)
        if wait:
            stored = _stored_level(server, below=750.0)
            assert 650.0 < stored < 750.0
    return count


def _stored_level(server: Server, *, below: float) -> float:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        snapshot = httpx.get(f"{server.url}/api/v1/snapshot").json()
        levels = [float(row["level"]) for row in snapshot.get("levels", [])]
        if levels and levels[0] < below:
            return levels[0]
        assert time.monotonic() < deadline, levels
        time.sleep(0.2)


def test_ably_an_hourly_quota_survives_the_restart_of_the_whole_cluster(
    server: Server,
) -> None:
    assert admitted(server, attempts=300, within_s=TIMEOUT_S, wait=True) == 300
    server.stop()  # the agent is gone already: nobody is left to ask
    server.start()
    again = admitted(server, attempts=1000, within_s=12.0, wait=False)
    assert 550 < again < 760
