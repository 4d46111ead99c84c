"""The current view, and what each key does to it; knows neither terminal nor API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

View = Literal["groups", "group", "agents", "help"]
Sort = Literal["standing", "use", "refused", "name"]
Standing = Literal["all", "over", "near", "calm", "idle"]

SORTS: tuple[Sort, ...] = get_args(Sort)
STANDINGS: tuple[Standing, ...] = get_args(Standing)

MAX_SEARCH = 64
"""Most characters of a search; more would not fit on the line."""


_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
_PAGES = {"page up": -1, "page down": 1}
_MOVES = frozenset({*_STEPS, *_PAGES, "home", "end"})


@dataclass(frozen=True, slots=True)
class Screen:
    """The current view.

    Attributes:
        view: The page.
        group: Name of the group on the page ``group``.
        sort: Order of the groups.
        standing: Show only limits in this state.
        search: Part of a group's name or dimension; empty for all.
        typing: Keys are added to the search.
        selected: Number of the selected row, among all that match.
        first: Number of the first visible row.
        paused: The figures are frozen.
        ended: The user quit.
    """

    view: View = "groups"
    group: str = ""
    sort: Sort = "standing"
    standing: Standing = "all"
    search: str = ""
    typing: bool = False
    selected: int = 0
    first: int = 0
    paused: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What the screen shows when a key is pressed.

    Attributes:
        names: Groups of the newest rows.
        first: Number of the first of these, which after a jump may not be the first
            visible row yet.
        rows: Number of rows in all.
        height: Number of rows that fit.
    """

    names: tuple[str, ...]
    first: int
    rows: int
    height: int


def pressed(screen: Screen, key: str, seen: Seen) -> Screen:
    """Return the view after a key.

    Args:
        screen: The view before.
        key: A character, or a name such as ``up``, ``page down``, ``enter``.
        seen: What the screen showed.
    """
    if screen.typing:
        return fitted(_typed(screen, key), seen)
    if key in _MOVES:
        moved = replace(screen, selected=_moved(screen.selected, key, seen))
        return fitted(moved, seen)
    if key in {"q", "Q"}:
        return replace(screen, ended=True)
    if key in {"escape", "left", "backspace"}:
        return Screen(sort=screen.sort, standing=screen.standing, search=screen.search)
    if key in {"?", "h"}:
        return replace(screen, view="help")
    if key in {"p", " "}:
        return replace(screen, paused=not screen.paused)
    if key in {"a", "g"}:
        view: View = "agents" if key == "a" else "groups"
        return replace(screen, view=view, selected=0, first=0)
    return _of_groups(screen, key, seen) if screen.view == "groups" else screen


def fitted(screen: Screen, seen: Seen) -> Screen:
    """Return `screen` with a selection that exists and is visible."""
    selected = max(0, min(screen.selected, seen.rows - 1))
    least = max(0, selected - seen.height + 1)
    most = max(0, min(selected, seen.rows - seen.height))
    first = min(max(screen.first, least), max(most, least))
    return replace(screen, selected=selected, first=first)


def _of_groups(screen: Screen, key: str, seen: Seen) -> Screen:
    """Handle a key that only the page of groups knows."""
    if key in {"enter", "right"}:
        shown = screen.selected - seen.first
        if 0 <= shown < len(seen.names):
            name = seen.names[shown]
            return replace(screen, view="group", group=name, selected=0, first=0)
    elif key == "s":
        chosen = SORTS[(SORTS.index(screen.sort) + 1) % len(SORTS)]
        return replace(screen, sort=chosen, selected=0, first=0)
    elif key == "f":
        number = STANDINGS.index(screen.standing) + 1
        chosen_standing = STANDINGS[number % len(STANDINGS)]
        return replace(screen, standing=chosen_standing, selected=0, first=0)
    elif key == "/":
        return replace(screen, typing=True)
    return screen


def _typed(screen: Screen, key: str) -> Screen:
    """Return the view after a key that edits the search."""
    if key == "enter":
        return replace(screen, typing=False)
    if key == "escape":
        return replace(screen, typing=False, search="", selected=0, first=0)
    if key == "backspace":
        return replace(screen, search=screen.search[:-1], selected=0, first=0)
    if len(key) == 1 and key.isprintable() and len(screen.search) < MAX_SEARCH:
        return replace(screen, search=screen.search + key, selected=0, first=0)
    return screen


def _moved(at: int, key: str, seen: Seen) -> int:
    """Return the row that a movement key selects."""
    if key in _STEPS:
        return at + _STEPS[key]
    if key in _PAGES:
        return at + _PAGES[key] * seen.height
    return 0 if key == "home" else seen.rows - 1
