"""`headgate tenant` and `headgate namespace`: who can be attached to a group."""

from typing import Annotated

import typer

from headgate.cli.client.paths import NAMESPACES, TENANTS, segment
from headgate.cli.failure import Misused
from headgate.cli.options.common import Api, AsJson
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.printing import print_list, print_result

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
def list_tenants(api: Api, as_json: AsJson = False) -> None:
    """List all tenants."""
    _list(TENANTS, "tenant", api, as_json)


@tenant.command("delete")
@spread
def delete_tenant(tenant_name: Tenant, api: Api, as_json: AsJson = False) -> None:
    """Delete a tenant, which must not have namespaces."""
    _delete(_tenant_path(tenant_name), f"tenant {tenant_name}", api, as_json)


@namespace.command("create")
@spread
def create_namespace(name: Namespace, api: Api, as_json: AsJson = False) -> None:
    """Create a namespace of a tenant; if it already exists, nothing changes."""
    _put(_namespace_path(name), f"namespace {name}", api, as_json)


@namespace.command("list")
@spread
def list_namespaces(tenant_name: Tenant, api: Api, as_json: AsJson = False) -> None:
    """List the namespaces of a tenant."""
    path = f"{NAMESPACES}/{segment(tenant_name)}"
    _list(path, "namespace", api, as_json)


@namespace.command("delete")
@spread
def delete_namespace(name: Namespace, api: Api, as_json: AsJson = False) -> None:
    """Delete a namespace."""
    _delete(_namespace_path(name), f"namespace {name}", api, as_json)


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


def _delete(path: str, what: str, api: Api, as_json: bool) -> None:
    with api.connect() as rest:
        rest.call("DELETE", path)
    print_result(f"{what} deleted", {"deleted": what}, as_json=as_json)


def _list(path: str, what: str, api: Api, as_json: bool) -> None:
    with api.connect() as rest:
        items = list(rest.pages(path))
    print_list([what], items, lambda item: [_full_name(item)], as_json=as_json)


def _full_name(item: dict[str, object]) -> str:
    """Return a tenant's name, or a namespace's with its tenant."""
    owner = f"{item['tenant']}/" if "tenant" in item else ""
    return f"{owner}{item['name']}"
