"""Liveness of agents, as the API sees it through their watch connections.

An agent that names itself in its watch is *present* while it waits or is about to
ask again.  When its connection breaks during a wait and no other follows within
`GRACE_S`, its process is gone: the kernel closes the sockets of a killed process, so
the other agents need not wait until they presume a silent one dead.  A host that
loses power breaks no connection, so nothing is reported about it.  Each process of
the API knows only the agents that ask *it*; one that has just started reports none.

A departure is reported at once, an arrival with the next news or within
`ARRIVALS_S`: that an agent is alive matters only after it has been silent for long.

Everything here runs on the one event loop.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

GRACE_S = 0.5
"""A connection that breaks and returns within this time was a fault of the network."""

RETURN_S = 5.0
"""How long an agent that was answered may take to ask again; then it is unknown."""

KEPT_GONE_S = 300.0
"""How long a departure is reported: longer than any agent presumes it alive."""

ARRIVALS_S = 5.0
"""Arrivals within this time are reported together: when a hundred agents start at once,
each watcher is answered once and not a hundred times."""

MAX_AGENTS = 10_000
"""Most agents tracked; the liveness of any further ones is not reported."""


@dataclass(slots=True)
class _Known:
    incarnation: int
    teller: str
    watches: int = 0
    gone: bool = False
    timer: asyncio.TimerHandle | None = None


class Presence:
    """Agents that are present or gone; `version` changes whenever either set does.

    Attributes:
        version: Number of this state; differs from the caller's whenever there is
            news, also after a restart of the server.
    """

    def __init__(self, stir: Callable[[], None]) -> None:
        """Start without any agent; `stir` is called when the version changes."""
        self.version = 0
        self._stir = stir
        self._known: dict[str, _Known] = {}
        self._arrivals: asyncio.TimerHandle | None = None

    def began(self, agent: str, incarnation: int, teller: str = "") -> bool:
        """A watch of `agent` begins, with a token named `teller`.

        Returns:
            Whether it counts, and its end must be reported: while an agent is known,
            only the token that first announced it may announce it again.
        """
        known = self._known.get(agent)
        if known is None:
            if len(self._known) >= MAX_AGENTS:
                return False
            known = self._known[agent] = _Known(incarnation, teller)
            self._arrived()
        elif teller != known.teller:
            return False  # another token's claim
        elif incarnation < known.incarnation and not known.gone:
            return False  # an earlier life's late request
        # Lives are numbered by the wall clock, which may have been set back since.
        if known.gone or incarnation > known.incarnation:
            known.gone = False
            self._changed()
        if incarnation != known.incarnation:
            known.incarnation, known.watches = incarnation, 0
        known.watches += 1
        self._plan(agent, known, None, 0.0)
        return True

    def ended(self, agent: str, incarnation: int, *, broken: bool) -> None:
        """A watch of `agent` ends, answered or `broken` by the other side."""
        known = self._known.get(agent)
        if known is None or incarnation != known.incarnation:
            return
        known.watches = max(0, known.watches - 1)
        if known.watches == 0 and not known.gone:
            after_s = GRACE_S if broken else RETURN_S
            self._plan(agent, known, self._lost if broken else self._forget, after_s)

    def told(self) -> dict[str, object]:
        """Return what watchers receive: the version, agents present, agents gone."""
        return {
            "version": self.version,
            "present": [
                {"agent": agent, "incarnation": known.incarnation}
                for agent, known in self._known.items()
                if not known.gone
            ],
            "gone": [
                {"agent": agent, "incarnation": known.incarnation}
                for agent, known in self._known.items()
                if known.gone
            ],
        }

    def _lost(self, agent: str) -> None:
        known = self._known[agent]
        known.gone = True
        self._changed()
        self._plan(agent, known, self._forget, KEPT_GONE_S)

    def _forget(self, agent: str) -> None:
        known = self._known.pop(agent)
        if not known.gone:  # it was reported as present
            self._changed()

    def _arrived(self) -> None:
        if self._arrivals is None:
            loop = asyncio.get_running_loop()
            self._arrivals = loop.call_later(ARRIVALS_S, self._changed)

    def _changed(self) -> None:
        if self._arrivals is not None:
            self._arrivals.cancel()
            self._arrivals = None
        self.version += 1
        self._stir()

    def _plan(
        self,
        agent: str,
        known: _Known,
        action: Callable[[str], None] | None,
        after_s: float,
    ) -> None:
        """Do `action` after a time, in place of what was planned before."""
        if known.timer is not None:
            known.timer.cancel()
        loop = asyncio.get_running_loop()
        known.timer = (
            None if action is None else loop.call_later(after_s, action, agent)
        )
