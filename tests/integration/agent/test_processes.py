"""An agent through a process's life: forks, ends, pauses, rest, its own faults."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.integration.agent.rigs import snapshot, until

from headgate.agent import once_log
from headgate.agent.bus.port import BusSettings
from headgate.agent.follow.snapshot import Snapshot
from headgate.agent.runtime import Runtime, RuntimeOptions
from headgate.coordinator import Counted, Keys

if TYPE_CHECKING:
    from tests.integration.agent.conftest import Join
    from tests.integration.agent.rigs import Cluster

    from headgate.agent.follow.policies import Policies
    from headgate.coordinator import Configuration, SetCeilings, SetSlots

TIMEOUT_S = 60.0
"""For a script to end; the machine may be busy."""


def run(script: str, *arguments: str) -> str:
    """Run a script in a process of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKING = """
import json, os, sys, time
import headgate

agent = headgate.connect(sys.argv[1], agent="parent", keep_snapshot=False, wait_s=30)
limiter = agent.limiter(tenant="acme")
ends = time.monotonic() + 2
while time.monotonic() < ends:
    limiter.try_acquire(requests=1)
    time.sleep(0.001)
read, write = os.pipe()
child = os.fork()
if child == 0:
    before = agent.id
    admitted = 0
    began = time.monotonic()
    met = set()
    while (ended := time.monotonic()) < began + 4 or (
        met != {"parent", agent.id} and ended < began + 30
    ):
        admitted += bool(limiter.try_acquire(requests=1))
        time.sleep(0.0002)
        if admitted % 100 == 0:
            met = {m.agent for m in agent.status().members}
    said = {"id": agent.id, "before": before, "admitted": admitted, "ended": ended}
    said["members"] = sorted(met)
    os.write(write, json.dumps(said).encode())
    agent.close()
    os._exit(0)
began = time.monotonic()
admitted = 0
while (ended := time.monotonic()) < began + 4:
    admitted += bool(limiter.try_acquire(requests=1))
    time.sleep(0.0002)
os.waitpid(child, 0)
said = {"child": json.loads(os.read(read, 65536)), "id": agent.id}
said.update(admitted=admitted, began=began, ended=ended)
print(json.dumps(said))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_a_forked_child_gets_an_agent_of_its_own(cluster: Cluster) -> None:
    said = json.loads(run(FORKING, cluster.api.url))
    child = said["child"]
    assert said["id"] == "parent"
    assert child["before"] == "parent", "before its first attempt it has none"
    assert child["id"].startswith("parent-")
    assert {"parent", child["id"]} <= set(child["members"])
    # Both together hold one quota of 1,000/s; each alone would have had 4,000.
    seconds = max(child["ended"], said["ended"]) - said["began"]
    assert child["admitted"] > 500
    assert said["admitted"] > 500
    assert said["admitted"] + child["admitted"] < 1000 * (seconds + 2)


FORKING_IDLE = """
import os, sys, threading, time
import headgate

agent = headgate.connect(sys.argv[1], agent="parent", keep_snapshot=False, wait_s=30)
limiter = agent.limiter(tenant="acme")
limiter.try_acquire(requests=1)
child = os.fork()
if child == 0:
    time.sleep(0.5)
    code = len(threading.enumerate()) - 1
    sys.exit(code)  # a whole end, with what was registered for it
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_a_forked_child_that_never_asks_starts_nothing_and_ends(
    cluster: Cluster,
) -> None:
    assert run(FORKING_IDLE, cluster.api.url).strip() == "0"


FORKING_JOBS = """
import contextlib, json, multiprocessing, sys, time
import headgate

agent = headgate.connect(sys.argv[1], agent="parent", keep_snapshot=False, wait_s=30)
limiter = agent.limiter(tenant="acme")
forks = multiprocessing.get_context("fork")

def in_child(job):
    ours, theirs = forks.Pipe()
    process = forks.Process(target=lambda: theirs.send(job()))
    process.start()
    process.join()
    return ours.recv()

def much():
    return bool(limiter.try_acquire(requests=100_000))  # of 1,000 a second

def more_within_a_second():
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        if limiter.try_acquire(requests=1):
            return True
        time.sleep(0.005)
    return False

def level():
    with contextlib.suppress(headgate.HeadgateError):  # it has not looked yet
        return agent.explain("gold", "requests").level
    return 0

said = {"much": in_child(much)}
ends = time.monotonic() + 30
while level() > -50_000 and time.monotonic() < ends:
    time.sleep(0.01)
said["charged"] = level() < -50_000
time.sleep(0.5)  # until the bucket has been told
said["more"] = in_child(more_within_a_second)
print(json.dumps(said))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_what_a_short_child_of_multiprocessing_took_is_charged_and_in_debt_it_gets_none(
    cluster: Cluster,
) -> None:
    said = json.loads(run(FORKING_JOBS, cluster.api.url))
    assert said == {"much": True, "charged": True, "more": False}


ENDING = """
import sys, time
import headgate

agent = headgate.connect(sys.argv[1], agent="ending", keep_snapshot=False, wait_s=30)
limiter = agent.limiter(tenant="acme")
ends = time.monotonic() + 2
while time.monotonic() < ends:
    limiter.try_acquire(requests=1)
    time.sleep(0.001)
"""


def test_a_process_that_just_ends_leaves_the_cluster(
    cluster: Cluster, join: Join
) -> None:
    staying = join("staying")
    staying.limiter(tenant="acme")
    process = subprocess.Popen([sys.executable, "-c", ENDING, cluster.api.url])
    try:

        def members() -> set[str]:
            return {member.agent for member in staying.status().members}

        until(lambda: "ending" in members(), "the process to join")
        assert process.wait(TIMEOUT_S) == 0
        left_s = time.monotonic()
        until(lambda: "ending" not in members(), "the farewell")
        # Without a farewell it would be a member for 30 s.
        assert time.monotonic() - left_s < 10.0
    finally:
        process.kill()
        process.wait()


RESTING = """
import sys, time
import headgate

agent = headgate.connect(sys.argv[1], agent="resting", keep_snapshot=False, wait_s=30)
limiter = agent.limiter(tenant="acme")
limiter.try_acquire(requests=1)
time.sleep(2)
began, used = time.monotonic(), time.process_time()
time.sleep(4)
print((time.process_time() - used) / (time.monotonic() - began))
"""


def test_an_agent_at_rest_uses_next_to_no_cpu(cluster: Cluster) -> None:
    part = float(run(RESTING, cluster.api.url))
    assert part < 0.1, "of one core; measured alone it is a hundredth"


class FaultyEnforcement:
    """Enforcement that fails now and then."""

    def __init__(self) -> None:
        self.turns = 0
        none, numbers = np.zeros(0), np.zeros(0, np.int64)
        self._counted = Counted(
            Keys((), numbers, numbers), none, none, none, none, numbers
        )

    def configure(
        self,
        configuration: Configuration,
        now: float,
        policies: Policies,
        wall_s: float | None = None,
    ) -> None:
        """Take it."""

    def counts(self, now: float) -> Counted:
        self.turns += 1
        if self.turns % 3 == 0:
            raise ZeroDivisionError("a fault of our own")
        return self._counted

    def at_rest(self) -> bool:
        """Never: each turn is to count."""
        return False

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Take it."""

    def hold(self, slots: SetSlots) -> None:
        """Take it."""


def test_a_turn_that_fails_is_said_once_and_the_agent_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    enforcement = FaultyEnforcement()
    runtime = Runtime(enforcement, RuntimeOptions(agent="a"))
    bus = BusSettings(kind="memory", topic="faulty")
    runtime.follow(snapshot(bus))
    runtime.start()
    until(lambda: runtime.counters["failed_turns"] >= 3, "three failures")
    turns = enforcement.turns
    until(lambda: enforcement.turns > turns + 3, "further turns")
    runtime.close()
    assert not runtime.alive
    said = [r for r in caplog.records if "ZeroDivisionError" in r.getMessage()]
    assert len(said) == 1


def test_a_bus_that_can_not_be_opened_leaves_the_agent_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = Runtime(FaultyEnforcement(), RuntimeOptions(agent="a"))
    wrong = BusSettings(
        kind="zeromq", publish=("nonsense",), subscribe=("tcp://127.0.0.1:1",)
    )
    runtime.follow(Snapshot(configuration=snapshot(None).configuration, bus=wrong))
    runtime.start()
    until(lambda: runtime.counters["bus_unavailable"] == 1, "the failure")
    assert runtime.alive
    assert runtime.bus is None
    runtime.close()  # its thread has ended, and said all
    assert (
        "no bus, so this agent does not hear the others: zeromq: nonsense"
        in caplog.text
    )


def test_each_time_that_there_is_no_bus_is_said_and_so_is_each_that_there_is_one(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once_log, "QUIET_S", 0.0)
    runtime = Runtime(FaultyEnforcement(), RuntimeOptions(agent="a"))
    wrong = replace(cluster.bus, publish=("nonsense",))
    runtime.start()

    def follow(bus: BusSettings, kind: str) -> None:
        before = runtime.counters[kind]
        runtime.follow(replace(snapshot(None), bus=bus))
        until(lambda: runtime.counters[kind] > before, kind)

    for _ in range(2):
        follow(wrong, "bus_unavailable")
        follow(cluster.bus, "bus_available")
    runtime.close()  # its thread has ended, and said all
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    kinds = [kind for kind in said if kind.startswith("bus_")]
    assert kinds == 2 * ["bus_unavailable", "bus_available"]


WITHOUT_FILES = """
import resource, sys, time
from headgate.agent import runtime as agent_runtime
from headgate.agent.bus.port import BusSettings
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.snapshot import Snapshot
from headgate.coordinator import Configuration

agent_runtime.REOPEN_BUS_S = 0.1
enforcer = Enforcer(clock=time.monotonic, without_configuration="admit")
options = agent_runtime.RuntimeOptions(agent="a")
runtime = agent_runtime.Runtime(enforcer, options)
bus = BusSettings(kind="zeromq", publish=(sys.argv[1],), subscribe=(sys.argv[2],))
runtime.follow(Snapshot(configuration=Configuration(revision=1), bus=bus))
few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
runtime.start()
while not runtime.counters:
    time.sleep(0.01)
assert runtime.bus is None
resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
end_s = time.monotonic() + 30.0
while runtime.bus is None and time.monotonic() < end_s:
    time.sleep(0.01)
print(runtime.bus is not None)
runtime.close()
"""


def test_a_bus_for_which_no_file_could_be_opened_is_opened_later(
    cluster: Cluster,
) -> None:
    (publish,), (subscribe,) = cluster.bus.publish, cluster.bus.subscribe
    assert run(WITHOUT_FILES, publish, subscribe).strip() == "True"


INTERRUPTED = """
import os, signal, sys, threading
from headgate.agent import connect

try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    connect(sys.argv[1], keep_snapshot=False)
except KeyboardInterrupt:
    print([t.name for t in threading.enumerate() if t.name.startswith("headgate")])
"""


def test_connecting_that_is_interrupted_leaves_nothing_running() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert run(INTERRUPTED, url).strip() == "[]"


HOMELESS = """
import logging, os
from headgate.agent import connect

os.environ.pop("HOME", None)
os.environ.pop("XDG_CACHE_HOME", None)
os.setuid(54_321)
said = []
logging.getLogger("headgate.agent").addFilter(lambda r: said.append(r.getMessage()))
for keep in (True, False):
    with connect("http://127.0.0.1:9", keep_snapshot=keep):
        print(sum("no snapshot is kept" in one for one in said))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become nobody")
def test_a_user_without_a_home_keeps_no_snapshot() -> None:
    assert run(HOMELESS).split() == ["1", "1"]
