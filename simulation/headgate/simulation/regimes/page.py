"""The page of regimes: how many cells reach the goal, the worst, the impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.simulation.regimes.cells import (
    AGENTS,
    DELAY_S,
    LOADS,
    LOSSES,
    PER_DELAY,
    Cell,
    forbidden,
)
from headgate.simulation.regimes.judge import (
    DELAYS_KEPT,
    LEAST_ADMISSIONS,
    STRAINED,
    TOTAL,
    CellFigures,
    held_to,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Found = dict[Cell, CellFigures]
"""The result of each cell that was run."""

WORST = 20
"""Cells in each table of the worst ones."""

MOST_MISSED = 60
"""Most cells listed as missing the goal; the count gives their true number."""

HEAD = """# Regimes

What all agents together admit, against one central token bucket of the same rate,
burst and owing rule on the same arrivals, over a grid of regimes. Everything counts
**from time 0**: each cell starts with a full bucket and without a warm-up. Nothing
fails in these runs except the reports that are lost where *loss* says so.

| axis | values |
|---|---|
| n, agents | {agents} |
| x = Q·δ/cost, costs that the rate earns while a report travels (δ = {delay:g} ms) | {per_delay} |
| b = B/cost, burst in costs | 1, 6, 60, 1000, and what makes B/Q 0.1 s, 1 s, 10 s, 60 s and 1 h |
| load, demand of all agents over Q | {loads} |
| skew | *alike*; *half*: the first agent wants half of the demand; *mover*: one agent wants all of it, and which one changes |
| owing | *debt*: a request passes at a level ≥ 0; *no-debt*: only if it fits |
| loss of reports | {losses} |

Left out are combinations that say nothing: a single agent has no skew and loses no
report, and of the buckets that a run can't drain one suffices. A cell is simulated
until about 60 admissions are expected of the rate, but for at most 1,600 seconds
times agents. The cost of a request is 1 unit or 80, in turn.

**Goal of each cell.** *total*, admitted / central, is {least:g} to {most:g} wherever
the central bucket admits {admissions} requests or more. *over*, the depth below the
central bucket's own depth in costs, is at no time more than one cost for each agent
that admitted anything within the age of information, and what the rate earns in that
age (0.105 s; a heartbeat more where reports are lost): that bound does not grow with
time, so neither may the excess. *delays*: over the whole grid, at least {kept:.0%} of
the refusals tell a delay of at most twice what a central bucket would tell that had
admitted the same requests, plus 0.3 s.

The page is made by `make regimes`; a fixed sample of the grid runs in `make test`.

"""  # noqa: E501 - rows of a table

COLUMNS = (
    "| cell | total | central admits | over, costs | unexplained | delays |\n"
    "|---|---|---|---|---|---|\n"
)


def page_of(found: Found, *, cells: int, picture: str) -> tuple[str, int]:
    """Return the page, and the number of cells that miss the goal.

    Args:
        found: The result of each cell that was run.
        cells: How many the grid has.
        picture: Address of the heat map, from the page; empty if there is none.
    """
    open_ = {cell: f for cell, f in found.items() if not forbidden(cell)}
    missed = {cell: f for cell, f in open_.items() if f.missed(held_to(cell, f))}
    lines = [_head(), *_verdict(found, open_, missed, cells=cells)]
    if picture:
        lines.append(f"![The total of each n, x and b farthest from 1]({picture})\n\n")
        lines.append(
            "The heat map shows, for each n, x and b, the total farthest from 1 over "
            "all loads, skews, owing rules and losses; cells that were not run, or "
            "that admit too little to be held to the goal, are blank.\n\n"
        )
    lines += _by_agents(open_)
    lines += _worst(open_)
    lines += _listed("Cells that miss the goal", missed)
    bounded = {c: f for c, f in open_.items() if f.missed() and c not in missed}
    lines += _bounded(bounded)
    lines += _impossible(found)
    return "".join(lines), len(missed)


def delays_kept(found: Found) -> float:
    """Return the fraction of all refusals with a sensible delay."""
    refusals = sum(figures.refusals for figures in found.values())
    kept = sum(figures.delays_kept for figures in found.values())
    return kept / refusals if refusals else 1.0


def _head() -> str:
    least, most = TOTAL
    return HEAD.format(
        agents=_listing(AGENTS),
        delay=1000 * DELAY_S,
        per_delay=_listing(PER_DELAY),
        loads=_listing(LOADS),
        losses=_listing(LOSSES),
        least=least,
        most=most,
        admissions=LEAST_ADMISSIONS,
        kept=DELAYS_KEPT,
    )


def _verdict(found: Found, open_: Found, missed: Found, *, cells: int) -> Iterator[str]:
    counted = sum(figures.counts for figures in open_.values())
    over = sum(figures.over > 0 for figures in open_.values())
    kept = delays_kept(open_)
    bounded = sum(bool(f.missed()) for f in open_.values()) - len(missed)
    first = ", first the quickest of each n, x and b, then the quickest of the others,"
    order = first if len(found) < cells else ""
    yield "## Result\n\n"
    yield (
        f"{len(found)} of the grid's {cells} cells were run{order} "
        f"with one seed. {len(found) - len(open_)} of them can't reach the goal (see "
        f"the end). Of the other {len(open_)}, **{len(missed)} miss it** where no "
        f"bound explains that, and {bounded} because of one. "
        f"{counted} have enough admissions to be held to a total, and {over} are over "
        f"by more than what is explained. {kept:.1%} of all refusals told a sensible "
        f"delay (goal: {DELAYS_KEPT:.0%}).\n\n"
    )


def _by_agents(open_: Found) -> Iterator[str]:
    yield "| n | cells | miss the goal | lowest total | highest total | most over, costs | delays |\n"  # noqa: E501
    yield "|---|---|---|---|---|---|---|\n"
    for agents in AGENTS:
        some = {c: f for c, f in open_.items() if c.agents == agents}
        totals = [f.total for f in some.values() if f.counts]
        if not totals:
            continue
        missed = sum(bool(f.missed()) for f in some.values())
        over = max(f.excess for f in some.values())
        yield (
            f"| {agents} | {len(some)} | {missed} | {min(totals):.3f} | "
            f"{max(totals):.3f} | {over:.1f} | {delays_kept(some):.1%} |\n"
        )
    yield "\n"


def _worst(open_: Found) -> Iterator[str]:
    counted = {cell: f for cell, f in open_.items() if f.counts}
    far = sorted(counted, key=lambda cell: -abs(counted[cell].total - 1))
    yield from _table(
        "Farthest from one central bucket", {c: counted[c] for c in far[:WORST]}
    )
    over = sorted(open_, key=lambda cell: -open_[cell].over)
    yield from _table(
        "Closest to the bound of excess, or beyond it",
        {c: open_[c] for c in over[:WORST]},
    )


def _listed(title: str, missed: Found) -> Iterator[str]:
    if not missed:
        yield f"## {title}\n\nNone.\n\n"
        return
    yield f"## {title}\n\n"
    if len(missed) > MOST_MISSED:
        yield f"The first {MOST_MISSED} of {len(missed)}.\n\n"
    for cell in list(missed)[:MOST_MISSED]:
        figures = missed[cell]
        told = figures.missed(held_to(cell, figures))
        yield f"- `{cell.name}`: {'; '.join(told)}\n"
    yield "\n"


def _bounded(some: Found) -> Iterator[str]:
    yield "## Cells that miss the goal because of a bound\n\n"
    least, most = STRAINED
    yield (
        "Where B < 2·Q·Δ, Δ being the age of information (0.105 s), the bucket fills "
        "within two such ages, and what overflows while agents wait for news is lost. "
        "Most of these cells reach the goal; all are held to "
        f"{least:g} to {most:g}.\n\n"
        "Where the burst is one request (b = 1) and all that the rate earns is asked "
        "for, agents that are asked within an age "
        "can't know that it was admitted elsewhere. What they admit together is owed, "
        "and a bucket in debt wastes nothing, while a central bucket is full until the "
        "next request comes: together they admit more than it does. They are held to "
        "burst and rate × time.\n\nThose that miss the goal:\n\n"
    )
    yield from _rows(some)


def _impossible(found: Found) -> Iterator[str]:
    yield "## Cells that can't reach the goal\n\n"
    yield (
        "Where B < 2·Q·δ the bucket fills, from empty, before anyone can hear of it: "
        "agents either reserve parts that go to waste, or collide. Such cells are run "
        "with load 2, debt and no loss, to show what happens.\n\n"
    )
    yield from _rows({cell: f for cell, f in found.items() if forbidden(cell)})


def _table(title: str, some: Found) -> Iterator[str]:
    yield f"## {title}\n\n"
    yield from _rows(some)


def _rows(some: Found) -> Iterator[str]:
    yield COLUMNS
    for cell, figures in some.items():
        part = figures.delays_kept / figures.refusals if figures.refusals else 1.0
        total = f"{figures.total:.3f}" if figures.counts else "–"
        yield (
            f"| `{cell.name}` | {total} | {figures.admissions:,} | "
            f"{figures.excess:.2f} | {max(0.0, figures.over):.2f} | {part:.0%} |\n"
        )
    yield "\n"


def _listing(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
