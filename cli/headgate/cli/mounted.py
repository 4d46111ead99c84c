"""`headgate simulate` and `headgate pipeline`: applications of other components."""

from __future__ import annotations

import typer

from headgate.cli.failure import OK, Failure


def simulate(context: typer.Context) -> None:
    """Run scenarios on a simulated cluster, reproducible from a seed."""
    from headgate.simulation.command import simulate as command

    mounted = typer.Typer(
        rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False
    )
    mounted.command("simulate")(command)
    _run(mounted, context, "headgate simulate")


def pipeline(context: typer.Context) -> None:
    """Analyse the usage topic with Spark: usage, violations, unfairness."""
    try:
        from headgate.pipeline.command import app

        _run(app, context, "headgate pipeline")
    except ModuleNotFoundError as missing:
        package = (missing.name or "more").partition(".")[0]
        raise Failure(
            f"`headgate pipeline` needs {package}: "
            "pip install 'headgate[spark,kafka,plot]'"
        ) from missing


def _run(mounted: typer.Typer, context: typer.Context, name: str) -> None:
    code: object = mounted(
        args=context.args,
        prog_name=name,
        standalone_mode=False,
        help_option_names=["-h", "--help"],  # as of all other commands
    )
    raise typer.Exit(code if isinstance(code, int) else OK)
