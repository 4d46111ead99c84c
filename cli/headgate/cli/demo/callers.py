"""The demo's five callers as processes: start, tell the time, kill, bring back."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headgate.cli.demo.caller import PREPARED, READY
from headgate.cli.demo.callerlog import LogTail, read_log
from headgate.cli.demo.summary import Attempts
from headgate.cli.process.children import Child, ChildFailed, Children

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.cli.demo.script import Script

READY_TIMEOUT_S = 60.0
"""Time to import, connect and fetch a configuration, five at once on a busy machine."""

END_TIMEOUT_S = 10.0
"""From the end of the script to the end of the process: time for a leave report."""

STARTED_FILE = "started_ns"
"""Holds the run's beginning on the machine's monotonic clock, for kept logs."""

CONNECT_S = 0.5
"""A process connects this long before it takes requests, like a service that is ready
before it gets traffic."""

LEAD_S = 0.1
"""How far ahead the start is set: enough for all callers to hear of it, and no longer,
because agents of a group without a past begin with a full bucket."""


@dataclass(frozen=True, slots=True)
class _Life:
    """One process of an agent, and its log."""

    agent: str
    child: Child
    log: Path


class Callers:
    """All callers of one run, and the logs of all their lives."""

    def __init__(
        self, children: Children, plan: Script, *, url: str, directory: Path, seed: int
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            children: Starts and stops their processes.
            plan: What they do.
            url: Address of the API.
            directory: For their logs; must exist.
            seed: Seed of all their random numbers.
        """
        self._children = children
        self._plan = plan
        self._url = url
        self._directory = directory
        self._seed = seed
        self._running: dict[str, Child] = {}
        self._lives: dict[str, list[Path]] = {agent: [] for agent in plan.shape.agents}
        self._tails: dict[str, LogTail] = {}
        self._standby: _Life | None = None
        self._started_ns = 0

    def start(self) -> None:
        """Start all, wait until each is ready, and set the common time.

        A second life of the shape's victim is prepared as well, because a process takes
        seconds to start on a busy machine, and the script fixes how long it is away.

        Raises:
            ChildFailed: One did not get ready.
        """
        shape = self._plan.shape
        first = [self._launch(agent) for agent in shape.agents]
        if shape.victim is not None:
            self._standby = self._launch(shape.victim)
        for life in first:
            _await(life.child, PREPARED)
        for life in first:
            self._enter(life)
        for life in first:
            _await(life.child, READY)
        if self._standby is not None:
            _await(self._standby.child, PREPARED)
        self._started_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
        (self._directory / STARTED_FILE).write_text(f"{self._started_ns}\n")
        for life in first:
            life.child.tell(f"{self._started_ns} 0")

    @property
    def now_s(self) -> float:
        """Seconds since the run began; below zero until it does."""
        return (time.monotonic_ns() - self._started_ns) / 1e9

    def kill(self) -> None:
        """End the victim with SIGKILL: no leave, no last report."""
        assert self._plan.shape.victim is not None, "the script has a crash"
        self._children.forget(self._running.pop(self._plan.shape.victim))

    def bring_back(self) -> None:
        """Connect a new process under the victim's id; return at once.

        Call this `CONNECT_S` before its callers are due back.
        """
        assert self._standby is not None, "it is prepared at the start"
        self._enter(self._standby)
        self._standby.child.tell(f"{self._started_ns} {self._plan.returns_s}")
        self._standby = None

    def is_running(self, agent: str) -> bool:
        """Return whether the agent is alive according to the script."""
        return agent in self._running

    def counted(self) -> dict[str, tuple[int, int]]:
        """Return (attempted, admitted) of each agent since the last call."""
        return {
            agent: self._tails[agent].advance() for agent in self._plan.shape.agents
        }

    def await_end(self) -> None:
        """Wait until all have ended by themselves.

        Raises:
            ChildFailed: One ended badly, or not at all.
        """
        deadline = time.monotonic() + END_TIMEOUT_S
        for agent, child in self._running.items():
            if not child.wait(max(0.0, deadline - time.monotonic())):
                raise ChildFailed(
                    f"{agent} is still running {END_TIMEOUT_S:g} s after the end"
                )
            if child.returncode:
                raise ChildFailed(child.epitaph())

    def attempts(self) -> dict[str, Attempts]:
        """Return what each agent's callers tried and got in all its lives."""
        return {agent: self._attempts(agent) for agent in self._plan.shape.agents}

    def _attempts(self, agent: str) -> Attempts:
        # Lives of one agent follow one another: joined, they are in order of time.
        records = np.concatenate([read_log(path) for path in self._lives[agent]])
        return Attempts(
            (records["at_ns"] - self._started_ns) / 1e9,
            records["spent_ns"] / 1e9,
            records["admitted"].astype(np.bool_),
            records["cost"].astype(np.float64),
        )

    def _launch(self, agent: str) -> _Life:
        """Start a process that only prepares itself."""
        number = len(self._lives[agent])
        place = 100 * self._plan.shape.agents.index(agent)
        log = self._directory / f"{agent}.{number}.log"
        home = self._directory / agent
        home.mkdir(exist_ok=True)
        options = {
            "--url": self._url,
            "--agent": agent,
            "--shape": self._plan.shape.name,
            "--seconds": f"{self._plan.seconds!r}",
            "--seed": f"{self._seed + place + number}",
            "--log": str(log),
            "--directory": str(home),
        }
        command = [sys.executable, "-m", "headgate.cli.demo.caller"]
        for name, value in options.items():
            command += [name, value]
        child = self._children.start(
            agent, command, log=self._directory / f"{agent}.stderr"
        )
        self._lives[agent].append(log)
        return _Life(agent, child, log)

    def _enter(self, life: _Life) -> None:
        """Let a prepared process connect."""
        life.child.tell("connect")
        self._running[life.agent] = life.child
        self._tails[life.agent] = LogTail(life.log)


def _await(child: Child, word: str) -> None:
    line = child.line(READY_TIMEOUT_S)
    if line != word:
        raise ChildFailed(f"{child.name} said {line!r}, expected {word!r}")
