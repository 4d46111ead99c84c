"""What the demo's five callers ask for, and when one of them is killed.

Everything is a fraction of the run's length, so that a run of 20 s tells the same
story as one of a minute, rounded to whole seconds: fairness is judged second by
second, and a caller that is there for half of a second is due less than a second's
share.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

AGENTS = ("agent-1", "agent-2", "agent-3", "agent-4", "agent-5")
"""Ids of the agents; a killed one returns under its own."""

QUOTA_PER_S = 1000.0
"""Q: what all agents together may admit, requests/s."""

BURST_UNITS = 1000.0
"""B: what may pass at once after rest, requests."""

SHORTEST_S = 20.0
"""Below this the idle phase is too short to fill the bucket again."""

LONGEST_S = 600.0
"""Bounds the callers' logs, which are laid out in full before the run."""

DEFAULT_S = 60.0
"""Long enough to watch, short enough to wait for."""

_PHASES: tuple[tuple[str, float, tuple[float, ...], str], ...] = (
    (
        "skewed",
        0.00,
        (600, 150, 80, 40, 30),
        "90 % of the quota, most of it at agent-1: nothing should be refused",
    ),
    (
        "overload",
        0.15,
        (1000, 300, 120, 60, 40),
        "more than there is: agent-1 takes what the light ones leave, and no more",
    ),
    (
        "flipped",
        0.35,
        (40, 60, 120, 300, 1000),
        "the same turned round: the shares must follow",
    ),
    (
        "idle",
        0.55,
        (4, 4, 4, 4, 4),
        "nearly nothing: the bucket fills again",
    ),
    (
        "burst",
        0.64,
        (4, 4, 2500, 4, 4),
        "agent-3 wakes up: it may have the whole burst at once",
    ),
    (
        "threefold",
        0.68,
        (1200, 700, 500, 450, 150),
        "three times the quota: agent-5 gets its little, the others equal parts",
    ),
)
"""(name, begin as a fraction of the run, requests/s of each agent, what it is for)."""

FLIP = "flipped"
"""The phase whose beginning the settle time is counted from."""

VICTIM = "agent-2"
"""Killed while it has a full equal part of an overloaded quota."""

KILLED_AT, RETURNS_AT = 0.78, 0.83
"""Fractions of the run: the kill happens, and is over, inside ``threefold``."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of steady demand.

    Attributes:
        name: What the table calls it.
        begins_s: Seconds after the start of the run.
        ends_s: Seconds after the start of the run.
        demand_per_s: Requests/s of each of `AGENTS`.
        story: What it asks for, and what should come of it.
    """

    name: str
    begins_s: float
    ends_s: float
    demand_per_s: tuple[float, ...]
    story: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A run of `seconds`: its phases, and one crash.

    Attributes:
        seconds: Length of the run.
        phases: In order, without gaps, covering the whole run.
        killed_s: When `VICTIM` gets SIGKILL, seconds after the start.
        returns_s: When its callers are back, seconds after the start.
    """

    seconds: float
    phases: tuple[Phase, ...]
    killed_s: float
    returns_s: float

    def phase(self, at_s: float) -> Phase:
        """Return the phase that `at_s` lies in; the last one after the end."""
        for phase in self.phases:
            if at_s < phase.ends_s:
                return phase
        return self.phases[-1]

    @property
    def flip_s(self) -> float:
        """When the demand turns round, seconds after the start."""
        return next(p.begins_s for p in self.phases if p.name == FLIP)

    @property
    def settle_within_s(self) -> float:
        """How long there is to settle before the demand changes again, seconds."""
        return next(p.ends_s - p.begins_s for p in self.phases if p.name == FLIP)


def script(seconds: float) -> Script:
    """Return the demo of that length.

    Raises:
        ValueError: `seconds` is outside `SHORTEST_S` to `LONGEST_S`.
    """
    if not SHORTEST_S <= seconds <= LONGEST_S:
        message = (
            f"expected between {SHORTEST_S:.0f} and {LONGEST_S:.0f} seconds, "
            f"got {seconds:g}"
        )
        raise ValueError(message)
    begins = [_at(seconds, fraction) for _, fraction, _, _ in _PHASES]
    phases = tuple(
        Phase(name, begin, end, demand, story)
        for (name, _, demand, story), (begin, end) in zip(
            _PHASES, pairwise([*begins, seconds]), strict=True
        )
    )
    return Script(seconds, phases, _at(seconds, KILLED_AT), _at(seconds, RETURNS_AT))


def _at(seconds: float, fraction: float) -> float:
    return float(round(seconds * fraction))
