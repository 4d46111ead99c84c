"""`headgate audit` and `headgate rollback`: what was changed, and going back."""

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.polling import answers
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.times import parse_ago, show_time
from headgate.cli.output.plan import carry_out, changes_of, lines_of
from headgate.cli.output.printing import print_json, print_line, print_table

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Rest

PATH = "/api/v1/audit"
REVISIONS = "/api/v1/revisions"

PAGE = 100
"""Entries asked for at once."""

MAX_LINES = 5
"""Changes of one revision that a table tells; its own page tells all."""

FOLLOW_S = 1.0
"""Between two looks for something new."""

TIMEOUT_S = 300.0
"""Going back may write 100,000 things in one transaction."""

AUDIT_EPILOG = """[bold]Examples[/bold]

headgate audit

headgate audit 17                                  (all that revision 17 changed)

headgate audit --kind group --key gold --since 2d

headgate audit --author ci --limit 200 --json

headgate audit --follow                            (till Ctrl-C, through outages)"""

ROLLBACK_EPILOG = """[bold]Examples[/bold]

headgate rollback 17 --dry-run

headgate rollback 17 --yes

It is a new revision, so going back can itself be taken back."""


@spread
def audit(
    api: Api,
    revision: Annotated[
        int | None, typer.Argument(help="Only this one.", show_default=False, min=0)
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Only of group, attachment, policy, override, setting, tenant, "
            "namespace or token.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Only of this one: a group's name, a subject as JSON.",
            show_default=False,
        ),
    ] = None,
    author: Annotated[
        str | None, typer.Option(help="Only by this one.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only since then: 2h, 7d or a time.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Revisions at most.", min=1)
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell who changed what, when and from where; the newest first."""
    named = {"kind": kind, "key": key, "author": author}
    query = {name: text for name, text in named.items() if text is not None}
    since_s = 0.0
    if since is not None:
        since_s = parse_ago(since, datetime.now().astimezone()).timestamp()
    with api.connect() as rest:
        if revision is not None:
            _print_one(rest.call("GET", f"{REVISIONS}/{revision}"), as_json)
            return
        entries = _since(_newest(rest, query), since_s)
        listed = list(islice(entries, limit))
        if follow:
            _follow(rest, query, listed, as_json)
        elif as_json:
            print_json(listed)
        else:
            rows = [row for one in listed for row in _rows(one)]
            print_table(["revision>", "when", "who", "from", "what"], rows)


@spread
def rollback(
    revision: Annotated[int, typer.Argument(help="The revision to go back to.", min=0)],
    api: Api,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Bring everything into the state that a revision left; tokens stay as they are."""
    with api.connect() as rest:

        def ask(dry_run: bool) -> "JsonObject":
            return rest.call(
                "POST",
                f"{REVISIONS}/{revision}/rollback",
                query={"dry_run": "true" if dry_run else "false"},
                timeout_s=TIMEOUT_S,
            )

        carry_out(ask, dry_run=dry_run, yes=yes, as_json=as_json)


def _newest(rest: "Rest", query: dict[str, str]) -> "Iterator[JsonObject]":
    """Yield entries, the newest first, a page after the other as they are wanted."""
    asked: dict[str, str | int | float] = {**query, "limit": PAGE}
    while True:
        page = rest.call("GET", PATH, query=asked)
        yield from cast("list[JsonObject]", page.get("items", []))
        before = page.get("next")
        if before is None:
            return
        asked["before"] = cast("int", before)


def _since(entries: "Iterator[JsonObject]", since_s: float) -> "Iterator[JsonObject]":
    for entry in entries:
        if cast("float", entry["at_s"]) < since_s:
            return
        yield entry


def _follow(
    rest: "Rest", query: dict[str, str], shown: "list[JsonObject]", as_json: bool
) -> None:
    """Print entries as they come, the oldest first, until Ctrl-C."""
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
                print_line(json.dumps(entry, ensure_ascii=False))
            else:
                _print_one(entry, as_json=False)


def _revision(rest: "Rest") -> int:
    """Return the revision in force."""
    return cast("int", rest.call("GET", "/healthz")["revision"])


def _print_one(entry: "JsonObject", as_json: bool) -> None:
    if as_json:
        print_json(entry)
        return
    when = show_time(cast("float", entry["at_s"]))
    who = f"{entry['author']} from {entry['address']}"
    print_line(f"revision {entry['revision']}  {when}  {who}: {entry['action']}")
    for line in lines_of(changes_of(entry)):
        print_line(f"  {line}")


def _rows(entry: "JsonObject") -> Iterator[list[str]]:
    """Yield the rows of a revision: what it changed, or what was asked."""
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
