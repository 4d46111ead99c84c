"""A program in Go, written from the reference page alone, trades reports with ours."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np
import pytest
from tests.integration.agent.rigs import Api, snapshot
from tests.integration.bus.rigs import PATIENCE_S, KafkaRig, connected, until

from headgate.agent import connect
from headgate.agent.bus.partitions import PartitionPlan, cut
from headgate.agent.wire.codec import decode, encode
from headgate.agent.wire.signing import Key
from headgate.coordinator import Report, Rows

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray
    from tools.kafka_broker import Broker

    from headgate.agent.bus.port import Bus, BusSettings
    from headgate.agent.json_place import Json

SOURCE = Path(__file__).parent / "golang"
BUILD_TIMEOUT_S = 300.0
"""The first build fetches three modules; later ones need no network."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The other program, compiled."""
    built = tmp_path_factory.mktemp("golang") / "reports"
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", str(built), "."],
        cwd=SOURCE,
        check=True,
        timeout=BUILD_TIMEOUT_S,
    )
    return built


@pytest.fixture
def settings(broker: Broker) -> Iterator[BusSettings]:
    """A topic of its own."""
    rig = KafkaRig(broker)
    yield rig.settings
    rig.close()


class Program:
    """The other program while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._heard: queue.SimpleQueue[dict[str, Json]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **fields: Json) -> None:
        """Have it publish a report."""
        stdin = cast("IO[str]", self._process.stdin)
        stdin.write(json.dumps(fields) + "\n")
        stdin.flush()

    def heard(self, agent: str, *, timeout_s: float = PATIENCE_S) -> dict[str, Json]:
        """Return the next report of `agent` that it read."""
        while True:
            report = self._heard.get(timeout=timeout_s)
            if report["agent"] == agent:
                return report

    def _listen(self) -> None:
        for line in cast("IO[str]", self._process.stdout):
            self._heard.put(json.loads(line))


@contextmanager
def running(
    program: Path, settings: BusSettings, key: Key | None = None
) -> Generator[Program]:
    """Run it until the end of the block; it has heard itself when the block begins."""
    command = [str(program), settings.bootstrap, settings.topic]
    if key is not None:
        scheme = key.scheme.removesuffix("-secret")
        command += [scheme, b64encode(key.material).decode()]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    running = Program(process)
    try:

        def echoed() -> bool:
            running.say(format=1, cluster="c", agent="echo")
            try:
                running.heard("echo", timeout_s=0.5)
            except queue.Empty:
                return False
            return True

        until(echoed, "the program to hear itself")
        yield running
    finally:
        process.kill()
        process.communicate()


def rows(dimension: str, groups: list[int], *, scale: float = 1.0) -> Rows:
    """Return rows with a different number in each place."""
    column = np.array(groups, np.float64)
    return Rows(
        dimension=dimension,
        group_ids=np.array(groups, np.int64),
        refused=column * 3 * scale,
        admitted=column * 1_000 * scale,
        demand=np.ldexp(1.0 + column % 2 / 4, (groups[0] % 9) - 3),
        held=column * -0.5,
        cost=np.ones(len(np.array(groups, np.int64))),
        level=column * 0.5 - 7,
        subjects=np.array(groups, np.int64) + 1,
    )


OURS = Report(
    cluster="default",
    agent="ours",
    incarnation=(1 << 62) + 1,
    sequence=12,
    sent_at_s=1_700_000_000.25,
    revision=4,
    keyframe=True,
    rows=(rows("requests", [1, 3, 700]), rows("tokens", [3], scale=0.125)),
    interval_s=2.0,
)


def as_json(report: Report) -> dict[str, Json]:
    """Return a report as the other program writes and reads it."""
    columns: list[Json] = [
        {
            "dimension": one.dimension,
            "groups": _numbers(one.group_ids),
            "refused": _numbers(one.refused),
            "admitted": _numbers(one.admitted),
            "demand": _numbers(one.demand),
            "held": _numbers(one.held),
            "level": _numbers(one.level),
            "subjects": _numbers(one.subjects),
        }
        for one in report.rows
    ]
    said: dict[str, Json] = {
        "format": 2 if report.parts else 1,
        "cluster": report.cluster,
        "agent": report.agent,
        "incarnation": report.incarnation,
        "sequence": report.sequence,
        "sent_at_us": round(report.sent_at_s * 1e6),
        "revision": report.revision,
        "hello": report.hello,
        "leave": report.leave,
        "keyframe": report.keyframe,
        "rows": columns or None,
        "interval_ms": round(report.interval_s * 1e3),
        "part": report.part,
    }
    if report.parts:
        said["parts"] = list(report.parts)
    return said


def _numbers(column: NDArray[np.float64] | NDArray[np.int64] | None) -> Json:
    numbers: list[Json] = [] if column is None else column.tolist()
    return numbers


def next_of(bus: Bus, agent: str) -> Report:
    """Return the next report of `agent` on our side."""
    found: list[Report] = []

    def came() -> bool:
        for message in bus.receive(0.2):
            try:
                found.append(decode(message.payload))
            except ValueError:
                continue  # an echo of the rig
        return any(report.agent == agent for report in found)

    until(came, f"a report of {agent}")
    return next(report for report in found if report.agent == agent)


def test_it_reads_what_we_write_and_we_read_what_it_writes(
    program: Path, settings: BusSettings
) -> None:
    bus = connected(settings)
    parts = [part for _, part in cut(OURS, PartitionPlan(4), frozenset({0, 1, 2}))]
    with running(program, settings) as other:
        for report in (OURS, *parts):
            bus.publish(encode(report))
            assert other.heard("ours") == as_json(report)
            other.say(**{**as_json(report), "agent": "theirs"})
            theirs = next_of(bus, "theirs")
            assert as_json(replace(theirs, agent="ours")) == as_json(report)
    bus.close()


@pytest.mark.parametrize("scheme", ["hmac", "ed25519-secret"])
def test_a_real_agent_takes_it_for_a_member_when_it_signs(
    program: Path, settings: BusSettings, scheme: str
) -> None:
    key = Key.make("hmac" if scheme == "hmac" else "ed25519-secret")
    ours = key if scheme == "hmac" else Key.make("ed25519-secret")
    accepted: Json = None
    if scheme != "hmac":
        accepted = {"go": key.public().text(), "ours": ours.public().text()}
    options: dict[str, Json] = {"report_key": ours.text(), "report_keys": accepted}
    api = Api(snapshot(replace(settings, options=options)))
    with (
        connect(api.url, agent="ours", keep_snapshot=False, wait_s=PATIENCE_S) as agent,
        running(program, settings, key) as signing,
        running(program, settings) as silent,
    ):
        limiter = agent.limiter(tenant="acme")
        sequence = 0

        def member() -> bool:
            nonlocal sequence
            sequence += 1
            limiter.try_acquire(requests=1)
            said: dict[str, Json] = {
                **as_json(replace(OURS, rows=(rows("requests", [1], scale=1e-3),))),
                "sequence": sequence,
            }
            silent.say(**{**said, "agent": "unsigned"})
            signing.say(**{**said, "agent": "go"})
            members = {member.agent for member in agent.status().members}
            return members == {"ours", "go"}

        until(member, "the other program to be a member")
        until(
            lambda: agent.metrics().get("bus_dropped_unsigned", 0) > 0,
            "what is not signed to be dropped",
        )
        assert agent.metrics().get("agent_malformed_report", 0) == 0
    api.stop()
