"""One run of the demo: server, group, five callers, a crash, and the verdict."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headgate.cli.client.paths import ATTACHMENTS, GROUPS, NAMESPACES, TENANTS, segment
from headgate.cli.client.rest import Rest
from headgate.cli.demo.broker import CURVE, KEYS
from headgate.cli.demo.caller import NAMESPACE, TENANT
from headgate.cli.demo.callers import CONNECT_S, Callers
from headgate.cli.demo.summary import DemoSummary, summarise
from headgate.cli.options.bus_address import shown_bus
from headgate.cli.output.live_view import LiveView
from headgate.cli.output.share_table import ShareRow, ShareTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headgate.cli.demo.script import LoadShape, Phase, Script
    from headgate.cli.process.children import Child, Children

GROUP = "gold"
"""The group that the demo creates."""

SERVER_TIMEOUT_S = 60.0
"""Seconds to import, migrate the store and listen, on a busy machine."""

REFRESH_S = 0.5
"""Seconds between two updates: long enough to count, short enough to see a flip."""


class Watcher(Protocol):
    """An onlooker of a run."""

    def tell(self, line: str) -> None:
        """Show a line about something that happened."""

    def show(self, sheet: ShareTable) -> None:
        """Show the current state."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running `headgate up`.

    Attributes:
        url: Address of the API.
        bus: The bus that its agents use, in readable form.
        child: The process.
    """

    url: str
    bus: str
    child: Child


def play(
    children: Children,
    plan: Script,
    *,
    bus: str,
    directory: Path,
    seed: int,
    watcher: Watcher,
) -> DemoSummary:
    """Run the whole script and return what the callers saw.

    Raises:
        Failure: A part could not be started, or ended early.
    """
    server = start_server(children, bus=bus, directory=directory)
    watcher.tell(f"API and web page {server.url}   bus {server.bus}")
    shape = plan.shape
    configure(server.url, shape)
    watcher.tell(
        f"one quota: group {GROUP}, {shape.quota_per_s:,.0f} {shape.dimension}/s, "
        f"burst {shape.burst_units:,.0f}, for tenant {TENANT} and its namespace "
        f"{NAMESPACE}"
    )
    callers = Callers(children, plan, url=server.url, directory=directory, seed=seed)
    callers.start()
    watcher.tell(f"{len(shape.agents)} processes share it, each with a limiter inside")
    with LiveView(Rest(server.url)) as live:
        _follow(children, callers, plan, live, watcher, url=server.url)
    callers.await_end()
    return summarise(callers.attempts(), plan)


def start_server(children: Children, *, bus: str, directory: Path) -> Server:
    """Start `headgate up` as a process and wait until it answers.

    Args:
        children: What starts and stops the process.
        bus: As ``headgate up --bus``, or ``curve`` for the keys in `directory`.
        directory: For its database and its log.
    """
    ready_file = directory / "ready.json"
    ready_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "headgate.cli", "up"]
    command += ["--bus-keys", str(directory / KEYS)] if bus == CURVE else ["--bus", bus]
    command += ["--database", str(directory / "headgate.db")]
    command += ["--ready-file", str(ready_file)]
    child = children.start(
        "headgate up", command, log=directory / "up.stderr", talks=False
    )
    ready = json.loads(child.file(ready_file, SERVER_TIMEOUT_S))
    return Server(ready["api"], shown_bus(ready["bus"]), child)


def configure(url: str, shape: LoadShape) -> None:
    """Create the group, the tenant and the namespace, and attach them, over REST."""
    tenant, namespace = (segment(name) for name in NAMESPACE.split("/"))
    limit = {
        "dimension": shape.dimension,
        "rate": shape.quota_per_s,
        "burst": shape.burst_units,
    }
    with Rest(url) as rest:
        rest.call("POST", GROUPS, body={"name": GROUP, "limits": [limit]})
        rest.call("PUT", f"{TENANTS}/{tenant}", body={})
        rest.call("PUT", f"{NAMESPACES}/{tenant}/{namespace}", body={})
        for subject in ({"tenant": TENANT}, {"namespace": NAMESPACE}):
            rest.call(
                "PUT",
                ATTACHMENTS,
                body={"subject": subject, "group": GROUP},
            )


def _follow(
    children: Children,
    callers: Callers,
    plan: Script,
    live: LiveView,
    watcher: Watcher,
    *,
    url: str,
) -> None:
    """Kill and restart the victim on cue, and show the state meanwhile."""
    cues: list[tuple[float, Callable[[], None], str]] = [
        *((phase.begins_s, _nothing, _told(phase)) for phase in plan.phases),
    ]
    if (victim := plan.shape.victim) is not None:
        killed = f"kill -9 of {victim}: the others take over its share"
        cues.append((plan.killed_s, callers.kill, killed))
        back_s = plan.returns_s - CONNECT_S
        cues.append((back_s, callers.bring_back, f"{victim} returns"))
    cues.sort(key=lambda cue: cue[0])
    shown_s, next_s = callers.now_s, REFRESH_S
    callers.counted()
    while (now_s := callers.now_s) < plan.seconds:
        if cues and now_s >= cues[0][0]:
            _, act, line = cues.pop(0)
            act()
            watcher.tell(f"{now_s:5.1f} s  {line}")
        elif now_s >= next_s:
            children.check()
            sheet = _sheet(callers, plan, live, now_s, now_s - shown_s, url)
            watcher.show(sheet)
            shown_s, next_s = now_s, next_s + REFRESH_S
        until_s = min(next_s, cues[0][0] if cues else plan.seconds, plan.seconds)
        time.sleep(max(0.0, until_s - callers.now_s))


def _told(phase: Phase) -> str:
    return f"{phase.name}: {phase.story}"


def _nothing() -> None:
    """Do nothing, because the callers follow the script themselves."""


def _sheet(
    callers: Callers,
    plan: Script,
    live: LiveView,
    now_s: float,
    span_s: float,
    url: str,
) -> ShareTable:
    """Return the table: counts from the callers, share and level from the API."""
    known = live.use(GROUP, plan.shape.dimension)
    phase = plan.phase(now_s - span_s / 2)  # the phase that the figures belong to
    rows: list[ShareRow] = []
    for agent, (attempted, admitted) in callers.counted().items():
        told = known.agents.get(agent)
        rows.append(
            ShareRow(
                agent=agent,
                demand_per_s=attempted / span_s,
                share_per_s=told.share_per_s if told else None,
                admitted_per_s=admitted / span_s,
                refused_per_s=(attempted - admitted) / span_s,
                held_units=told.held_units if told else None,
                note="" if callers.is_running(agent) else "killed",
            )
        )
    return ShareTable(
        title=f"{now_s:5.1f} of {plan.seconds:.0f} s  {phase.name:<9}",
        quota=f"{plan.shape.quota_per_s:,.0f}/s",
        rows=tuple(rows),
        level_units=known.level_units,
        footer=f"web page {url}",
    )
