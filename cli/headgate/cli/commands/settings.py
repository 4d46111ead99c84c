"""`headgate setting`: the dynamic configuration, by Pulsar's names of its keys."""

from typing import Annotated

import typer

from headgate.cli.client.paths import APPLY, SETTINGS, segment
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.output.confirmation import DELETE, confirm_change
from headgate.cli.output.plan import print_plan
from headgate.cli.output.printing import print_document, print_result, print_table

setting = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Key = Annotated[str, typer.Argument(help="Name of the key.", show_default=False)]

_SET_EPILOG = """[bold]Examples[/bold]

headgate setting set preciseDispatcherFlowControl true

headgate setting set resourceUsagePublishIntervalInSecs 5 --dry-run

For rates, use headgate policy set dispatch --broker …"""


@setting.command("list")
@spread
def list_settings(api: Api, output: Output) -> None:
    """List the keys that are set; all others have their defaults."""
    chosen = output.format()
    with api.connect() as rest:
        settings = rest.call("GET", SETTINGS)
    if not print_document(settings, chosen, names=lambda: sorted(settings)):
        rows = [[key, str(text)] for key, text in sorted(settings.items())]
        print_table(["key", "value"], rows, in_full=chosen == "wide")


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
def unset_setting(
    key: Key, api: Api, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Restore the default of a key.

    Asks first if that removes a rate; without a terminal, needs --yes.
    """
    with api.connect() as rest:
        confirm_change(rest, DELETE, {"settings": {key: ""}}, yes=yes)
        rest.call("DELETE", f"{SETTINGS}/{segment(key)}")
    line = f"setting {key} reset to its default"
    print_result(line, {"unset": key}, as_json=as_json)
