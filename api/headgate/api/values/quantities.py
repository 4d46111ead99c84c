"""Numbers of the API: ≥ 0, finite or the word ``unlimited``, never NaN."""

from collections.abc import Mapping
from math import inf, isfinite, isinf
from typing import Annotated, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from headgate.coordinator import LEAST_UNITS

MAX_ROW_ID = 2**63 - 1
"""Largest integer that both databases can compare a key with."""

MAX_QUANTITY = float(2**63 - 1)
"""Largest finite number of units: what Pulsar's 64-bit byte rates can say."""

Unlimited = Literal["unlimited"]


def quantity(value: object) -> float:
    """Return a number of units that is given in JSON.

    Raises:
        ValueError: It is not one; the message says what was expected.
    """
    expected = 'expected a number ≥ 0 or "unlimited"'
    if value == "unlimited":
        return inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(expected)
    # An integer may have any number of digits, which no float function takes.
    if value < 0 or (isinstance(value, float) and not isfinite(value)):
        raise ValueError(expected)
    if value > MAX_QUANTITY:
        raise ValueError('expected at most 9223372036854775807 or "unlimited"')
    if 0 < value < LEAST_UNITS:
        raise ValueError(f"expected 0 or at least {LEAST_UNITS}")
    return abs(float(value))  # -0.0 is a zero like any other


def shown(value: float) -> float | Unlimited:
    """Return `value` as JSON says it: infinity is the word ``unlimited``."""
    return "unlimited" if isinf(value) else value


_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"const": 0},
            {"type": "number", "minimum": LEAST_UNITS, "maximum": MAX_QUANTITY},
            {"const": "unlimited"},
        ]
    }
)
_SERIALIZER = PlainSerializer(shown, when_used="json")

Quantity = Annotated[float, PlainValidator(quantity), _SERIALIZER, _SCHEMA]
"""Units of a request: a finite number ≥ 0, or ``unlimited``; JSON has no infinity."""

ShownQuantity = Annotated[float, _SERIALIZER, _SCHEMA]
"""Units of a response."""


def stored(value: float) -> float | None:
    """Return `value` as the store keeps it: infinity is NULL."""
    return None if isinf(value) else value


def unlimited_as_infinity(document: Mapping[str, object]) -> dict[str, object]:
    """Return a document that was written as JSON with infinity in place of the word."""
    return {
        name: inf if value == "unlimited" else value for name, value in document.items()
    }


def restored(value: float | None) -> float:
    """Return the quantity that was given to `stored`."""
    return inf if value is None else value
