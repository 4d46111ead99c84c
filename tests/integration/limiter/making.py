"""An enforcer on the real clock with one tenant, and a web server for an app."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.policies import NO_POLICIES
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from headgate.agent.follow.policies import Policies
    from headgate.coordinator.config.configuration import Refusal


def node_limit(dimension: str, rate: float, burst: float) -> Limit:
    return Limit(dimension=dimension, rate=rate, burst=burst, scope="node")


def make(*limits: Limit, refusal: Refusal = "reject") -> Enforcer:
    enforcer = Enforcer(clock=time.monotonic)
    configure(enforcer, *limits, refusal=refusal)
    return enforcer


def configure(
    enforcer: Enforcer,
    *limits: Limit,
    refusal: Refusal = "reject",
    policies: Policies = NO_POLICIES,
) -> None:
    gold = Group(id=1, name="gold", limits=limits, refusal=refusal)
    enforcer.configure(
        Configuration(
            revision=1,
            groups=(gold,),
            attachments=(Attachment((("tenant", "acme"),), 1),),
        ),
        time.monotonic(),
        policies,
    )


@contextmanager
def served(app: object) -> Generator[str]:
    """Serve an ASGI app with uvicorn on loopback; yield its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", lifespan="off")  # type: ignore[arg-type]  # any ASGI app
        )
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
