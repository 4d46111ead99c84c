"""The command line's tree, and the one place where failures become exit codes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.failure import FAILED, INTERRUPTED, OK, Failure, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_EPILOG = """[bold]From scratch to a limit[/bold]

headgate up                                             (in one terminal)

headgate group create gold --limit requests=1000/s      (in another)

headgate tenant create acme

headgate attach gold --tenant acme

headgate status

Then, in your program: [bold]headgate.connect("http://127.0.0.1:8080").limiter(tenant="acme").try_acquire(requests=1)[/bold]

[bold]Or see it all at once:[/bold] headgate demo

[bold]Exit codes[/bold]: 0 success, 1 failed or refused, 2 usage error."""

_SERVERS, _LIMITS = "Servers", "Quotas"
_WATCHING, _CHANGES, _OFFLINE = "Watching", "Changes", "Without a server"
"""Headings of the help."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: where it is defined, so that only this module is imported.

    Attributes:
        module: Below `headgate.cli`.
        attribute: A function, or a `typer.Typer` with commands of its own.
        panel: Heading of the help.
        epilog: Attribute with the text below the help of a function.
        help: Of a `typer.Typer`; a function's is its docstring.
        passes_on: Whether another application reads the arguments and the options.
    """

    module: str
    attribute: str
    panel: str
    epilog: str | None = None
    help: str | None = None
    passes_on: bool = False


COMMANDS: Mapping[str, Entry] = {
    "up": Entry("up", "up", _SERVERS, "UP_EPILOG"),
    "demo": Entry("demo.command", "demo", _SERVERS, "DEMO_EPILOG"),
    "bus": Entry(
        "commands.bus",
        "bus",
        _SERVERS,
        help="Run a bus of your own, and manage its topic and keys.",
    ),
    "token": Entry(
        "commands.token",
        "token",
        _SERVERS,
        help="Create, list and delete bearer tokens.",
    ),
    "setting": Entry(
        "commands.settings",
        "setting",
        _SERVERS,
        help="Show and change the dynamic configuration.",
    ),
    "group": Entry(
        "commands.groups",
        "group",
        _LIMITS,
        help="Create, show, change and delete groups.",
    ),
    "tenant": Entry(
        "commands.tenants", "tenant", _LIMITS, help="Create, list and delete tenants."
    ),
    "namespace": Entry(
        "commands.tenants",
        "namespace",
        _LIMITS,
        help="Create, list and delete namespaces.",
    ),
    "attach": Entry("commands.attachments", "attach", _LIMITS, "ATTACH_EPILOG"),
    "detach": Entry("commands.attachments", "detach", _LIMITS, "DETACH_EPILOG"),
    "attachments": Entry(
        "commands.attachments", "list_attachments", _LIMITS, "LIST_EPILOG"
    ),
    "policy": Entry(
        "commands.policies",
        "policy",
        _LIMITS,
        help="Limit the rates of topics, per broker, namespace or topic.",
    ),
    "override": Entry(
        "commands.overrides", "override", _LIMITS, help="Change limits temporarily."
    ),
    "apply": Entry("commands.apply", "apply", _CHANGES, "APPLY_EPILOG"),
    "delete": Entry("commands.apply", "delete", _CHANGES, "DELETE_EPILOG"),
    "export": Entry("commands.apply", "export", _CHANGES, "EXPORT_EPILOG"),
    "audit": Entry("commands.audit", "audit", _CHANGES, "AUDIT_EPILOG"),
    "rollback": Entry("commands.audit", "rollback", _CHANGES, "ROLLBACK_EPILOG"),
    "top": Entry("top.command", "top", _WATCHING, "TOP_EPILOG"),
    "status": Entry("commands.status", "status", _WATCHING, "STATUS_EPILOG"),
    "explain": Entry("commands.explain", "explain", _WATCHING, "EXPLAIN_EPILOG"),
    "slots": Entry("commands.status", "slots", _WATCHING, "SLOTS_EPILOG"),
    "context": Entry(
        "commands.contexts",
        "context",
        _OFFLINE,
        help="Name servers, and choose the one that commands ask.",
    ),
    "completion": Entry(
        "commands.completion", "completion", _OFFLINE, "COMPLETION_EPILOG"
    ),
    "simulate": Entry("mounted", "simulate", _OFFLINE, passes_on=True),
    "pipeline": Entry("mounted", "pipeline", _OFFLINE, passes_on=True),
}

_PASS_ON: dict[str, object] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": ["--no-such-help"],
}
"""Leaves every argument after the command's name to the mounted application."""


def application(words: Sequence[str]) -> typer.Typer:
    """Return the application with the command that `words` begin with, or with all.

    Only what is registered is imported, so a command does not pay for the others.
    """
    app = typer.Typer(
        name="headgate",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,  # `headgate completion` is the one way
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    named = words[0] if words else ""
    for name in [named] if named in COMMANDS else COMMANDS:
        _register(app, name, COMMANDS[name])
    return app


def _register(app: typer.Typer, name: str, entry: Entry) -> None:
    module = import_module(f"headgate.cli.{entry.module}")
    found: typer.Typer | Callable[..., None] = getattr(module, entry.attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, help=entry.help, rich_help_panel=entry.panel)
        return
    app.command(
        name,
        epilog=None if entry.epilog is None else getattr(module, entry.epilog),
        rich_help_panel=entry.panel,
        context_settings=_PASS_ON if entry.passes_on else None,
        add_help_option=not entry.passes_on,
    )(found)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"headgate {version('headgate')}\n")
        raise typer.Exit


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
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: object = application(_words_to_complete() or words)(
            args=words,
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


def _words_to_complete() -> list[str]:
    """Return the words that a shell asks to complete; none if it does not ask."""
    if "_HEADGATE_COMPLETE" not in os.environ:
        return []
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()  # registers the shells that typer knows
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return line.split()[1:]


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
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
