"""The settings of a group as options, shared by `create` and `update`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Annotated, Literal

import typer

from headgate.cli.failure import Misused
from headgate.cli.options.limits import LimitJson, parse_limit

ANY_SLOTS = -1
"""The option's value when requests in flight are not limited."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group; None for each one that was not given."""

    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="LIMIT",
            help="DIMENSION=RATE/PERIOD, optionally with ,burst=UNITS and ,scope=node. "
            "RATE is a number such as 1000, 10M or 1.5Ki, or unlimited; PERIOD is s "
            "(default), m, h, d or 10s, or a calendar period such as month, "
            "optionally with ,zone=Europe/Zurich. Repeat the option for each "
            "dimension.",
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
            help="Admit any request while the level is ≥ 0, or only what it covers.",
            show_default=False,
        ),
    ] = None
    isolation: Annotated[
        Literal["fair", "hold", "closed", "open"] | None,
        typer.Option(
            help="What an agent may spend during a partition: an equal part, what "
            "it had, nothing, anything.",
            show_default=False,
        ),
    ] = None
    refusal: Annotated[
        Literal["reject", "delay", "wait", "suppress", "shadow"] | None,
        typer.Option(
            help="What happens to a request when the group is exhausted.",
            show_default=False,
        ),
    ] = None
    parent: Annotated[
        str | None,
        typer.Option(help="Parent group.", show_default=False),
    ] = None
    weight: Annotated[
        float | None,
        typer.Option(help="Weight among its siblings.", show_default=False),
    ] = None
    soft_threshold: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the rate above which callers are warned.",
            show_default=False,
        ),
    ] = None
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT",
            help="Tenant whose operators may attach to the group; '' for none.",
            show_default=False,
        ),
    ] = None
    offered_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT",
            help="Another tenant whose operators may attach to it; may be repeated, "
            "'' for none.",
            show_default=False,
        ),
    ] = None
    per_partition: Annotated[
        bool | None,
        typer.Option(
            "--per-partition/--whole-topic",
            help="Apply limits of scope node to each partition, or to the whole topic; "
            "limits of scope cluster always cover the whole topic.",
            show_default=False,
        ),
    ] = None

    split: Annotated[
        Literal["even", "proportional", "none"] | None,
        typer.Option(
            help="How each process divides its share among its topics: in equal parts, "
            "in proportion to their use, or not at all.",
            show_default=False,
        ),
    ] = None

    slots: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Most requests in flight at once in the cluster; -1 for no limit.",
            min=-1,
            show_default=False,
        ),
    ] = None

    per: Annotated[
        Literal[
            "tenant", "namespace", "topic", "subscription", "user", "client", "none"
        ]
        | None,
        typer.Option(
            help="Apply the limits separately to each value of this part of the "
            "subject, such as each user; with none, all share them.",
            show_default=False,
        ),
    ] = None

    def said(self) -> dict[str, object]:
        """Return the settings that were given, apart from limits.

        Raises:
            Misused: One is not a finite number.
        """
        given = {k: v for k, v in asdict(self).items() if v is not None}
        given.pop("limit", None)
        if self.split == "none":
            given["split"] = None
        if self.per == "none":
            given["per"] = None
        if self.slots == ANY_SLOTS:
            given["slots"] = None
        if self.owner == "":
            given["owner"] = None
        if self.offered_to is not None:
            given["offered_to"] = [name for name in self.offered_to if name]
        for name, value in given.items():
            if isinstance(value, float) and not isfinite(
                value
            ):  # JSON has no such numbers
                option = name.replace("_", "-")
                raise Misused(f"--{option} {value}: expected a number")
        return given

    def tenants(self) -> list[str]:
        """Return the tenants that were named: the owner, and those it is offered to."""
        named = [self.owner, *(self.offered_to or [])]
        return [name for name in named if name]

    def limits(self) -> list[LimitJson]:
        """Return the limits that were given.

        Raises:
            Misused: One can't be parsed.
        """
        return [parse_limit(one) for one in self.limit or []]
