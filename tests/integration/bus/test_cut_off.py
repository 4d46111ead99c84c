"""Agents that are cut off from the bus: what they spend, what the others keep for them.

M, the time after which the silent are presumed dead, is 3 s here instead of 30, and the
API tells at once who came.
"""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.integration.bus.rigs import PATIENCE_S, KafkaRig, ZeroMQRig, until
from tests.integration.bus.test_kafka_rights import settings_of
from tools.kafka_broker import PASSWORDS

import headgate.agent.runtime
import headgate.api.live.liveness
from headgate.agent import Agent, HeadgateError, connect
from headgate.agent.bus.kafka.acls import allow, revoke
from headgate.agent.bus.kafka.topic import ensure_topic
from headgate.api import ServerSettings, running
from headgate.coordinator import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tools.kafka_broker import Broker

    from headgate.agent.bus.kafka.acls import Right
    from headgate.agent.bus.port import Bus, BusSettings, Message
    from headgate.coordinator import Explanation, MemberView

QUOTA = 1_000.0
T_S = 0.2
M_S = 3.0
RIGHTS: tuple[Right, ...] = ("read", "write")


# kafka-python leaves the socket of a connection that it gives up while it waits for an
# answer to the collector: `stack` sees to it that this happens in its own test.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed <ssl.SSLSocket:ResourceWarning"
)


@pytest.fixture(autouse=True)
def short_m(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presume the silent dead after three seconds."""
    short = partial(Settings, presumed_dead_s=M_S, interval_s=T_S)
    monkeypatch.setattr(headgate.agent.runtime, "Settings", short)
    monkeypatch.setattr(headgate.api.live.liveness, "ARRIVALS_S", 0.1)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is opened last is closed first."""
    with ExitStack() as stack:
        yield stack
    gc.collect()


def served(
    stack: ExitStack,
    folder: Path,
    bus: BusSettings,
    *,
    rate: float = QUOTA,
    burst: float = QUOTA,
) -> str:
    """Start a real API with one group and its quota; return its URL."""
    settings = ServerSettings(
        database=str(folder / "headgate.db"), port=0, bus=bus, report_interval_s=T_S
    )
    url = stack.enter_context(running(settings)).api
    limit = {"dimension": "requests", "rate": rate, "burst": burst}
    with httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE_S) as rest:
        rest.put("/groups/gold", json={"limits": [limit]}).raise_for_status()
        rest.put("/tenants/acme").raise_for_status()
        attached = {"subject": {"tenant": "acme"}, "group": "gold"}
        rest.put("/attachments", json=attached).raise_for_status()
    return url


def joined(url: str, name: str, folder: Path, **options: str) -> Agent:
    """Start an agent that uses the group."""
    agent = connect(
        url, agent=name, snapshot_path=folder / f"{name}.json", bus_options=options
    )
    agent.limiter(tenant="acme").try_acquire(requests=1)
    return agent


def explained(agent: Agent) -> Explanation | None:
    """Return what an agent says of its share, once it has looked at its buckets."""
    try:
        return agent.explain("gold", "requests")
    except HeadgateError:
        return None


def seen(agent: Agent, other: str) -> MemberView | None:
    """Return what `agent` knows of `other`."""
    return next((m for m in agent.status().members if m.agent == other), None)


def meet(*agents: Agent) -> None:
    """Wait until all hear all."""

    def met(agent: Agent) -> bool:
        shown = agent.status().members
        return len(shown) == len(agents) and all(m.state == "present" for m in shown)

    until(lambda: all(met(agent) for agent in agents), "all to meet")


def silent_for(agent: Agent, other: str, seconds: float) -> bool:
    """Return whether `agent` knows `other`, and has not heard it for so long."""
    shown = seen(agent, other)
    return shown is not None and shown.state == "silent" and shown.age_s > seconds


def all_live(url: str, agents: int) -> bool:
    """Return whether the API tells that so many agents live, and has told so."""
    told = httpx.get(f"{url}/api/v1/snapshot?alive=0", timeout=PATIENCE_S).json()
    return told["alive"]["version"] > 0 and len(told["alive"]["present"]) == agents


def keeps_to_its_part(agent: Agent) -> bool:
    """Return whether an agent is cut off and spends no more than half of the quota."""
    why = explained(agent)
    return why is not None and why.cut_off and why.ceiling <= why.reserve == QUOTA / 2


def is_cut_off(agent: Agent) -> bool:
    """Return whether an agent doesn't hear its own reports."""
    why = explained(agent)
    return why is not None and why.cut_off


def keeps_half(agent: Agent) -> bool:
    """Return whether an agent that hears itself keeps half, and knows of no excess."""
    why = explained(agent)
    return why is not None and (why.reserved, why.bound, why.cut_off) == (
        QUOTA / 2,
        0.0,
        False,
    )


def test_who_lost_its_rights_keeps_its_part_while_the_api_sees_it_and_no_longer(
    guarded: Broker, stack: ExitStack, tmp_path: Path
) -> None:
    admin = replace(settings_of(guarded, "admin"), topic="cut-off")
    ensure_topic(admin)
    for user in ("agent", "intruder"):
        allow(admin, user, RIGHTS)
        stack.callback(revoke, admin, user, RIGHTS)
    url = served(stack, tmp_path, admin)
    both = [
        joined(
            url,
            name,
            tmp_path,
            sasl_plain_username=name,
            sasl_plain_password=PASSWORDS[name],
        )
        for name in ("agent", "intruder")
    ]
    for agent in both:
        stack.callback(agent.close)
    hearing, cut = both
    meet(hearing, cut)
    until(lambda: all_live(url, 2), "the API to have told who lives")

    revoke(admin, "intruder", RIGHTS)
    until(lambda: keeps_to_its_part(cut), "who is cut off to keep to its part")
    # Far past M: the other hears itself, so only the API's word can keep it.
    until(lambda: silent_for(hearing, "intruder", 2 * M_S), "M to pass")
    until(lambda: keeps_half(hearing), "the other to keep its part for it")

    allow(admin, "intruder", RIGHTS)
    meet(hearing, cut)

    revoke(admin, "intruder", RIGHTS)
    until(lambda: silent_for(hearing, "intruder", 0.0), "it to be silent again")
    cut.close()  # its farewell is not heard; the API sees that it is gone
    until(lambda: seen(hearing, "intruder") is None, "its part to be taken back")


def test_when_the_bus_is_away_nobody_is_presumed_dead(
    stack: ExitStack, tmp_path: Path
) -> None:
    rig = ZeroMQRig()
    stack.callback(rig.close)
    with ExitStack() as api:
        url = served(api, tmp_path, rig.settings)
        both = [joined(url, name, tmp_path) for name in ("a", "b")]
        for agent in both:
            stack.callback(agent.close)
        meet(*both)
    # The API is away as well: nobody's word, and no report of anyone.
    until(lambda: not any(a.status().api_reachable for a in both), "the API to go")
    rig.down()
    until(
        lambda: silent_for(both[0], "b", 2 * M_S) and silent_for(both[1], "a", 2 * M_S),
        "M to pass",
    )
    until(lambda: all(map(keeps_to_its_part, both)), "both to keep to their parts")
    rig.up()
    meet(*both)


RATE, BURST = 200.0, 12_000.0


class Burst:
    """Agents that share a minute's burst, and what one central bucket would hold.

    Attributes:
        agents: The agents; each has used a unit.
    """

    def __init__(self, stack: ExitStack, folder: Path, bus: BusSettings) -> None:
        self._stack, self._folder = stack, folder
        self._url = served(stack, folder, bus, rate=RATE, burst=BURST)
        self.agents: list[Agent] = []
        self._left, self._began_s = BURST, time.monotonic()

    def join(self, *names: str) -> None:
        """Start agents."""
        for name in names:
            agent = joined(self._url, name, self._folder)
            self._stack.callback(agent.close)
            self.agents.append(agent)
            self._left -= 1.0

    def ask(self, agent: int, units: float) -> bool:
        """Let a caller ask; return whether it was admitted."""
        limiter = self.agents[agent].limiter(tenant="acme")
        admitted = bool(limiter.try_acquire(requests=units))
        if admitted and self._left == BURST - len(self.agents):  # full until now
            self._began_s = time.monotonic()
        self._left -= units if admitted else 0.0
        return admitted

    def all_know(self, within_s: float) -> bool:
        """Return whether all believe in its level, within what flows in so soon."""
        level = self._left + RATE * (time.monotonic() - self._began_s)
        shown = [explained(agent) for agent in self.agents]
        return all(
            each and abs(each.level - min(BURST, level)) < within_s * RATE
            for each in shown
        )


@pytest.mark.parametrize("large", [1.0, 6_000.0])
@pytest.mark.parametrize("kind", ["zeromq", "kafka"])
def test_a_bus_that_was_away_takes_nothing_of_a_minutes_burst(
    kind: str,
    large: float,
    stack: ExitStack,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """All ask for the level then; one began meanwhile, and asked the API."""
    rig = (
        KafkaRig(request.getfixturevalue("broker")) if kind == "kafka" else ZeroMQRig()
    )
    stack.callback(rig.close)
    burst = Burst(stack, tmp_path, rig.settings)
    burst.join("a", "b")
    meet(*burst.agents)
    until(lambda: burst.ask(0, 6_000.0), "its turn")
    until(lambda: burst.all_know(0.5), "both to know of it")
    rig.down()
    until(lambda: all(map(is_cut_off, burst.agents)), "the outage")
    assert burst.ask(1, large)
    burst.join("c")
    rig.up()
    meet(*burst.agents)
    until(lambda: burst.all_know(1.0), "all to know the level")
    time.sleep(1.0)
    assert burst.all_know(1.0)


class HeldUp:
    """Lets an agent hear late: what comes meanwhile waits in its socket."""

    def __init__(self, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        self.until_s = 0.0
        bus: Bus = vars(agent)["_runtime"].bus
        self._receive = bus.receive
        monkeypatch.setattr(bus, "receive", self.receive)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        """Receive nothing yet, or all that has come."""
        if time.monotonic() >= self.until_s:
            return self._receive(timeout_s)
        time.sleep(min(timeout_s, 0.01))
        return []


@pytest.mark.parametrize("seed", [1, 4])
def test_agents_that_hear_late_again_and_again_charge_all_of_a_minutes_burst_once(
    seed: int,
    stack: ExitStack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They took over levels that lacked a request, and forgot it."""
    rig, chance = ZeroMQRig(), Random(seed)
    stack.callback(rig.close)
    burst = Burst(stack, tmp_path, rig.settings)
    burst.join("a", "b", "c")
    meet(*burst.agents)
    buses = [HeldUp(agent, monkeypatch) for agent in burst.agents]
    until(lambda: burst.ask(0, 6_000.0), "its turn")
    until(lambda: burst.all_know(0.5), "all to know of it")
    began_s = time.monotonic()
    held_at = [began_s + chance.uniform(0.0, 3.0 * T_S) for _ in buses]
    large_at = [began_s + chance.uniform(1.0, 3.0), began_s + chance.uniform(3.0, 5.0)]
    while (now := time.monotonic()) < began_s + 8.0:
        for n, bus in enumerate(buses):
            if now >= held_at[n]:  # for around the three heartbeats of a lease
                bus.until_s = now + chance.uniform(2.5 * T_S, 4.75 * T_S)
                held_at[n] = bus.until_s + chance.expovariate(1.0 / (1.5 * T_S))
        if large_at and now >= large_at[0] and burst.ask(2, 3_000.0):
            large_at.pop(0)
        time.sleep(0.01)
    assert not large_at
    until(lambda: burst.all_know(1.0), "all to know the level")
    time.sleep(1.0)
    assert burst.all_know(1.0)
