"""`headgate apply`: plan and apply the desired state in a file."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.client.paths import APPLY
from headgate.cli.failure import Failure, RefusedByApi
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.plan import carry_out

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject

TIMEOUT_S = 300.0
"""A file of 100,000 attachments is written in one transaction."""

STDIN = "-"

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


@spread
def apply(
    file: Annotated[
        str,
        typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON; - for stdin."),
    ],
    api: Api,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Bring groups, attachments and policies into the state that a file describes."""
    from headgate.cli.client.rest import Content

    raw = _read(file)
    is_json = _is_json(file, raw)
    content = Content(raw, "application/json" if is_json else "application/yaml")
    with api.connect() as rest:

        def ask(dry_run: bool) -> "JsonObject":
            query = {"dry_run": "true" if dry_run else "false"}
            return rest.call(
                "POST", APPLY, body=content, query=query, timeout_s=TIMEOUT_S
            )

        try:
            carry_out(ask, dry_run=dry_run, yes=yes, as_json=as_json)
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
    """Tell whether to parse it as JSON, which is a hundred times as fast as YAML."""
    if file.endswith(".json"):
        return True
    if file.endswith((".yaml", ".yml")) or raw.lstrip()[:1] != b"{":
        return False
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True
