"""Text that can be stored: whatever both databases and UTF-8 can hold."""

from typing import cast

SURROGATES = range(0xD800, 0xE000)
"""Code points that JSON can spell but UTF-8 can't; alone they are no character."""


def unstorable(text: str) -> str | None:
    r"""Return the first character that can't be stored, or None.

    >>> unstorable("größe\n")
    >>> unstorable("a\ud800") == "\ud800"
    True
    """
    if "\0" in text:  # PostgreSQL's text and JSON have no place for it
        return "\0"
    if text.isascii():
        return None
    return next((one for one in text if ord(one) in SURROGATES), None)


class Unstorable(ValueError):
    """A text that can't be stored.

    Attributes:
        place: Where it is inside the value that was checked, such as ``.user`` or
            ``[2]``; empty for the value itself and for a key, which can't be repeated
            in an answer.
    """

    def __init__(self, character: str, place: str) -> None:
        super().__init__(f"expected printable characters, got {character!a}")
        self.place = place


def check_storable(value: object) -> None:
    """Check a text, or the texts of a list and the keys and texts of a mapping.

    Raises:
        Unstorable: One of them can't be stored.
    """
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        for key in fields:
            _check(key, "")
        for key, text in fields.items():
            _check(text, f".{key}")
    elif isinstance(value, list):
        for index, text in enumerate(cast("list[object]", value)):
            _check(text, f"[{index}]")
    else:
        _check(value, "")


def _check(value: object, place: str) -> None:
    found = unstorable(value) if isinstance(value, str) else None
    if found is not None:
        raise Unstorable(found, place)
