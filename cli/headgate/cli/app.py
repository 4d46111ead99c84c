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
        panel: Heading of the list of commands.
        help: Its line there; for a function, also the first line of its docstring.
        module: Below `headgate.cli`.
        attribute: A function, or a `typer.Typer` with commands of its own.
        epilog: Attribute with the text below the help of a function.
        passes_on: Whether another application reads the arguments and the options.
    """

    panel: str
    help: str
    module: str
    attribute: str
    epilog: str | None = None
    passes_on: bool = False


COMMANDS: Mapping[str, Entry] = {
    "up": Entry(
        _SERVERS,
        "Start the REST API and the embedded bus; Ctrl-C stops both.",
        "up",
        "up",
        "UP_EPILOG",
    ),
    "envoy": Entry(
        _SERVERS,
        "Answer Envoy's rate limit filter, nginx and Traefik from memory.",
        "envoy",
        "envoy",
        "ENVOY_EPILOG",
    ),
    "demo": Entry(
        _SERVERS,
        "Keep five processes to one quota while their demand shifts.",
        "demo.command",
        "demo",
        "DEMO_EPILOG",
    ),
    "bus": Entry(
        _SERVERS,
        "Run a bus of your own, and manage its topic and keys.",
        "commands.bus",
        "bus",
    ),
    "token": Entry(
        _SERVERS, "Create, list and delete bearer tokens.", "commands.token", "token"
    ),
    "setting": Entry(
        _SERVERS,
        "Show and change the dynamic configuration.",
        "commands.settings",
        "setting",
    ),
    "group": Entry(
        _LIMITS, "Create, show, change and delete groups.", "commands.groups", "group"
    ),
    "tenant": Entry(
        _LIMITS, "Create, list and delete tenants.", "commands.tenants", "tenant"
    ),
    "namespace": Entry(
        _LIMITS, "Create, list and delete namespaces.", "commands.tenants", "namespace"
    ),
    "attach": Entry(
        _LIMITS,
        "Attach a subject to a group, which then counts its requests.",
        "commands.attachments",
        "attach",
        "ATTACH_EPILOG",
    ),
    "detach": Entry(
        _LIMITS,
        "Detach a subject from its group, whose limits then no longer apply.",
        "commands.attachments",
        "detach",
        "DETACH_EPILOG",
    ),
    "attachments": Entry(
        _LIMITS,
        "List the subjects that are attached to groups.",
        "commands.attachments",
        "list_attachments",
        "LIST_EPILOG",
    ),
    "policy": Entry(
        _LIMITS,
        "Limit the rates of topics, per broker, namespace or topic.",
        "commands.policies",
        "policy",
    ),
    "override": Entry(
        _LIMITS, "Change limits temporarily.", "commands.overrides", "override"
    ),
    "apply": Entry(
        _CHANGES,
        "Bring groups, attachments and policies into the state that a file describes.",
        "commands.apply",
        "apply",
        "APPLY_EPILOG",
    ),
    "delete": Entry(
        _CHANGES,
        "Delete everything that a file names, in one transaction.",
        "commands.apply",
        "delete",
        "DELETE_EPILOG",
    ),
    "export": Entry(
        _CHANGES,
        "Print the configuration as a file that `headgate apply` takes.",
        "commands.apply",
        "export",
        "EXPORT_EPILOG",
    ),
    "audit": Entry(
        _CHANGES,
        "Show who changed what, when and from where, newest first.",
        "commands.audit",
        "audit",
        "AUDIT_EPILOG",
    ),
    "rollback": Entry(
        _CHANGES,
        "Restore the state of an earlier revision; tokens are left alone.",
        "commands.audit",
        "rollback",
        "ROLLBACK_EPILOG",
    ),
    "top": Entry(
        _WATCHING,
        "Show the usage of groups against their limits, live, and who uses them.",
        "top.command",
        "top",
        "TOP_EPILOG",
    ),
    "status": Entry(
        _WATCHING,
        "Show demand, share, admitted, refused and level of each agent, live.",
        "commands.status",
        "status",
        "STATUS_EPILOG",
    ),
    "explain": Entry(
        _WATCHING,
        "Explain who gets how much and why, with the formulas and all their inputs.",
        "commands.explain",
        "explain",
        "EXPLAIN_EPILOG",
    ),
    "slots": Entry(
        _WATCHING,
        "Show how many requests are in flight, by agent.",
        "commands.status",
        "slots",
        "SLOTS_EPILOG",
    ),
    "context": Entry(
        _OFFLINE,
        "Name servers, and choose the one that commands use.",
        "commands.contexts",
        "context",
    ),
    "completion": Entry(
        _OFFLINE,
        "Print the script that lets a shell complete commands, options and groups.",
        "commands.completion",
        "completion",
        "COMPLETION_EPILOG",
    ),
    "simulate": Entry(
        _OFFLINE,
        "Run scenarios on a simulated cluster, reproducible from a seed.",
        "mounted",
        "simulate",
        passes_on=True,
    ),
    "pipeline": Entry(
        _OFFLINE,
        "Analyse the usage topic with Spark: usage, violations, unfairness.",
        "mounted",
        "pipeline",
        passes_on=True,
    ),
}

_PASS_ON: dict[str, object] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": ["--no-such-help"],
}
"""Leaves every argument after the command's name to the mounted application."""


def application(words: Sequence[str]) -> typer.Typer:
    """Return the application for a command line of `words`.

    Only the command that they begin with is imported.  The names of the others are
    enough to list them, and to say that no command has a given name.
    """
    app = typer.Typer(
        name="headgate",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,  # `headgate completion` is the only way
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    named = next((word for word in words if word != "--"), "")
    if named in COMMANDS:
        _register(app, named, COMMANDS[named])
    else:
        for name, entry in COMMANDS.items():
            app.command(name, help=entry.help, rich_help_panel=entry.panel)(_not_run)
    return app


def _not_run() -> None:
    """Stand in for a command that is only listed and can't be run here."""
    raise AssertionError("a command that was only listed runs")


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
    _prepare_streams()
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
        return _fail(said + _help_hint(misuse, words), misuse.exit_code)
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


def _prepare_streams() -> None:
    """Make stdin, stdout and stderr usable, however the process was started.

    A stream that was closed is empty.  Text that the locale's encoding does not have
    is escaped on stdout, as Python does on stderr: it comes after the change was made.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _words_to_complete() -> list[str]:
    """Return the words that a shell asks to complete; none if it does not ask."""
    if "_HEADGATE_COMPLETE" not in os.environ:
        return []
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()  # registers the shells that typer knows
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return line.split()[1:]


def _help_hint(misuse: typer.TyperException, words: Sequence[str]) -> str:
    """Return a hint at the help of the command that was misused."""
    context: object = getattr(misuse, "ctx", None)
    path = getattr(context, "command_path", None) or _command_of(words)
    return f" (see `{path} --help`)"


def _command_of(words: Sequence[str]) -> str:
    """Return the command that a command line of `words` runs.

    >>> _command_of(["group", "create", "gold", "--limit"])
    'headgate group create'
    """
    command: object = typer.main.get_command(application(words))
    path = "headgate"
    for word in words:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path += f" {word}"
    return path


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"headgate: {one_line(message)}\n")
    return code


def _close_stdout() -> None:
    """Keep the interpreter from flushing into the broken pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
