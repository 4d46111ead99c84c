"""`limits`, slowapi and flask-limiter: importing this registers ``headgate://``."""

from headgate.agent.integrations.web.limits_storage import (
    AsyncHeadgateStorage as AsyncHeadgateStorage,
)
from headgate.agent.integrations.web.limits_storage import (
    HeadgateStorage as HeadgateStorage,
)
