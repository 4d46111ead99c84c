"""A tenant and another's namespace share one group's four limits over two processes."""

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

RATES = {
    "publish_messages": 1_000,
    "publish_bytes": 400_000,
    "dispatch_messages": 2_000,
    "dispatch_bytes": 100_000,
}
"""Units/s; the burst is one second of each."""

SUBJECTS = ({"tenant": "acme"}, {"topic": "umbrella/orders/new"})

BROKER = """
import json, sys, time
import headgate

url, me, subject, rates = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
with headgate.connect(url, agent=me, keep_snapshot=False, wait_s=30) as agent:
    limiter = agent.limiter(**subject)

    def attempt():  # of each limit twice its rate
        for name, rate in rates.items():
            cost = 0.004 * rate
            admitted[name] += cost * bool(limiter.try_acquire(**{name: cost}))
        time.sleep(0.002)

    admitted = dict.fromkeys(rates, 0.0)
    deadline = time.monotonic() + 30
    while len(agent.status().members) < 2:
        attempt()
        assert time.monotonic() < deadline, "the other process never came"
    print("met", flush=True)
    sys.stdin.readline()
    admitted = dict.fromkeys(rates, 0.0)
    began = time.monotonic()
    while (ended := time.monotonic()) < began + 5:
        attempt()
    said = {"admitted": admitted, "began": began, "ended": ended}
    print(json.dumps(said), flush=True)
    sys.stdin.readline()  # nobody leaves before the other has done
"""


def test_pip82_two_processes_share_publish_and_dispatch_of_messages_and_bytes(
    tmp_path: Path,
) -> None:
    where = ServerSettings(
        database=str(tmp_path / "headgate.db"), port=0, bus_ports=(0, 0)
    )
    limits = [{"dimension": name, "rate": rate} for name, rate in RATES.items()]
    document: dict[str, object] = {
        "tenants": {"acme": {}, "umbrella": {}},
        "namespaces": ["umbrella/orders"],
        "groups": {"gold": {"limits": limits}},
        "attachments": [
            {"subject": {"tenant": "acme"}, "group": "gold"},
            {"subject": {"namespace": "umbrella/orders"}, "group": "gold"},
        ],
    }
    with running(where) as addresses:
        url = addresses.api
        httpx.post(
            f"{url}/api/v1/apply", json=document, timeout=PATIENCE_S
        ).raise_for_status()
        brokers = [
            subprocess.Popen(
                [sys.executable, "-c", BROKER, url, f"broker-{number}"]
                + [json.dumps(each) for each in (subject, RATES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number, subject in enumerate(SUBJECTS)
        ]
        try:
            assert lines_of(brokers) == ["met\n", "met\n"]
            tell(brokers)
            results = [json.loads(line) for line in lines_of(brokers)]
            tell(brokers)
        finally:
            for broker in brokers:
                with broker:
                    broker.kill()
    seconds = max(r["ended"] for r in results) - min(r["began"] for r in results)
    for name, rate in RATES.items():
        each = [result["admitted"][name] for result in results]
        # One second of burst, and one of age of what they know of each other: without
        # sharing it would be twice five seconds and a burst of each.
        assert sum(each) <= rate * (seconds + 2.0), name
        assert min(each) > 0.15 * rate * seconds, name
