"""`headgate audit` and `headgate rollback`: who changed what, and undoing it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.polling import answers
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.options.times import parse_ago, show_time
from headgate.cli.output.plan import carry_out, changes_of, lines_of
from headgate.cli.output.printing import (
    json_text,
    print_document,
    print_line,
    print_table,
)

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Query, Rest

PATH = "/api/v1/audit"
REVISIONS = "/api/v1/revisions"

PAGE = 100
"""Entries per request."""

MAX_LINES = 5
"""Changes that a table shows per revision; `headgate audit REVISION` shows all."""

FOLLOW_S = 1.0
"""Seconds between two polls."""

TIMEOUT_S = 300.0
"""A rollback may write 100,000 objects in one transaction."""

AUDIT_EPILOG = """[bold]Examples[/bold]

headgate audit

headgate audit 17                                  (everything that revision 17 changed)

headgate audit --kind group --key gold --since 2d

headgate audit --since 2026-11-21T18:00 --until 2026-11-21T20:00

headgate audit --author ci --limit 200 --json

headgate audit --follow                            (until Ctrl-C, through outages)"""

ROLLBACK_EPILOG = """[bold]Examples[/bold]

headgate rollback 17 --dry-run

headgate rollback 17 --yes

A rollback is itself a new revision, so it can be rolled back."""


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes to show."""

    kind: Annotated[
        str | None,
        typer.Option(
            help="Only changes of this kind: group, attachment, policy, override, "
            "setting, tenant, namespace or token.",
            show_default=False,
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            help="Only changes of this object: a group's name, or a subject as JSON.",
            show_default=False,
        ),
    ] = None
    author: Annotated[
        str | None,
        typer.Option(help="Only changes by this author.", show_default=False),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only changes since then: 2h, 7d or a time.",
            show_default=False,
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only changes until then: 2h, 7d or a time.",
            show_default=False,
        ),
    ] = None

    def query(self) -> "Query":
        """Return the parameters of the request."""
        named = {
            "kind": self.kind,
            "key": self.key,
            "author": self.author,
            "since": _moment(self.since),
            "until": _moment(self.until),
        }
        return {name: value for name, value in named.items() if value is not None}


@spread
def audit(
    api: Api,
    output: Output,
    chosen: ChangeFilter,
    revision: Annotated[
        int | None,
        typer.Argument(help="Only this revision.", show_default=False, min=0),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="At most this many revisions.", min=1)
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new changes.")
    ] = False,
) -> None:
    """Show who changed what, when and from where, newest first."""
    if follow and chosen.until is not None:
        raise Misused("--until: not together with --follow, which waits for changes")
    query = chosen.query()
    form = output.format()
    with api.connect() as rest:
        if revision is not None:
            one = rest.call("GET", f"{REVISIONS}/{revision}")
            if not print_document(one, form, names=lambda: [str(revision)]):
                _print_one(one)
            return
        listed = list(islice(_newest(rest, query), limit))
        if follow:
            _follow(rest, query, listed, as_json=form == "json")
        elif not print_document(
            listed, form, names=lambda: [str(one["revision"]) for one in listed]
        ):
            rows = [row for one in listed for row in _rows(one)]
            headings = ["revision>", "when", "who", "from", "what"]
            print_table(headings, rows, in_full=form == "wide")


@spread
def rollback(
    revision: Annotated[int, typer.Argument(help="The revision to go back to.", min=0)],
    api: Api,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Restore the state of an earlier revision; tokens are left alone."""
    with api.connect() as rest:

        def ask(dry_run: bool) -> "JsonObject":
            return rest.call(
                "POST",
                f"{REVISIONS}/{revision}/rollback",
                query={"dry_run": "true" if dry_run else "false"},
                timeout_s=TIMEOUT_S,
            )

        carry_out(ask, dry_run=dry_run, yes=yes, as_json=as_json)


def _moment(text: str | None) -> float | None:
    """Return the time in `text`, seconds since the epoch."""
    if text is None:
        return None
    return parse_ago(text, datetime.now().astimezone()).timestamp()


def _newest(rest: "Rest", query: "Query") -> "Iterator[JsonObject]":
    """Yield entries, newest first, fetching pages as needed."""
    asked: dict[str, str | int | float] = {**query, "limit": PAGE}
    while True:
        page = rest.call("GET", PATH, query=asked)
        yield from cast("list[JsonObject]", page.get("items", []))
        before = page.get("next")
        if before is None:
            return
        asked["before"] = cast("int", before)


def _follow(
    rest: "Rest", query: "Query", shown: "list[JsonObject]", *, as_json: bool
) -> None:
    """Print new entries, oldest first, until Ctrl-C."""
    seen = cast("int", shown[0]["revision"]) if shown else _revision(rest)
    known = [list(reversed(shown))]

    def newer() -> "list[JsonObject]":
        if known:
            return known.pop()
        entries = _newest(rest, query)
        later = takewhile(lambda one: cast("int", one["revision"]) > seen, entries)
        return list(later)[::-1]

    for entries in answers(newer, every_s=FOLLOW_S):
        for entry in entries:
            seen = max(seen, cast("int", entry["revision"]))
            if as_json:
                print_line(json_text(entry))
            else:
                _print_one(entry)


def _revision(rest: "Rest") -> int:
    """Return the revision in force."""
    return cast("int", rest.call("GET", "/healthz")["revision"])


def _print_one(entry: "JsonObject") -> None:
    when = show_time(cast("float", entry["at_s"]))
    who = f"{entry['author']} from {entry['address']}"
    print_line(f"revision {entry['revision']}  {when}  {who}: {entry['action']}")
    for line in lines_of(changes_of(entry)):
        print_line(f"  {line}")


def _rows(entry: "JsonObject") -> Iterator[list[str]]:
    """Yield the rows of a revision: its changes, or else the action."""
    changes = changes_of(entry)
    lines = [" ".join(line.split()) for line in lines_of(changes[:MAX_LINES])]
    if len(changes) > MAX_LINES:
        more = len(changes) - MAX_LINES
        lines.append(f"… {more} more: headgate audit {entry['revision']}")
    head = [
        str(entry["revision"]),
        show_time(cast("float", entry["at_s"])),
        str(entry["author"]),
        str(entry["address"]),
    ]
    for line in lines or [str(entry["action"])]:
        yield [*head, line]
        head = [""] * len(head)
