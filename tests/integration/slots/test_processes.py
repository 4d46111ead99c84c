"""Slots over three processes: never one more than N, and back after a kill."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.integration.slots.rigs import PATIENCE_S, InFlight, start_worker, until

from headgate.agent import Throttled, connect

if TYPE_CHECKING:
    import subprocess

    from tests.integration.slots.conftest import SlotServer

SLOTS = 12
BACK_S = 3.0
"""From when the API sees a process go until others hold all of its slots."""


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process as the kernel does."""
    process.kill()
    process.wait()


def test_slots_of_three_processes_are_never_exceeded_and_come_back(
    server: SlotServer,
) -> None:
    server.set_slots(SLOTS)
    with ExitStack() as stack:
        counter = stack.enter_context(InFlight())

        def start(name: str, threads: int, hold_s: float) -> subprocess.Popen[bytes]:
            process = start_worker(
                server.url, counter, name, threads=threads, hold_s=hold_s
            )
            stack.callback(kill, process)
            return process

        hog = start("hog", threads=10, hold_s=0.0)
        until(lambda: counter.now == 10, "ten slots to be held for good")
        start("one", threads=8, hold_s=0.05)
        start("two", threads=8, hold_s=0.05)
        until(lambda: counter.now == SLOTS, "the rest to be in use")
        until(
            lambda: len([n for n in counter.begun.values() if n > 3]) >= 2,
            "both others to have their turns",
        )
        until(lambda: server.in_use().get("hog") == 10, "the API to show them")
        hog.send_signal(signal.SIGKILL)
        hog.wait()
        until(lambda: counter.now < 10, "the counter to hear of the kill")
        seen_s = server.saw_go("hog")
        until(lambda: counter.now == SLOTS, "all slots to be in use again")
        took_s = time.monotonic() - seen_s
        until(lambda: server.in_use().get("hog", 0) == 0, "the API to show it")
        assert counter.most <= SLOTS
        assert took_s < BACK_S


def test_who_waits_for_a_slot_is_told_when_the_agent_is_closed(
    server: SlotServer,
) -> None:
    server.set_slots(1)
    told: list[str] = []
    with connect(server.url, keep_snapshot=False) as agent:
        limiter = agent.limiter(tenant="acme")

        def work() -> None:
            try:
                with limiter.slot():
                    told.append("served")
            except Throttled as refused:
                told.append(refused.decision.reason)

        with limiter.slot(timeout_s=PATIENCE_S):
            waiting = threading.Thread(target=work, daemon=True)
            waiting.start()
            until(lambda: agent.metrics()["slots_waiting"] == 1, "it to wait")
            agent.close()
            waiting.join(PATIENCE_S)
    assert told == ["agent closed"]
