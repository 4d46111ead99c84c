"""The settings of a group as options, said once for `create` and `update`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Annotated, Literal

import typer

from headgate.cli.failure import Misused
from headgate.cli.options.limits import LimitJson, parse_limit


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What a group can be told; None where the command line said nothing."""

    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="LIMIT",
            help="DIMENSION=RATE/PERIOD, and if need be ,burst=UNITS and ,scope=node. "
            "RATE is a number such as 1000, 10M or 1.5Ki, or unlimited; PERIOD is s "
            "(default), m, h, d or 10s. Give the option once per dimension.",
            show_default=False,
        ),
    ] = None
    mode: Annotated[
        Literal["balanced", "strict"] | None,
        typer.Option(
            help="strict never exceeds rate·window + burst.", show_default=False
        ),
    ] = None
    may_owe: Annotated[
        bool | None,
        typer.Option(
            "--may-owe/--no-debt",
            help="Admit while the level is ≥ 0 and then charge, or only what is there.",
            show_default=False,
        ),
    ] = None
    isolation: Annotated[
        Literal["fair", "hold", "closed", "open"] | None,
        typer.Option(
            help="What an agent that is cut off may spend: an equal part, what it "
            "had, nothing, anything.",
            show_default=False,
        ),
    ] = None
    refusal: Annotated[
        Literal["reject", "delay", "wait", "suppress", "shadow"] | None,
        typer.Option(
            help="What a caller meets when the group is exhausted.", show_default=False
        ),
    ] = None
    parent: Annotated[
        str | None,
        typer.Option(help="Group that this one is part of.", show_default=False),
    ] = None
    weight: Annotated[
        float | None, typer.Option(help="Among its siblings.", show_default=False)
    ] = None
    soft_threshold: Annotated[
        float | None,
        typer.Option(
            help="Part of the rate, up to 1, above which callers are warned.",
            show_default=False,
        ),
    ] = None
    per_partition: Annotated[
        bool | None,
        typer.Option(
            "--per-partition/--whole-topic",
            help="Each partition of a topic has the limits of scope node whole, or all "
            "share them; limits of scope cluster are always shared.",
            show_default=False,
        ),
    ] = None

    def said(self) -> dict[str, object]:
        """Return the settings that were given, apart from limits.

        Raises:
            Misused: One is no number.
        """
        given = {k: v for k, v in asdict(self).items() if v is not None}
        given.pop("limit", None)
        for name, value in given.items():
            if isinstance(value, float) and not isfinite(value):  # not in JSON
                option = name.replace("_", "-")
                raise Misused(f"--{option} {value}: expected a number")
        return given

    def limits(self) -> list[LimitJson]:
        """Return the limits that were given.

        Raises:
            Misused: One can't be read.
        """
        return [parse_limit(one) for one in self.limit or []]
