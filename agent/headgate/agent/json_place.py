"""A value in a parsed JSON document that knows its path, for clear errors."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from headgate.agent.errors import MalformedSnapshot
from headgate.agent.names import is_unicode
from headgate.coordinator.config.configuration import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
"""What ``json.loads`` returns."""

Choice = TypeVar("Choice", bound=str)

MAX_SHOWN_CHARACTERS = 60
"""Length of a wrong value in an error: enough to recognise it, short enough to log."""

MAX_INTEGER = 1 << 53
"""Beyond this, JSON readers don't agree on the value of a number."""


@dataclass(frozen=True, slots=True)
class JsonPlace:
    """A value and its path; each method returns it as one type, or raises.

    Attributes:
        path: Such as ``groups[3].limits[0].rate``.
        value: As ``json.loads`` returned it.
        present: Whether the field exists at all.
    """

    path: str
    value: Json
    present: bool = True

    @staticmethod
    def top(document: object) -> JsonPlace:
        """Return the place of a whole document, which must be an object."""
        place = JsonPlace("", cast("Json", document))
        place._object()
        return place

    def __getitem__(self, name: str) -> JsonPlace:
        """Return the place of the field `name`, present or not."""
        fields = self._object()
        path = f"{self.path}.{name}" if self.path else name
        return JsonPlace(path, fields.get(name), name in fields)

    def __bool__(self) -> Literal[True]:
        """Return True, so that ``place and place.text()`` tests for None only."""
        return True

    def optional(self, name: str) -> JsonPlace | None:
        """Return the place of the field `name`, or None when missing or null."""
        place = self[name]
        return None if place.value is None else place

    def fields(self) -> Iterator[tuple[str, JsonPlace]]:
        """Yield each field of an object."""
        for name in self._object():
            yield name, self[name]

    def items(self, name: str) -> list[JsonPlace]:
        """Return the places of the list `name`; a missing list is empty."""
        place = self[name]
        if not place.present:
            return []
        if not isinstance(place.value, list):
            raise place.wrong("a list")
        return [JsonPlace(f"{place.path}[{i}]", v) for i, v in enumerate(place.value)]

    def wrong(self, expected: str) -> MalformedSnapshot:
        """Return the error that says what was expected here."""
        got = "nothing" if not self.present else repr(self.value)
        if len(got) > MAX_SHOWN_CHARACTERS:
            got = got[:MAX_SHOWN_CHARACTERS] + "…"
        return MalformedSnapshot(
            f"{self.path or 'snapshot'}: expected {expected}, got {got}"
        )

    def text(self) -> str:
        """Return a non-empty text."""
        if not isinstance(self.value, str) or not self.value:
            raise self.wrong("a non-empty string")
        if not is_unicode(self.value):
            raise self.wrong("a string of valid Unicode")
        return self.value

    def text_or(self, name: str, default: str) -> str:
        """Return the text `name`, or `default` when missing."""
        place = self.optional(name)
        return default if place is None else place.text()

    def texts(self, name: str) -> tuple[str, ...]:
        """Return one text, or a list of them, as a tuple; missing is empty."""
        place = self.optional(name)
        if place is None:
            return ()
        if isinstance(place.value, list):
            return tuple(item.text() for item in self.items(name))
        return (place.text(),)

    def integer(self, *, least: int) -> int:
        """Return a whole number ≥ `least`."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong("a whole number")
        if not least <= value <= MAX_INTEGER:
            raise self.wrong(f"a whole number from {least} to 2⁵³")
        return value

    def number(self, name: str | None = None, default: float | None = None) -> float:
        """Return a finite number: this one, or the field `name` or its `default`."""
        if name is not None:
            place = self.optional(name)
            if place is None and default is not None:
                return default
            return self[name].number()
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong("a number")
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            number = inf
        if not isfinite(number):
            raise self.wrong("a finite number")
        return number

    def quantity(self) -> float:
        """Return a number ≥ 0, or infinity for ``"unlimited"``."""
        if self.value == "unlimited":
            return UNLIMITED
        if isinstance(self.value, str):
            raise self.wrong('a number or "unlimited"')
        return self.number()

    def quantity_or(self, name: str, default: float) -> float:
        """Return the quantity `name`, or `default` when missing."""
        place = self.optional(name)
        return default if place is None else place.quantity()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the truth value `name`, or `default` when missing."""
        place = self.optional(name)
        if place is None:
            return default
        if not isinstance(place.value, bool):
            raise place.wrong("true or false")
        return place.value

    def choice(
        self, name: str, choices: Sequence[Choice], default: Choice | None
    ) -> Choice:
        """Return the one of `choices` that `name` holds, or `default` when missing."""
        place = self[name]
        if place.value is None and default is not None:
            return default
        for choice in choices:
            if place.value == choice:
                return choice
        raise place.wrong(f"one of {', '.join(choices)}")

    def _object(self) -> Mapping[str, Json]:
        """Return the fields; raise for anything but an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value
