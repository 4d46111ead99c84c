"""`headgate explain`: the inputs of a group's shares, and the formulas."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from headgate.cli.client.paths import group_path
from headgate.cli.failure import Failure
from headgate.cli.options.common import Api
from headgate.cli.options.completers import GroupName
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.output import Output
from headgate.cli.output.plain_words import sentences
from headgate.cli.output.printing import (
    counted,
    print_document,
    print_line,
    print_table,
)

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Rest
    from headgate.cli.output.use_json import UseJson

EXPLAIN_EPILOG = """[bold]Examples[/bold]

headgate explain gold

headgate explain gold --dimension requests --agent api-7

headgate explain gold --json      (to recompute it elsewhere)"""

_HEADINGS = (
    "agent",
    "λ demand/s>",
    "share/s>",
    "ceiling/s>",
    "held>",
    "predicted>",
    "admitted>",
    "refused>",
    "age>",
    "",
)

UNLIMITED = "∞"

LEAST_PERCENT = 0.01
"""Least loss that is shown: less is what is left of one that ended long ago."""


@spread
def explain(
    group: GroupName,
    api: Api,
    output: Output,
    dimension: Annotated[
        str | None,
        typer.Option(
            help="Only this dimension; by default all in use.", show_default=False
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Only how this agent's share is computed.", show_default=False
        ),
    ] = None,
) -> None:
    """Explain who gets how much and why, with the formulas and all their inputs."""
    chosen = output.format()
    told: list[JsonObject] = []
    with api.connect() as rest:
        use = rest.call("GET", f"{group_path(group)}/use")
        uses = cast("list[UseJson]", use.get("uses", []))
        in_use = [one.get("dimension", "") for one in uses]
        for name in [dimension] if dimension is not None else in_use:
            if name not in in_use:
                unseen = _unreported(rest, group, {name})
                raise Failure(
                    unseen or f"{group} {name} is not in use{_instead(in_use)}"
                )
            query = {"dimension": name}
            found = rest.call("GET", f"{group_path(group)}/explain", query=query)
            told.append({"group": group, "dimension": name, **found})
        unseen = "" if told else _unreported(rest, group)
    if agent is not None:
        told = [_only(one, agent) for one in told]
    names = (str(row["agent"]) for one in told for row in _agents(one))
    if print_document(told, chosen, names=lambda: dict.fromkeys(names)):
        return
    if not told:
        print_line(unseen or f"{group} is not in use")
    for one in told:
        for use_of in uses:
            if use_of.get("dimension") == one["dimension"]:
                for line in sentences(use_of):
                    print_line(line)
                print_line("")
        _print(one, alone=agent is not None, in_full=chosen == "wide")


def _unreported(rest: "Rest", group: str, of: set[str] | None = None) -> str:
    """Return why agents don't report the use of limits, or an empty string.

    They are a template's, or all have the scope node.

    Args:
        rest: Connection to the API.
        group: Name of the group.
        of: Only these dimensions.
    """
    shown = rest.call("GET", group_path(group))
    if per := shown.get("per"):
        return (
            f"{group} is a template: each {per} has its limits for itself, which only "
            f"agents know; in a process: Agent.explain('{group}[VALUE]', DIMENSION)"
        )
    limits = cast("list[JsonObject]", shown["limits"])
    found = [x for x in limits if of is None or x["dimension"] in of]
    if not found or any(x["scope"] != "node" for x in found):
        return ""
    names = ", ".join(str(x["dimension"]) for x in found)
    return (
        f"{group} {names}: scope node; each process enforces it on its own, "
        "so agents report no usage"
    )


def _instead(in_use: list[str]) -> str:
    return f"; in use: {', '.join(in_use)}" if in_use else ""


def _only(explanation: "JsonObject", agent: str) -> "JsonObject":
    """Return an explanation with one agent's row.

    Raises:
        Failure: The agent does not use the limit.
    """
    rows = _agents(explanation)
    found = [row for row in rows if row["agent"] == agent]
    if not found:
        limit = f"{explanation['group']} {explanation['dimension']}"
        names = [str(row["agent"]) for row in rows[:10]]
        raise Failure(
            f"agent {agent!r} does not use {limit}; those that do: {', '.join(names)}"
        )
    return {**explanation, "agents": found}


def _agents(explanation: "JsonObject") -> "list[JsonObject]":
    return cast("list[JsonObject]", explanation.get("agents", []))


def _print(one: "JsonObject", *, alone: bool, in_full: bool) -> None:
    n = {name: _figure(value) for name, value in one.items()}
    print_line(
        f"{one['group']} {one['dimension']}: revision {one['revision']}, "
        f"mode {one['mode']}, isolation {one['isolation']}, "
        f"{counted(n['members'], 'agent')}"
    )
    if one["rate"] is None:
        print_line(
            "\nunlimited: nothing is refused, so there is nothing to share out\n"
        )
    else:
        for line in (*_level(n), *_rate(n), *_shares(n)):
            print_line(line)
    if alone:
        for row in _agents(one):
            print_line(f"  {_own_share(row, n['theta'])}")
    print_table(_HEADINGS, [_row(row) for row in _agents(one)], in_full=in_full)
    for line in _reports(one, n):
        print_line(line)


def _level(n: dict[str, str]) -> tuple[str, ...]:
    """Return how the level is computed."""
    return (
        "",
        "the level: what a single bucket for the whole cluster would hold, in units",
        _named("L", "from what agents have reported", n["level_reported"]),
        _named("P", "predicted to be admitted since then", n["predicted"]),
        f"  E  = min(L − P, B) = min({n['level_reported']} − {n['predicted']}, "
        f"{n['burst']}) = {n['level']}   (below zero: a debt, paid back first)",
    )


def _rate(n: dict[str, str]) -> tuple[str, ...]:
    """Return how the rate to share out is computed."""
    return (
        "",
        "the rate to share out, in units/s",
        _named("Q", "the limit's rate", n["rate"]),
        _named("m", "margin for unreported admissions, units", n["margin"]),
        _named("H", "horizon over which the level is brought back, s", n["horizon_s"]),
        _named("r", "reserved for silent agents", n["reserved"]),
        "  Q' = max(0, Q + (E − m)/H − r) = "
        f"max(0, {n['rate']} + ({n['level']} − {n['margin']})/{n['horizon_s']}"
        f" − {n['reserved']}) = {n['available']}",
    )


def _shares(n: dict[str, str]) -> tuple[str, ...]:
    """Return how shares are computed."""
    fits = " (all demand fits)" if n["theta"] == UNLIMITED else ""
    return (
        "",
        "the shares: weighted max-min",
        _named("θ", "the water level: Σ min(λ, w·θ) = Q'", n["theta"] + fits),
        _named("s", "slack: the part of Q' that no share uses", n["slack"]),
        "  share = min(λ, w·θ);  ceiling = share + a part of the slack",
    )


def _own_share(row: "JsonObject", theta: str) -> str:
    share = _figure(row["share"])
    return (
        f"{row['agent']}: share = min(λ, w·θ) = min({_figure(row['demand'])}, "
        f"w·{theta}) = {share};  its bucket refills at {_figure(row['ceiling'])}"
    )


def _reports(one: "JsonObject", n: dict[str, str]) -> tuple[str, ...]:
    """Return how old and how complete the information is."""
    percent = 100.0 * cast("float", one["loss"])
    loss = f"{percent:.2g}" if percent >= LEAST_PERCENT else "0"
    lag_ms = 1000.0 * cast("float", one["lag_s"])
    return (
        f"reports take {lag_ms:.0f} ms, {loss} % are lost; "
        f"an agent not heard from for {n['lease_s']} s is silent",
        f"compared with a single bucket: {counted(n['error'], 'unit')} over (+) "
        "or under (−); "
        f"during a partition, at most {n['bound']} × Q more",
    )


def _named(letter: str, what: str, figure: str) -> str:
    return f"  {letter:<2} {what:<50} {figure:>12}"


def _row(row: "JsonObject") -> list[str]:
    state = str(row["state"])
    return [
        str(row["agent"]),
        *(_figure(row[name]) for name in ("demand", "share", "ceiling", "held")),
        *(_figure(row[name]) for name in ("predicted", "admitted", "refused")),
        f"{cast('float', row['age_s']):.1f} s",
        "" if state == "present" else state,
    ]


def _figure(value: object) -> str:
    """Return a number with up to five digits; ∞ for None."""
    if value is None:
        return UNLIMITED
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"
