"""An hourly quota is still what it was when the whole cluster comes back."""

import time
from collections.abc import Callable

import httpx
import pytest
from tests.web.rigs import TIMEOUT_S, Server

import headgate.agent
from headgate.agent import Limiter
from headgate.api.observing.sampler import INTERVAL_S

PERIODS: list[dict[str, object]] = [
    {"period_s": 3600},
    {"period_s": 86_400},
    {"period": "year", "time_zone": "Europe/Zurich"},
]


def make_hourly(server: Server, period: dict[str, object]) -> None:
    url = f"{server.url}/api/v1"
    body = {"limits": [{"dimension": "requests", "rate": 1000, **period}]}
    httpx.put(f"{url}/groups/hourly", json=body, timeout=TIMEOUT_S).raise_for_status()
    httpx.put(f"{url}/tenants/acme", timeout=TIMEOUT_S).raise_for_status()
    attachment = {"subject": {"tenant": "acme"}, "group": "hourly"}
    httpx.put(
        f"{url}/attachments", json=attachment, timeout=TIMEOUT_S
    ).raise_for_status()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def admit(limiter: Limiter, *, units: int) -> None:
    """Take so many units, at a pace that reports can follow."""
    count = 0

    def enough() -> bool:
        nonlocal count
        for _ in range(min(20, units - count)):
            count += bool(limiter.try_acquire(requests=1))
        return count == units

    until(enough, f"{units} units are admitted")


def is_seen(server: Server) -> bool:
    """Whether the observer has heard that the group is in use."""
    live = httpx.get(f"{server.url}/api/v1/live?group=hourly", timeout=TIMEOUT_S).json()
    return any(item["agents"] for item in live["items"])


def _stored_level(server: Server, *, below: float) -> float:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        snapshot = httpx.get(f"{server.url}/api/v1/snapshot", timeout=TIMEOUT_S).json()
        levels = [float(row["level"]) for row in snapshot.get("levels", [])]
        if levels and levels[0] < below:
            return levels[0]
        assert time.monotonic() < deadline, levels
        time.sleep(0.2)


@pytest.mark.parametrize("period", PERIODS, ids=["hourly", "daily", "calendar"])
def test_ably_a_quota_of_a_period_survives_the_restart_of_the_whole_cluster(
    server: Server, period: dict[str, object]
) -> None:
    with headgate.agent.connect(
        server.url, agent="x", keep_snapshot=False, wait_s=TIMEOUT_S
    ) as agent:
        make_hourly(
            server, period
        )  # a group that is made while an agent lives begins full
        until(lambda: agent.status().revision == 3, "the agent knows the group")
        limiter = agent.limiter(tenant="acme")
        admit(limiter, units=1)
        until(lambda: is_seen(server), "a first report: what comes before is no use")
        admit(limiter, units=150)
        assert _stored_level(server, below=1000.0) > 690.0
        admit(limiter, units=150)  # what nobody asks for any more is stored, too
    server.stop()  # the agent is gone already: nobody is left to ask
    server.start()
    with headgate.agent.connect(
        server.url, agent="x", keep_snapshot=False, wait_s=TIMEOUT_S
    ) as agent:
        limiter = agent.limiter(tenant="acme")
        admit(limiter, units=550)
        more = 0
        for _ in range(500):  # what is left, and what two seconds and a bit earn
            more += bool(limiter.try_acquire(requests=1))
            time.sleep(0.004)
        assert 550 + more < 760
        if "period" in period:  # nothing is earned: what is left, and one that owes
            assert 550 + more <= 700


SHORT: dict[str, list[dict[str, object]]] = {
    "limits": [{"dimension": "requests", "rate": 4, "burst": 40}]
}


def _levels_of(server: Server, group: str) -> list[float]:
    snapshot = httpx.get(f"{server.url}/api/v1/snapshot", timeout=TIMEOUT_S).json()
    (number,) = (g["id"] for g in snapshot["groups"] if g["name"] == group)
    told = snapshot.get("levels", [])
    return [float(row["level"]) for row in told if row["group"] == number]


def test_a_group_that_nobody_used_is_full_for_whoever_asks_first(
    server: Server,
) -> None:
    url = f"{server.url}/api/v1"
    for path, body in (
        ("groups/short", SHORT),
        ("tenants/acme", None),
        ("attachments", {"subject": {"tenant": "acme"}, "group": "short"}),
    ):
        answer = httpx.put(f"{url}/{path}", json=body, timeout=TIMEOUT_S)
        answer.raise_for_status()
    until(lambda: _levels_of(server, "short") == [40.0], "an unused limit is full")
    with (
        headgate.agent.connect(
            server.url, agent="x", keep_snapshot=False, wait_s=TIMEOUT_S
        ) as x,
        headgate.agent.connect(
            server.url, agent="y", keep_snapshot=False, wait_s=TIMEOUT_S
        ) as y,
    ):
        first, second = x.limiter(tenant="acme"), y.limiter(tenant="acme")
        began, taken = time.monotonic(), 0
        while taken < 38 and time.monotonic() < began + 6.0:
            taken += bool(first.try_acquire(requests=1))
            time.sleep(0.005)
        seconds = time.monotonic() - began
        # From an empty bucket 4/s would be 24 by now.
        assert 36 <= taken <= 40 + 4 * seconds + 1
        until(
            lambda: all(level < 20.0 for level in _levels_of(server, "short")),
            "it is in use, and nearly empty",
        )
        got = 0
        deadline = time.monotonic() + TIMEOUT_S
        while got < 4:
            assert time.monotonic() < deadline, "the other one gets its part"
            got += bool(second.try_acquire(requests=1))
            time.sleep(0.02)
        seconds = time.monotonic() - began
        assert taken + got <= 40 + 4 * seconds + 2
    until(
        lambda: any(level < 40.0 for level in _levels_of(server, "short")),
        "the last level is told when the last one has gone",
    )
    time.sleep(2.0 * INTERVAL_S)  # until it is stored as well
    for limit in ({"dimension": "requests", "rate": None}, SHORT["limits"][0]):
        answer = httpx.patch(
            f"{url}/groups/short", json={"limits": [limit]}, timeout=TIMEOUT_S
        )
        answer.raise_for_status()
    # A limit that was removed and set again is one that nobody has used.
    until(lambda: _levels_of(server, "short") == [40.0], "it is full")
