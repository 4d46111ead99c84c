"""What a report says about strict limits, as columns: runs of registers, and lives.

A life is named once in a dimension and referred to by its index; a keyframe of twelve
agents takes about half a kilobyte.  Rejected: a column entry for each permit (15 kB).
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.errors import MalformedReport
from headgate.agent.wire.codec_columns import group_ids_of
from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.messages.report import (
    PERMITS,
    AgentLife,
    KnownLife,
    PermitRun,
    Permits,
)
from headgate.proto import report_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

NOBODY = AgentLife("", 0)
"""The giver of minted permits."""

TOKEN_STEPS = 1000
"""Steps per unit of tokens; rounded down, because what a giver took out may not
grow."""

REST_STEPS = 1_000_000
"""Steps per such step, for the rest: a burst of one unit lies on 1,024 permits."""

MAX_TOKENS = float(1 << 53)
"""Units of the burst that a permit can carry, and still be counted exactly."""

MAX_MILLISECONDS = (1 << 32) - 2
"""Largest age that its column can hold; anything older is sent as none."""

OVER, SETTLED, USES = 1, 2, 4
"""Bits of a life's state."""

MAX_ID_CHARACTERS = 256
"""Most characters of an agent's id."""


def encode_permits(permits: Permits) -> wire.Permits:
    """Return one dimension's columns.

    Raises:
        MalformedReport: A number is out of its range: a fault of the caller.
    """
    named = {known.life for known in permits.lives}
    for run in permits.runs:
        named |= {run.owner, run.giver}
    lives = sorted(named - {NOBODY})
    agents = sorted({life.agent for life in lives})
    at = {life: index for index, life in enumerate(lives)}
    place = {agent: index for index, agent in enumerate(agents)}
    for run in permits.runs:
        if not (isfinite(run.tokens) and 0.0 <= run.tokens <= MAX_TOKENS):
            raise MalformedReport(f"tokens: expected 0 to 2⁵³, got {run.tokens}")
    tokens = [_steps(run.tokens) for run in permits.runs]
    any_rest = any(rest for _, rest in tokens)
    any_missed = any(run.missed for run in permits.runs)
    any_slots = permits.dimension == IN_FLIGHT
    return wire.Permits(
        dimension=permits.dimension,
        agents=agents,
        life_agent=[place[life.agent] for life in lives],
        life_incarnation=[life.incarnation for life in lives],
        run_group_deltas=_deltas([run.group_id for run in permits.runs]),
        run_first=[run.first for run in permits.runs],
        run_count=[run.size for run in permits.runs],
        run_epoch=[run.epoch for run in permits.runs],
        run_owner=[at[run.owner] for run in permits.runs],
        run_giver=[1 + at.get(run.giver, -1) for run in permits.runs],
        run_tokens=[steps for steps, _ in tokens],
        run_tokens_rest=[rest for _, rest in tokens if any_rest],
        run_missed=[run.missed for run in permits.runs if any_missed],
        known_group_deltas=_deltas([known.group_id for known in permits.lives]),
        known_life=[at[known.life] for known in permits.lives],
        known_state=[
            OVER * known.over + SETTLED * known.settled + USES * known.uses
            for known in permits.lives
        ],
        known_heard_ms=[_age_code(known.heard_s) for known in permits.lives],
        known_in_use=[known.in_use for known in permits.lives if any_slots],
        known_wanted=[known.wanted for known in permits.lives if any_slots],
    )


def decode_permits(message: wire.Permits) -> Permits:
    """Return what one dimension's columns stand for.

    Raises:
        MalformedReport: They are not as the schema says.
    """
    name = f"permits.{message.dimension[:40]}"
    lives = _lives_of(message, name)
    return Permits(
        dimension=message.dimension,
        runs=_runs_of(message, lives, f"{name}.run"),
        lives=_known_of(message, lives, f"{name}.known"),
    )


def _runs_of(
    message: wire.Permits, lives: list[AgentLife], name: str
) -> tuple[PermitRun, ...]:
    columns = [
        list(each)
        for each in (
            message.run_first,
            message.run_count,
            message.run_epoch,
            message.run_owner,
            message.run_giver,
            message.run_tokens,
        )
    ]
    groups = _group_ids(message.run_group_deltas, columns, name)
    first, count, epoch, owner, giver, tokens = columns
    missed = _optional(message.run_missed, len(groups), f"{name}_missed")
    rest = _optional(message.run_tokens_rest, len(groups), f"{name}_tokens_rest")
    if max(rest, default=0) >= REST_STEPS:
        raise MalformedReport(f"{name}_tokens_rest: expected numbers below 10⁶")
    if any(c < 1 or f + c > PERMITS for f, c in zip(first, count, strict=True)):
        raise MalformedReport(f"{name}_count: expected 1 to {PERMITS} permits")
    if any(not 0 < e < 1 << 62 for e in epoch):
        raise MalformedReport(f"{name}_epoch: expected 1 to 2⁶²")
    _check_below(owner, len(lives), f"{name}_owner")
    _check_below(giver, len(lives) + 1, f"{name}_giver")
    givers = [NOBODY, *lives]
    return tuple(
        PermitRun(g, f, c, e, lives[o], givers[v], _tokens_of(t, r), bool(m))
        for g, f, c, e, o, v, t, r, m in zip(
            groups, first, count, epoch, owner, giver, tokens, rest, missed, strict=True
        )
    )


def _steps(tokens: float) -> tuple[int, int]:
    """Return steps and the steps of the rest that are no more than these tokens."""
    steps = int(tokens * TOKEN_STEPS)
    rest = int((tokens * TOKEN_STEPS - steps) * REST_STEPS)
    if rest and _tokens_of(steps, rest) > tokens:
        rest -= 1
    return steps, rest


def _tokens_of(steps: int, rest: int) -> float:
    return (steps + rest / REST_STEPS) / TOKEN_STEPS


def _optional(column: Sequence[int], size: int, name: str) -> list[int]:
    """Return a column that is absent if it is 0 everywhere."""
    if column and len(column) != size:
        raise MalformedReport(
            f"{name}: expected {size} entries, one per group id, got {len(column)}"
        )
    return list(column) or [0] * size


def _known_of(
    message: wire.Permits, lives: list[AgentLife], name: str
) -> tuple[KnownLife, ...]:
    states, ages = list(message.known_state), list(message.known_heard_ms)
    known = list(message.known_life)
    groups = _group_ids(message.known_group_deltas, [known, states, ages], name)
    _check_below(known, len(lives), f"{name}_life")
    in_use = list(message.known_in_use) or [0] * len(known)
    wanted = list(message.known_wanted) or [0] * len(known)
    for column in (in_use, wanted):
        if len(column) != len(known):
            raise MalformedReport(
                f"{name}: expected {len(known)} counts of slots, one per group id, "
                f"got {len(column)}"
            )
    return tuple(
        KnownLife(
            group,
            lives[life],
            bool(state & OVER),
            bool(state & SETTLED),
            bool(state & USES),
            (age - 1) / 1e3 if age else inf,
            used,
            asked,
        )
        for group, life, state, age, used, asked in zip(
            groups, known, states, ages, in_use, wanted, strict=True
        )
    )


def _lives_of(message: wire.Permits, name: str) -> list[AgentLife]:
    agents, incarnations = list(message.agents), list(message.life_incarnation)
    if any(not 0 < len(agent) <= MAX_ID_CHARACTERS for agent in agents):
        raise MalformedReport(
            f"{name}.agents: expected 1 to {MAX_ID_CHARACTERS} characters"
        )
    if len(message.life_agent) != len(incarnations):
        raise MalformedReport(
            f"{name}.life_agent: expected {len(incarnations)} entries, one per "
            f"life_incarnation, got {len(message.life_agent)}"
        )
    _check_below(message.life_agent, len(agents), f"{name}.life_agent")
    if any(incarnation >= 1 << 63 for incarnation in incarnations):
        raise MalformedReport(f"{name}.life_incarnation: expected < 2⁶³")
    return [
        AgentLife(agents[index], incarnation)
        for index, incarnation in zip(message.life_agent, incarnations, strict=True)
    ]


def _group_ids(
    deltas: Sequence[int], columns: Sequence[Collection[int]], name: str
) -> list[int]:
    """Return the ids that columns of equal length belong to."""
    ids: list[int] = group_ids_of(deltas, name, least=0).tolist()
    for column in columns:
        if len(column) != len(ids):
            raise MalformedReport(
                f"{name}: expected {len(ids)} entries, one per group id, "
                f"got {len(column)}"
            )
    return ids


def _check_below(column: Sequence[int], most: int, name: str) -> None:
    if any(index >= most for index in column):
        raise MalformedReport(f"{name}: expected indexes < {most}")


def _deltas(group_ids: list[int]) -> list[int]:
    """Return the first id and then the differences, as varints want them."""
    deltas: list[int] = np.diff(np.array(group_ids, dtype=np.int64), prepend=0).tolist()
    if deltas and min(deltas) < 0:
        raise MalformedReport("permits: expected groups in ascending order")
    return deltas


def _age_code(seconds: float) -> int:
    milliseconds = seconds * 1e3
    return 0 if milliseconds > MAX_MILLISECONDS else 1 + int(max(milliseconds, 0.0))
