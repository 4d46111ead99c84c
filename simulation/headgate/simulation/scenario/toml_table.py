"""One TOML table whose keys are taken one by one, with errors that name the key."""

from __future__ import annotations

from math import inf, isfinite
from typing import cast

MOST_RATE = 1e15
"""Most units/s of a limit: beyond it a double no longer resolves single units."""


class InvalidKey(ValueError):
    """A key is unknown, missing, or holds something unexpected."""

    def __init__(self, key: str, reason: str) -> None:
        # One line, whatever a quoted key contains.
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in key)
        super().__init__(f"{shown}: {reason}")


class TomlTable:
    """A table of a document.  Every key must be taken before `finish`."""

    def __init__(self, values: dict[str, object], path: str) -> None:
        self._values = values
        self._path = path
        self._known: list[str] = []

    def invalid(self, key: str, expected: str) -> InvalidKey:
        """Return the error for a key of this table that holds the wrong thing."""
        if key not in self._values:
            return InvalidKey(self._at(key), f"expected {expected}, but it is missing")
        got = _shown(self._values[key])
        return InvalidKey(self._at(key), f"expected {expected}, got {got}")

    def has(self, key: str) -> bool:
        """Return whether the key is present."""
        return key in self._values

    def finish(self) -> None:
        """Raise for the first unknown key."""
        for key in self._values:
            if key not in self._known:
                known = ", ".join(sorted(self._known))
                reason = f"unknown key, expected one of: {known}"
                raise InvalidKey(self._at(key), reason)

    def number(
        self,
        key: str,
        default: float | None = None,
        *,
        least: float = -inf,
        above: float = -inf,
        most: float = inf,
    ) -> float:
        """Return a finite number within bounds; `default` where it is missing."""
        self._known.append(key)
        if default is not None and key not in self._values:
            return default
        expected = "a number" + _bounds(least=least, above=above, most=most)
        value = self._values.get(key)
        if not _is_number(value):
            raise self.invalid(key, expected)
        number = float(cast("float", value))
        if not (isfinite(number) and least <= number <= most and number > above):
            raise self.invalid(key, expected)
        return number

    def optional_number(
        self, key: str, *, least: float = -inf, above: float = -inf
    ) -> float | None:
        """Return a number within bounds, or None where it is missing."""
        self._known.append(key)
        if key not in self._values:
            return None
        return self.number(key, least=least, above=above)

    def rate(self, key: str) -> float:
        """Return units/s; infinite for the word "unlimited"."""
        self._known.append(key)
        value = self._values.get(key)
        if value == "unlimited":
            return inf
        if _is_number(value) and 0 <= cast("float", value) <= MOST_RATE:
            return float(cast("float", value))
        expected = f'a number of at least 0 and at most {MOST_RATE:g}, or "unlimited"'
        raise self.invalid(key, expected)

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        least: int = 0,
        most: int | None = None,
    ) -> int:
        """Return an integer within bounds; `default` where it is missing."""
        self._known.append(key)
        value = self._values.get(key, default)
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.invalid(key, f"an integer of {bounds}")
        if value < least or (most is not None and value > most):
            raise self.invalid(key, f"an integer of {bounds}")
        return value

    def numbers(self, key: str, *, above: float) -> tuple[float, ...]:
        """Return a list of numbers; empty where it is missing."""
        self._known.append(key)
        values = self._values.get(key, [])
        expected = f"a list of numbers above {above:g}"
        if not isinstance(values, list):
            raise self.invalid(key, expected)
        for value in cast("list[object]", values):
            if not (_is_number(value) and above < cast("float", value) < inf):
                raise self.invalid(key, expected)
        return tuple(float(value) for value in cast("list[float]", values))

    def indices(
        self, key: str, count: int, *, default_all: bool = False
    ) -> tuple[int, ...]:
        """Return different indices below `count`, from a list or the word "all"."""
        self._known.append(key)
        value = self._values.get(key, "all" if default_all else None)
        if value == "all":
            return tuple(range(count))
        expected = f'"all" or a list of indices from 0 to {count - 1}'
        if not isinstance(value, list) or not value:
            raise self.invalid(key, expected)
        indices = cast("list[object]", value)
        for place, index in enumerate(indices):
            if isinstance(index, bool) or not isinstance(index, int):
                raise self.invalid(key, expected)
            if not 0 <= index < count:
                reason = f"expected an index from 0 to {count - 1}, got {index}"
                raise InvalidKey(f"{self._at(key)}[{place}]", reason)
            if index in indices[:place]:
                reason = f"expected different indices, got {index} twice"
                raise InvalidKey(f"{self._at(key)}[{place}]", reason)
        return tuple(cast("list[int]", indices))

    def text(self, key: str, default: str | None) -> str:
        """Return a string that is not empty; `default` where it is missing."""
        self._known.append(key)
        if default is not None and key not in self._values:
            return default
        value = self._values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.invalid(key, "a name")
        return value

    def choice(
        self, key: str, options: tuple[str, ...], default: str | None = None
    ) -> str:
        """Return one of some words; `default` where it is missing."""
        self._known.append(key)
        value = self._values.get(key, default)
        if not isinstance(value, str) or value not in options:
            raise self.invalid(key, f"one of {', '.join(map(repr, options))}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false; `default` where it is missing."""
        self._known.append(key)
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.invalid(key, "true or false")
        return value

    def is_list(self, key: str) -> bool:
        """Return whether the key holds a list (of tables)."""
        return isinstance(self._values.get(key), list)

    def table(self, key: str, *, optional: bool = False) -> TomlTable:
        """Return a table inside this one; an empty one where it may be missing."""
        self._known.append(key)
        value = self._values.get(key, {} if optional else None)
        if not isinstance(value, dict):
            raise self.invalid(key, f"a table [{key}]")
        return TomlTable(cast("dict[str, object]", value), self._at(key))

    def tables(self, key: str) -> list[TomlTable]:
        """Return the tables of a list; none where it is missing."""
        self._known.append(key)
        values = self._values.get(key, [])
        if not isinstance(values, list):
            raise self.invalid(key, f"tables [[{key}]]")
        tables: list[TomlTable] = []
        for place, value in enumerate(cast("list[object]", values)):
            if not isinstance(value, dict):
                raise self.invalid(key, f"tables [[{key}]]")
            path = f"{self._at(key)}[{place}]"
            tables.append(TomlTable(cast("dict[str, object]", value), path))
        return tables

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def _is_number(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300  # fits a float
    return isinstance(value, float)


def _bounds(*, least: float, above: float, most: float) -> str:
    words: list[str] = []
    if above > -inf:
        words.append(f"above {above:g}")
    if least > -inf:
        words.append(f"of at least {least:g}")
    if most < inf:
        words.append(f"{'and ' if words else ''}at most {most:g}")
    return f" {' '.join(words)}" if words else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
