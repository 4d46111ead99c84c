"""The agents that hold slots in flight, as lines and columns."""

from __future__ import annotations

from typing import TypedDict

from headgate.cli.output.printing import Listing

IN_FLIGHT = "slots_in_flight"
"""The name of slots in refusals and tables; no dimension can have it."""


class SlotHolderJson(TypedDict):
    """One agent's part of the slots of a group, in the API's JSON."""

    agent: str
    owned: int
    in_use: int
    wanted: int


def _row(holder: SlotHolderJson) -> list[str]:
    figures = holder["owned"], holder["in_use"], holder["wanted"]
    return [holder["agent"], *map(str, figures)]


def _free(holder: SlotHolderJson) -> list[str]:
    return [str(max(0, holder["owned"] - holder["in_use"]))]


HOLDERS: Listing[SlotHolderJson] = Listing(
    headings=["agent", "owned>", "in use>", "wanted>"],
    row=_row,
    name=lambda holder: holder["agent"],
    wide=["free>"],
    wide_row=_free,
)
