"""What keys do in `headgate top`, and that a picture fits every terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from headgate.cli.top.drawing import Grid, bar, grid_of, picture
from headgate.cli.top.feed import Answer, Question
from headgate.cli.top.screen import STANDINGS, Screen, Seen, View, fitted, pressed
from headgate.cli.top.terminal import keys_of

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject

NAMES = tuple(f"group-{number}" for number in range(10))
SEEN = Seen(names=NAMES, first=0, rows=100, height=10)

NAMED = ["up", "down", "page up", "page down", "home", "end", "enter", "escape"]
KEYS = st.sampled_from([*NAMED, *"kjsfpaghq?/x "])


def press(screen: Screen, *keys: str, seen: Seen = SEEN) -> Screen:
    for key in keys:
        screen = pressed(screen, key, seen)
    return screen


@pytest.mark.parametrize(
    ("keys", "selected", "first"),
    [
        (["down", "j"], 2, 0),
        (["up"], 0, 0),
        (["end"], 99, 90),
        (["end", "down"], 99, 90),
        (["page down", "page down"], 20, 11),
        (["end", "home"], 0, 0),
        (["page down", "k"], 9, 1),
    ],
)
def test_the_selection_moves_and_the_window_follows(
    keys: list[str], selected: int, first: int
) -> None:
    screen = press(Screen(), *keys)
    assert (screen.selected, screen.first) == (selected, first)


def test_enter_opens_the_selected_group_and_escape_goes_back() -> None:
    opened = press(Screen(sort="use"), "down", "enter")
    assert (opened.view, opened.group) == ("group", "group-1")
    back = press(opened, "escape")
    assert (back.view, back.sort) == ("groups", "use")


def test_enter_waits_while_the_selected_row_has_not_come() -> None:
    """After a jump the rows on the screen are those of before."""
    jumped = press(Screen(), "end")
    assert press(jumped, "enter").view == "groups"
    arrived = replace(SEEN, first=90)
    assert press(jumped, "enter", seen=arrived).group == "group-9"


def test_sort_and_filter_go_round() -> None:
    sorts = [press(Screen(), *["s"] * times).sort for times in range(5)]
    assert sorts == ["standing", "use", "refused", "name", "standing"]
    assert press(Screen(), *["f"] * len(STANDINGS)).standing == "all"
    assert press(Screen(), "f").standing == "over"


def test_a_search_takes_every_key_until_enter() -> None:
    typing = press(Screen(), "/", "q", "s", " ", "x", "backspace")
    assert (typing.search, typing.typing, typing.ended) == ("qs ", True, False)
    kept = press(typing, "enter")
    assert (kept.search, kept.typing) == ("qs ", False)
    assert press(kept, "q").ended
    assert press(typing, "escape").search == ""


@given(
    keys=st.lists(KEYS, max_size=30), rows=st.integers(0, 40), height=st.integers(1, 9)
)
def test_whatever_is_pressed_the_selected_row_is_one_that_is_shown(
    keys: list[str], rows: int, height: int
) -> None:
    seen = Seen(names=NAMES[:rows], first=0, rows=rows, height=height)
    screen = fitted(press(Screen(), *keys, seen=seen), seen)
    assert 0 <= screen.selected < max(1, rows)
    assert screen.first <= screen.selected < screen.first + height


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("q", ["q"]),
        ("\x1b", ["escape"]),
        ("\x1b[15~x", ["x"]),  # F5, which means nothing
        ("\x7f\r", ["backspace", "enter"]),
        ("日", ["日"]),
    ],
)
def test_terminals_send_keys_as_sequences(sent: str, keys: list[str]) -> None:
    assert keys_of(sent) == keys


@given(sent=st.text(max_size=20))
def test_no_sequence_is_taken_for_ever(sent: str) -> None:
    assert len(keys_of(sent)) <= len(sent)


ROW = {
    "group": "gold",
    "dimension": "requests",
    "scope": "cluster",
    "rate": 1000.0,
    "period_s": 1.0,
    "standing": "over",
    "admitted": 998.0,
    "demand": 1200.0,
    "refused": 202.0,
    "level": -3.5,
    "agents": 3,
    "slots": None,
    "in_flight": None,
}
IDLE = {
    **ROW,
    "group": "日本語" * 30,
    "rate": "unlimited",
    "standing": "idle",
    **dict.fromkeys(("admitted", "demand", "refused", "level")),
}
AGENT = {
    "agent": "a" * 60,
    "state": "silent",
    "share": None,
    **dict.fromkeys(("demand", "admitted", "refused", "held"), 12.5),
    **dict.fromkeys(("ceiling", "age_s", "lag_s", "loss"), 1e9),
    "limits": 2,
    "revision": 7,
}
DOCUMENTS: dict[View, JsonObject] = {
    "groups": {
        "revision": 7,
        "total": 2,
        "matching": 2,
        "offset": 0,
        "rows": [ROW, IDLE],
    },
    "group": {
        "uses": [{"dimension": "requests", "agents": [AGENT] * 3}],
        "slots": {
            "slots": 1_000_000,
            "in_use": 2,
            "agents": [{"agent": "w", "owned": 1_000_000, "in_use": 2, "wanted": 5}],
        },
    },
    "agents": {"bus_open": True, "total": 1, "agents": [AGENT]},
    "help": {},
}


@given(
    view=st.sampled_from(list(DOCUMENTS)),
    width=st.integers(1, 220),
    height=st.integers(1, 60),
    failure=st.sampled_from(["", "no API answers at http://127.0.0.1:8080"]),
)
def test_a_picture_fills_any_terminal_and_no_more(
    view: View, width: int, height: int, failure: str
) -> None:
    answer = Answer(Question("/"), DOCUMENTS[view], 0.0, failure, is_away=True)
    screen = Screen(view=view, group="gold")
    grid = grid_of(screen, answer, width)
    drawn = picture(
        screen, answer, grid, size=(width, height), url="http://here", now_s=9.0
    )
    lines = drawn.plain.split("\n")
    assert len(lines) == height
    assert max(cell_len(line) for line in lines) <= width


def test_who_is_over_and_what_is_selected_is_told_without_colour() -> None:
    answer = Answer(Question("/"), DOCUMENTS["groups"], 0.0)
    screen = Screen()
    grid = grid_of(screen, answer, 160)
    drawn = picture(screen, answer, grid, size=(160, 20), url="http://here", now_s=0.0)
    line = next(line for line in drawn.plain.split("\n") if "gold" in line)
    assert line.startswith("> gold")
    assert "[||||||||||||] 100 %" in line
    assert line.rstrip().endswith("over")


def test_the_slots_of_a_group_are_shown_with_their_holders() -> None:
    answer = Answer(Question("/"), DOCUMENTS["group"], 0.0)
    screen = Screen(view="group", group="gold")
    grid = grid_of(screen, answer, 160)
    drawn = picture(screen, answer, grid, size=(160, 20), url="http://here", now_s=0.0)
    assert "2 of 1,000,000 slots in flight are in use" in drawn.plain
    row = drawn.plain.split("\n")[4 + 3]
    assert row.split() == ["w", "slots_in_flight", "5", "1,000,000", "2"]
    bare: JsonObject = {"uses": [], "slots": None}
    assert grid_of(screen, Answer(Question("/"), bare, 0.0), 160).rows == []
    full = {**ROW, "slots": 20, "in_flight": 7}
    groups = grid_of(Screen(), Answer(Question("/"), {"rows": [full]}, 0.0), 160)
    assert groups.rows[0][-1] == "7/20"


def test_a_limit_is_shown_in_its_own_unit_with_what_is_used_of_a_calendar_period() -> (
    None
):
    hourly = {**ROW, "rate": 60.0, "period_s": 3600.0, "admitted": 0.005}
    monthly = {**ROW, "rate": 50.0, "period_s": 2_629_800.0, "admitted": 0.0}
    monthly |= {"period": "month", "used": 16.0, "level": 34.0}
    whole = {**monthly, "rate": 120_000_000.0, "used": None}
    rows = [hourly, monthly, whole, {**monthly, "rate": "unlimited"}]
    grid = grid_of(Screen(), Answer(Question("/"), {"rows": rows}, 0.0), 160)
    shown = [(row[2].strip(), row[4]) for row in grid.rows]
    assert grid.columns[4].name == "limit"
    assert shown == [
        ("[||||        ]  30 %", "60/h"),
        ("[||||        ]  32 %", "50/month"),
        ("", "120M/month"),
        ("", "unlimited"),
    ]
    of = {"dimension": "requests", "rate": 50.0, "period": "month", "level": 34.0}
    answer = Answer(Question("/"), {"uses": [{**of, "agents": []}]}, 0.0)
    screen = Screen(view="group", group="gold")
    drawn = picture(
        screen, answer, Grid((), [], [], 0), size=(160, 9), url="http://a", now_s=0.0
    )
    assert "; of the 50 requests of this month, 34 are left" in drawn.plain


def test_an_answer_to_another_page_is_not_shown() -> None:
    answer = Answer(Question("/"), DOCUMENTS["groups"], 0.0)
    assert grid_of(Screen(view="group"), answer, 100).rows == []
    assert bar(2000.0, 1000.0) == "[||||||||||||] 200 %"
