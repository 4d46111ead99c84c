"""`headgate slots`: who holds how many slots in flight of a group."""

from typing import TYPE_CHECKING, cast

from headgate.cli.client.paths import group_path
from headgate.cli.options.common import Api, AsJson
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.printing import print_json, print_line, print_table

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject

SLOTS_EPILOG = """[bold]Examples[/bold]

headgate group update gold --slots 20

headgate slots gold"""


@spread
def slots(group: GroupName, api: Api, as_json: AsJson = False) -> None:
    """Show how many requests are in flight, by agent."""
    with api.connect() as rest:
        told = rest.call("GET", f"{group_path(group)}/slots")
    if as_json:
        print_json(told)
        return
    if told["slots"] is None:
        print_line(f"{group} does not limit how many requests are in flight")
        return
    print_line(f"{group}: {told['in_use']} of {told['slots']} slots in use")
    rows = cast("list[JsonObject]", told["agents"])
    print_table(
        ("agent", "owned>", "in use>", "wanted>"),
        [[str(row[n]) for n in ("agent", "owned", "in_use", "wanted")] for row in rows],
    )
