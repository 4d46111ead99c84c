"""The history: each picture becomes a point of two kinds of series.

Per limit: admitted, demand, refused, level, rate.  Per limit and agent: share,
admitted.  At its bounds, `MAX_LIMITS` and `MAX_AGENT_LINES`, it takes 130 MB; for a
cluster of ten groups, some hundred kB.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.api.history.ring_buffer import Rings
from headgate.api.live.snapshot import ClusterSnapshot

SPAN_S = 30 * 60
"""Length of the history: incidents are examined within half an hour."""

STEP_S = 5
"""Length of one point: 360 of them draw a line half as wide as a screen."""

MAX_LIMITS = 10_000
"""Series of limits: 5,000 groups in two dimensions, 72 MB."""

MAX_AGENT_LINES = 20_000
"""Series of agents in limits: 2 columns, 58 MB; beyond it silent ones are dropped."""

LIMIT_COLUMNS: tuple[str, ...] = ("admitted", "demand", "refused", "level", "rate")
AGENT_COLUMNS = ("share", "admitted")

LimitKey = tuple[int, str]
"""(group id, dimension)."""

LineKey = tuple[int, str, str]
"""(group id, dimension, agent)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentLine:
    """One agent's part of a limit over time, P points as in `Course`.

    Attributes:
        agent: Its id; empty for the sum of those that are not listed one by one.
        share: ``float32[P]`` allocated units/s.
        admitted: ``float32[P]`` units/s.
    """

    agent: str
    share: NDArray[np.float32]
    admitted: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """Past use of one limit: P points, oldest first, NaN where nothing was observed.

    Attributes:
        at_s: ``float64[P]`` middle of each step, seconds since the epoch.
        columns: ``float32[P]`` by name of `LIMIT_COLUMNS`; per second, or units.
        agents: The largest first.
    """

    at_s: NDArray[np.float64]
    columns: dict[str, NDArray[np.float32]]
    agents: tuple[AgentLine, ...]


class UsageHistory:
    """The last `SPAN_S` seconds; safe to write from one thread, read from others."""

    def __init__(
        self, *, limits: int = MAX_LIMITS, agent_lines: int = MAX_AGENT_LINES
    ) -> None:
        """Keep up to `limits` and `agent_lines` series."""
        points = SPAN_S // STEP_S
        self._lock = threading.Lock()
        self._limits = Rings[LimitKey](
            len(LIMIT_COLUMNS), capacity=limits, points=points
        )
        self._lines = Rings[LineKey](
            len(AGENT_COLUMNS), capacity=agent_lines, points=points
        )

    @property
    def nbytes(self) -> int:
        """Bytes that all series take now."""
        return self._limits.nbytes + self._lines.nbytes

    @property
    def omitted(self) -> int:
        """Series of the newest picture for which there was no room."""
        return self._limits.omitted + self._lines.omitted

    def record(self, picture: ClusterSnapshot) -> None:
        """Add what `picture` shows."""
        step = int(picture.at_s // STEP_S)
        uses = picture.uses
        keys = [(use.group_id, use.dimension) for use in uses]
        values = np.array(
            [
                (
                    u.admitted_per_s,
                    u.demand_per_s,
                    u.refused_per_s,
                    u.level,
                    u.rate_per_s,
                )
                for u in uses
            ],
            dtype=np.float64,
        ).reshape(-1, len(LIMIT_COLUMNS))
        lines = [
            (use.group_id, use.dimension, row.agent)
            for use in uses
            for row in use.agents
        ]
        parts = np.array(
            [
                (row.share_per_s, row.admitted_per_s)
                for use in uses
                for row in use.agents
            ],
            dtype=np.float64,
        ).reshape(-1, len(AGENT_COLUMNS))
        with self._lock:
            self._limits.write(step, keys, values.T)
            self._lines.write(step, lines, parts.T)

    def course(
        self, group_id: int, dimension: str, *, agents: int = 12
    ) -> Course | None:
        """Return one limit's history, with up to `agents` lines and their rest.

        None if it was not used within the span.
        """
        with self._lock:
            columns = self._limits.read((group_id, dimension))
            step = self._limits.newest_step
            if columns is None or step is None:
                return None
            keys = [k for k in self._lines if k[:2] == (group_id, dimension)]
            read = [(key[2], self._lines.read(key)) for key in sorted(keys)]
        points = columns.shape[1]
        steps = np.arange(step - points + 1, step + 1, dtype=np.float64)
        at_s: NDArray[np.float64] = (steps + 0.5) * STEP_S
        lines = [
            AgentLine(agent=name, share=values[0], admitted=values[1])
            for name, values in read
            if values is not None
        ]
        lines.sort(key=lambda line: -float(np.nansum(line.share)))
        told = tuple(lines[:agents]) + _rest(lines[agents:])
        by_name = dict(zip(LIMIT_COLUMNS, columns, strict=True))
        return Course(at_s=at_s, columns=by_name, agents=told)

    def dimensions(self, group_id: int) -> list[str]:
        """Return the dimensions of a group that have a history."""
        with self._lock:
            keys = list(self._limits)
        return sorted(dimension for group, dimension in keys if group == group_id)


def _rest(lines: Sequence[AgentLine]) -> tuple[AgentLine, ...]:
    """Return the sum of `lines` as one line; none if there are no lines."""
    if not lines:
        return ()
    share, admitted = (
        _sum([getattr(line, column) for line in lines]) for column in AGENT_COLUMNS
    )
    return (AgentLine(agent="", share=share, admitted=admitted),)


def _sum(series: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Add series; a point that none of them has stays NaN."""
    stacked = np.stack(series)
    total: NDArray[np.float32] = np.nansum(stacked, axis=0)
    total[np.isnan(stacked).all(axis=0)] = np.nan
    return total
