"""Headgate: one quota for a whole cluster, enforced in every process.

``agent = headgate.connect(url)``, ``limiter = agent.limiter(tenant="acme")``,
``limiter.try_acquire(requests=1)``.  Integrations are modules of their own:
``headgate.asgi``, ``headgate.grpc``, ``headgate.kafka``, ``headgate.httpx``,
``headgate.prometheus``, ``headgate.opentelemetry``; Spark jobs are in
``headgate.pipeline``.

Names are loaded when they are first used, so that a Spark worker or the coordinator
alone never imports a bus.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent import *  # noqa: F403  # a test compares them with `__all__`

__all__ = [
    "Admin",
    "AdminError",
    "Agent",
    "AgentClosed",
    "AgentStatus",
    "AlreadyReleased",
    "AlreadySettled",
    "AppliedPlan",
    "Attachment",
    "AttachmentRecord",
    "AuditRecord",
    "BusUnavailable",
    "CallerError",
    "ChangeRecord",
    "Configuration",
    "Decision",
    "DimensionHandle",
    "Dispatcher",
    "Enforcer",
    "EntryAverages",
    "Estimate",
    "Explanation",
    "Group",
    "GroupRecord",
    "HeadgateError",
    "InvalidCost",
    "InvalidDimension",
    "InvalidSetting",
    "InvalidSubject",
    "KeyedLimiter",
    "Limit",
    "LimitName",
    "LimitSpec",
    "Limiter",
    "MalformedReport",
    "MalformedSnapshot",
    "MemberView",
    "NoLimitApplies",
    "Notice",
    "NoticeBoard",
    "Partial",
    "PendingRequests",
    "PublishMemory",
    "Refusal",
    "RefusalMode",
    "Reservation",
    "Slot",
    "SlotHolder",
    "SlotsRecord",
    "SubscribeThrottle",
    "ThrottleTracker",
    "Throttled",
    "TopicSplit",
    "Usage",
    "connect",
    "connect_async",
    "limited",
]


def __getattr__(name: str) -> object:
    """Return the agent's public name `name`, importing it on first use."""
    if name not in __all__:
        message = f"module 'headgate' has no attribute {name!r}"
        raise AttributeError(message)
    from headgate import agent

    value: object = getattr(agent, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, whether or not they have been used yet."""
    dunders = {name for name in globals() if name.startswith("__")}
    return sorted(dunders.union(__all__))
