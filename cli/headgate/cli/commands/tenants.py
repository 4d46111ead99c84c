"""`headgate tenant` and `headgate namespace`: who can be attached to a group."""

from typing import Annotated, cast

import typer

from headgate.cli.client.paths import NAMESPACES, TENANTS, segment
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.output.confirmation import DELETE, confirm_change
from headgate.cli.output.printing import Listing, print_items, print_result

tenant = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
namespace = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Tenant = Annotated[str, typer.Argument(metavar="TENANT", show_default=False)]
Namespace = Annotated[
    str, typer.Argument(metavar="TENANT/NAMESPACE", show_default=False)
]


@tenant.command("create")
@spread
def create_tenant(tenant_name: Tenant, api: Api, as_json: AsJson = False) -> None:
    """Create a tenant; if it already exists, nothing changes."""
    _put(_tenant_path(tenant_name), f"tenant {tenant_name}", api, as_json)


@tenant.command("list")
@spread
def list_tenants(api: Api, output: Output) -> None:
    """List all tenants."""
    _list(TENANTS, _TENANTS, api, output)


@tenant.command("delete")
@spread
def delete_tenant(
    tenant_name: Tenant, api: Api, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete a tenant, which must not have namespaces; detaches it from its group.

    Asks first if the tenant is attached to a group; without a terminal, needs --yes.
    """
    path = _tenant_path(tenant_name)
    with api.connect() as rest:
        confirm_change(rest, DELETE, {"tenants": {tenant_name: {}}}, yes=yes)
        rest.call("DELETE", path)
    _say_deleted(f"tenant {tenant_name}", as_json)


@namespace.command("create")
@spread
def create_namespace(name: Namespace, api: Api, as_json: AsJson = False) -> None:
    """Create a namespace of a tenant; if it already exists, nothing changes."""
    _put(_namespace_path(name), f"namespace {name}", api, as_json)


@namespace.command("list")
@spread
def list_namespaces(tenant_name: Tenant, api: Api, output: Output) -> None:
    """List the namespaces of a tenant."""
    _list(f"{NAMESPACES}/{segment(tenant_name)}", _NAMESPACES, api, output)


@namespace.command("delete")
@spread
def delete_namespace(
    name: Namespace, api: Api, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete a namespace, with its policies and attachments and those of its topics.

    Asks first if that removes a limit; without a terminal, needs --yes.
    """
    path = _namespace_path(name)
    with api.connect() as rest:
        confirm_change(rest, DELETE, {"namespaces": [name]}, yes=yes)
        rest.call("DELETE", path)
    _say_deleted(f"namespace {name}", as_json)


def _tenant_path(name: str) -> str:
    return f"{TENANTS}/{segment(name)}"


def _namespace_path(name: str) -> str:
    tenant_name, slash, rest = name.partition("/")
    if not slash:
        raise Misused(f"{name!r}: expected TENANT/NAMESPACE, such as acme/orders")
    return f"{NAMESPACES}/{segment(tenant_name)}/{segment(rest)}"


def _put(path: str, what: str, api: Api, as_json: bool) -> None:
    with api.connect() as rest:
        answer, is_new = rest.put(path, body={})
    outcome = "created" if is_new else "already exists"
    print_result(f"{what} {outcome}", answer, as_json=as_json)


def _say_deleted(what: str, as_json: bool) -> None:
    print_result(f"{what} deleted", {"deleted": what}, as_json=as_json)


def _list(
    path: str, listing: Listing[dict[str, object]], api: Api, output: Output
) -> None:
    chosen = output.format()
    with api.connect() as rest:
        items = list(rest.pages(path))
    print_items(listing, items, chosen)


def _full_name(item: dict[str, object]) -> str:
    """Return a tenant's name, or a namespace's with its tenant."""
    owner = f"{item['tenant']}/" if "tenant" in item else ""
    return f"{owner}{item['name']}"


def _cells(item: dict[str, object]) -> list[str]:
    return [_full_name(item)]


def _of_tenant(item: dict[str, object]) -> list[str]:
    """Return what only ``-o wide`` shows of a tenant."""
    names = (item.get("admin_roles"), item.get("allowed_clusters"))
    return [
        *(", ".join(cast("list[str]", one or [])) for one in names),
        str(item.get("revision", "")),
    ]


_TENANTS = Listing[dict[str, object]](
    ["tenant"],
    _cells,
    _full_name,
    wide=["admin roles", "allowed clusters", "revision>"],
    wide_row=_of_tenant,
)
_NAMESPACES = Listing[dict[str, object]](
    ["namespace"],
    _cells,
    _full_name,
    wide=["revision>"],
    wide_row=lambda item: [str(item.get("revision", ""))],
)
