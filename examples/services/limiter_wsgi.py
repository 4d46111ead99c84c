"""A Flask service whose tenants share their quota with all other replicas.

headgate up                                                          # elsewhere
gunicorn --workers 4 --threads 8 --chdir examples/services limiter_wsgi:app
curl -i -H "X-Tenant: acme" http://127.0.0.1:8000/
"""

import os

from flask import Flask

import headgate
from headgate.wsgi import WsgiLimitMiddleware, header

agent = headgate.connect(os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080"))


def who(environ: dict[str, object]) -> str | None:
    """Return the tenant of a request; None for those that nobody limits."""
    if environ["PATH_INFO"] == "/health":
        return None
    return header(environ, "x-tenant") or "anonymous"


app = Flask(__name__)
app.wsgi_app = WsgiLimitMiddleware(app.wsgi_app, source=agent, subject=who)


@app.get("/")
def root() -> dict[str, int]:
    """Answer, when the quota allows, with the process that did."""
    return {"pid": os.getpid()}


@app.get("/health")
def health() -> dict[str, str]:
    """Answer always."""
    return {"status": "fine"}
