"""A FastAPI service whose tenants share their quota with all other replicas.

headgate up                                            # elsewhere
uvicorn --app-dir examples/services limiter_asgi:app --port 8001
curl -i -H "X-Tenant: acme" http://127.0.0.1:8001/
"""

import os

from fastapi import FastAPI

import headgate
from headgate.asgi import LimitMiddleware, Scope, header

agent = headgate.connect(os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080"))


def who(scope: Scope) -> dict[str, str | None] | None:
    """Return the subject of a request; None for those that nobody limits."""
    tenant = header(scope, b"x-tenant")
    return None if scope["path"] == "/health" else {"tenant": tenant or "anonymous"}


app = FastAPI()
app.add_middleware(LimitMiddleware, source=agent, subject=who)


@app.get("/")
async def root() -> dict[str, str]:
    """Answer, when the quota allows."""
    return {"hello": "world"}


@app.get("/health")
async def health() -> dict[str, str]:
    """Answer always."""
    return {"status": "fine"}
