"""The brain of an agent: pure decisions from reports to ceilings, no I/O.

`Coordinator.step(now, event, wall_s=…) -> effects` is the whole of it; the values
that go in and out are re-exported here.
"""

from headgate.coordinator.configuration import (
    LEAST_UNITS as LEAST_UNITS,
)
from headgate.coordinator.configuration import (
    SUBJECT_KINDS as SUBJECT_KINDS,
)
from headgate.coordinator.configuration import (
    UNLIMITED as UNLIMITED,
)
from headgate.coordinator.configuration import (
    Attachment as Attachment,
)
from headgate.coordinator.configuration import (
    Configuration as Configuration,
)
from headgate.coordinator.configuration import (
    Group as Group,
)
from headgate.coordinator.configuration import (
    InvalidConfiguration as InvalidConfiguration,
)
from headgate.coordinator.configuration import (
    Limit as Limit,
)
from headgate.coordinator.coordinator import Coordinator as Coordinator
from headgate.coordinator.events import (
    Configured as Configured,
)
from headgate.coordinator.events import (
    Counted as Counted,
)
from headgate.coordinator.events import (
    Effect as Effect,
)
from headgate.coordinator.events import (
    Event as Event,
)
from headgate.coordinator.events import (
    Heard as Heard,
)
from headgate.coordinator.events import (
    HeardTogether as HeardTogether,
)
from headgate.coordinator.events import (
    Keys as Keys,
)
from headgate.coordinator.events import (
    Noticed as Noticed,
)
from headgate.coordinator.events import (
    Publish as Publish,
)
from headgate.coordinator.events import (
    Renamed as Renamed,
)
from headgate.coordinator.events import (
    Restored as Restored,
)
from headgate.coordinator.events import (
    SetCeilings as SetCeilings,
)
from headgate.coordinator.events import (
    Stopping as Stopping,
)
from headgate.coordinator.events import (
    Vouched as Vouched,
)
from headgate.coordinator.events import (
    WakeAt as WakeAt,
)
from headgate.coordinator.report import Grants as Grants
from headgate.coordinator.report import Report as Report
from headgate.coordinator.report import Rows as Rows
from headgate.coordinator.settings import InvalidSettings as InvalidSettings
from headgate.coordinator.settings import Settings as Settings
from headgate.coordinator.views import AgentRow as AgentRow
from headgate.coordinator.views import Explanation as Explanation
from headgate.coordinator.views import LedgerView as LedgerView
from headgate.coordinator.views import MemberView as MemberView
