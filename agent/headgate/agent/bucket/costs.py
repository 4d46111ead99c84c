"""What a cost may be, and the one error for anything else.

The request path only compares: a cost in (0, `MOST_COST`] that is a number goes
through, and all else comes here, including what can't be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, SupportsFloat

from headgate.agent.errors import InvalidCost, InvalidDimension

if TYPE_CHECKING:
    from collections.abc import Mapping


class Addable(Protocol):
    """A number of another kind that adds to floats, such as numpy's."""

    def __add__(self, other: float, /) -> SupportsFloat:
        """Return the sum."""
        ...


Number = float | Addable
"""What a caller may give.  In compiled code, a `float` would be checked before the
function runs, and refused with mypyc's own TypeError; with this type, adding 0.0 makes
a number, or fails, by the same rules as in Python, and `float` makes it a float.  A sum
of another kind, such as numpy's float32, would make the bucket's counters its own kind,
which counts no further than 16,777,216."""

MOST_COST = float(1 << 53)
"""Most units of one attempt: above it a double can't count single units, and the sum of
a few hundred huge costs would not be a number any more."""

LONGEST_SHOWN = 60
"""Characters of a wrong cost in a message."""

NOT_A_NUMBER = (TypeError, ValueError, ArithmeticError)
"""What adding or comparing raises with text, None, a decimal, 10**400, an array."""


def is_cost(cost: Number) -> bool:
    """Whether `cost` is a number from 0 to `MOST_COST`; a whole or a float one.

    Truth values are none, although ``True`` adds up to 1.
    """
    if isinstance(cost, bool):
        return False
    try:
        # Decimals compare with floats but don't add up; an array is no single number.
        return 0.0 <= float(cost + 0.0) <= MOST_COST
    except NOT_A_NUMBER:
        return False


def check_dimension(dimension: object) -> None:
    """Raise InvalidDimension for what is not an identifier."""
    if not isinstance(dimension, str) or not dimension.isidentifier():
        raise InvalidDimension(f"expected an identifier, got {shown(dimension)}")


def checked_costs(costs: Mapping[str, Number]) -> dict[str, float]:
    """Return the costs by dimension as floats.

    Raises:
        InvalidDimension: A dimension is not an identifier.
        InvalidCost: A cost is True, False or not a finite number from 0 to `MOST_COST`.
    """
    for dimension, cost in costs.items():
        if not dimension.isidentifier():
            raise InvalidDimension(f"expected an identifier, got {dimension[:80]!r}")
        if not is_cost(cost):
            raise InvalidCost(f"{dimension}: {expected_cost(cost)}")
    return {dimension: float(cost + 0.0) for dimension, cost in costs.items()}


def asked_costs(costs: Mapping[str, Number]) -> dict[str, float]:
    """Return the costs above 0: one of 0 asks for nothing, and meets no limit.

    Raises:
        InvalidDimension: A dimension is not an identifier.
        InvalidCost: A cost is True, False or not a finite number from 0 to `MOST_COST`.
    """
    return {d: cost for d, cost in checked_costs(costs).items() if cost > 0.0}


def explained(error: Exception, costs: Mapping[str, Number]) -> Exception:
    """Return why an attempt failed: a cost that is not a number, else `error`."""
    try:
        checked_costs(costs)
    except (InvalidCost, InvalidDimension) as found:
        return found
    return error


def expected_cost(cost: object) -> str:
    """Return what is wrong with a cost, as a phrase."""
    return f"expected a finite cost >= 0, at most 2**53, got {shown(cost)}"


def shown(value: object) -> str:
    """Return a wrong value as a message shows it."""
    try:
        return repr(value)[:LONGEST_SHOWN]
    except ValueError:  # an int of more digits than Python shows
        return "a larger number"
