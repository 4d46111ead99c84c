"""Real agents whose reports are signed: strangers, liars and old keys get nowhere."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest
from tests.integration.agent.rigs import Api, snapshot
from tests.integration.bus.rigs import PATIENCE_S, KafkaRig, Rig, ZeroMQRig, until

from headgate.agent import Agent, connect
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.signed import signed
from headgate.agent.wire.codec import encode
from headgate.agent.wire.signing import Key, Signer
from headgate.coordinator import Report, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headgate.agent.json_place import Json


class Join(Protocol):
    """Makes an agent with options of its own; it leaves after the test."""

    def __call__(self, agent: str, **options: Json) -> Agent: ...


@pytest.fixture(params=["zeromq", "kafka"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Both buses that leave the process."""
    kafka = request.param == "kafka"
    rig = KafkaRig(request.getfixturevalue("broker")) if kafka else ZeroMQRig()
    yield rig
    rig.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opens."""
    with ExitStack() as stack:
        yield stack


def joining(rig: Rig, stack: ExitStack, options: Mapping[str, Json]) -> Join:
    """Start an API whose section of the bus has these options."""
    settings = replace(rig.settings, options={**rig.settings.options, **options})
    api = Api(snapshot(settings))
    stack.callback(api.stop)

    def join(agent: str, **own: Json) -> Agent:
        joined = connect(
            api.url,
            agent=agent,
            keep_snapshot=False,
            bus_options=own,
            wait_s=PATIENCE_S,
        )
        joined.limiter(tenant="acme").try_acquire(requests=1)
        stack.callback(joined.close)
        return joined

    return join


def report(agent: str) -> bytes:
    """Return a report that demands everything, in the name of `agent`."""
    one = np.ones(1)
    rows = Rows(
        dimension="requests",
        group_ids=np.ones(1, np.int64),
        refused=one,
        admitted=one,
        demand=1e6 * one,
        held=0 * one,
        cost=np.ones(len(np.ones(1, np.int64))),
    )
    return encode(
        Report(
            cluster="default",
            agent=agent,
            incarnation=1 << 62,
            sequence=1,
            sent_at_s=time.time(),
            rows=(rows,),
            keyframe=True,
        )
    )


def members(agent: Agent) -> set[str]:
    """Return whom an agent hears."""
    return {member.agent for member in agent.status().members}


def test_an_agent_speaks_for_itself_only(
    rig: Rig, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = {name: Key.make("ed25519-secret") for name in ("web", "mail")}
    public: dict[str, Json] = {
        name: key.public().text() for name, key in secrets.items()
    }
    join = joining(rig, stack, {"report_keys": public})
    web, mail = (join(name, report_key=key.text()) for name, key in secrets.items())
    until(lambda: members(web) == members(mail) == {"web", "mail"}, "both to meet")

    stranger = open_bus(rig.settings)
    stack.callback(stranger.close)
    forged = bytearray(signed(report("web"), Signer(secrets["web"])))
    forged[20] ^= 1  # altered on its way
    lies = {
        "bus_dropped_unsigned": report("web"),
        "bus_dropped_forged": bytes(forged),
        "agent_forged_report": signed(report("web"), Signer(secrets["mail"])),
    }

    def counted() -> bool:
        for lie in lies.values():
            stranger.publish(lie)
        stranger.receive(0.05)
        said = [agent.metrics() for agent in (web, mail)]
        return all(one.get(name, 0) >= 2 for one in said for name in lies)

    until(counted, "both to count each lie twice")
    assert members(web) == members(mail) == {"web", "mail"}
    assert web.id == "web", "else it would believe that another process has its id"
    text = caplog.text
    for once in ("dropped_unsigned", "dropped_forged", "signed by 'mail'"):
        assert text.count(once) == 2, "said once by each of the two agents"


def test_the_key_of_a_cluster_is_changed_without_a_pause(
    rig: Rig, stack: ExitStack
) -> None:
    old, new = Key.make("hmac").text(), Key.make("hmac").text()
    join = joining(rig, stack, {})
    before = join("before", report_key=old)
    during = join("during", report_key=old, report_keys=[new])
    after = join("after", report_key=new, report_keys=[old])
    until(
        lambda: (
            members(during) == members(after) == {"before", "during", "after"}
            and members(before) == {"before", "during"}
        ),
        "the new key to be heard by those who have it",
    )
    until(
        lambda: before.metrics().get("bus_dropped_forged", 0) > 0,
        "the new key to be refused by who does not have it",
    )
