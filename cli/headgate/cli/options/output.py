"""``-o``: how a command that reads shows what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from headgate.cli.failure import Misused
from headgate.cli.options.common import AsJson  # noqa: TC001 - typer reads the annotation

Format = Literal["table", "wide", "json", "yaml", "name"]


@dataclass(frozen=True, slots=True)
class Output:
    """How to show what was found; ``--json`` is short for ``-o json``."""

    output: Annotated[
        Literal["json", "yaml", "wide", "name"] | None,
        typer.Option(
            "--output",
            "-o",
            help="json or yaml for programs, wide for all columns in full, name for "
            "the names alone.",
            show_default=False,
        ),
    ] = None
    as_json: AsJson = False

    def format(self) -> Format:
        """Return the format that was asked for.

        Raises:
            Misused: Two were.
        """
        if self.as_json and self.output not in {None, "json"}:
            raise Misused(f"--json: not together with -o {self.output}")
        return "json" if self.as_json else self.output or "table"
