"""Faults on a real broker and real processes: what callers notice, and how it heals.

``python bench/faults/run.py [--play NAME] [--only NAME]`` prints a table for
docs/benchmarks.md.  Agents, a process each, share 1,000 units/s (burst 1,000) and are
asked for 1,800/s.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import httpx  # noqa: E402 - after the folder of the repository
import kafka  # noqa: E402
import kafka.admin  # noqa: E402
from bench.faults.crowd import crowd, judged  # noqa: E402
from bench.faults.network import Relay  # noqa: E402
from bench.faults.stage import (  # noqa: E402
    BURST,
    HEAD,
    LEASE_S,
    NOBODY,
    PATIENCE_S,
    PRESUMED_DEAD_S,
    QUOTA,
    Fault,
    Stage,
    happen,
    snapshot_of,
)
from tools.kafka_broker import PASSWORDS, Broker  # noqa: E402

from headgate.agent.bus.kafka.acls import allow, revoke  # noqa: E402
from headgate.agent.bus.kafka.topic import ensure_topic  # noqa: E402
from headgate.agent.bus.port import BusSettings  # noqa: E402
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy  # noqa: E402
from headgate.agent.follow.snapshot_file import store  # noqa: E402
from headgate.api import ServerSettings, running  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONG_S = 45.0
"""Longer than M and a lease: agents not known to be alive are presumed dead by then."""

CROWD = 100
"""Agents that start at once; ``--agents`` for another number."""

FAULTS = (
    "broker stopped",
    "broker frozen",
    "topic deleted and made again",
    "an agent paused",
    "rolling restart",
    "disk full",
    "one agent cut off from the bus alone",
    "one agent's rights taken",
    "one agent's user deleted, connections broken",
)
"""Names of the plays on Kafka, in their order."""

CROWD_S = 40.0
CROWD_INTERVAL_S = 5.0
"""T of the crowd: at 1 s it would decode 10,000 reports a second on two cores."""


def served(stack: ExitStack, folder: Path, bus: BusSettings) -> str:
    """Start an API whose configuration has the quota; return its URL."""
    settings = ServerSettings(database=str(folder / "headgate.db"), port=0, bus=bus)
    url = stack.enter_context(running(settings)).api
    limit = {"dimension": "requests", "rate": QUOTA, "burst": BURST}
    with httpx.Client(base_url=f"{url}/api/v1", timeout=30.0) as rest:
        rest.put("/groups/gold", json={"limits": [limit]}).raise_for_status()
        rest.put("/tenants/acme").raise_for_status()
        attached = {"subject": {"tenant": "acme"}, "group": "gold"}
        rest.put("/attachments", json=attached).raise_for_status()
    return url


class KafkaFaults:
    """What can happen to a broker, its topic, and the first of the callers."""

    def __init__(self, broker: Broker, bus: BusSettings, stage: Stage) -> None:
        self.broker, self.bus, self.stage = broker, bus, stage
        self.victim = stage.callers[0].process

    def all(self) -> Iterator[Fault]:
        """Yield each fault."""
        again = self.broker.start
        stop, freeze = self.broker.stop, self.broker.freeze
        names = iter(FAULTS)
        yield Fault(next(names), stop, LONG_S, lambda: void(again()))
        yield Fault(next(names), freeze, 20.0, self.broker.thaw)
        yield Fault(next(names), self.delete, 10.0, lambda: remake(self.bus))
        yield Fault(next(names), self.pause, 15.0, self.resume)
        yield Fault(next(names), self.roll)
        yield Fault(next(names), self.fill, 15.0, self.empty)

    def delete(self) -> None:
        """Delete the topic."""
        administrator = kafka.KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        administrator.delete_topics([self.bus.topic])
        administrator.close()

    def fill(self) -> None:
        """Stop files from growing, which to the broker is a full disk."""
        pid = cast("int", self.broker.pid)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, 1))

    def empty(self) -> None:
        """Make room, and restart the broker, which ends when it can't write."""
        self.broker.stop(kill=True)
        self.broker.start()

    def pause(self) -> None:
        """Suspend a caller's process."""
        self.victim.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it."""
        self.victim.send_signal(signal.SIGCONT)

    def roll(self) -> None:
        """End and start one caller after the other."""
        for number in range(len(self.stage.callers)):
            self.stage.restart(number)
            time.sleep(3.0)


def on_kafka(only: str, folder: Path, traces: Path | None) -> None:
    """Cause faults at a broker and its callers; there is no API."""
    with Broker(folder / "kafka") as broker:
        bus = BusSettings(kind="kafka", bootstrap=broker.bootstrap)
        ensure_topic(bus)
        stage = Stage(folder, bus=bus, traces=traces)
        try:
            for fault in KafkaFaults(broker, bus, stage).all():
                if only in fault.name:
                    happen(fault, stage)
        finally:
            stage.close()


def on_guarded_kafka(only: str, folder: Path, traces: Path | None) -> None:
    """Cut agents off from a broker that asks for passwords; all see the API."""
    with ExitStack() as stack:
        broker = Broker(folder / "kafka", auth="scram")
        relay = stack.enter_context(Relay(broker.port))
        broker.advertise(relay.port)
        stack.enter_context(broker)
        names = {"sasl_plain_username": "admin", "sasl_mechanism": "SCRAM-SHA-512"}
        names |= {"sasl_plain_password": PASSWORDS["admin"]}
        options = {"security_protocol": "SASL_PLAINTEXT", **names}
        admin = BusSettings(kind="kafka", bootstrap=broker.bootstrap, options=options)
        ensure_topic(admin)
        users = ["agent", "intruder", "intruder"]
        for user in set(users):
            allow(admin, user, ("read", "write"))
        own = [
            {"sasl_plain_username": user, "sasl_plain_password": PASSWORDS[user]}
            for user in users
        ]
        seen_at = f"127.0.0.1:{relay.port}"
        bus = BusSettings(kind="kafka", bootstrap=seen_at, options=options)
        stage = Stage(
            folder,
            bus=bus,
            url=served(stack, folder, bus),
            options=own,
            traces=traces,
        )
        stack.callback(stage.close)
        for fault in _guarded(admin, relay, stage):
            if only in fault.name:
                happen(fault, stage)


def _guarded(admin: BusSettings, relay: Relay, stage: Stage) -> Iterator[Fault]:
    both = "read", "write"

    def cut() -> None:
        relay.cut.update(stage.pids()[:1])

    def forget() -> None:
        alter(admin, "agent", None)
        relay.drop()  # an open connection is not asked for its password again

    def know() -> None:
        alter(admin, "agent", PASSWORDS["agent"])

    first, second, third = FAULTS[-3:]
    yield Fault(first, cut, LONG_S, relay.cut.clear)
    take, give = (lambda do=do: do(admin, "agent", both) for do in (revoke, allow))
    yield Fault(second, take, 20.0, give)
    yield Fault(third, forget, 20.0, know)


def alter(admin: BusSettings, user: str, password: str | None) -> None:
    """Give a user this password, or delete the user."""
    client = kafka.KafkaAdminClient(bootstrap_servers=admin.bootstrap, **admin.options)
    mechanism = kafka.admin.ScramMechanism.SCRAM_SHA_512
    change = (
        kafka.admin.UserScramCredentialDeletion(user, mechanism)
        if password is None
        else kafka.admin.UserScramCredentialUpsertion(user, mechanism, password)
    )
    client.alter_user_scram_credentials([change])
    client.close()


def on_zeromq(folder: Path, traces: Path | None) -> None:
    """Take the proxy away; there is no API."""
    proxy = ZeroMQProxy()
    addresses = proxy.publish_address, proxy.subscribe_address
    bus = BusSettings(kind="zeromq", publish=addresses[:1], subscribe=addresses[1:])
    stage = Stage(folder, bus=bus, traces=traces)

    def again() -> None:
        nonlocal proxy
        proxy = ZeroMQProxy(publish=addresses[0], subscribe=addresses[1])

    try:
        happen(
            Fault("ZeroMQ's proxy stopped", lambda: proxy.close(), 30.0, again), stage
        )
    finally:
        stage.close()
        proxy.close()


def halves(folder: Path, traces: Path | None, *, api: bool) -> None:
    """Separate two of four agents from the others: a proxy for each pair."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(ZeroMQProxy()) for _ in range(2)]
        relays = [
            [
                stack.enter_context(Relay(int(address.rsplit(":", 1)[1])))
                for address in (proxy.publish_address, proxy.subscribe_address)
            ]
            for proxy in proxies
        ]
        publish, subscribe = (
            tuple(f"tcp://127.0.0.1:{pair[side].port}" for pair in relays)
            for side in (0, 1)
        )
        bus = BusSettings(kind="zeromq", publish=publish, subscribe=subscribe)
        url = served(stack, folder, bus) if api else NOBODY
        stage = Stage(folder, bus=bus, url=url, options=({}, {}, {}, {}), traces=traces)
        stack.callback(stage.close)

        def cut() -> None:
            for half, pair in zip((2, 0), relays, strict=True):
                for relay in pair:
                    relay.cut.update(stage.pids()[half : half + 2])

        def heal() -> None:
            for relay in (one for pair in relays for one in pair):
                relay.cut.clear()

        past_s = 0.0 if api else LONG_S - PRESUMED_DEAD_S - LEASE_S
        name = f"half cut off from half, {'with' if api else 'without'} the API"
        happen(Fault(name, cut, LONG_S, heal, LEASE_S + past_s), stage)


def hundred(folder: Path, agents: int) -> None:
    """Start a hundred agents within a second."""
    with ZeroMQProxy() as proxy:
        bus = BusSettings(
            kind="zeromq",
            publish=(proxy.publish_address,),
            subscribe=(proxy.subscribe_address,),
        )
        path = folder / "snapshot.json"
        store(path, snapshot_of(bus, interval_s=CROWD_INTERVAL_S))
        command = [sys.executable, __file__, "--crowd", str(path)]
        command += ["--agents", str(agents)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    print(judged(lines, agents), flush=True)


def void(_: object) -> None:
    """Forget a result."""


def remake(bus: BusSettings) -> None:
    """Create the topic again; the broker takes a moment to forget the old one."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not ensure_topic(bus) and time.monotonic() < deadline_s:
        time.sleep(0.2)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--only",
        default="",
        help="on Kafka, only faults with this in their name",
    )
    parser.add_argument("--play", default="", help="only plays with this in their name")
    parser.add_argument(
        "--agents", type=int, default=CROWD, help="number of agents that start at once"
    )
    parser.add_argument("--traces", type=Path, help="folder for the callers' traces")
    parser.add_argument("--crowd", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.crowd:
        crowd(arguments.agents, arguments.crowd, CROWD_S)
        return
    only: str = arguments.only
    traces: Path | None = arguments.traces
    if traces is not None:
        traces.mkdir(parents=True, exist_ok=True)
    plays: dict[str, Callable[[Path], None]] = {
        "kafka": lambda folder: on_kafka(only, folder, traces),
        "guarded": lambda folder: on_guarded_kafka(only, folder, traces),
        "zeromq": lambda folder: on_zeromq(folder, traces),
        "halves with": lambda folder: halves(folder, traces, api=True),
        "halves without": lambda folder: halves(folder, traces, api=False),
        "hundred": lambda folder: hundred(folder, arguments.agents),
    }
    if arguments.agents < 2:
        parser.error("--agents: expected at least 2")
    if not any(arguments.play in name for name in plays):
        parser.error(f"no play has {arguments.play!r} in its name: {', '.join(plays)}")
    if not any(only in name for name in FAULTS):
        parser.error(f"no fault has {only!r} in its name: {', '.join(FAULTS)}")
    print(HEAD, flush=True)
    for name, play in plays.items():
        if arguments.play in name:
            with tempfile.TemporaryDirectory() as folder:
                play(Path(folder))


if __name__ == "__main__":
    main()
