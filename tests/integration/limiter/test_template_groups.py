"""A template group: each user has the limit for himself, over all processes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
from tests.integration.agent.rigs import PATIENCE_S, lines_of, tell

from headgate.api import ServerSettings, running

if TYPE_CHECKING:
    from pathlib import Path

RATE = 100.0
SECONDS = 4.0
USERS = ("alice", "bob")

PROCESS = """
import json, sys, time
import headgate

url, me, users, seconds = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
with headgate.connect(url, agent=me, keep_snapshot=False, wait_s=30) as agent:
    limiters = {user: agent.limiter(user=user) for user in users}

    def attempt():  # each user twice the rate
        for user, limiter in limiters.items():
            admitted[user] += bool(limiter.try_acquire(requests=1))
        time.sleep(0.004)

    admitted = dict.fromkeys(users, 0)
    deadline = time.monotonic() + 30
    while True:
        attempt()
        try:
            shares = [agent.explain(f"each[{user}]", "requests") for user in users]
            if all(len(share.agents) > 1 for share in shares):
                break
        except headgate.HeadgateError:
            pass
        assert time.monotonic() < deadline, "the other process never came"
    print("met", flush=True)
    sys.stdin.readline()
    admitted = dict.fromkeys(users, 0)
    began = time.monotonic()
    while (ended := time.monotonic()) < began + seconds:
        attempt()
    said = {"admitted": admitted, "began": began, "ended": ended}
    print(json.dumps(said), flush=True)
    sys.stdin.readline()  # nobody leaves before the other has done
"""


def test_two_processes_give_each_user_one_limit_without_a_new_configuration(
    tmp_path: Path,
) -> None:
    where = ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )
    document: dict[str, object] = {
        "groups": {
            "each": {
                "limits": [{"dimension": "requests", "rate": RATE, "burst": RATE}],
                "per": "user",
            }
        },
        "attachments": [{"subject": {"user": None}, "group": "each"}],
    }
    with (
        running(where) as addresses,
        httpx.Client(base_url=addresses.api, timeout=PATIENCE_S) as api,
    ):
        api.post("/api/v1/apply", json=document).raise_for_status()
        before = api.get("/api/v1/snapshot").json()["revision"]
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", PROCESS, addresses.api, f"process-{number}"]
                + [json.dumps(each) for each in (USERS, SECONDS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        try:
            assert lines_of(processes) == ["met\n", "met\n"]
            tell(processes)
            results = [json.loads(line) for line in lines_of(processes)]
            tell(processes)
        finally:
            for process in processes:
                with process:
                    process.kill()
        assert api.get("/api/v1/snapshot").json()["revision"] == before
    seconds = max(r["ended"] for r in results) - min(r["began"] for r in results)
    for user in USERS:
        each = [result["admitted"][user] for result in results]
        # One second of burst, and one of age of what they know of each other: without
        # sharing it would be twice four seconds and a burst of each.
        assert sum(each) <= RATE * (seconds + 2.0), user
        assert min(each) > 0.15 * RATE * seconds, user
