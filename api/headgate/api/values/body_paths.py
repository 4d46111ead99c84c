"""Places in a list that is sorted by several texts, as one text for a page's end."""

import json
from typing import cast

from headgate.api.values.errors import Invalid


def place_text(*parts: str) -> str:
    """Return the `next` of a page; `place_of` reads it."""
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def place_of(text: str, *, parts: int) -> tuple[str, ...]:
    """Return the texts of a place.

    Raises:
        Invalid: No page returned such a place.
    """
    try:
        place: object = json.loads(text)
    except (ValueError, RecursionError):
        place = None
    listed = cast("list[object]", place) if isinstance(place, list) else []
    found = tuple(part for part in listed if isinstance(part, str))
    if not len(found) == len(listed) == parts:
        raise Invalid("after", "expected `next` of the previous page")
    return found
