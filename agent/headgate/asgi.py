"""Limits for FastAPI, Starlette and any other ASGI application.

See `headgate.agent.integrations.asgi`.
"""

from headgate.agent.integrations.asgi import App as App
from headgate.agent.integrations.asgi import LimitMiddleware as LimitMiddleware
from headgate.agent.integrations.asgi import Scope as Scope
from headgate.agent.integrations.asgi import header as header
from headgate.agent.integrations.notice_stream import NoticeStream as NoticeStream
