"""Reads a scenario file, and reports a mistake in it in one line.

The first mistake raises `InvalidScenario`, which names the file, the key and what
was expected.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, cast

from headgate.simulation.scenario.scenario import (
    DemandPiece,
    Fault,
    FaultKind,
    GroupSpec,
    LimitChange,
    Network,
    Scenario,
)
from headgate.simulation.scenario.toml_table import InvalidKey, TomlTable

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.coordinator.config.configuration import Isolation, Mode

MOST_AGENTS = 1_000
"""Most agents of a scenario: all hear each other, so the work grows quadratically."""

MOST_REQUESTS = 50_000_000
"""Most requests expected in a scenario: about 2 GB of memory."""

MOST_SECONDS = 1_000_000.0
"""Longest scenario: eleven days; per-second tables stay small."""

MOST_DELAY_S = 60.0
"""Longest delay of a report; totals are compared only after the last has arrived."""

LEAST_INTERVAL_S = 0.05
"""Shortest heartbeat interval: the least time between any two reports of an agent."""

MOST_INTERVAL_S = 60.0
"""Longest heartbeat interval; a dozen at most are simulated after the end."""

PROBABILITY_FAULTS = ("loss", "duplicate", "reorder", "corrupt")
SECONDS_FAULTS = ("delay", "clock-jump")
PLAIN_FAULTS = ("crash", "leave", "pause", "partition", "cut", "duplicate-id")
FAULTS = (*PLAIN_FAULTS, *PROBABILITY_FAULTS, *SECONDS_FAULTS, "liar")


class InvalidScenario(ValueError):
    """A scenario file can't be used; the text is one line: file, key, expectation."""


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a file.

    Raises:
        InvalidScenario: If it can't be read or says something unexpected.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = cast("dict[str, object]", tomllib.loads(text))
    except OSError as error:
        reason = error.strerror or "can't be read"
        raise InvalidScenario(f"{path}: expected a readable file: {reason}") from error
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"{path}: expected UTF-8 text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        # Not only TOMLDecodeError: integers and nesting may exceed Python's bounds.
        reason = " ".join(str(error).split())
        raise InvalidScenario(f"{path}: expected TOML: {reason}") from error
    try:
        return parse_scenario(document, name=path.stem)
    except InvalidKey as error:
        raise InvalidScenario(f"{path}: {error}") from error


def parse_scenario(document: dict[str, object], *, name: str) -> Scenario:
    """Return the scenario in a parsed TOML document.

    Raises:
        InvalidKey: At the first key that is unknown, missing or unexpected.
    """
    top = TomlTable(document, "")
    seconds = top.number("seconds", above=0.0, most=MOST_SECONDS)
    measure_from = top.number("measure_from", 0.0, least=0.0)
    if measure_from >= seconds:
        raise top.invalid("measure_from", f"a number below seconds = {seconds:g}")
    seed = top.integer("seed", 1, least=0)
    count, weights = _agents(top.table("agents"))
    groups, named = _groups(top)
    names = tuple(group.name for group in groups)
    report = top.table("report", optional=True)
    interval_s = report.number(
        "interval", 1.0, least=LEAST_INTERVAL_S, most=MOST_INTERVAL_S
    )
    report.finish()
    network = _network(top.table("network", optional=True))
    context = _Context(seconds=seconds, count=count, names=names, named=named)
    scenario = Scenario(
        name=name,
        seconds=seconds,
        measure_from=measure_from,
        seed=seed,
        groups=groups,
        agents=count,
        weights=weights,
        interval_s=interval_s,
        network=network,
        demands=tuple(_demand(t, context) for t in top.tables("demand")),
        faults=tuple(_fault(t, context) for t in top.tables("fault")),
        changes=_changes(top.tables("change"), context),
        tree=named,
    )
    top.finish()
    _check_size(scenario)
    return scenario


class _Context:
    """What the tables of a scenario refer to."""

    def __init__(
        self, *, seconds: float, count: int, names: tuple[str, ...], named: bool
    ) -> None:
        self.seconds = seconds
        self.count = count
        self.names = names
        self.named = named

    def group(self, table: TomlTable) -> int:
        """Return the index of the group that a piece names."""
        if len(self.names) == 1 and not table.has("group"):
            return 0
        name = table.choice("group", self.names)
        return self.names.index(name)

    def span(self, table: TomlTable) -> tuple[float, float]:
        """Return from and until."""
        start = table.number("from", 0.0, least=0.0)
        until = table.number("until", max(self.seconds, start), least=0.0)
        if until < start:
            raise table.invalid("until", f"a number not below from = {start:g}")
        return start, until


def _agents(table: TomlTable) -> tuple[int, tuple[float, ...]]:
    count = table.integer("count", least=1, most=MOST_AGENTS)
    weights = table.numbers("weights", above=0.0)
    if weights and len(weights) != count:
        raise table.invalid("weights", f"none, or one for each of {count} agents")
    table.finish()
    return count, weights or (1.0,) * count


def _groups(top: TomlTable) -> tuple[tuple[GroupSpec, ...], bool]:
    named = top.is_list("group")
    tables = top.tables("group") if named else [top.table("group")]
    if not tables:
        raise top.invalid("group", "a table, or at least one [[group]]")
    groups: list[GroupSpec] = []
    for table in tables:
        group = _group(table, named=named)
        if group.name in {other.name for other in groups}:
            raise table.invalid("name", "a name that no other group has")
        groups.append(group)
    for table, group in zip(tables, groups, strict=True):
        _check_parent(table, group, {g.name: g for g in groups})
    return tuple(groups), named


def _group(table: TomlTable, *, named: bool) -> GroupSpec:
    rate = table.rate("rate")
    burst = table.optional_number("burst", least=0.0)
    if burst == 0 and rate > 0:
        raise table.invalid("burst", "a number above 0")
    group = GroupSpec(
        name=table.text("name", None if named else "group"),
        rate=rate,
        burst=burst,
        mode=cast("Mode", table.choice("mode", ("balanced", "strict"), "balanced")),
        may_owe=table.flag("may_owe", True),
        isolation=cast(
            "Isolation",
            table.choice("isolation", ("fair", "hold", "closed", "open"), "fair"),
        ),
    )
    if named:
        parent = table.text("parent", "") or None
        minimum = table.number("minimum", 0.0, least=0.0)
        maximum = table.optional_number("maximum", least=0.0)
        if maximum is not None and maximum < minimum:
            raise table.invalid("maximum", f"a number not below minimum = {minimum:g}")
        group = replace(
            group,
            parent=parent,
            weight=table.number("weight", 1.0, above=0.0),
            minimum=minimum,
            maximum=inf if maximum is None else maximum,
        )
    table.finish()
    return group


def _check_parent(
    table: TomlTable, group: GroupSpec, by_name: dict[str, GroupSpec]
) -> None:
    seen = {group.name}
    above = group.parent
    while above is not None:
        if above not in by_name:
            raise table.invalid("parent", f"one of {', '.join(map(repr, by_name))}")
        if above in seen:
            raise table.invalid("parent", "a group that is not below this one")
        seen.add(above)
        above = by_name[above].parent


def _network(table: TomlTable) -> Network:
    network = Network(
        delay_s=table.number("delay", 0.02, least=0.0, most=MOST_DELAY_S),
        jitter_s=table.number("jitter", 0.01, least=0.0, most=MOST_DELAY_S),
        loss=table.number("loss", 0.0, least=0.0, most=1.0),
        duplicate=table.number("duplicate", 0.0, least=0.0, most=1.0),
        reorder=table.number("reorder", 0.0, least=0.0, most=1.0),
    )
    table.finish()
    return network


def _demand(table: TomlTable, context: _Context) -> DemandPiece:
    start, until = context.span(table)
    shape = table.choice("shape", ("constant", "sine"), "constant")
    sine = shape == "sine"
    moves = table.optional_number("moves_every", above=0.0)
    demand = DemandPiece(
        agents=table.indices("agents", context.count, default_all=True),
        start_s=start,
        until_s=min(until, context.seconds),
        rate=table.number("rate", least=0.0),
        cost=table.number("cost", 1.0, above=0.0),
        poisson=table.choice("arrivals", ("poisson", "even"), "poisson") == "poisson",
        retry=table.flag("retry", False),
        group=context.group(table),
        period_s=table.number("period", above=0.0) if sine else None,
        phase_per_agent=table.number("phase_per_agent", 0.0) if sine else 0.0,
        moves_every_s=moves,
    )
    if moves is not None and (demand.until_s - start) / moves > MOST_SECONDS:
        raise table.invalid("moves_every", f"at most {MOST_SECONDS:g} moves")
    table.finish()
    return demand


def _fault(table: TomlTable, context: _Context) -> Fault:
    kind = table.choice("kind", FAULTS)
    agents = table.indices("agents", context.count)
    start, until = context.span(table)
    amount = 0.0
    if kind in PROBABILITY_FAULTS:
        amount = table.number("probability", least=0.0, most=1.0)
    elif kind == "delay":
        amount = table.number("seconds", least=0.0, most=MOST_DELAY_S)
    elif kind == "clock-jump":
        amount = table.number("seconds")
    elif kind == "liar":
        amount = table.number("multiplier", 1e6, least=0.0)
    table.finish()
    return Fault(
        kind=cast("FaultKind", kind),
        agents=agents,
        start_s=min(start, context.seconds),
        until_s=min(until, context.seconds),
        amount=amount,
    )


def _changes(tables: list[TomlTable], context: _Context) -> tuple[LimitChange, ...]:
    changes: list[LimitChange] = []
    for table in tables:
        burst = table.optional_number("burst", least=0.0)
        change = LimitChange(
            at_s=table.number("at", least=0.0, most=context.seconds),
            rate=table.rate("rate"),
            burst=burst,
            group=context.group(table),
        )
        if burst == 0 and change.rate > 0:
            raise table.invalid("burst", "a number above 0")
        table.finish()
        changes.append(change)
    return tuple(sorted(changes, key=lambda change: change.at_s))


def _check_size(scenario: Scenario) -> None:
    expected = sum(
        (d.until_s - d.start_s) * d.rate / d.cost * len(d.agents)
        for d in scenario.demands
        if d.until_s > d.start_s
    )
    if not isfinite(expected) or expected > MOST_REQUESTS:
        reason = f"expected at most {MOST_REQUESTS:,} requests in all"
        raise InvalidKey("demand", f"{reason}, got about {expected:.3g}")
