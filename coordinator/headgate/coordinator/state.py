"""The whole state of one agent's coordinator, which its parts share."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.escrow.holder import Strict
from headgate.coordinator.gossip.schedule import ReportSchedule
from headgate.coordinator.ledger.limits import Limits
from headgate.coordinator.membership.bootstrap import Bootstrap
from headgate.coordinator.membership.elsewhere import Elsewhere
from headgate.coordinator.membership.failure_detector import FailureDetector
from headgate.coordinator.membership.members import Members
from headgate.coordinator.table.index import Table

if TYPE_CHECKING:
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.table.arrays import Ints
    from headgate.coordinator.table.index import Key


class CoordinatorState:
    """One agent's state.

    Attributes:
        settings: Parameters.
        agent: Own id.
        incarnation: Own life.
        observing: Whether it only listens.
        limits: The limits of the configuration in force.
        table: All ledgers.
        local: The buckets of the shell's newest keys; None before the first tick.
        wall_s: The wall clock at this step; it decides calendar periods.
        appeared: Limits of which another agent's first row was heard; an observer asks.
        agents_told: How many agents there are according to the API, if it says.
        api_tells_by: By when the API's first word on levels should be here, monotonic
            seconds.
        bootstrap: Ledgers whose level is not known yet.
        elsewhere: When others were heard to use groups that this agent doesn't.
        schedule: Timers and the choice of rows.
        members: All other agents.
        detector: Which of them are silent or gone.
        strict: The strict ledgers.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        agent: str,
        incarnation: int,
        phase: float,
        now: float,
        observing: bool,
    ) -> None:
        self.settings = settings
        self.agent = agent
        self.incarnation = incarnation
        self.observing = observing
        self.limits = Limits()
        self.table = Table()
        self.local: LocalBuckets | None = None
        self.wall_s = 0.0
        self.appeared: set[Key] = set()
        self.agents_told: int | None = None
        self.api_tells_by = -inf
        self.bootstrap = Bootstrap()
        self.elsewhere = Elsewhere(settings.keyframe_every * settings.interval_s)
        self.schedule = ReportSchedule(settings, phase=phase, now=now)
        self.members = Members(settings, now)
        if observing:  # no report of its own comes back: nothing is known to be late
            self.members.least_lag_s = 0.0
        self.detector = FailureDetector(
            settings, self.table, self.members, now, observing=observing
        )
        self.strict = Strict(settings, self.table, self.members)
        self.strict.begin(agent, incarnation, now)

    @property
    def age_s(self) -> float:
        """Δ, seconds for which the others may not know of a change and use an old ρ."""
        return self.members.lag_s + self.settings.urgent_gap_s + self.settings.tick_s

    def owe_rows(self, numbers: Ints, at: float) -> None:
        """Plan to tell others about these ledgers, from some time on."""
        if self.local is not None and len(numbers):
            self.local.wanted |= np.isin(self.local.numbers, numbers)
            self.schedule.owe_rows(at, self.members.answer_gap_s())
