"""What the parts of a coordinator share: one agent's whole state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.coordinator.allocation.hierarchy import Tree
from headgate.coordinator.escrow.holder import Strict
from headgate.coordinator.gossip.receiver import Listening
from headgate.coordinator.gossip.schedule import Reporting
from headgate.coordinator.ledger.limits import Limits
from headgate.coordinator.membership.bootstrap import Joining
from headgate.coordinator.table.index import Table

if TYPE_CHECKING:
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.demand.local_buckets import Own


class Core:
    """One agent's state.

    Attributes:
        settings: Parameters.
        agent: Own id.
        incarnation: Own life.
        observing: Only listens.
        limits: Of the revision that is followed.
        tree: Of these limits.
        table: All ledgers.
        own: The buckets of the shell's newest keys; None before the first tick.
        placed: Version of the table that `own` was looked up in.
        wall_s: The wall clock at this step; calendar periods go by it.
        agents_told: How many agents there are, as the API says; None: it does not.
        joining: Ledgers whose level is asked for.
        reporting: Timers and the choice of rows.
        listening: What reports do.
        members: All others.
        attendance: Who of them is silent or gone.
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
        self.tree = Tree(self.limits)
        self.table = Table()
        self.own: Own | None = None
        self.placed = -1
        self.wall_s = 0.0
        self.agents_told: int | None = None
        self.joining = Joining()
        self.reporting = Reporting(settings, phase=phase, now=now)
        self.listening = Listening(
            settings, self.table, self.joining, now, observing=observing
        )
        self.members = self.listening.members
        self.attendance = self.listening.attendance
        self.strict = Strict(settings, self.table, self.members)
        self.strict.begin(agent, incarnation, now)

    @property
    def weight(self) -> float:
        """Own weight; 0 of one that only listens."""
        return 0.0 if self.observing else self.settings.weight
