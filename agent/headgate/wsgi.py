"""WSGI: `WsgiLimitMiddleware` for Flask, Bottle and the like."""

from headgate.agent.integrations.web.wsgi import (
    WsgiLimitMiddleware as WsgiLimitMiddleware,
)
