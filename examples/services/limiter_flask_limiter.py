"""Flask-Limiter, unchanged but for the URI of its storage.

headgate up                                                               # elsewhere
gunicorn --workers 4 --chdir examples/services limiter_flask_limiter:app
curl -i http://127.0.0.1:8000/
"""

import os

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

import headgate.limits  # noqa: F401  # registers headgate://

API = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")

app = Flask(__name__)
limiter = Limiter(
    get_remote_address,
    app=app,
    storage_uri=API.replace("http", "headgate", 1),  # was: redis://...
    headers_enabled=True,
)


@app.get("/")
@limiter.limit("10 per second")
def root() -> dict[str, int]:
    """Answer ten times a second for each address, over all workers."""
    return {"pid": os.getpid()}
