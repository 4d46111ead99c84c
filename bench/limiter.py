"""How fast the limiter is, beside the clock and beside its peers.

::

    python bench/limiter.py            prints the tables
    python bench/limiter.py --write    writes them to docs/benchmarks-limiter.md too

Method.  The candidates take turns in short rounds, so that a busy machine slows
all alike.  Each round is measured in CPU time of the thread; a figure is the median
over the rounds of its ratio to the clock read of the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from limiter_peers import PEERS
from limiter_web import web_table

from headgate.agent.bucket import bucket as bucket_module
from headgate.agent.bucket.bucket import Bucket
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.limiter.keyed import KeyedLimiter
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

ROUNDS = 15
CALLS = 20_000
"""Calls in a round of the fast candidates; slow ones make a tenth."""

KEYS = (1_000, 100_000)
THREADS = (1, 2, 4)
WAITERS = 10_000
PLENTY = 1e9
"""Rate and burst of a limit that admits everything."""

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-limiter.md"
clock = time.monotonic
Call = Callable[[], object]


def main() -> None:
    """Measure, print, and write on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help=f"write the figures to {PAGE.name}"
    )
    options = parser.parse_args()
    built = "compiled by mypyc" if _compiled() else "pure Python"
    peers = ", ".join(f"{p.name} {p.version}" for p in PEERS if p.version)
    text = "\n\n".join(
        (
            f"Headgate {built}, CPython {platform.python_version()}; {peers}.",
            "## One attempt\n\n" + one_attempt_table(),
            "## Keys\n\n" + keys_table(),
            "## Threads\n\n" + threads_table(),
            "## Waiting\n\n" + waiting_table(),
            "## Web\n\n" + web_table(),
        )
    )
    sys.stdout.write(text + "\n")
    if options.write:
        head = PAGE.read_text(encoding="utf-8").partition("<!-- figures -->")[0]
        PAGE.write_text(f"{head}<!-- figures -->\n\n{text}\n", encoding="utf-8")


def _compiled() -> bool:
    return not str(bucket_module.__file__).endswith(".py")


def _enforcer(rate: float) -> Enforcer:
    """One group for tenant a; nine more, each the parent of the next, for tenant b."""
    limit = Limit(dimension="requests", rate=rate, burst=max(rate, 1e-9), scope="node")
    groups = [Group(id=1, name="g1", limits=(limit,))]
    for i in range(2, 11):
        parent = i + 1 if i < 10 else None
        groups.append(Group(id=i, name=f"g{i}", limits=(limit,), parent=parent))
    enforcer = Enforcer(clock=clock)
    enforcer.configure(
        Configuration(
            revision=1,
            groups=tuple(groups),
            attachments=(
                Attachment((("tenant", "a"),), 1),
                Attachment((("tenant", "b"),), 2),
                Attachment((("user", "u"),), 1),
            ),
        ),
        clock(),
    )
    return enforcer


def _cpu_ns(call: Callable[[], object], calls: int) -> float:
    gc.disable()
    try:
        steps = range(calls)
        before = time.thread_time_ns()
        for _ in steps:
            call()
        return (time.thread_time_ns() - before) / calls
    finally:
        gc.enable()


def _compare(
    candidates: dict[str, tuple[Call, int]],
) -> dict[str, tuple[float, float]]:
    """Return (median ns, median ratio to the first candidate) by name."""
    rounds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, (call, calls) in candidates.items():
            rounds[name].append(_cpu_ns(call, calls))
    first = next(iter(rounds.values()))
    return {
        name: (
            statistics.median(times),
            statistics.median(t / c for t, c in zip(times, first, strict=True)),
        )
        for name, times in rounds.items()
    }


def _table(head: str, rows: list[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join((head, "|" + "---|" * columns, *rows))


def one_attempt_table() -> str:
    """Allow and reject, one limit, in ns and in clock reads (loop included)."""
    # A lambda costs a call, so the handles are called as a loop would call them.
    results: dict[str, dict[str, tuple[float, float]]] = {}
    for kind, rate in (("allow", PLENTY), ("reject", 1e-9)):
        enforcer = _enforcer(rate)
        one, ten = enforcer.limiter(tenant="a"), enforcer.limiter(tenant="b", user="u")
        single = Bucket(clock(), rate=rate, capacity=rate)
        if kind == "reject":
            single.try_acquire_at(clock(), 1.0)
            one.try_acquire(requests=1)
            ten.try_acquire(requests=1)
        try_bucket = single.try_acquire_at
        candidates: dict[str, tuple[Call, int]] = {
            "clock read": (clock, CALLS),
            "bucket": (lambda b=try_bucket: b(clock(), 1.0), CALLS),  # type: ignore[misc]  # bound early
            "gate, one limit": (one.handle().try_acquire, CALLS),
            "gate, chain of ten": (ten.handle().try_acquire, CALLS),
            "limiter(requests=1), one limit": (
                lambda t=one.try_acquire: t(requests=1),  # type: ignore[misc]  # bound early
                CALLS,
            ),
            "limiter(requests=1), chain of ten": (
                lambda t=ten.try_acquire: t(requests=1),  # type: ignore[misc]  # bound early
                CALLS,
            ),
        }
        for peer in PEERS:
            if peer.version:
                attempt = peer.make(*((10**9, 10**9) if kind == "allow" else (1, 1)))
                attempt("key")
                candidates[peer.name] = (lambda a=attempt: a("key"), CALLS // 10)  # type: ignore[misc]  # bound early
        results[kind] = _compare(candidates)
    rows = []
    for name in results["allow"]:
        allow, reject = results["allow"][name], results["reject"][name]
        if name == "clock read":
            rows.append(f"| {name} | {allow[0]:,.0f} | 1.0 | | |")
        else:
            rows.append(
                f"| {name} | {allow[0]:,.0f} | {allow[1]:.1f} |"
                f" {reject[0]:,.0f} | {reject[1]:.1f} |"
            )
    return _table("| attempt | allow, ns | × clock | reject, ns | × clock |", rows)


def keys_table() -> str:
    """Limits by key, with another key at each attempt, and memory per key."""
    rows = []
    for count in KEYS:
        names = [f"user-{index}" for index in range(count)]
        keyed = {
            "headgate": _headgate_keyed,
            **{p.name: p.make for p in PEERS if p.keyed and p.version},
        }
        candidates: dict[str, tuple[Call, int]] = {"clock read": (clock, CALLS)}
        memory: dict[str, float] = {}
        for name, make in keyed.items():
            attempt = make(1_000, 1_000)
            memory[name] = _bytes_per_key(attempt, names)
            calls = CALLS if name == "headgate" else CALLS // 10
            candidates[name] = (_cycle(attempt, names), calls)
        for name, (ns, ratio) in _compare(candidates).items():
            if name != "clock read":
                rows.append(
                    f"| {name} | {count:,} | {ns:,.0f} | {ratio:.1f} |"
                    f" {memory[name]:,.0f} |"
                )
    return _table("| limiter | keys | ns | × clock | bytes a key |", rows)


def _headgate_keyed(rate: int, burst: int) -> Callable[[str], object]:
    keyed = KeyedLimiter(rate=rate, burst=burst, clock=clock, most_keys=200_000)
    return keyed.try_acquire


def _cycle(attempt: Callable[[str], object], names: list[str]) -> Callable[[], object]:
    position = 0
    count = len(names)

    def next_key() -> object:
        nonlocal position
        position = (position + 7) % count  # not in memory order
        return attempt(names[position])

    return next_key


def _bytes_per_key(attempt: Callable[[str], object], names: list[str]) -> float:
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for name in names:
        attempt(name)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(names)


def threads_table() -> str:
    """Attempts per second of all threads on one limit; none may be lost."""
    rows = []
    for count in THREADS:
        enforcer = _enforcer(PLENTY)
        gate = enforcer.limiter(tenant="a").handle()
        calls = 200_000 // count

        def work(
            n: int = calls, attempt: Callable[[], object] = gate.try_acquire
        ) -> None:
            for _ in range(n):
                attempt()

        threads = [threading.Thread(target=work) for _ in range(count)]
        before = time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.process_time() - before
        (counted,) = (u.admitted for u in enforcer.usage() if u.group == "g1")
        lost = calls * count - counted
        rows.append(f"| {count} | {calls * count / elapsed / 1e6:.1f} | {lost:.0f} |")
    return _table("| threads | million attempts per CPU second | lost |", rows)


def waiting_table() -> str:
    """Ten thousand tasks that wait for tokens, against as many that only sleep."""

    async def run(wait: bool) -> tuple[float, float, int]:
        rate = WAITERS / 2
        # A tenth of a second: a tick of 16 ms must find room for its tokens.
        burst = rate / 10
        limit = Limit(dimension="requests", rate=rate, burst=burst, scope="node")
        enforcer = Enforcer(clock=clock)
        enforcer.configure(
            Configuration(
                revision=1,
                groups=(Group(id=1, name="g", limits=(limit,)),),
                attachments=(Attachment((("tenant", "a"),), 1),),
            ),
            clock(),
        )
        limiter = enforcer.limiter(tenant="a")
        limiter.charge(requests=burst)
        order: list[int] = []
        late: list[float] = []
        began = clock()

        async def caller(index: int) -> None:
            if wait:
                await limiter.wait_async(requests=1)
            else:
                await asyncio.sleep((index + 1) / rate)
            order.append(index)
            late.append(clock() - began - (index + 1) / rate)

        before = time.process_time()
        await asyncio.gather(*(caller(index) for index in range(WAITERS)))
        used = time.process_time() - before
        inversions = sum(a > b for a, b in pairwise(order))
        return used / WAITERS * 1e6, statistics.median(late) * 1e3, inversions

    rows = []
    for name, wait in (("asyncio.sleep", False), ("fair queue", True)):
        used, late, inversions = asyncio.run(run(wait))
        rows.append(f"| {name} | {used:.1f} | {late:.1f} | {inversions} |")
    head = "| 10,000 tasks | CPU µs each | median lateness, ms | inversions |"
    return _table(head, rows)


if __name__ == "__main__":
    main()
