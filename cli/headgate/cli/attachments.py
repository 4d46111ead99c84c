"""`headgate attach`, `detach`, `tenant` and `namespace`: who belongs to which group."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from headgate.cli.failure import Misused
from headgate.cli.options import DEFAULT_URL, AsJson, Token, Url
from headgate.cli.output import print_json, print_line, print_table

PATH = "/api/v1/attachments"

DEFAULT_NAME = "*"
"""Stands for the default of its kind: all that have no attachment of their own."""

Tenant = Annotated[str | None, typer.Option(help="A tenant.", show_default=False)]
Namespace = Annotated[
    str | None,
    typer.Option(metavar="TENANT/NAMESPACE", help="A namespace.", show_default=False),
]
Topic = Annotated[str | None, typer.Option(help="A topic.", show_default=False)]
Subscription = Annotated[
    str | None, typer.Option(help="A subscription.", show_default=False)
]
User = Annotated[str | None, typer.Option(help="A user.", show_default=False)]
Client = Annotated[
    str | None,
    typer.Option(help="A client id, alone or with --user.", show_default=False),
]
Cluster = Annotated[
    str | None, typer.Option(help="A whole cluster.", show_default=False)
]

_EPILOG = """[bold]Examples[/bold]

headgate {verb} --tenant acme

headgate {verb} --namespace acme/orders

headgate {verb} --user alice --client '*'    (all her clients without a quota)"""

tenant = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
namespace = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


def attach(
    group: Annotated[str, typer.Argument(help="The group.", show_default=False)],
    cluster: Cluster = None,
    tenant: Tenant = None,
    namespace: Namespace = None,
    topic: Topic = None,
    subscription: Subscription = None,
    user: User = None,
    client: Client = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Attach a subject to a group: its requests then count against the group."""
    from headgate.cli.rest import Rest

    subject = _subject(
        cluster=cluster,
        tenant=tenant,
        namespace=namespace,
        topic=topic,
        subscription=subscription,
        user=user,
        client=client,
    )
    with Rest(url, token=token) as rest:
        answer = rest.call("PUT", PATH, body={"subject": subject, "group": group})
    if as_json:
        print_json(answer)
    else:
        print_line(f"{_shown(subject)} attached to {group}")


def detach(
    cluster: Cluster = None,
    tenant: Tenant = None,
    namespace: Namespace = None,
    topic: Topic = None,
    subscription: Subscription = None,
    user: User = None,
    client: Client = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Detach a subject from the group that it is attached to."""
    from headgate.cli.rest import Rest

    subject = _subject(
        cluster=cluster,
        tenant=tenant,
        namespace=namespace,
        topic=topic,
        subscription=subscription,
        user=user,
        client=client,
    )
    query = {kind: name or "" for kind, name in subject.items()}
    with Rest(url, token=token) as rest:
        rest.call("DELETE", PATH, query=query)
    if as_json:
        print_json({"detached": subject})
    else:
        print_line(f"{_shown(subject)} detached")


ATTACH_EPILOG = _EPILOG.format(verb="attach gold")
DETACH_EPILOG = _EPILOG.format(verb="detach")


def list_attachments(
    url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """List what is attached to which group."""
    from headgate.cli.rest import Rest

    with Rest(url, token=token) as rest:
        items = list(rest.pages(PATH))
    if as_json:
        print_json(items)
        return
    rows: list[list[str]] = []
    for item in items:
        subject = cast("dict[str, str | None]", item.get("subject", {}))
        rows.append([_shown(subject), str(item.get("group"))])
    print_table(["subject", "group"], rows)


@tenant.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(show_default=False)],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Make a tenant; nothing changes when it is there already."""
    _put(f"/api/v1/tenants/{_segment(name)}", f"tenant {name}", url, token, as_json)


@tenant.command("list")
def list_tenants(
    url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """List all tenants."""
    _list("/api/v1/tenants", "tenant", url, token, as_json)


@tenant.command("delete")
def delete_tenant(
    name: Annotated[str, typer.Argument(show_default=False)],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Delete a tenant; refused while it has namespaces."""
    path = f"/api/v1/tenants/{_segment(name)}"
    _delete(path, f"tenant {name}", url, token, as_json)


@namespace.command("create")
def create_namespace(
    name: Annotated[
        str, typer.Argument(metavar="TENANT/NAMESPACE", show_default=False)
    ],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Make a namespace of a tenant; nothing changes when it is there already."""
    _put(_namespace_path(name), f"namespace {name}", url, token, as_json)


@namespace.command("list")
def list_namespaces(
    tenant_name: Annotated[str, typer.Argument(metavar="TENANT", show_default=False)],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List the namespaces of a tenant."""
    path = f"/api/v1/namespaces/{_segment(tenant_name)}"
    _list(path, "namespace", url, token, as_json)


@namespace.command("delete")
def delete_namespace(
    name: Annotated[
        str, typer.Argument(metavar="TENANT/NAMESPACE", show_default=False)
    ],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Delete a namespace."""
    _delete(_namespace_path(name), f"namespace {name}", url, token, as_json)


def _subject(**names: str | None) -> dict[str, str | None]:
    """Return kind → name of what was said; None stands for the default.

    Raises:
        Misused: No kind was said.
    """
    said = {kind: name for kind, name in names.items() if name is not None}
    if not said:
        raise Misused("expected a subject, such as --tenant acme")
    return {k: None if name == DEFAULT_NAME else name for k, name in said.items()}


def _shown(subject: dict[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {DEFAULT_NAME if name is None else name}"
        for kind, name in subject.items()
    )


def _namespace_path(name: str) -> str:
    tenant_name, slash, rest = name.partition("/")
    if not slash:
        raise Misused(f"{name!r}: expected TENANT/NAMESPACE, such as acme/orders")
    return f"/api/v1/namespaces/{_segment(tenant_name)}/{_segment(rest)}"


def _segment(name: str) -> str:
    from headgate.cli.rest import segment

    return segment(name)


def _put(path: str, what: str, url: str, token: str | None, as_json: bool) -> None:
    from headgate.cli.rest import Rest

    with Rest(url, token=token) as rest:
        answer = rest.call("PUT", path, body={})
    if as_json:
        print_json(answer)
    else:
        print_line(f"{what} is there")


def _delete(path: str, what: str, url: str, token: str | None, as_json: bool) -> None:
    from headgate.cli.rest import Rest

    with Rest(url, token=token) as rest:
        rest.call("DELETE", path)
    if as_json:
        print_json({"deleted": what})
    else:
        print_line(f"{what} deleted")


def _list(path: str, what: str, url: str, token: str | None, as_json: bool) -> None:
    from headgate.cli.rest import Rest

    with Rest(url, token=token) as rest:
        items = list(rest.pages(path))
    if as_json:
        print_json(items)
    else:
        print_table([what], [[_full_name(item)] for item in items])


def _full_name(item: dict[str, object]) -> str:
    """Return a tenant's name, or a namespace's with its tenant."""
    owner = f"{item['tenant']}/" if "tenant" in item else ""
    return f"{owner}{item['name']}"
