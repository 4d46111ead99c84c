"""`headgate attach`, `detach` and `attachments`: which groups count whom."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import APPLY, ATTACHMENTS
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson, DryRun
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.plan import print_plan
from headgate.cli.output.printing import print_list, print_result

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject

DEFAULT_NAME = "*"
"""Stands for the default of its kind: everyone without an attachment of their own."""


@dataclass(frozen=True, slots=True)
class SubjectOptions:
    """The subject, one option per kind; None for a kind that was not given."""

    cluster: Annotated[
        str | None, typer.Option(help="A whole cluster.", show_default=False)
    ] = None
    tenant: Annotated[
        str | None, typer.Option(help="A tenant.", show_default=False)
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT/NAMESPACE", help="A namespace.", show_default=False
        ),
    ] = None
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT/NAMESPACE/TOPIC", help="A topic.", show_default=False
        ),
    ] = None
    subscription: Annotated[
        str | None, typer.Option(help="A subscription.", show_default=False)
    ] = None
    user: Annotated[str | None, typer.Option(help="A user.", show_default=False)] = None
    client: Annotated[
        str | None,
        typer.Option(help="A client id, alone or with --user.", show_default=False),
    ] = None

    def names(self) -> dict[str, str | None]:
        """Return kind → name of what was given; None stands for the default.

        Raises:
            Misused: No kind was given.
        """
        said = {kind: name for kind, name in asdict(self).items() if name is not None}
        if not said:
            raise Misused("expected a subject, such as --tenant acme")
        return {k: None if name == DEFAULT_NAME else name for k, name in said.items()}


_EPILOG = """[bold]Examples[/bold]

headgate {verb} --tenant acme

headgate {verb} --namespace acme/orders

headgate {verb} --user alice --client '*'    (alice's clients without a quota)"""

ATTACH_EPILOG = _EPILOG.format(verb="attach gold")
DETACH_EPILOG = _EPILOG.format(verb="detach")

LIST_EPILOG = """[bold]Examples[/bold]

headgate attachments

headgate attachments --group gold --json"""


@spread
def attach(
    group: GroupName,
    subject: SubjectOptions,
    api: Api,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Attach a subject to a group, which then counts its requests."""
    names = subject.names()
    attachment = {"subject": names, "group": group}
    with api.connect() as rest:
        if dry_run:
            body = {"attachments": [attachment]}
            plan = rest.call("POST", APPLY, body=body, query={"dry_run": "true"})
            print_plan(plan, as_json)
            return
        answer = rest.call("PUT", ATTACHMENTS, body=attachment)
    print_result(f"{shown_subject(names)} attached to {group}", answer, as_json=as_json)


@spread
def detach(subject: SubjectOptions, api: Api, as_json: AsJson = False) -> None:
    """Detach a subject from its group."""
    names = subject.names()
    query = {kind: name or "" for kind, name in names.items()}
    with api.connect() as rest:
        rest.call("DELETE", ATTACHMENTS, query=query)
    print_result(
        f"{shown_subject(names)} detached", {"detached": names}, as_json=as_json
    )


@spread
def list_attachments(
    api: Api,
    group: Annotated[
        str | None, typer.Option(help="Only this group's.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the subjects that are attached to groups."""
    with api.connect() as rest:
        items = list(rest.pages(ATTACHMENTS, {} if group is None else {"group": group}))
    print_list(["subject", "group"], items, _row, as_json=as_json)


def _row(item: "JsonObject") -> list[str]:
    subject = cast("dict[str, str | None]", item.get("subject", {}))
    return [shown_subject(subject), str(item.get("group"))]


def shown_subject(names: dict[str, str | None]) -> str:
    """Return a subject in readable form.

    >>> shown_subject({"user": "alice", "client": None})
    'user alice, client *'
    """
    return ", ".join(
        f"{kind} {DEFAULT_NAME if name is None else name}"
        for kind, name in names.items()
    )
