"""Django: `HeadgateMiddleware` and ``settings.HEADGATE``."""

from headgate.agent.integrations.web.django import (
    HeadgateMiddleware as HeadgateMiddleware,
)
from headgate.agent.integrations.web.django import process_agent as process_agent
