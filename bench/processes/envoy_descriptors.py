"""Random files of limits and random descriptors: Headgate beside envoyproxy/ratelimit.

Both answer the same 100,000 descriptors: that one as a process with Redis, over gRPC,
and the service of `headgate envoy` in this process, whose keys have no groups.
Compared are the overall code, and of each descriptor the code, the limit and what
remains.  Theirs are windows and ours are buckets, so limits that are used up have units
of a day and more, of which nothing comes back within a run; those of shorter ones are 0
or out of reach.  As only they count refused hits, costs of a bucket never fall, except
where buckets are checked with 0 hits first: there all costs are charged by both.

The newest commit that Go's proxy has knows `quota_mode`, and wildcards that are not at
the end, in another way than the newest of all, which Headgate follows: they are left
out.

``make peers``, or ``--descriptors 10000`` for a shorter run, ``--seed`` for another.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import yaml

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.integrations.envoy.descriptors import read_domain
from headgate.agent.integrations.envoy.limits import DescriptorLimits
from headgate.agent.integrations.envoy.rate_limit_service import RateLimitService
from headgate.agent.integrations.web.key_groups import KeyGroups
from headgate.cli.process.children import Children, termination_as_interrupt
from headgate.coordinator.config.configuration import Configuration

sys.path[:0] = [str(Path(__file__).parents[2])]

from tools import ratelimit  # noqa: E402  # path
from tools.ports import free_port  # noqa: E402  # path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headgate.agent.integrations.envoy.messages import RateLimitRequest

    Node = dict[str, object]

DOMAINS = 100
DAY_S = 86_400
LONGEST_RUN_S = 1_800
"""A run that would last past midnight, when their windows end, waits until then."""

VALUES = {
    "plan": ("free", "paid", "404"),
    "path": ("/a", "/a/b", "/a/b/c", "/files/x", "/files/y/z"),
    "user": ("al", "bo", "cy", "di", "*"),
    "region": ("eu", "us"),
}
WILDCARDS = ("/a*", "/a/*", "/files/*", "*", "a*", "b*", "u*", "4*")
LONG = {"day": 10, "week": 50, "month": 100, "year": 400}
"""Units, and the limit per unit that refills slowly enough."""

NAMES = ("n0", "n1", "n2", "n3", "n4", "n5")
"""Names of limits, by which other limits replace them."""

SHORT = ("second", "minute", "hour")
MANY = 4_000_000_000
UNITS = {"second": 1, "minute": 2, "hour": 3, "day": 4, "month": 5, "year": 6}
"""Units of a request's own limit."""


class Status(Protocol):
    """The answer to a descriptor."""

    code: int
    limit_remaining: int
    current_limit: Limit


class Limit(Protocol):
    """The limit that a status shows."""

    name: str
    requests_per_unit: int
    unit: int


class Answer(Protocol):
    """A response."""

    overall_code: int
    statuses: Sequence[Status]


class Waiting(Protocol):
    """A call under way."""

    def result(self) -> Answer:
        """Wait for the answer."""
        ...


class Method(Protocol):
    """A method of a stub."""

    def future(self, request: object, timeout: float) -> Waiting:
        """Call it."""
        ...


class Stub(Protocol):
    """A client."""

    ShouldRateLimit: Method


class Rls(Protocol):
    """Modules of `envoy.service.ratelimit.v3`."""

    def RateLimitServiceStub(self, channel: object) -> Stub:  # name given by gRPC
        """Make a client."""
        ...

    def RateLimitRequest(self, **fields: object) -> object:  # name given by Envoy
        """Make a request."""
        ...


class Channels(Protocol):
    """`grpc`."""

    def insecure_channel(self, address: str) -> object:
        """Connect."""
        ...


def random_file(chance: random.Random, domain: str, *, checked: bool) -> Node:
    """Return a file of limits.

    Args:
        chance: Source of randomness.
        domain: Its name.
        checked: Buckets are checked with 0 hits first, so no limit is 0.
    """
    return {"domain": domain, "descriptors": _level(chance, 1, checked=checked)}


def _level(chance: random.Random, depth: int, *, checked: bool) -> list[Node]:
    found: dict[tuple[str, str], Node] = {}
    for _ in range(chance.randint(2, 6)):
        key = chance.choice(list(VALUES))
        value = chance.choice((*VALUES[key], *WILDCARDS[:4], "", "", ""))
        node: Node = {"key": key}
        if value:
            node["value"] = int(value) if value.isdecimal() else value
        if chance.random() < 0.75 or depth == 3:
            node["rate_limit"] = _limit(chance, checked=checked)
        flags = {"shadow_mode": 0.1, "value_to_metric": 0.1}
        flags |= {"detailed_metric": 0.1, "share_threshold": 0.5 * ("*" in value)}
        node |= {flag: True for flag, part in flags.items() if chance.random() < part}
        if depth < 3 and chance.random() < 0.5:
            node["descriptors"] = _level(chance, depth + 1, checked=checked)
        found.setdefault((key, value), node)
    return list(found.values())


def _limit(chance: random.Random, *, checked: bool) -> Node:
    if chance.random() < 0.1:
        made: Node = {"unlimited": True}
    elif chance.random() < 0.8:
        unit = chance.choice(list(LONG))
        least = 1 if checked or chance.random() < 0.9 else 0
        hits = min(chance.randint(least, LONG[unit]), chance.choice((3, 20, 400)))
        made = {"unit": unit, "requests_per_unit": hits}
    else:
        hits = MANY if checked else chance.choice((0, MANY))
        made = {"unit": chance.choice(SHORT), "requests_per_unit": hits}
    if chance.random() < 0.4:
        made["name"] = chance.choice(NAMES)
    if chance.random() < 0.2:
        others = [name for name in NAMES if name != made.get("name")]
        made["replaces"] = [{"name": chance.choice(others)}]
    return made


@dataclass
class Domain:
    """A domain, and the requests made to it."""

    file: Node
    checked: bool
    asked: int = 0
    seen: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])

    def descriptor(self, chance: random.Random) -> Node:
        """Return a random descriptor, mostly one that the file knows."""
        entries = list[tuple[str, str]]()
        nodes = cast("list[Node]", self.file["descriptors"])
        while nodes and chance.random() < 0.97:
            node = chance.choice(nodes)
            key, value = str(node["key"]), str(node.get("value", ""))
            if "*" in value and chance.random() < 0.9:
                value = value.replace("*", chance.choice(("", "b", "us", "x/y")))
            if not value or chance.random() < 0.1:
                value = chance.choice(VALUES[key])
            entries.append((key, value))
            nodes = cast("list[Node]", node.get("descriptors", []))
            if chance.random() < (0.5 if "rate_limit" in node else 0.1):
                break
        made: Node = {}
        if chance.random() < 0.05:
            # The extra entry keeps its own limit from sharing a counter with others.
            entries.append(("own", chance.choice("abcd")))
            unit = ("day", "month", "year")[len(entries) % 3]
            hits = 1 + sum(map(len, entries[0])) % 9
            made["limit"] = {"requests_per_unit": hits, "unit": UNITS[unit]}
        made["entries"] = [{"key": key, "value": value} for key, value in entries]
        return made

    def request(self, chance: random.Random) -> Node:
        """Return a random request."""
        descriptors = [self.descriptor(chance) for _ in range(chance.randint(1, 4))]
        self.asked += len(descriptors)
        request: Node = {"domain": self.file["domain"], "descriptors": descriptors}
        if self.checked:
            for one in descriptors:
                which = tuple(str(sorted(e.items())) for e in _entries(one))
                known = which in self.seen
                self.seen.add(which)
                hits = chance.choice((0, 1, 2, 5, 30, 2**20)) if known else 0
                one["hits_addend"] = {"value": hits}
            if chance.random() < 0.5:
                request["hits_addend"] = chance.randint(0, 9)
            return request
        hits = 1 + self.asked // 150
        usual = chance.randint(0, 9) if chance.random() < 0.5 else hits
        if usual != 1 or chance.random() < 0.5:
            request["hits_addend"] = usual
        for one in descriptors:
            if (usual or 1) != hits or chance.random() < 0.3:
                one["hits_addend"] = {"value": hits}
        return request


def _entries(descriptor: Node) -> list[dict[str, str]]:
    return cast("list[dict[str, str]]", descriptor["entries"])


def shown(answer: Answer) -> list[object]:
    """Return the parts of an answer that are compared."""
    made: list[object] = [answer.overall_code]
    for status in answer.statuses:
        limit = status.current_limit
        soon = limit.unit in (UNITS["second"], UNITS["minute"], UNITS["hour"])
        remaining = None if soon else status.limit_remaining
        said = (limit.name, limit.requests_per_unit, limit.unit)
        made.append((status.code, said, remaining))
    return made


def service(files: Mapping[str, str]) -> RateLimitService:
    """Return the service of `headgate envoy`, without an API that creates groups."""
    enforcer = Enforcer(clock=time.monotonic, seed=1)
    enforcer.configure(Configuration(revision=1), time.monotonic())
    keys = KeyGroups(enforcer, f"http://127.0.0.1:{free_port()}")
    domains = {name: read_domain(text.encode()) for name, text in files.items()}
    return RateLimitService(DescriptorLimits(domains, enforcer, keys))


def compare(
    ours: RateLimitService, peer: str, domains: list[Domain], count: int, seed: int
) -> tuple[Counter[str], list[str]]:
    """Ask both; return counts of what was seen, and the differences."""
    grpc = cast("Channels", import_module("grpc"))
    name = "envoy.service.ratelimit.v3"
    stubs = cast("Rls", import_module(f"{name}.rls_pb2_grpc"))
    rls = cast("Rls", import_module(f"{name}.rls_pb2"))
    theirs = stubs.RateLimitServiceStub(grpc.insecure_channel(peer))
    chance, seen, differences = random.Random(seed), Counter[str](), list[str]()
    while seen["descriptors"] < count:
        request = chance.choice(domains).request(chance)
        message = rls.RateLimitRequest(**request)
        there = theirs.ShouldRateLimit.future(message, timeout=60.0)
        here = ours.answer(cast("RateLimitRequest", message))
        said = shown(cast("Answer", here))
        seen["descriptors"] += len(said) - 1
        seen["requests"] += 1
        seen["refused"] += said[0] == 2
        for one in said[1:]:
            code, limit, _ = cast("tuple[int, tuple[str, int, int], int]", one)
            seen["over the limit"] += code == 2
            seen["limited"] += limit[2] != 0
        if said != (also := shown(there.result())):
            differences.append(f"{json.dumps(request)}\n  {said}\n  {also}")
    return seen, differences


def main() -> None:
    """Compare once and print it; fail on a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--descriptors", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    left_s = DAY_S - time.time() % DAY_S
    if left_s < LONGEST_RUN_S:
        print(f"waiting {left_s:.0f} s for the next day", file=sys.stderr)
        time.sleep(left_s)
    chance = random.Random(chosen.seed)
    domains = [
        Domain(random_file(chance, f"d{n}", checked=n % 2 > 0), n % 2 > 0)
        for n in range(DOMAINS)
    ]
    files = {str(one.file["domain"]): yaml.safe_dump(one.file) for one in domains}
    load = os.getloadavg()[0]
    with (
        termination_as_interrupt(),
        tempfile.TemporaryDirectory() as folder,
        Children() as children,
    ):
        peer = ratelimit.start(children, Path(folder), files)
        seen, differences = compare(
            service(files), peer.grpc, domains, chosen.descriptors, chosen.seed
        )
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, seed {chosen.seed}, load {load:.1f}:"
        f" {seen['descriptors']:,} descriptors of {seen['requests']:,} requests in"
        f" {DOMAINS} random domains; {seen['limited']:,} met a limit,"
        f" {seen['over the limit']:,} were over it, {seen['refused']:,} requests were"
        f" refused; {len(differences)} answers differ"
    )
    if differences:
        raise SystemExit("\n".join(differences[:10]))


if __name__ == "__main__":
    main()
