"""Enforces limits in a process, reports to the other agents, follows the API.

::

    agent = connect("http://127.0.0.1:8080")
    limiter = agent.limiter(tenant="acme")
    decision = limiter.try_acquire(requests=1)

Everything here is public, as ``headgate.connect`` and so on; where it is defined may
change.  Integrations have addresses of their own, such as ``headgate.asgi``.

Names are loaded when they are first used: the command line, which only needs HTTP,
starts without numpy and ZeroMQ.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.admin.client import Admin as Admin
    from headgate.agent.admin.connection import AdminError as AdminError
    from headgate.agent.admin.records import AppliedPlan as AppliedPlan
    from headgate.agent.admin.records import AttachmentRecord as AttachmentRecord
    from headgate.agent.admin.records import AuditRecord as AuditRecord
    from headgate.agent.admin.records import ChangeRecord as ChangeRecord
    from headgate.agent.admin.records import GroupRecord as GroupRecord
    from headgate.agent.admin.records import LimitSpec as LimitSpec
    from headgate.agent.admin.records import SlotHolder as SlotHolder
    from headgate.agent.admin.records import SlotsRecord as SlotsRecord
    from headgate.agent.agent import Agent as Agent
    from headgate.agent.agent import AgentStatus as AgentStatus
    from headgate.agent.bucket.local import Usage as Usage
    from headgate.agent.connecting import connect as connect
    from headgate.agent.connecting import connect_async as connect_async
    from headgate.agent.decision import Decision as Decision
    from headgate.agent.decision import LimitName as LimitName
    from headgate.agent.decision import Partial as Partial
    from headgate.agent.decision import Refusal as Refusal
    from headgate.agent.enforcement.enforcer import Enforcer as Enforcer
    from headgate.agent.enforcement.split import TopicSplit as TopicSplit
    from headgate.agent.errors import AgentClosed as AgentClosed
    from headgate.agent.errors import AlreadyReleased as AlreadyReleased
    from headgate.agent.errors import AlreadySettled as AlreadySettled
    from headgate.agent.errors import BusUnavailable as BusUnavailable
    from headgate.agent.errors import CallerError as CallerError
    from headgate.agent.errors import HeadgateError as HeadgateError
    from headgate.agent.errors import InvalidCost as InvalidCost
    from headgate.agent.errors import InvalidDimension as InvalidDimension
    from headgate.agent.errors import InvalidSetting as InvalidSetting
    from headgate.agent.errors import InvalidSubject as InvalidSubject
    from headgate.agent.errors import MalformedReport as MalformedReport
    from headgate.agent.errors import MalformedSnapshot as MalformedSnapshot
    from headgate.agent.errors import NoLimitApplies as NoLimitApplies
    from headgate.agent.errors import Throttled as Throttled
    from headgate.agent.integrations.calls import limited as limited
    from headgate.agent.limiter.dispatch import Dispatcher as Dispatcher
    from headgate.agent.limiter.dispatch import EntryAverages as EntryAverages
    from headgate.agent.limiter.dispatch import SubscribeThrottle as SubscribeThrottle
    from headgate.agent.limiter.handle import DimensionHandle as DimensionHandle
    from headgate.agent.limiter.keyed import KeyedLimiter as KeyedLimiter
    from headgate.agent.limiter.limiter import Limiter as Limiter
    from headgate.agent.limiter.notices import Notice as Notice
    from headgate.agent.limiter.notices import NoticeBoard as NoticeBoard
    from headgate.agent.limiter.reservation import Estimate as Estimate
    from headgate.agent.limiter.reservation import Reservation as Reservation
    from headgate.agent.limiter.slots import Slot as Slot
    from headgate.agent.limiter.slots import SlotClaim as SlotClaim
    from headgate.agent.limiter.throttle import PendingRequests as PendingRequests
    from headgate.agent.limiter.throttle import PublishMemory as PublishMemory
    from headgate.agent.limiter.throttle import ThrottleTracker as ThrottleTracker
    from headgate.coordinator import Explanation as Explanation
    from headgate.coordinator import MemberView as MemberView
    from headgate.coordinator.config.configuration import Attachment as Attachment
    from headgate.coordinator.config.configuration import Configuration as Configuration
    from headgate.coordinator.config.configuration import Group as Group
    from headgate.coordinator.config.configuration import Limit as Limit
    from headgate.coordinator.config.configuration import Refusal as _Mode

    RefusalMode = _Mode
    """A refusal's effect: ``reject``, ``delay``, ``wait``, ``suppress``, ``shadow``."""

_HOMES = {
    "headgate.agent.admin.client": ("Admin",),
    "headgate.agent.admin.connection": ("AdminError",),
    "headgate.agent.admin.records": (
        "AppliedPlan",
        "AttachmentRecord",
        "AuditRecord",
        "ChangeRecord",
        "GroupRecord",
        "LimitSpec",
        "SlotHolder",
        "SlotsRecord",
    ),
    "headgate.agent.agent": (
        "Agent",
        "AgentStatus",
    ),
    "headgate.agent.bucket.local": ("Usage",),
    "headgate.agent.connecting": (
        "connect",
        "connect_async",
    ),
    "headgate.agent.decision": (
        "Decision",
        "LimitName",
        "Partial",
        "Refusal",
    ),
    "headgate.agent.enforcement.enforcer": ("Enforcer",),
    "headgate.agent.enforcement.split": ("TopicSplit",),
    "headgate.agent.errors": (
        "AgentClosed",
        "AlreadyReleased",
        "AlreadySettled",
        "BusUnavailable",
        "CallerError",
        "HeadgateError",
        "InvalidCost",
        "InvalidDimension",
        "InvalidSetting",
        "InvalidSubject",
        "MalformedReport",
        "MalformedSnapshot",
        "NoLimitApplies",
        "Throttled",
    ),
    "headgate.agent.integrations.calls": ("limited",),
    "headgate.agent.limiter.dispatch": (
        "Dispatcher",
        "EntryAverages",
        "SubscribeThrottle",
    ),
    "headgate.agent.limiter.handle": ("DimensionHandle",),
    "headgate.agent.limiter.keyed": ("KeyedLimiter",),
    "headgate.agent.limiter.limiter": ("Limiter",),
    "headgate.agent.limiter.notices": (
        "Notice",
        "NoticeBoard",
    ),
    "headgate.agent.limiter.reservation": (
        "Estimate",
        "Reservation",
    ),
    "headgate.agent.limiter.slots": (
        "Slot",
        "SlotClaim",
    ),
    "headgate.agent.limiter.throttle": (
        "PendingRequests",
        "PublishMemory",
        "ThrottleTracker",
    ),
    "headgate.coordinator": (
        "Explanation",
        "MemberView",
    ),
    "headgate.coordinator.config.configuration": (
        "Attachment",
        "Configuration",
        "Group",
        "Limit",
    ),
}
"""The public names by the module that defines them; a test compares them with the
imports above."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Return the public name `name`, importing it on first use."""
    home, defined_as = _HOME_OF.get(name), name
    if name == "RefusalMode":
        home, defined_as = "headgate.coordinator.config.configuration", "Refusal"
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), defined_as)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those not loaded yet."""
    return sorted({*globals(), *_HOME_OF, "RefusalMode"})
