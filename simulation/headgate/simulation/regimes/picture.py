"""The heat map of the page: one panel for each n, burst against rate."""

# matplotlib's stubs leave **kwargs without a type:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from headgate.simulation.regimes.cells import AGENTS, PER_DELAY, Cell, bursts, forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from headgate.simulation.regimes.judge import CellFigures

FARTHEST = 0.1
"""Totals at least this far from 1 have the strongest colour."""


def draw(found: Mapping[Cell, CellFigures], path: Path) -> None:
    """Write the heat map.

    Raises:
        OSError: If the file can't be written.
    """
    rows = sorted({burst for x in PER_DELAY for burst in bursts(x)})
    figure = Figure(figsize=(15, 6.5), layout="constrained")
    panels = figure.subplots(1, len(AGENTS), sharey=True)
    image = None
    for axes, agents in zip(panels, AGENTS, strict=True):
        values = _farthest(found, agents, rows)
        image = axes.imshow(
            values,
            cmap="RdBu_r",
            vmin=1 - FARTHEST,
            vmax=1 + FARTHEST,
            aspect="auto",
            origin="lower",
        )
        _label(axes, values, agents)
    panels[0].set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
    panels[0].set_ylabel("b = B/cost")
    assert image is not None, "there is at least one panel"
    figure.colorbar(image, ax=panels, label="admitted / central, farthest from 1")
    # Without a version or date, so that the same figures make the same file.
    figure.savefig(path, dpi=90, metadata={"Software": None})


def _farthest(
    found: Mapping[Cell, CellFigures], agents: int, rows: list[float]
) -> NDArray[np.float64]:
    """Return ``float64[rows, PER_DELAY]``: the total farthest from 1, or NaN."""
    values = np.full((len(rows), len(PER_DELAY)), np.nan)
    for cell, figures in found.items():
        if cell.agents != agents or not figures.counts or forbidden(cell):
            continue
        place = rows.index(cell.burst_costs), PER_DELAY.index(cell.per_delay)
        before = values[place]
        if np.isnan(before) or abs(figures.total - 1) > abs(before - 1):
            values[place] = figures.total
    return values


def _label(axes: Axes, values: NDArray[np.float64], agents: int) -> None:
    axes.set_title(f"n = {agents}")
    axes.set_xticks(range(len(PER_DELAY)), [f"{x:g}" for x in PER_DELAY], rotation=60)
    axes.set_xlabel("x = Q·δ/cost")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            strong = abs(value - 1) > 0.7 * FARTHEST
            axes.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if strong else "black",
            )
