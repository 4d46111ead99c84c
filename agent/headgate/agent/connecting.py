"""`connect` makes an agent, one process's member of the cluster.

At the start the configuration comes from the API, or else from the last snapshot on
disk.  With neither, the policy ``without_configuration`` decides until the API
answers: *admit* (a quota service that is down should not take its users down) or
*refuse*.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import update_wrapper
from typing import TYPE_CHECKING, ParamSpec
from weakref import WeakSet

from headgate.agent.agent import Agent, Options
from headgate.agent.follow import snapshot_file
from headgate.agent.follow.certificates import trusting
from headgate.agent.settings import check_settings, check_url, checked_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from multiprocessing.util import Finalize

    from headgate.agent.json_place import Json
    from headgate.agent.settings import WithoutConfiguration

log = logging.getLogger("headgate.agent")

P = ParamSpec("P")

LAST_IN_CHILD = -100
"""Priority of closing at the end of a child of multiprocessing: after its queues were
written and its own children joined, which may still ask."""


def connect(
    url: str,
    *,
    agent: str | None = None,
    token: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    without_configuration: WithoutConfiguration = "admit",
    snapshot_path: str | os.PathLike[str] | None = None,
    keep_snapshot: bool = True,
    weight: float = 1.0,
    bus_options: Mapping[str, Json] | None = None,
    wait_s: float | None = None,
    strict: bool = False,
) -> Agent:
    """Join the cluster whose API is at `url`; doesn't fail because the API is down.

    Args:
        url: Such as ``http://127.0.0.1:8080``.
        agent: Id of this process, unique in the cluster; made from host and process id
            by default.  The same id after a restart lets the others recognise it.
        token: Bearer token of the role *agent*, when the API asks for one.
        ca_file: PEM file of the certificate authorities to trust when the API speaks
            TLS; the system's by default.
        without_configuration: ``admit`` or ``refuse`` every attempt until the first
            configuration arrives, if neither API nor disk has one.
        snapshot_path: File of the last snapshot; in the user's cache by default.  A
            user without a home keeps none.
        keep_snapshot: Whether to keep a snapshot on disk at all.
        weight: Of this agent relative to the others, when all of them want more.
        bus_options: Added to the bus options that the API names, such as a Kafka
            password or a ZeroMQ key.
        wait_s: Longest wait for the first configuration, even while the API is down.
            By default up to 3 s, but only until the API has failed once.  Then the
            snapshot on disk is used.  If there is none, the agent is returned without
            a configuration; it adopts what the API answers later.
        strict: Raise `NoLimitApplies` for an attempt that no limit counts (a subject
            that no group knows, a dimension without a limit, no cost at all), which is
            usually a typo.  By default it is admitted, counted and logged once.

    Raises:
        InvalidSetting: An argument is wrong; says which one, and what was expected.
            Also raised if gevent has replaced threads, and if something other than
            Headgate's API answers at `url`, or the API refuses the token, and there is
            no configuration on disk either.
    """
    check_url(url)
    asked = snapshot_path or (snapshot_file.default_path(url) if keep_snapshot else "")
    path = checked_path(asked) if asked else None
    if path is None and keep_snapshot:
        log.warning(
            "no snapshot is kept on disk: this user has no home; expected HOME,"
            " XDG_CACHE_HOME or connect(snapshot_path=…)"
        )
    options = Options(
        url=url,
        agent=_own_id() if agent is None else agent,
        token=token,
        trust=None if ca_file is None else trusting(ca_file),
        without_configuration=without_configuration,
        snapshot_path=path if keep_snapshot else None,
        weight=weight,
        bus_options=bus_options,
        wait_s=wait_s,
        strict=strict,
    )
    check_settings({f.name: getattr(options, f.name) for f in fields(options)})
    joined = Agent(options, on_start=_at_end_of_child, on_bus=_last_at_exit)
    _agents.add(joined)
    return joined


class _Joining:
    """An agent that is made in another thread, and that nobody may want any more."""

    def __init__(self, connect: Callable[[], Agent]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._joined: Agent | None = None
        self._abandoned = False

    def join(self) -> Agent:
        """Make the agent; it is closed at once if it was abandoned meanwhile."""
        joined = self._connect()
        with self._lock:
            self._joined = joined
            abandoned = self._abandoned
        if abandoned:
            joined.close()
        return joined

    def abandon(self) -> None:
        """Close the agent once it is there, in a thread that may wait for that."""
        with self._lock:
            self._abandoned = True
            joined = self._joined
        if joined is not None:
            threading.Thread(target=joined.close, name="headgate-closing").start()


def _for_an_event_loop(
    connect: Callable[P, Agent],
) -> Callable[P, AbstractAsyncContextManager[Agent]]:
    """Return `connect` as an asynchronous context, with the same signature."""

    @asynccontextmanager
    async def connect_async(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Agent]:
        """Join as `connect` does, without blocking the event loop; leave at the end.

        If it is cancelled while it joins, it leaves as soon as it has joined.

        Arguments and errors are those of `connect`.
        """
        import asyncio  # late: a process without an event loop never needs it

        joining = _Joining(lambda: connect(*args, **kwargs))
        try:
            joined = await asyncio.to_thread(joining.join)
        except BaseException:  # cancelled: the thread goes on, and joins
            joining.abandon()
            raise
        try:
            yield joined
        finally:
            await asyncio.to_thread(joined.close)

    return update_wrapper(connect_async, connect, assigned=("__module__",))


connect_async = _for_an_event_loop(connect)


def _own_id() -> str:
    """Return an id that no other process has: host, process id, random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(2).hex()}"


_agents: WeakSet[Agent] = WeakSet()
"""Agents of this process, to be closed at exit and restarted after a fork."""


def _close_all() -> None:
    """Leave the cluster at the end of the process."""
    for agent in list(_agents):
        agent.close()


def _last_at_exit() -> None:
    """Make `_close_all` run before the exit handlers that a bus registered.

    The leave report needs the bus, and handlers run in reverse order.
    """
    atexit.unregister(_close_all)
    atexit.register(_close_all)


_ending: list[Finalize] = []
"""What runs `_close_all` in a child of multiprocessing; one at most."""


def _at_end_of_child() -> None:
    """Make `_close_all` run where exit handlers don't: in a child of multiprocessing.

    A child that is forked forgets what was registered before it began to run.
    """
    if "multiprocessing.util" in sys.modules:
        from multiprocessing.util import Finalize

        while _ending:
            _ending.pop().cancel()
        _ending.append(Finalize(None, _close_all, exitpriority=LAST_IN_CHILD))


def _after_fork() -> None:
    """Prepare each agent of a forked child to start afresh."""
    for agent in list(_agents):
        agent.prepare_after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
