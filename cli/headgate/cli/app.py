"""The command line's tree, and the one place where failures become exit codes."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.commands.apply import APPLY_EPILOG, apply
from headgate.cli.commands.attachments import (
    ATTACH_EPILOG,
    DETACH_EPILOG,
    LIST_EPILOG,
    attach,
    detach,
    list_attachments,
)
from headgate.cli.commands.audit import AUDIT_EPILOG, ROLLBACK_EPILOG, audit, rollback
from headgate.cli.commands.bus import bus
from headgate.cli.commands.completion import COMPLETION_EPILOG, completion
from headgate.cli.commands.explain import EXPLAIN_EPILOG, explain
from headgate.cli.commands.groups import group
from headgate.cli.commands.overrides import override
from headgate.cli.commands.policies import policy
from headgate.cli.commands.settings import setting
from headgate.cli.commands.status import STATUS_EPILOG, status
from headgate.cli.commands.tenants import namespace, tenant
from headgate.cli.commands.token import token
from headgate.cli.demo.command import DEMO_EPILOG, demo
from headgate.cli.failure import FAILED, INTERRUPTED, OK, Failure, one_line
from headgate.cli.top.command import TOP_EPILOG, top
from headgate.cli.up import UP_EPILOG, up

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """[bold]From scratch to a limit[/bold]

headgate up                                             (in one terminal)

headgate group create gold --limit requests=1000/s      (in another)

headgate tenant create acme

headgate attach gold --tenant acme

headgate status

Then, in your program: [bold]headgate.connect("http://127.0.0.1:8080").limiter(tenant="acme").try_acquire(requests=1)[/bold]

[bold]Or see it all at once:[/bold] headgate demo

[bold]Exit codes[/bold]: 0 success, 1 failed or refused, 2 usage error."""

app = typer.Typer(
    name="headgate",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SERVERS, _LIMITS = "Servers", "Quotas"
_WATCHING, _CHANGES, _OFFLINE = "Watching", "Changes", "Without a server"
"""Headings of the help."""

app.command("up", epilog=UP_EPILOG, rich_help_panel=_SERVERS)(up)
app.command("demo", epilog=DEMO_EPILOG, rich_help_panel=_SERVERS)(demo)
_add = partial(app.add_typer, rich_help_panel=_SERVERS)
_add(bus, name="bus", help="Run a bus of your own, and manage its topic and keys.")
_add(token, name="token", help="Create, list and delete bearer tokens.")
_add(setting, name="setting", help="Show and change the dynamic configuration.")

_add = partial(app.add_typer, rich_help_panel=_LIMITS)
_add(group, name="group", help="Create, show, change and delete groups.")
_add(tenant, name="tenant", help="Create, list and delete tenants.")
_add(namespace, name="namespace", help="Create, list and delete namespaces.")
_command = partial(app.command, rich_help_panel=_LIMITS)
_command("attach", epilog=ATTACH_EPILOG)(attach)
_command("detach", epilog=DETACH_EPILOG)(detach)
_command("attachments", epilog=LIST_EPILOG)(list_attachments)
_add(
    policy,
    name="policy",
    help="Limit the rates of topics, per broker, namespace or topic.",
)
_add(override, name="override", help="Change limits temporarily.")

_command = partial(app.command, rich_help_panel=_CHANGES)
_command("apply", epilog=APPLY_EPILOG)(apply)
_command("audit", epilog=AUDIT_EPILOG)(audit)
_command("rollback", epilog=ROLLBACK_EPILOG)(rollback)

_command = partial(app.command, rich_help_panel=_WATCHING)
_command("top", epilog=TOP_EPILOG)(top)
_command("status", epilog=STATUS_EPILOG)(status)
_command("explain", epilog=EXPLAIN_EPILOG)(explain)

_command = partial(app.command, rich_help_panel=_OFFLINE)
_command("completion", epilog=COMPLETION_EPILOG)(completion)

_PASS_ON = {"ignore_unknown_options": True, "help_option_names": ["--no-such-help"]}
"""Leaves every argument after the command's name to the mounted application."""


@_command("simulate", context_settings={**_PASS_ON, "allow_extra_args": True})
def simulate(context: typer.Context) -> None:
    """Run scenarios on a simulated cluster, reproducible from a seed."""
    from headgate.simulation.command import simulate as command

    # Mounted on demand, because the simulation imports numpy.
    mounted = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    mounted.command("simulate")(command)
    code: object = mounted(
        args=context.args, prog_name="headgate simulate", standalone_mode=False
    )
    raise typer.Exit(code if isinstance(code, int) else OK)


@_command(
    "pipeline",
    context_settings={**_PASS_ON, "allow_extra_args": True},
    add_help_option=False,
)
def pipeline(context: typer.Context) -> None:
    """Analyse the usage topic with Spark: usage, violations, unfairness."""
    from headgate.pipeline.command import app as mounted

    # Mounted on demand, as above.
    code: object = mounted(
        args=context.args, prog_name="headgate pipeline", standalone_mode=False
    )
    raise typer.Exit(code if isinstance(code, int) else OK)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"headgate {version('headgate')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """One quota for a whole cluster, enforced in every process."""


def run(arguments: Sequence[str] | None) -> int:
    """Run the command line; see `headgate.cli.main`."""
    try:
        code: object = app(
            args=list(arguments) if arguments is not None else None,
            prog_name="headgate",
            standalone_mode=False,
        )
    except Failure as failure:
        return _fail(str(failure), failure.exit_code)
    except typer.TyperException as misuse:
        said = misuse.format_message()
        if not said:  # no command was given: the help was shown instead
            return misuse.exit_code
        return _fail(said + _help_hint(misuse), misuse.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit as ending:
        # The reader, such as `head`, closed the pipe: typer and rich exit with 1.
        if not isinstance(ending.__context__, BrokenPipeError):
            raise
        _close_stdout()
        return OK
    except OSError as error:
        return _fail(str(error), FAILED)
    return code if isinstance(code, int) else OK


def _help_hint(misuse: typer.TyperException) -> str:
    """Return a hint at the help of the command that was misused."""
    context: object = getattr(misuse, "ctx", None)
    path = getattr(context, "command_path", "headgate")
    return f" (see `{path} --help`)"


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"headgate: {one_line(message)}\n")
    return code


def _close_stdout() -> None:
    """Keep the interpreter from flushing into the broken pipe when it exits."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
