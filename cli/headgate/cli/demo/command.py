"""`headgate demo`: all of Headgate on this machine, judged by what its callers saw."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.demo.script import DEFAULT_S, REQUESTS, SHAPES
from headgate.cli.failure import FAILED, Misused
from headgate.cli.output.printing import console, print_json, print_line

if TYPE_CHECKING:
    from rich.live import Live

    from headgate.cli.demo.script import Script
    from headgate.cli.demo.summary import DemoSummary
    from headgate.cli.output.share_table import ShareTable

LEGEND = (
    "every half second, in units/s: the total, then admitted/attempted of each agent"
)
"""Printed once, above the lines that replace the table if there is no terminal."""

DEMO_EPILOG = """[bold]Examples[/bold]

headgate demo

headgate demo --seconds 30 --bus kafka     (starts a broker; needs Java)

headgate demo --bus kafka://localhost:9092

headgate demo --bus curve                  (ZeroMQ, encrypted with temporary keys)

headgate demo --shape tokens               (few large requests, as to language models)

[bold]Exit code[/bold] 1 when the quota was not held: the total is not within 0.97 to
1.02 of one central bucket, a window of 10 s admits more than quota + 3 % + burst, or
an agent gets less than 0.9 of its max-min share. With --shape tokens, the last two are
replaced: the excess over one bucket's own is more than one request of each process."""


def demo(
    seconds: Annotated[
        float, typer.Option(help="Length of the run, from 20 s on (60 s with tokens).")
    ] = DEFAULT_S,
    bus: Annotated[
        str,
        typer.Option(
            metavar="zeromq|curve|kafka|kafka://HOST:PORT",
            help="What carries the reports; curve is encrypted zeromq.",
        ),
    ] = "zeromq",
    shape: Annotated[
        str,
        typer.Option(
            metavar="requests|tokens",
            help="Many small requests, or few of 500 to 8,000 tokens.",
        ),
    ] = REQUESTS.name,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the callers' arrivals; random by default.", min=0),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Keep the callers' logs in this new directory.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the summary, as JSON.")
    ] = False,
) -> None:
    """Keep five processes to one quota while their demand shifts.

    Starts the API, the bus and the agents on this machine, under a demand that is
    skewed, flips, rests, bursts and overloads; kills one agent and brings it back. Then
    compares what the callers saw with what one central bucket would have admitted.
    """
    import secrets

    from headgate.cli.demo.broker import check_bus
    from headgate.cli.demo.folder import run_folder
    from headgate.cli.demo.script import script

    if shape not in SHAPES:
        raise Misused(f"--shape: expected one of {', '.join(SHAPES)}, got {shape!r}")
    try:
        plan = script(seconds, SHAPES[shape])
    except ValueError as error:
        raise Misused(f"--seconds: {error}") from error
    check_bus(bus)
    chosen = secrets.randbelow(2**31) if seed is None else seed
    with run_folder(keep) as directory:
        summary = _run(plan, bus, directory, chosen, as_json)
    if as_json:
        print_json(summary.as_json() | {"bus": bus, "seed": chosen})
    else:
        from headgate.cli.demo.verdict import lines

        for line in lines(summary):
            print_line(line)
    if summary.faults:
        raise typer.Exit(FAILED)


def _run(
    plan: Script, bus: str, directory: Path, seed: int, as_json: bool
) -> DemoSummary:
    """Run the demo in front of an onlooker."""
    from headgate.cli.demo.broker import bus_address
    from headgate.cli.demo.stage import play
    from headgate.cli.process.children import Children, termination_as_interrupt

    with termination_as_interrupt(), Children() as children, _Onlooker(as_json) as seen:
        address = bus_address(children, bus, directory=directory, tell=seen.tell)
        return play(
            children, plan, bus=address, directory=directory, seed=seed, watcher=seen
        )


class _Onlooker:
    """A person at a terminal, a file, or a program that only wants JSON."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent
        self._console = console()
        self._live: Live | None = None
        self._is_begun = False

    def tell(self, line: str) -> None:
        """Print a line, above the table if there is one."""
        if not self._silent:
            self._console.print(line)

    def show(self, sheet: ShareTable) -> None:
        """Redraw the table, or print one line."""
        from headgate.cli.output.share_table import as_line, as_table

        if self._silent:
            return
        if not self._console.is_terminal:
            if not self._is_begun:
                print_line(LEGEND)
            self._is_begun = True
            print_line(as_line(sheet))
            return
        if self._live is None:
            from rich.live import Live

            # No refresh thread, because this process forks.
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(as_table(sheet), refresh=True)

    def __enter__(self) -> _Onlooker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
