"""Shell completion of names, from the API; empty while it does not answer."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from headgate.cli.client.paths import OVERVIEW
from headgate.cli.failure import Failure
from headgate.cli.options.common import Api

ANSWER_S = 1.0
"""A user who presses Tab does not wait longer."""

MOST_NAMES = 100
"""More candidates than anyone would read."""


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of groups that begin with `incomplete`."""
    said = {
        name: context.params.get(name)
        for name in ("url", "token", "ca_file", "context")
    }
    api = Api(**{name: value for name, value in said.items() if value is not None})
    query: dict[str, str | int | float] = {
        "search": incomplete,
        "sort": "name",
        "limit": MOST_NAMES,
    }
    try:
        with api.understood(), api.connect() as rest:
            seen = rest.call("GET", OVERVIEW, query=query, timeout_s=ANSWER_S)
            rows = cast("list[dict[str, object]]", seen.get("rows", []))
            names = [str(row["group"]) for row in rows]
    except Failure:
        return []
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


GroupName = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        help="Name of the group.",
        show_default=False,
        autocompletion=group_names,
    ),
]
