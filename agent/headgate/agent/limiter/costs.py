"""What callers may give as a cost: any number that buckets take, but no truth value.

``True`` adds up to 1 in Python, so a flag in the place of a cost would count as one
unit.  The request path only compares by identity, and leaves the rest to this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.bucket import costs as numbers
from headgate.agent.bucket.costs import expected_cost
from headgate.agent.errors import InvalidCost, InvalidDimension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.bucket.costs import Number


def is_cost(cost: Number) -> bool:
    """Whether `cost` is a number from 0 to `MOST_COST`, and not a truth value."""
    return not isinstance(cost, bool) and numbers.is_cost(cost)


def checked_costs(costs: Mapping[str, Number]) -> dict[str, float]:
    """Return the costs by dimension as floats.

    Raises:
        InvalidDimension: A dimension is not an identifier.
        InvalidCost: A cost is a truth value, or not a number from 0 to `MOST_COST`.
    """
    for dimension, cost in costs.items():
        if isinstance(cost, bool):
            raise InvalidCost(f"{dimension}: {expected_cost(cost)}")
    return numbers.checked_costs(costs)


def asked_costs(costs: Mapping[str, Number]) -> dict[str, float]:
    """Return the costs above 0: one of 0 asks for nothing, and meets no limit.

    Raises:
        InvalidDimension: A dimension is not an identifier.
        InvalidCost: A cost is a truth value, or not a number from 0 to `MOST_COST`.
    """
    return {d: cost for d, cost in checked_costs(costs).items() if cost > 0.0}


def explained(error: Exception, costs: Mapping[str, Number]) -> Exception:
    """Return why an attempt failed: a cost that is not a number, else `error`."""
    try:
        checked_costs(costs)
    except (InvalidCost, InvalidDimension) as found:
        return found
    return error
