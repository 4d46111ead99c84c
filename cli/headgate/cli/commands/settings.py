"""`headgate setting`: the dynamic configuration, by Pulsar's names of its keys."""

from typing import Annotated

import typer

from headgate.cli.client.paths import APPLY, SETTINGS, segment
from headgate.cli.options.common import Api, AsJson, DryRun
from headgate.cli.options.dataclass_options import spread
from headgate.cli.output.plan import print_plan
from headgate.cli.output.printing import print_json, print_result, print_table

setting = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Key = Annotated[str, typer.Argument(help="Name of the key.", show_default=False)]

_SET_EPILOG = """[bold]Examples[/bold]

headgate setting set preciseDispatcherFlowControl true

headgate setting set resourceUsagePublishIntervalInSecs 5 --dry-run

For rates, use headgate policy set dispatch --broker …"""


@setting.command("list")
@spread
def list_settings(api: Api, as_json: AsJson = False) -> None:
    """List the keys that are set; all others have their defaults."""
    with api.connect() as rest:
        settings = rest.call("GET", SETTINGS)
    if as_json:
        print_json(settings)
    else:
        rows = [[key, str(text)] for key, text in sorted(settings.items())]
        print_table(["key", "value"], rows)


@setting.command("set", epilog=_SET_EPILOG)
@spread
def set_setting(
    key: Key,
    value: Annotated[str, typer.Argument(show_default=False)],
    api: Api,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Set a key; takes effect within a second."""
    query = {"dry_run": "true" if dry_run else "false"}
    with api.connect() as rest:
        plan = rest.call("POST", APPLY, body={"settings": {key: value}}, query=query)
    print_plan(plan, as_json)


@setting.command("unset")
@spread
def unset_setting(key: Key, api: Api, as_json: AsJson = False) -> None:
    """Restore the default of a key."""
    with api.connect() as rest:
        rest.call("DELETE", f"{SETTINGS}/{segment(key)}")
    line = f"setting {key} reset to its default"
    print_result(line, {"unset": key}, as_json=as_json)
