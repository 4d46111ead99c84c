"""What the demo's callers ask for, and when one of them is killed.

A *shape* is a kind of load: many requests of one unit, or few and large ones.
Everything in it is a fraction of the run's length, so that a run of 20 s tells the
same story as one of a minute, rounded to whole seconds: fairness is judged second by
second, and a caller that is present for half a second is due less than a second's
share.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

AGENTS = ("agent-1", "agent-2", "agent-3", "agent-4", "agent-5")
"""Ids of the agents of the usual shape; a killed one returns under its own."""

GATEWAYS = ("gateway-1", "gateway-2", "gateway-3", "gateway-4")
"""Ids of the agents in front of a language model."""

QUOTA_PER_S = 1000.0
"""Q of the usual shape: what all agents together may admit, requests/s."""

BURST_UNITS = 1000.0
"""B of the usual shape: what may pass at once after a quiet time, requests."""

SHORTEST_S = 20.0
"""Below this the idle phase is too short to fill the bucket again."""

SHORTEST_OF_LARGE_S = 60.0
"""Below this so few large requests are admitted that chance decides the total."""

LONGEST_S = 600.0
"""Bounds the callers' logs, which are laid out in full before the run."""

DEFAULT_S = 60.0
"""Long enough to watch, short enough to wait for."""

FLIP = "flipped"
"""The phase whose beginning the settle time is counted from."""

VICTIM = "agent-2"
"""The agent that is killed while it has a full equal part of an overloaded quota."""

KILLED_AT, RETURNS_AT = 0.78, 0.83
"""Fractions of the run: the kill happens, and is over, inside ``threefold``."""


@dataclass(frozen=True, slots=True)
class Act:
    """A stretch of steady demand, as a part of a run of any length.

    Attributes:
        name: What the table calls it.
        begins: Fraction of the run.
        demand_per_s: Units/s of each agent.
        story: What it asks for, and what should happen.
    """

    name: str
    begins: float
    demand_per_s: tuple[float, ...]
    story: str


@dataclass(frozen=True, slots=True)
class LoadShape:
    """A kind of load and the quota that it meets.

    Attributes:
        name: What ``--shape`` calls it.
        agents: Their ids.
        dimension: What the quota counts.
        quota_per_s: Q, units/s.
        burst_units: B, units.
        costs: Least and most units of one request; small ones are more frequent
            than large ones (the logarithm is uniform).
        acts: What is asked for, from the beginning of the run to its end.
        victim: The agent that is killed and returns, if any.
    """

    name: str
    agents: tuple[str, ...]
    dimension: str
    quota_per_s: float
    burst_units: float
    costs: tuple[int, int]
    acts: tuple[Act, ...]
    victim: str | None

    @property
    def mean_cost(self) -> float:
        """Units of the average request."""
        least, most = self.costs
        return float(least) if least == most else (most - least) / log(most / least)

    @property
    def small(self) -> bool:
        """Whether requests are so small that each second can be judged."""
        return self.costs[1] <= 0.01 * self.quota_per_s

    def draw_cost(self, random: Random) -> int:
        """Return the units of the next request."""
        least, most = self.costs
        if least == most:
            return least
        return round(least * exp(random.random() * log(most / least)))


REQUESTS = LoadShape(
    name="requests",
    agents=AGENTS,
    dimension="requests",
    quota_per_s=QUOTA_PER_S,
    burst_units=BURST_UNITS,
    costs=(1, 1),
    victim=VICTIM,
    acts=(
        Act(
            "skewed",
            0.00,
            (600, 150, 80, 40, 30),
            "90 % of the quota, most of it at agent-1: nothing should be refused",
        ),
        Act(
            "overload",
            0.15,
            (1000, 300, 120, 60, 40),
            "more than the quota: agent-1 gets what the others leave",
        ),
        Act(
            FLIP,
            0.35,
            (40, 60, 120, 300, 1000),
            "the same, reversed: the shares must follow",
        ),
        Act(
            "idle",
            0.55,
            (4, 4, 4, 4, 4),
            "almost nothing: the bucket refills",
        ),
        Act(
            "burst",
            0.64,
            (4, 4, 2500, 4, 4),
            "agent-3 wakes up: it may use the whole burst at once",
        ),
        Act(
            "threefold",
            0.68,
            (1200, 700, 500, 450, 150),
            "three times the quota: agent-5 gets all it wants, the others equal parts",
        ),
    ),
)
"""Many small requests: a service."""

TOKENS = LoadShape(
    name="tokens",
    agents=GATEWAYS,
    dimension="tokens",
    quota_per_s=2_000.0,
    burst_units=20_000.0,
    costs=(500, 8_000),
    victim=None,
    acts=(
        Act(
            "from rest",
            0.00,
            (3000, 1500, 1000, 500),
            "three times the quota on a full bucket: the burst is available at once",
        ),
        Act(
            "skewed",
            0.25,
            (3000, 600, 300, 100),
            "twice the quota, most of it at gateway-1",
        ),
        Act(
            "one alone",
            0.50,
            (0, 4000, 0, 0),
            "only gateway-2, with twice the quota: it may have all of it",
        ),
        Act(
            "alike",
            0.75,
            (1500, 1500, 1500, 1500),
            "three times the quota, in equal parts",
        ),
    ),
)
"""Few large requests: language models, whose prompts cost thousands of tokens."""

SHAPES = {shape.name: shape for shape in (REQUESTS, TOKENS)}
"""By the name that ``--shape`` takes."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of steady demand.

    Attributes:
        name: What the table calls it.
        begins_s: Seconds after the start of the run.
        ends_s: Seconds after the start of the run.
        demand_per_s: Units/s of each agent.
        story: What it asks for, and what should happen.
    """

    name: str
    begins_s: float
    ends_s: float
    demand_per_s: tuple[float, ...]
    story: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A run of `seconds`: its phases, and perhaps one crash.

    Attributes:
        seconds: Length of the run.
        phases: In order, without gaps, covering the whole run.
        killed_s: When the shape's victim gets SIGKILL, seconds after the start;
            after the end if it has none.
        returns_s: When its callers are back, seconds after the start.
        shape: The kind of load.
    """

    seconds: float
    phases: tuple[Phase, ...]
    killed_s: float
    returns_s: float
    shape: LoadShape = REQUESTS

    def phase(self, at_s: float) -> Phase:
        """Return the phase that `at_s` lies in; the last one after the end."""
        for phase in self.phases:
            if at_s < phase.ends_s:
                return phase
        return self.phases[-1]

    @property
    def flip(self) -> Phase | None:
        """The phase that begins when the demand is reversed, if there is one."""
        return next((p for p in self.phases if p.name == FLIP), None)


def script(seconds: float, shape: LoadShape = REQUESTS) -> Script:
    """Return the demo of that length and shape.

    Raises:
        ValueError: `seconds` is shorter than the shape allows, or longer than
            `LONGEST_S`.
    """
    shortest_s = SHORTEST_S if shape.small else SHORTEST_OF_LARGE_S
    if not shortest_s <= seconds <= LONGEST_S:
        message = (
            f"expected between {shortest_s:.0f} and {LONGEST_S:.0f} seconds, "
            f"got {seconds:g}"
        )
        raise ValueError(message)
    begins = [_at(seconds, act.begins) for act in shape.acts]
    phases = tuple(
        Phase(act.name, begin, end, act.demand_per_s, act.story)
        for act, (begin, end) in zip(
            shape.acts, pairwise([*begins, seconds]), strict=True
        )
    )
    return Script(
        seconds, phases, _at(seconds, KILLED_AT), _at(seconds, RETURNS_AT), shape
    )


def _at(seconds: float, fraction: float) -> float:
    return float(round(seconds * fraction))
