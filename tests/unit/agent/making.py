"""What the tests of the limiter make: a clock of their own, an enforcer, groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from headgate.coordinator.config.configuration import Refusal

NODE = Limit(dimension="requests", rate=10, burst=5, scope="node")
TOKENS = Limit(dimension="tokens", rate=100, burst=1_000, scope="node")


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def configuration(*groups: Group, revision: int = 1, **tenants: int) -> Configuration:
    return Configuration(
        revision=revision,
        groups=groups,
        attachments=tuple(
            Attachment((("tenant", tenant),), group)
            for tenant, group in tenants.items()
        ),
    )


def make(*groups: Group, **tenants: int) -> tuple[Enforcer, Clock]:
    clock = Clock()
    enforcer = Enforcer(clock=clock, seed=1)
    enforcer.configure(configuration(*groups, **tenants), clock.now)
    return enforcer, clock


def group(limit: Limit = NODE, refusal: Refusal = "reject", **others: object) -> Group:
    made = Group(id=1, name="gold", limits=(limit,), refusal=refusal)
    return replace(made, **others)  # type: ignore[arg-type]  # fields by name
