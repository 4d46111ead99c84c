"""What applies to all ledgers at one look, and what the agents of some ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.table.arrays import Flags, Floats

NEAR = 1.15
"""Multiple of θ up to which an agent counts as light: estimates are no more exact than
that, and an agent mistaken for a heavy one is refused what it is due."""

ROUNDING = 1e-9
"""Part of the burst by which a full bucket may seem less, and of 1 by which a part of
what all admit may, or units/s by which a rate may."""

FEWEST_AT_FIRST = 10
"""Least number of agents that a new one assumes if the API doesn't say how many."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What applies to all ledgers at one look.

    Attributes:
        settings: Parameters.
        now: Monotonic seconds.
        lag_s: Lag of the bus.
        loss: Fraction of the reports that are lost.
        age_s: Δ, after which the others know what was admitted.
        heed_s: h, after which it is known here what they had spent until then.
        present: Number of agents to assume while a ledger's level is not known.
        cut_off: This agent does not hear its own reports.
        presumed_dead: It has been cut off so long that the others have dropped it.
        quorate: This agent hears a majority of the cluster.
        answer_s: How long a question and an immediate answer take.
        unheard_s: For how long none of its own reports has arrived, as far as it can
            tell; infinite before the first.  Nothing that it reported since is known,
            as if Δ were that much longer.
        missed: It lacks rows that others may have heard while it heard nobody.
    """

    settings: Settings
    now: float
    lag_s: float
    loss: float
    age_s: float
    heed_s: float
    present: float
    cut_off: bool
    presumed_dead: bool = False
    quorate: bool = True
    answer_s: float = 0.1
    unheard_s: float = 0.0
    missed: bool = False


@dataclass(slots=True)
class Asked:
    """What the agents of some ledgers ask for, as far as all agents know it.

    Attributes:
        weight: ``float64[A, K]`` weights, or ``float64[1, K]`` if all that take part
            weigh the same.
        own_weight: ``float64[K]`` this agent's; 0 if it doesn't take part.
        present: ``bool[A, K]`` agents that take part.
        cost: ``float64[A, K]`` mean units of a request.
        demand: ``float64[A, K]`` λ up to `demand_cap`; 0 for agents that don't take
            part.
        wanted: ``float64[K]`` Σ λ.
        newest: ``float64[K]`` this agent's λ, whether or not the others know it.
        spare: ``float64[K]`` C' less what is kept for silent agents, at least 0.
    """

    weight: Floats
    own_weight: Floats
    present: Flags
    cost: Floats
    demand: Floats
    wanted: Floats
    newest: Floats
    spare: Floats
