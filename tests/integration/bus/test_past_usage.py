"""What was spent while two agents did not hear each other is billed to nobody.

Over a real proxy.  A central bucket's level obeys ΔL = Q·Δt − ΔA, so level + A − Q·t of
an agent that charges each unit once stands still, whatever its callers do, and it falls
by what is charged twice.  To bill what was spent apart, here twice the burst, would
take all that a level can fall: down to a debt of one second of Q.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from bench.faults.network import Relay
from tests.integration.agent.rigs import Load, explained, snapshot, until

from headgate.agent import Agent, connect
from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy
from headgate.agent.follow.snapshot_file import store

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "http://127.0.0.1:9"
QUOTA = 1_000.0
BILL = 500.0
"""Units: less than half of the 1,100 that a bill would take, and much more than what is
unseen for a lag of the bus."""

APART = 2_000.0
"""Units that each spends apart."""

HEARD = 8
"""Reports of the other after the first: what it told of the time apart, and since."""


class Caller:
    """An agent under load, with proxies' ports of its own that can be taken away."""

    def __init__(
        self, stack: ExitStack, name: str, proxy: ZeroMQProxy, folder: Path
    ) -> None:
        ends = proxy.publish_address, proxy.subscribe_address
        ports = [int(address.rsplit(":", 1)[1]) for address in ends]
        self.relays = [stack.enter_context(Relay(port)) for port in ports]
        own = [(f"tcp://127.0.0.1:{relay.port}",) for relay in self.relays]
        bus = BusSettings(kind="zeromq", publish=own[0], subscribe=own[1])
        path = folder / f"{name}.json"
        store(path, snapshot(bus, rate=QUOTA))
        self.agent: Agent = connect(NOBODY, agent=name, snapshot_path=path, wait_s=30.0)
        stack.callback(self.agent.close)
        self.load = stack.enter_context(
            Load(self.agent.limiter(tenant="acme"), 0.9 * QUOTA)
        )

    def cut(self) -> None:
        """Let its bytes wait, as on a network that drops packets."""
        for relay in self.relays:
            relay.cut.add(os.getpid())

    def heal(self) -> None:
        """Let them pass again, those that waited first."""
        for relay in self.relays:
            relay.cut.clear()

    def hears(self, other: Caller) -> bool:
        """Return whether the other is there, and this one not cut off."""
        seen = {m.agent: m.state for m in self.agent.status().members}
        here = seen.get(other.agent.status().agent) == "present"
        return here and not explained(self.agent).cut_off


@pytest.mark.timeout(120)
def test_what_was_spent_apart_is_billed_to_nobody(tmp_path: Path) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(ZeroMQProxy())
        both = [Caller(stack, name, proxy, tmp_path) for name in ("a", "b")]
        one, other = both

        def steady() -> bool:
            shown = [explained(caller.agent) for caller in both]
            # Each knows what the other takes: what it takes unknown is billed.
            known = [row.demand for e in shown for row in e.agents]
            return (
                len(known) == 4
                and min(known) > 0.4 * QUOTA
                and all(abs(e.level - e.margin) < 0.1 * QUOTA for e in shown)
            )

        def yardstick(caller: Caller) -> float:
            now_s = time.monotonic()
            spent = sum(each.load.admitted for each in both)
            return explained(caller.agent).level + spent - QUOTA * now_s

        until(lambda: one.hears(other) and other.hears(one), "both to meet")
        until(steady, "the quota to be used")

        other.cut()
        until(lambda: explained(other.agent).cut_off, "it to know that it is cut off")
        until(lambda: explained(one.agent).reserved > 0.0, "its part to be kept")
        before = [caller.load.admitted for caller in both]
        until(
            lambda: all(
                caller.load.admitted - was > APART
                for caller, was in zip(both, before, strict=True)
            ),
            "each to spend its part",
        )
        first = [yardstick(caller) for caller in both]
        heard = [caller.agent.metrics()["bus_received"] for caller in both]
        other.heal()
        fell = [0.0, 0.0]

        def over() -> bool:
            for at, caller in enumerate(both):
                fell[at] = max(fell[at], first[at] - yardstick(caller))
            return (
                one.hears(other)
                and other.hears(one)
                and all(
                    caller.agent.metrics()["bus_received"] > was + HEARD
                    for caller, was in zip(both, heard, strict=True)
                )
            )

        until(over, "reports to flow again")
        assert max(fell) < BILL, fell
