"""`headgate attach`, `detach` and `attachments`: which subjects a group counts."""

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import APPLY, ATTACHMENTS
from headgate.cli.failure import Failure, Misused
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.output.confirmation import confirm, confirm_change
from headgate.cli.output.plan import print_plan
from headgate.cli.output.printing import Listing, print_items, print_result
from headgate.cli.output.unknown_names import warn_of_cluster

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Rest

DEFAULT_NAME = "*"
"""Stands for the default of its kind: everyone without an attachment of their own."""

_SCHEME = "persistent://"
"""What Pulsar's names of topics begin with; the API knows them without it."""


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
        if "topic" in said:
            said["topic"] = said["topic"].removeprefix(_SCHEME)
        return {k: None if name == DEFAULT_NAME else name for k, name in said.items()}


_EPILOG = """[bold]Examples[/bold]

headgate {verb} --tenant acme

headgate {verb} --namespace acme/orders

headgate {verb} --user alice --client '*'    (the default for alice's clients)"""

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
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Attach a subject to a group, which then counts its requests.

    Asks first if that moves the subject out of another group; without a terminal,
    needs --yes.
    """
    names = subject.names()
    attachment = {"subject": names, "group": group}
    with api.connect() as rest:
        body: dict[str, object] = {"attachments": [attachment]}
        if dry_run:
            plan = rest.call("POST", APPLY, body=body, query={"dry_run": "true"})
            _warn_of_cluster(rest, names)
            print_plan(plan, as_json)
            return
        confirm_change(rest, APPLY, body, yes=yes)
        answer = rest.call("PUT", ATTACHMENTS, body=attachment)
        _warn_of_cluster(rest, names)
    print_result(f"{shown_subject(names)} attached to {group}", answer, as_json=as_json)


@spread
def detach(
    subject: SubjectOptions, api: Api, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Detach a subject from its group, whose limits then no longer apply.

    Asks first; without a terminal, needs --yes.
    """
    names = subject.names()
    query = {kind: name or "" for kind, name in names.items()}
    shown = shown_subject(names)
    with api.connect() as rest:
        group = _group_of(rest, names)
        confirm(
            [f"{shown} will be detached from group {group}, which limits it"], yes=yes
        )
        rest.call("DELETE", ATTACHMENTS, query=query)
    print_result(f"{shown} detached", {"detached": names}, as_json=as_json)


def _warn_of_cluster(rest: "Rest", names: dict[str, str | None]) -> None:
    cluster = names.get("cluster")
    if cluster is not None:
        warn_of_cluster(rest, cluster)


def _group_of(rest: "Rest", names: dict[str, str | None]) -> str:
    """Return the group that a subject itself is attached to.

    Raises:
        Failure: It is attached to none.
    """
    query = {"kind": "+".join(names)}
    if first := next(iter(names.values())):
        query["name"] = first
    for item in rest.pages(ATTACHMENTS, query):
        if item["subject"] == names:
            return str(item["group"])
    raise Failure(f"{shown_subject(names)} is attached to no group")


@spread
def list_attachments(
    api: Api,
    output: Output,
    group: Annotated[
        str | None,
        typer.Option(help="Only this group's attachments.", show_default=False),
    ] = None,
) -> None:
    """List the subjects that are attached to groups."""
    chosen = output.format()
    with api.connect() as rest:
        items = list(rest.pages(ATTACHMENTS, {} if group is None else {"group": group}))
    print_items(_LISTING, items, chosen)


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


def _options(item: "JsonObject") -> str:
    """Return a subject as `headgate detach` takes it."""
    subject = cast("dict[str, str | None]", item.get("subject", {}))
    return " ".join(
        f"--{kind}={shlex.quote(DEFAULT_NAME if name is None else name)}"
        for kind, name in subject.items()
    )


_LISTING = Listing["JsonObject"](
    ["subject", "group"],
    _row,
    _options,
    wide=["attached by", "revision>"],
    wide_row=lambda item: [
        "its operator" if item.get("own") else "an admin",
        str(item.get("revision", "")),
    ],
)
