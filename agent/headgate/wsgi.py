"""WSGI: `WsgiLimitMiddleware` for Flask, Bottle and the like, and `header`."""

from headgate.agent.integrations.web.wsgi import (
    WsgiLimitMiddleware as WsgiLimitMiddleware,
)
from headgate.agent.integrations.web.wsgi import header as header
