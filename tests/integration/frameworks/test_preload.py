"""An application loaded before gunicorn forks keeps its quota from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.frameworks.rigs import (
    Hammer,
    check_admitted,
    gunicorn,
    start_server,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.frameworks.rigs import Quotas

    from headgate.cli.process.children import Children


SERVICE = """
import os
from limiter_asgi import agent, header
from fastapi import FastAPI
from headgate.asgi import LimitMiddleware

def who(scope):
    return {"tenant": header(scope, b"x-tenant")}

app = FastAPI()
app.add_middleware(LimitMiddleware, source=agent, subject=who)

@app.get("/")
async def root():
    return {"pid": os.getpid()}
"""
"""The ASGI example, with the process that answers."""


@pytest.mark.parametrize(
    ("app", "options"),
    [
        ("limiter_wsgi:app", ("--threads", "4")),
        ("service:app", ("--worker-class", "uvicorn.workers.UvicornWorker")),
    ],
    ids=["gunicorn", "uvicorn"],
)
def test_workers_of_a_preloaded_application_keep_one_quota_from_the_first_request(
    quotas: Quotas,
    children: Children,
    tmp_path: Path,
    app: str,
    options: tuple[str, ...],
) -> None:
    quotas.put("acme", requests=(100.0, 50.0))
    (tmp_path / "service.py").write_text(SERVICE)
    found = ("--pythonpath", str(tmp_path))
    command = gunicorn(app, "--workers", "3", "--preload", *found, *options)
    _, url = start_server(children, "gunicorn", command, tmp_path / "gunicorn.log")
    hammer = Hammer(url, seconds=8.0, clients=8, headers={"x-tenant": "acme"})
    assert set(hammer.statuses) == {200, 429}
    assert len(hammer.pids) == 3, hammer.pids  # each worker is an agent of its own
    check_admitted(
        hammer.statuses[200],
        rate=100.0,
        burst=50.0,
        elapsed_s=hammer.elapsed_s,
        processes=3,
    )
