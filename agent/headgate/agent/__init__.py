"""Enforces limits in a process, reports to the other agents, follows the API.

::

    agent = connect("http://127.0.0.1:8080")
    limiter = agent.limiter(tenant="acme")
    decision = limiter.try_acquire(requests=1)

What stands here is public, as ``headgate.connect`` and so on; where a thing is
defined may change.  Integrations have addresses of their own, such as
``headgate.asgi``.
"""

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
from headgate.agent.connect import connect as connect
from headgate.agent.connect import connect_async as connect_async
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
"""What a refusal means: ``reject``, ``delay``, ``wait``, ``suppress``, ``shadow``."""
