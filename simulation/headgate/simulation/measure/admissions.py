"""What agents admitted, for several agents or groups together, and in each second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.record import Admissions, SimulationRun

    Floats = NDArray[np.float64]


def per_second(admitted: Admissions, seconds: tuple[int, int]) -> Floats:
    """Return the units admitted in each whole second."""
    times, units = admitted
    first, end = seconds
    inside = (times >= first) & (times < end)
    places = (times[inside] - first).astype(np.int64)
    sums = np.bincount(places, weights=units[inside], minlength=end - first)
    return sums.astype(np.float64)


def subtree(scenario: Scenario, group: int) -> list[int]:
    """Return a group and all that are part of it, directly or not."""
    name = scenario.groups[group].name
    found = [group]
    for place, other in enumerate(scenario.groups):
        if other.parent == name:
            found += subtree(scenario, place)
    return found


def below(run: SimulationRun, group: int) -> list[Admissions]:
    """Return the admissions in a group and in all that are part of it, separately."""
    groups = subtree(run.scenario, group)
    return [admitted for g in groups for admitted in run.admitted[g]]


def merged(parts: list[Admissions]) -> Admissions:
    """Return the admissions of several agents together, in order of time."""
    times = np.concatenate([times for times, _ in parts])
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate([units for _, units in parts])[order]
