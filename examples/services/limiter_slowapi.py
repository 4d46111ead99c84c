"""slowapi on FastAPI, unchanged but for the URI of its storage.

headgate up                                                               # elsewhere
uvicorn --app-dir examples/services limiter_slowapi:app --port 8001
curl -i http://127.0.0.1:8001/
"""

import os

from fastapi import FastAPI, Request
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address

import headgate.limits  # noqa: F401  # registers headgate://

API = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")

limiter = Limiter(
    get_remote_address,
    storage_uri=API.replace("http", "headgate", 1),  # was: redis://...
)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.get("/")
@limiter.limit("10/second")
async def root(request: Request) -> dict[str, int]:
    """Answer ten times a second for each address, over all workers."""
    return {"pid": os.getpid()}
