"""CPU of one RLS decision: from the bytes of a request to those of the response.

Whatever the server takes beyond that is spent in gRPC.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.integrations.envoy.descriptors import read_domain
from headgate.agent.integrations.envoy.limits import DescriptorLimits
from headgate.agent.integrations.envoy.rate_limit_service import RateLimitService
from headgate.agent.integrations.web.key_groups import KeyGroups, template_name
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from headgate.agent.integrations.envoy.messages import RateLimitRequest

FILE = b"""
domain: apis
subjects: {tenant: tenant}
descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}]
"""
ROUNDS, CALLS = 7, 3_000


def main() -> None:
    """Measure once and print it."""
    domain = read_domain(FILE)
    rule = domain.match([("user", "al")])
    assert rule is not None
    template = template_name(rule.rule.quota)
    limit = Limit(dimension="requests", rate=1e6, burst=1e6, scope="node")
    groups = (
        Group(id=1, name="acme", limits=(limit,)),
        Group(id=2, name=template, limits=(limit,), per="user"),
    )
    attached = (
        Attachment((("tenant", "acme"),), 1),
        Attachment((("user", None), ("client", template)), 2),
    )
    enforcer = Enforcer(clock=time.monotonic, seed=1)
    configured = Configuration(revision=1, groups=groups, attachments=attached)
    enforcer.configure(configured, time.monotonic())
    keys = KeyGroups(enforcer, "http://127.0.0.1")
    service = RateLimitService(DescriptorLimits({"apis": domain}, enforcer, keys))
    request = service.messages.request
    for key, value in (("tenant", "acme"), ("user", "al")):
        entries = [{"key": key, "value": value}]
        message = request(domain="apis", descriptors=[{"entries": entries}])
        raw = message.SerializeToString()
        best = min(cpu_s(service, raw) for _ in range(ROUNDS))
        print(f"{key}: {best / CALLS * 1e6:.1f} us of CPU a decision")


def cpu_s(service: RateLimitService, raw: bytes) -> float:
    """Return the CPU seconds of `CALLS` decisions."""
    parsed = service.messages.request.FromString
    begun_s = time.process_time()
    for _ in range(CALLS):
        service.answer(cast("RateLimitRequest", parsed(raw))).SerializeToString()
    return time.process_time() - begun_s


if __name__ == "__main__":
    main()
