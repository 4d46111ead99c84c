"""The brain of an agent: pure decisions from reports to ceilings, no I/O.

`Coordinator.step(now, event, wall_s=…) -> effects` is the whole of it; the values
that go in and out are re-exported here.
"""

from headgate.coordinator.config.configuration import LEAST_PERIOD_S as LEAST_PERIOD_S
from headgate.coordinator.config.configuration import LEAST_UNITS as LEAST_UNITS
from headgate.coordinator.config.configuration import Attachment as Attachment
from headgate.coordinator.config.configuration import Configuration as Configuration
from headgate.coordinator.config.configuration import Group as Group
from headgate.coordinator.config.configuration import (
    InvalidConfiguration as InvalidConfiguration,
)
from headgate.coordinator.config.configuration import Limit as Limit
from headgate.coordinator.config.constants import Settings as Settings
from headgate.coordinator.coordinator import Coordinator as Coordinator
from headgate.coordinator.escrow.slots import SlotView as SlotView
from headgate.coordinator.explain.views import AgentRow as AgentRow
from headgate.coordinator.explain.views import Explanation as Explanation
from headgate.coordinator.explain.views import MemberView as MemberView
from headgate.coordinator.messages.events import ApiAnswers as ApiAnswers
from headgate.coordinator.messages.events import Ceilings as Ceilings
from headgate.coordinator.messages.events import Claim as Claim
from headgate.coordinator.messages.events import Configured as Configured
from headgate.coordinator.messages.events import Counted as Counted
from headgate.coordinator.messages.events import Effect as Effect
from headgate.coordinator.messages.events import Event as Event
from headgate.coordinator.messages.events import Granted as Granted
from headgate.coordinator.messages.events import Heard as Heard
from headgate.coordinator.messages.events import Keys as Keys
from headgate.coordinator.messages.events import Noticed as Noticed
from headgate.coordinator.messages.events import Publish as Publish
from headgate.coordinator.messages.events import Renamed as Renamed
from headgate.coordinator.messages.events import Restored as Restored
from headgate.coordinator.messages.events import SetCeilings as SetCeilings
from headgate.coordinator.messages.events import SetSlots as SetSlots
from headgate.coordinator.messages.events import SlotCount as SlotCount
from headgate.coordinator.messages.events import Stopping as Stopping
from headgate.coordinator.messages.events import Vouched as Vouched
from headgate.coordinator.messages.events import WakeAt as WakeAt
from headgate.coordinator.messages.report import AgentLife as AgentLife
from headgate.coordinator.messages.report import KnownLife as KnownLife
from headgate.coordinator.messages.report import PermitRun as PermitRun
from headgate.coordinator.messages.report import Permits as Permits
from headgate.coordinator.messages.report import Report as Report
from headgate.coordinator.messages.report import Rows as Rows
