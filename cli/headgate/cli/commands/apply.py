"""`headgate apply`, `delete` and `export`: the configuration as a file."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headgate.cli.client.paths import APPLY
from headgate.cli.failure import Failure, RefusedByApi
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.confirmation import DELETE, confirm, lifted
from headgate.cli.output.plan import carry_out, changes_of, is_person
from headgate.cli.output.printing import print_json, print_yaml

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Rest

TIMEOUT_S = 300.0
"""A file of 100,000 attachments is written in one transaction."""

STDIN = "-"

EXPORT = "/api/v1/export"
"""Returns the configuration as a file of quotas."""

APPLY_EPILOG = """[bold]A file[/bold]

tenants: {acme: {}}

groups: {gold: {limits: [{dimension: requests, rate: 1000}]}}

attachments: [{subject: {tenant: acme}, group: gold}]

[bold]Examples[/bold]

headgate apply -f quotas.yaml --dry-run

headgate apply -f quotas.yaml --yes

render-quotas | headgate apply -f - --json

The change is one transaction. What the file does not name stays as it is, unless the
file says prune: true. Applying the same file again changes nothing."""


File = Annotated[
    str,
    typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON; - for stdin."),
]

DELETE_EPILOG = """[bold]Examples[/bold]

headgate delete -f quotas.yaml --dry-run

headgate delete -f quotas.yaml --yes

Only names count: what the file says about a thing does not matter. An attachment stays
if its subject belongs to another group by now; a group stays, and nothing is changed,
while something else is attached to it."""

EXPORT_EPILOG = """[bold]Examples[/bold]

headgate export > quotas.yaml

headgate export --context staging -o json | headgate apply --context test -f -

The file holds everything but tokens. Overrides end when they would have ended."""


@spread
def apply(
    file: File,
    api: Api,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Bring groups, attachments and policies into the state that a file describes."""
    _send(APPLY, file, api, dry_run=dry_run, yes=yes, as_json=as_json)


@spread
def delete(
    file: File,
    api: Api,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete everything that a file names, in one transaction.

    Asks first; without a terminal, needs --yes if that takes a limit off somebody.
    """
    _send(DELETE, file, api, dry_run=dry_run, yes=yes, as_json=as_json)


@spread
def export(
    api: Api,
    output: Annotated[
        Literal["yaml", "json"], typer.Option("--output", "-o", help="Format.")
    ] = "yaml",
) -> None:
    """Print the configuration as a file that `headgate apply` takes."""
    with api.connect() as rest:
        whole = rest.call("GET", EXPORT, timeout_s=TIMEOUT_S)
    if output == "json":
        print_json(whole)
    else:
        print_yaml(whole)


def _send(
    path: str, file: str, api: Api, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Send a file; at a terminal, show the plan first and ask for confirmation."""
    from headgate.cli.client.rest import Content

    raw = _read(file)
    is_json = _is_json(file, raw)
    content = Content(raw, "application/json" if is_json else "application/yaml")

    def ask(rest: "Rest", dry_run: bool) -> "JsonObject":
        query = {"dry_run": "true" if dry_run else "false"}
        return rest.call("POST", path, body=content, query=query, timeout_s=TIMEOUT_S)

    with api.connect() as rest:
        try:
            if path == DELETE and not (dry_run or yes or is_person()):
                confirm(lifted(changes_of(ask(rest, True))), yes=yes)
            carry_out(partial(ask, rest), dry_run=dry_run, yes=yes, as_json=as_json)
        except RefusedByApi as refused:
            from headgate.cli.client.file_errors import with_place

            name = "<stdin>" if file == STDIN else file
            told = with_place(name, raw, refused, is_json=is_json)
            raise Failure(told) from refused


def _read(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:  # a file name with a NUL is a ValueError
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Failure(f"{file!r}: {why}") from error


def _is_json(file: str, raw: bytes) -> bool:
    """Return whether to parse it as JSON, which is a hundred times as fast as YAML."""
    if file.endswith(".json"):
        return True
    if file.endswith((".yaml", ".yml")) or raw.lstrip()[:1] != b"{":
        return False
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True
