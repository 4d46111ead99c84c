"""An agent: one process's part in the cluster, its threads behind one object.

No caller ever waits for an agent's threads: one balances
(`headgate.agent.runtime`), one follows the configuration
(`headgate.agent.follow.watch`), and a bus may have some of its own.

**Fork.**  Threads don't survive a fork.  A forked child gets an agent of its own,
with its own id, started at the child's first attempt: children that never ask for
tokens cost the cluster nothing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import nan
from time import monotonic
from typing import TYPE_CHECKING, Self, Unpack

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import AgentClosed, HeadgateError, InvalidSetting
from headgate.agent.follow.claims import Claims
from headgate.agent.follow.liveness import LivenessFeed
from headgate.agent.follow.stored_levels import restored
from headgate.agent.follow.watch import ConfigurationWatch, Source
from headgate.agent.runtime import Runtime, RuntimeOptions
from headgate.agent.settings import check_threads

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headgate.agent.bucket.local import Usage
    from headgate.agent.follow.policies import DispatchOptions
    from headgate.agent.follow.snapshot import Snapshot
    from headgate.agent.follow.subject import SubjectNames
    from headgate.agent.json_place import Json
    from headgate.agent.limiter.dispatch import Dispatcher
    from headgate.agent.limiter.limiter import Limiter
    from headgate.agent.settings import WithoutConfiguration
    from headgate.coordinator import Explanation, MemberView

log = logging.getLogger("headgate.agent")

MEET_S = 1.0
"""Longest time that `connect` waits for the answers of the other agents."""

FIRST_CONFIGURATION_S = 3.0
"""Longest time that `connect` waits for the API, and then uses the snapshot on disk; a
refused connection ends it sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of an agent; see `connect`.

    Attributes:
        url: Address of the API.
        agent: Id, unique in the cluster.
        token: Bearer token of the role *agent*, if the API requires one.
        trust: Certificate authorities to trust; None for the system's.
        without_configuration: What happens to attempts before the first configuration.
        snapshot_path: Where the last snapshot is kept, None for nowhere.
        weight: Of this agent among all, > 0.
        bus_options: Secrets and other options of the bus for this process.
        wait_s: Longest wait for the first configuration; None for the default.
        strict: Raise for attempts that no limit counts.
    """

    url: str
    agent: str
    token: str | None = field(default=None, repr=False)
    trust: ssl.SSLContext | None = None
    without_configuration: WithoutConfiguration = "admit"
    snapshot_path: Path | None = None
    weight: float = 1.0
    bus_options: Mapping[str, Json] | None = field(default=None, repr=False)
    wait_s: float | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """The state of an agent.

    Attributes:
        agent: Its id.
        incarnation: Number of this life of the agent; each start has a larger one.
        revision: Revision of the configuration in force; None before the first.
        source: Where that came from.
        api_reachable: Whether the API answered the last request.
        bus: Kind of the bus, None without one.
        lag_s: Seconds until this agent's own report comes back to it.
        members: All agents that this one knows.
        alive: Whether its thread is running.
        reads: Partitions of the bus that it reads: those of the groups it uses, and
            partition 0, which carries everyone's heartbeats.  Only 0 where reports
            are not split.
    """

    agent: str
    incarnation: int
    revision: int | None
    source: Source
    api_reachable: bool
    bus: str | None
    lag_s: float
    members: tuple[MemberView, ...]
    alive: bool
    reads: tuple[int, ...] = ()


class Agent:
    """One process's member of the cluster; made by `connect`."""

    def __init__(
        self,
        options: Options,
        *,
        on_start: Callable[[], None] = lambda: None,
        on_bus: Callable[[], None] | None = None,
    ) -> None:
        """Start.

        Args:
            options: Its settings.
            on_start: Called when it starts, also in a forked child.
            on_bus: Called in the agent's thread once a bus is open.
        """
        self._options = options
        self._on_start = on_start
        self._on_bus = on_bus
        self._closed = False
        self._starting = threading.Lock()
        self._parents: list[tuple[Runtime, ConfigurationWatch]] = []
        self._inherited = False
        self._enforcer = Enforcer(
            clock=monotonic,
            seed=int.from_bytes(os.urandom(7)),
            without_configuration=options.without_configuration,
            strict=options.strict,
        )
        try:
            self._start()
        except BaseException:  # nobody gets this agent, and nobody could close it
            if hasattr(self, "_watch"):  # else nothing was started
                self.close()
            raise

    @property
    def id(self) -> str:
        """Id of this agent; a fork, or another process with the same id, changes it."""
        return self._runtime.agent

    def limiter(self, **names: Unpack[SubjectNames]) -> Limiter:
        """Return the limiter of a subject; make it once and keep it.

        Args:
            names: Who asks: any of ``tenant``, ``namespace``, ``topic``,
                ``subscription``, ``user`` and ``client``; see `SubjectNames`.

        Raises:
            InvalidSubject: A name can't be resolved, or contradicts another.
            AgentClosed: The agent was closed.
        """
        self._check_open()
        return self._enforcer.limiter(**names)

    def dispatcher(
        self, *, topic: str, subscription: str | None = None, client: str | None = None
    ) -> Dispatcher:
        """Return the dispatcher of a topic or subscription: how much of it may be read.

        Args:
            topic: ``persistent://tenant/namespace/name``.
            subscription: Name of a subscription.
            client: Client id of the consumer.

        Raises:
            InvalidSubject: A name can't be resolved.
            AgentClosed: The agent was closed.
        """
        limiter = self.limiter(topic=topic, subscription=subscription, client=client)
        return self._enforcer.dispatcher(limiter)

    @property
    def dispatch_options(self) -> DispatchOptions:
        """How dispatch is counted at present, according to the configuration."""
        return self._enforcer.dispatch_options

    def status(self) -> AgentStatus:
        """Return the state of this agent."""
        self._revive()
        runtime, watch = self._runtime, self._watch
        snapshot, bus = runtime.snapshot, runtime.bus
        settings = snapshot.bus if snapshot is not None else None
        return AgentStatus(
            agent=runtime.agent,
            incarnation=runtime.incarnation,
            revision=None if snapshot is None else snapshot.configuration.revision,
            source=watch.source,
            api_reachable=watch.api_reachable,
            bus=None if settings is None else settings.kind,
            lag_s=0.0 if bus is None else bus.lag(),
            members=tuple(runtime.members()),
            alive=runtime.alive,
            reads=tuple(sorted(runtime.reads)),
        )

    def explain(self, group: str, dimension: str) -> Explanation:
        """Return this agent's share of a limit with all its inputs and formulas.

        Args:
            group: Name of the group; ``template[value]`` for a value of a template.
            dimension: What the limit counts.

        Raises:
            HeadgateError: This process does not use such a limit, or began to less than
                0.1 s ago and its agent hasn't looked yet.
        """
        self._revive()
        group_id = self._enforcer.group_id(group)
        if group_id is not None:
            with suppress(KeyError):
                return self._runtime.explain(group_id, dimension)
        raise HeadgateError(
            f"this process doesn't use a limit on {dimension!r} of group {group!r} "
            "yet; make a limiter for a subject attached to it, and ask 0.1 s later"
        )

    def metrics(self) -> dict[str, float]:
        """Return all counters and sizes, by name."""
        self._revive()
        runtime, watch = self._runtime, self._watch
        named = Counter[str]()
        named.update({f"agent_{k}": n for k, n in runtime.counters.copy().items()})
        named.update({f"watch_{k}": n for k, n in watch.counters.copy().items()})
        bus = runtime.bus
        if bus is not None:
            named.update({f"bus_{k}": n for k, n in dict(bus.counters).items()})
        return {
            **self._enforcer.metrics(),
            **named,
            "api_reachable": float(watch.api_reachable),
            "bus_open": float(bus is not None),
            "bus_lag_s": 0.0 if bus is None else bus.lag(),
        }

    def usage(self) -> list[Usage]:
        """Return the counters and tokens of each limit in force in this process."""
        self._revive()
        return self._enforcer.usage(monotonic())

    def close(self) -> None:
        """Leave the cluster.  Calling it again, or at process exit, does nothing.

        Limiters that callers still hold keep their last rate until its deadline, and
        after that the rate that a partitioned agent may spend.  Slots in flight are
        refused from then on, also to callers that wait for one.
        """
        if self._closed:
            return
        self._closed = True
        # Before the others hear that this agent is gone, and take its slots.
        self._enforcer.close()
        if not self._inherited:  # otherwise the threads and locks are the parent's
            self._watch.close()
            self._runtime.close()
            self._claims.close()  # the runtime asks no more by then

    def prepare_after_fork(self) -> None:
        """Prepare a forked child for its first attempt; called in the child."""
        # Kept, not closed: sockets and threads belong to the parent process.
        self._parents.append((self._runtime, self._watch))
        self._inherited = True
        self._starting = threading.Lock()
        own = f"{self._options.agent}-{os.getpid()}"
        self._options = replace(self._options, agent=own, wait_s=0.0)
        self._enforcer.start_anew(self._revive)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self, snapshot: Snapshot) -> None:
        """Take a configuration from the watch; from any thread."""
        self._runtime.follow(snapshot, kept=self._watch.source == "disk")

    def _start(self) -> None:
        """Start the threads, and wait a little for the first configuration."""
        check_threads()
        options = self._options
        runtime = Runtime(
            self._enforcer,
            RuntimeOptions(
                agent=options.agent,
                weight=options.weight,
                bus_options=options.bus_options,
            ),
            on_bus=self._on_bus,
            claim=lambda claim: self._claims.ask(claim),
        )
        self._claims = Claims(
            options.url, runtime.vouch, headers=_headers(options), trust=options.trust
        )
        watch = ConfigurationWatch(
            options.url,
            self._follow,
            path=options.snapshot_path,
            headers=_headers(options),
            trust=options.trust,
            vouching=LivenessFeed(runtime.identity, runtime.vouch),
            restore=runtime.vouch,
        )
        self._runtime, self._watch = runtime, watch
        self._enforcer.use_of = self._use_of
        self._enforcer.first_terms = runtime.first_terms
        self._enforcer.share_levels(self._level_of)
        inherited = self._parents[-1][0].snapshot if self._parents else None
        if inherited is not None:
            runtime.follow(inherited, kept=True)
        debts = self._enforcer.inherited_debts(monotonic())
        for levels in restored((*debt, nan, None) for debt in debts):
            runtime.vouch(levels)
        self._on_start()
        runtime.start()
        watch.start()
        if options.wait_s is None:
            watch.decided.wait(FIRST_CONFIGURATION_S)
        else:
            watch.settled.wait(options.wait_s)
        if inherited is None:
            watch.use_disk()
        if watch.source != "none":
            runtime.following.wait(
                FIRST_CONFIGURATION_S if options.wait_s is None else options.wait_s
            )
            if runtime.bus is not None and options.wait_s != 0.0:
                # Then callers may use all that nobody else needs from the first request
                # on, not only the tenth that is safe for one agent of many.
                runtime.met.wait(MEET_S)
        elif watch.wrong_setting and not self._parents:
            raise InvalidSetting(watch.wrong_setting)

    def _use_of(self, group_id: int, dimension: str) -> float | None:
        """Return the units/s that all agents attempt under a limit; None if unknown."""
        try:
            ledger = self._runtime.explain(group_id, dimension)
        except KeyError:
            return None
        return sum(row.attempted for row in ledger.agents)

    def _level_of(
        self, group_id: int, dimension: str
    ) -> tuple[float, float, float] | None:
        """Return how much of a limit is left across the cluster; None if unknown.

        Returns:
            Units left, the units/s that the other agents take, and the units admitted
            here that are already taken off.
        """
        try:
            ledger = self._runtime.explain(group_id, dimension)
        except KeyError:
            return None
        rows = {row.agent: row for row in ledger.agents}
        own = rows.pop(self._runtime.agent, None)
        if own is None:
            return None
        others_per_s = sum(min(row.demand, row.share) for row in rows.values())
        return ledger.level, others_per_s, own.admitted

    def _check_open(self) -> None:
        """Raise once the agent is closed."""
        if self._closed:
            raise AgentClosed("the agent is closed; call connect() to make a new one")

    def _revive(self) -> None:
        """Start a forked child's own agent, at its first use."""
        if not self._inherited:
            return
        with self._starting:
            if self._inherited and not self._closed:
                self._start()
                self._inherited = False
                log.info("forked: this process is agent %s", self._options.agent)


def _headers(options: Options) -> dict[str, str]:
    """Return the headers of every request to the API."""
    headers = {"Headgate-Agent": options.agent, "Accept": "application/json"}
    if options.token:
        headers["Authorization"] = f"Bearer {options.token}"
    return headers
