"""The participants of a strict limit: each id's newest life, and whether it ended."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from headgate.coordinator.messages.report import AgentLife, KnownLife

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

NOBODY = AgentLife("", 0)
"""The giver of minted permits."""

SILENT = KnownLife(0, NOBODY)
"""What an unknown id has said of itself."""

Newest = tuple[int, bool]
"""An incarnation, and whether it is over; such pairs only grow."""

NEVER: Newest = (-1, False)
"""That of an unknown id."""

END_TOLD_S = 7200.0
"""How long the end of a life is reported, unless a permit names it: ids are often new
with each start, so ends pile up, and nothing that it sent is on its way any more."""

END_NEEDED_S = 3600.0
"""How long others must know of an end before they count as agreeing: less than it is
reported, so that clocks may differ."""

ENDS_MAX = 4096
"""Most ends that are remembered; the oldest are forgotten first."""

SIGHTINGS_MAX = 10_000
"""Most ids whose last report is remembered; the oldest are forgotten first."""


class View:
    """The newest life of each id that takes part; it and its `version` only grow."""

    def __init__(self) -> None:
        self.version = 0
        self._newest: dict[str, Newest] = {}
        self._ended_at: dict[str, float] = {}
        self._living: list[AgentLife] | None = None

    def learn(self, life: AgentLife, *, over: bool, now: float) -> bool:
        """Note that a life takes part, or is over; return whether that is news."""
        newest = (life.incarnation, over)
        if newest <= self._newest.get(life.agent, NEVER):
            return False
        self._newest[life.agent] = newest
        self._ended_at.pop(life.agent, None)
        if over:
            self._ended_at[life.agent] = now
            if len(self._ended_at) > ENDS_MAX:
                oldest = next(iter(self._ended_at))
                del self._ended_at[oldest], self._newest[oldest]
        self.version += 1
        self._living = None
        return True

    def end_before(self, life: AgentLife, now: float) -> None:
        """Note that a newer life of an id was seen, which may not take part."""
        incarnation, _ = self._newest.get(life.agent, NEVER)
        if 0 <= incarnation < life.incarnation:
            self.learn(AgentLife(life.agent, incarnation), over=True, now=now)

    def is_over(self, life: AgentLife) -> bool:
        """Return whether a life is known to have ended."""
        return (life.incarnation, False) < self._newest.get(life.agent, NEVER)

    def is_gone(self, agent: str) -> bool:
        """Return whether the newest life of an id has ended, and no other is known."""
        return self._newest.get(agent, NEVER)[1]

    def knows(self, agent: str) -> bool:
        """Return whether an id is known."""
        return agent in self._newest

    def living(self) -> list[AgentLife]:
        """Return the lives that may go on, by id; callers must not change the list."""
        if self._living is None:
            self._living = sorted(
                AgentLife(agent, incarnation)
                for agent, (incarnation, over) in self._newest.items()
                if not over
            )
        return self._living

    def known(
        self, now: float, ended_s: float, named: Container[str] = ()
    ) -> Iterator[tuple[str, Newest]]:
        """Yield all ids but those that ended longer ago and that no permit names."""
        for agent, newest in self._newest.items():
            over = newest[1]
            if not over or now - self._ended_at[agent] <= ended_s or agent in named:
                yield agent, newest


@dataclass(slots=True)
class Word:
    """What the newest life of one id has told.

    Attributes:
        said: What it said of itself last.
        covers: The version of this agent's view that its view covers; −1 if it is
            smaller, or if no keyframe has arrived.
        twin_at: When it heard an earlier life of *this* agent's id.
    """

    said: KnownLife = SILENT
    covers: int = -1
    twin_at: float = -inf


NO_WORD = Word()
"""That of an unknown id."""

UNHEARD = -1, -inf, -inf
"""Of an unknown id: an incarnation, when it was last heard, and when an earlier was."""


class Sightings:
    """When the newest life of each id, and an earlier one, were heard."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, float, float]] = {}

    def note(self, life: AgentLife, now: float) -> bool:
        """Note a report; return whether it is the first of a newer life."""
        incarnation, heard_at, earlier_at = self._of.get(life.agent, UNHEARD)
        if life.incarnation < incarnation:
            self._of[life.agent] = incarnation, heard_at, now
            return False
        newer = life.incarnation > incarnation
        self._of.pop(life.agent, None)  # the newest last
        self._of[life.agent] = life.incarnation, now, heard_at if newer else earlier_at
        if len(self._of) > SIGHTINGS_MAX:
            del self._of[next(iter(self._of))]
        return newer

    def heard_at(self, life: AgentLife) -> float:
        """Return when a life was last heard; −∞ if it is not the newest."""
        incarnation, heard_at, _ = self._of.get(life.agent, UNHEARD)
        return heard_at if incarnation == life.incarnation else -inf

    def earlier_at(self, agent: str) -> float:
        """Return when an earlier life of an id was last heard."""
        return self._of.get(agent, UNHEARD)[2]
