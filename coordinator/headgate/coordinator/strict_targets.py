"""Who should own what of a strict ledger.

Targets are the max-min shares of Q itself, not of Q': no level is needed, since
rights alone keep the bound.  What demand leaves over is spread, first as room for
each agent's own noise, then evenly, so that whoever starts has something at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation import shares_at, water_level

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.coordinator.own import Own
    from headgate.coordinator.shelf import Shelf

    Floats = NDArray[np.float64]

TOKENS_PER_HOLDER = 2.0
"""Costs of burst that a holder needs: with fewer, not everyone can own a part."""

YOUNG_S = 1.0
"""Age of a demand estimate up to which one sigma is asked for beside it: until the
average is as long as it gets."""


def ask_for_room(own: Own) -> None:
    """Let the demand that is told of strict ledgers be no guess on the low side.

    A balanced ledger makes up for a first guess that was too low; rights that were
    not asked for are refusals until the next guess, 75 ms later.

    Args:
        own: Changed: `usable`, just after a reset.
    """
    young = own.demand.age_s < YOUNG_S
    if not young.any():
        return
    room = np.where(young, own.demand.sigma(own.cost), 0.0)
    usable = own.usable.copy()
    for place in own.places:
        strict = place.shelf.strict[place.slots]
        usable[place.rows] += np.where(strict, room[place.rows], 0.0)
    own.usable = usable


def targets(
    shelf: Shelf,
    slot: int,
    lines: NDArray[np.int64],
    names_of: Callable[[], list[str]],
    *,
    even: bool,
) -> Floats:
    """Return the parts, ``float64[K]``, that agents should own; they sum to 1.

    Args:
        shelf: Of the ledger.
        slot: Of the ledger.
        lines: ``int64[K]`` of the agents that take part.
        names_of: Returns their holders, which is asked only where they matter.
        even: By weight alone, whatever they want.
    """
    rate = max(float(shelf.rate[slot]), 1e-12)
    cost = float(shelf.cost[slot])
    weight = shelf.weight[lines, slot]
    demand = np.minimum(shelf.demand[lines, slot], shelf.demand_cap[slot])
    most = max(1, int(shelf.burst[slot] / (TOKENS_PER_HOLDER * cost)))
    if len(lines) > most:
        # Too few tokens for all: those with most demand own parts, ties by name.
        names = names_of()
        order = sorted(range(len(names)), key=lambda i: (-demand[i], names[i]))
        weight = weight.copy()
        weight[order[most:]] = 0.0
    if even:
        whole_weight: Floats = weight / max(float(weight.sum()), 1e-12)
        return whole_weight
    room = demand + np.sqrt(2.0 * demand * cost)
    whole = np.array([rate])
    theta = water_level(room[:, None], weight[:, None], whole)
    share = shares_at(theta, room[:, None], weight[:, None])[:, 0]
    left = max(0.0, rate - float(share.sum()))
    part: Floats = (share + left * weight / max(float(weight.sum()), 1e-12)) / rate
    return part
