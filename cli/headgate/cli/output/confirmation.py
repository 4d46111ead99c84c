"""Confirmation of changes that take a limit off somebody.

At a terminal the command asks.  Elsewhere nobody can be asked, so it needs ``--yes``,
as GitHub's `gh` does: a script that lifts a limit should say that it means to.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from headgate.cli.failure import Failure, RefusedByApi
from headgate.cli.options.broker_settings import RATES
from headgate.cli.output.plan import ChangeJson, changes_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headgate.cli.client.rest import JsonObject, Rest

DELETE = "/api/v1/delete"
"""Takes a file of quotas and deletes what it names."""

MOST_LINES = 20
"""Consequences that are listed; the rest is counted."""

_RATE_KEYS = {key for keys in RATES.values() for key in keys if key is not None}


def lifted(changes: Iterable[ChangeJson]) -> list[str]:
    """Return a sentence for each change that takes a limit off somebody.

    >>> lifted([{"kind": "attachment", "key": '[["tenant","acme"]]',
    ...          "before": {"group": "gold"}, "after": {"group": "silver"}}])
    ['tenant acme will move from group gold to silver']
    """
    told: list[str] = []
    for change in changes:
        before, after = change["before"], change["after"]
        if before is None:
            continue
        name = name_of(change).removeprefix(f"{change['kind']} ")
        if change["kind"] == "attachment":
            old, new = before.get("group"), (after or {}).get("group")
            if after is None:
                told.append(
                    f"{name} will be detached from group {old}, which limits it"
                )
            elif old != new:
                told.append(f"{name} will move from group {old} to {new}")
        elif change["kind"] == "policy" and after is None:
            told.append(f"the rate of {name} will be removed")
        elif change["kind"] == "setting" and after is None and name in _RATE_KEYS:
            told.append(f"the broker's rate {name} will be removed")
    return told


def confirm(consequences: Sequence[str], *, yes: bool) -> None:
    """Ask whether to go on, if there are consequences and `yes` was not given.

    Raises:
        Failure: The user declined, or there is no terminal to ask at.
    """
    if yes or not consequences:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        more = len(consequences) - 1
        and_more = f" (and {more} more)" if more else ""
        raise Failure(f"{consequences[0]}{and_more}; pass --yes to confirm")
    for line in consequences[:MOST_LINES]:
        typer.echo(line, err=True)
    if len(consequences) > MOST_LINES:
        typer.echo(f"… {len(consequences) - MOST_LINES} more", err=True)
    if not typer.confirm("Continue?", err=True):
        raise Failure("cancelled; nothing was changed")


def confirm_change(rest: Rest, path: str, body: JsonObject, *, yes: bool) -> None:
    """Ask before a change that takes a limit off somebody.

    Args:
        rest: Connection to the API.
        path: Takes a file of quotas, and a dry run.
        body: The file that stands for the change.
        yes: Do not ask.

    Raises:
        Failure: The user declined, or there is no terminal to ask at.
    """
    if yes:
        return
    try:
        plan = rest.call("POST", path, body=body, query={"dry_run": "true"})
    except RefusedByApi:
        return  # so will be the change itself, with a better reason
    confirm(lifted(changes_of(plan)), yes=yes)
