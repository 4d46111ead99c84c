"""Processes share groups inside others, and know only what they use themselves."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING

import pytest

from headgate.agent import Admin, Agent, LimitSpec, connect
from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.alone


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Admin]]:
    database = str(tmp_path / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    with running(settings) as addresses, Admin(addresses.api) as admin:
        yield addresses.api, admin


def per_second(agent: Agent, name: str, gap_s: float) -> float:
    """Ask for ten seconds; return what passes in a second of the last six."""
    limiter, passed = agent.limiter(tenant=name), 0
    began_s = time.monotonic()
    while (for_s := time.monotonic() - began_s) < 10.0:
        if limiter.try_acquire(requests=1) and for_s > 4.0:
            passed += 1
        time.sleep(gap_s)
    return passed / 6.0


def test_what_one_process_may_not_use_two_levels_below_goes_to_another(
    served: tuple[str, Admin],
) -> None:
    """It wants far more than that limit, and the other one doesn't use it."""
    url, admin = served
    unlimited = [LimitSpec("requests", rate=inf)]
    admin.put_group("above", [LimitSpec("requests", rate=200, burst=40)])
    admin.put_group("between", unlimited, parent="above", weight=4)
    small = [LimitSpec("requests", rate=20, burst=20)]
    admin.put_group("small", small, parent="between")
    admin.put_group("beside", unlimited, parent="above")
    for name in ("between", "small", "beside"):
        admin.put_tenant(name)
        admin.attach(name, tenant=name)
    with (
        connect(url, agent="one", keep_snapshot=False) as one,
        connect(url, agent="two", keep_snapshot=False) as two,
    ):
        with ThreadPoolExecutor() as pool:
            asking = [
                pool.submit(per_second, one, "small", 0.002),
                pool.submit(per_second, two, "beside", 0.002),
                pool.submit(per_second, two, "between", 1.0),
            ]
        small_per_s, beside_per_s, _ = (each.result() for each in asking)
    assert small_per_s == pytest.approx(20, rel=0.2)
    assert beside_per_s >= 0.85 * 180


def test_own_callers_of_a_strict_group_get_their_part_beside_those_of_one_inside_it(
    served: tuple[str, Admin],
) -> None:
    """Neither process knows what the other one uses."""
    url, admin = served
    admin.put_group("all", [LimitSpec("requests", rate=200)], mode="strict")
    unlimited = [LimitSpec("requests", rate=inf)]
    admin.put_group("inside", unlimited, parent="all")
    for name in ("all", "inside"):
        admin.put_tenant(name)
        admin.attach(name, tenant=name)
    names = ["all", "inside", "inside", "inside"]
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        agents = [
            stack.enter_context(connect(url, agent=f"{n}", keep_snapshot=False))
            for n in range(len(names))
        ]
        calls = zip(agents, names, strict=True)
        asking = [pool.submit(per_second, *call, 0.003) for call in calls]
        own_per_s, *inside_per_s = (each.result() for each in asking)
    assert own_per_s >= 0.8 * 100
    assert own_per_s + sum(inside_per_s) == pytest.approx(200, rel=0.15)
