"""The live view of the API: what agents reported last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headgate.cli.client.closeable import Closing
from headgate.cli.client.paths import AGENTS, OVERVIEW, group_path
from headgate.cli.failure import Failure
from headgate.cli.options.limits import show_period, show_quantity
from headgate.cli.output.plain_words import of_period
from headgate.cli.output.share_table import ShareRow, ShareTable

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Rest
    from headgate.cli.output.use_json import UseJson

MOST_TABLES = 12
"""Groups shown at once; `headgate status GROUP` shows any other."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """What the API knows of one agent in one group and dimension.

    Attributes:
        share_per_s: What the agent is allotted, units/s; None where unlimited.
        held_units: Tokens in its local bucket; below zero it is a debt.
    """

    share_per_s: float | None
    held_units: float | None


@dataclass(frozen=True, slots=True)
class UseView:
    """What the API knows of one limit in use.

    Attributes:
        level_units: What is left in the group's bucket; below zero it is a debt.
        agents: By id.
    """

    level_units: float | None
    agents: dict[str, AgentView]


class LiveView(Closing):
    """A connection to the live view; a context manager that closes it."""

    def __init__(self, rest: Rest) -> None:
        """Use `rest`, and close it on exit."""
        self._rest = rest

    def document(self, group: str | None = None) -> JsonObject:
        """Return the live state of one group, or the overview of all.

        Raises:
            Failure: The API is down, or refuses.
        """
        return self._rest.call("GET", OVERVIEW if group is None else _path(group))

    def sheets(self, group: str | None = None) -> list[ShareTable]:
        """Return a table for each limit in use, of one group or of all.

        Raises:
            Failure: The API is down, or refuses.
        """
        groups = self._in_use() if group is None else [group]
        return [_sheet(name, use) for name in groups for use in self._uses(name)]

    def partitions(self) -> list[str]:
        """Return a line per agent that names the partitions of the bus it reads.

        Empty if the bus is not partitioned, because then every agent reads everything.

        Raises:
            Failure: The API is down, or refuses.
        """
        told = self._rest.call("GET", AGENTS)
        count = cast("int", told.get("partitions", 1))
        if count < 2:
            return []
        return [
            f"{one['agent']} reads partitions "
            f"{', '.join(map(str, cast('list[int]', one['reads'])))} of {count}"
            for one in cast("list[JsonObject]", told.get("agents", []))
        ]

    def use(self, group: str, dimension: str) -> UseView:
        """Return the live state of a limit; empty while the API is down.

        A missing figure should not end a run.
        """
        try:
            uses = self._uses(group)
        except Failure:
            uses = []
        named = [use for use in uses if use.get("dimension") == dimension]
        one: UseJson = named[0] if named else {}
        agents = {
            row.get("agent", ""): AgentView(row.get("share"), row.get("held"))
            for row in one.get("agents", [])
        }
        return UseView(one.get("level"), agents)

    def close(self) -> None:
        """Close the connection."""
        self._rest.close()

    def _in_use(self) -> list[str]:
        """Return the groups in use, those under pressure first."""
        rows = cast("list[JsonObject]", self.document().get("rows", []))
        names = (str(row["group"]) for row in rows if row.get("agents"))
        return list(dict.fromkeys(names))[:MOST_TABLES]

    def _uses(self, group: str) -> list[UseJson]:
        return cast("list[UseJson]", self.document(group).get("uses", []))


def _path(group: str) -> str:
    return f"{group_path(group)}/use"


def _sheet(group: str, use: UseJson) -> ShareTable:
    rows = tuple(
        ShareRow(
            agent=row.get("agent", ""),
            demand_per_s=row.get("demand"),
            share_per_s=row.get("share"),
            admitted_per_s=row.get("admitted"),
            refused_per_s=row.get("refused"),
            held_units=row.get("held"),
            note="" if row.get("state") == "present" else row.get("state", ""),
        )
        for row in use.get("agents", [])
    )
    level = use.get("level")
    return ShareTable(
        title=f"{group}  {use.get('dimension')}",
        quota=_quota(use),
        rows=rows,
        level_units=level,
        footer=of_period(use),
    )


def _quota(use: UseJson) -> str:
    rate = use.get("rate", 0.0)
    if isinstance(rate, str):
        return rate
    period = use.get("period") or show_period(use.get("period_s", 1.0))
    return f"{show_quantity(rate)}/{period}"
