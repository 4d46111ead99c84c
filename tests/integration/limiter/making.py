"""An enforcer on the real clock, a cluster of real agents, a web server for an app."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import httpx
import uvicorn
from tests.integration.agent.rigs import PATIENCE_S

from headgate.agent import connect
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.follow.policies import NO_POLICIES
from headgate.api import ServerSettings, running
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from headgate.agent import Agent
    from headgate.agent.follow.policies import Policies
    from headgate.coordinator.config.configuration import Refusal


def node_limit(dimension: str, rate: float, burst: float) -> Limit:
    return Limit(dimension=dimension, rate=rate, burst=burst, scope="node")


def make(*limits: Limit, refusal: Refusal = "reject", strict: bool = False) -> Enforcer:
    enforcer = Enforcer(clock=time.monotonic, strict=strict)
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
def agents_of_acme(
    tmp_path: Path,
    names: str,
    limit: Mapping[str, object],
    *,
    others: Sequence[str] = (),
) -> Generator[list[Agent]]:
    """Start a server, and agents with names of one letter; acme has one limit.

    So has each of the `others`, in a group of its own.
    """
    groups = {"acme": "gold"} | {tenant: f"of-{tenant}" for tenant in others}
    database = str(tmp_path / "headgate.db")
    settings = ServerSettings(database=database, port=0, bus_ports=(0, 0))
    document: dict[str, object] = {
        "tenants": {tenant: {} for tenant in groups},
        "groups": {group: {"limits": [dict(limit)]} for group in groups.values()},
        "attachments": [
            {"subject": {"tenant": tenant}, "group": group}
            for tenant, group in groups.items()
        ],
    }
    with ExitStack() as stack:
        url = stack.enter_context(running(settings)).api
        applied = httpx.post(f"{url}/api/v1/apply", json=document, timeout=PATIENCE_S)
        applied.raise_for_status()
        yield [
            stack.enter_context(
                connect(url, agent=name, keep_snapshot=False, wait_s=PATIENCE_S)
            )
            for name in names
        ]


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
