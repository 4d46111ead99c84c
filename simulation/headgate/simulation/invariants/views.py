"""Checks what a coordinator reports about itself: sums, formula, fallback, size."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isclose
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.invariants.spans import (
    LEASE_MOST,
    TICKS_S,
    presumed_dead_s,
    stands_alone,
)
from headgate.simulation.max_min import max_min
from headgate.simulation.measure.settling import ceiling_at
from headgate.simulation.scenario.scenario import DIMENSION
from headgate.simulation.world.faults import DOWN
from headgate.simulation.world.record import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.coordinator import AgentRow, Coordinator, Explanation
    from headgate.simulation.scenario.scenario import Scenario
    from headgate.simulation.world.node import AppliedCeilings

UNIT = 1.0
"""How much shares may miss Q' by, units/s."""

VISIBLE_S = 1.0
"""Time within which the fallback must be visible."""

TRICKLE = 0.02
"""Fraction of an agent's equal part that may pass under any policy, so that callers
get a finite delay."""

MEMBERS_LATE_S = 5.0
"""Time for dropping a member that is presumed dead."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One agent at one time.

    Attributes:
        now: Simulated time.
        index: Index of the agent.
        born_s: When its process started.
        told: What the buckets of each group were set to, by group index.
    """

    now: float
    index: int
    born_s: float
    told: dict[int, AppliedCeilings]


def check_view(
    scenario: Scenario, controller: Coordinator, at: Looked
) -> Iterator[Violation]:
    """Yield what is wrong in an agent's explanation of each group."""
    for group, spec in enumerate(scenario.groups):
        if group not in at.told:
            continue
        try:
            shown = controller.explain(group + 1, DIMENSION, at.now)
        except KeyError:
            text = f"agent {at.index} explains nothing of group {spec.name}"
            yield Violation(at.now, "recomputable", text)
            continue
        yield from _check_force(scenario, group, shown, at)
        yield from _check_fallback(scenario, group, controller, shown, at)
        if spec.mode == "balanced" and 0 < shown.rate < inf:
            yield from _check_sum(shown, at)
            yield from _check_share(controller, shown, at)


def check_members(
    controller: Coordinator, at: Looked, *, alive_lately: int
) -> Iterator[Violation]:
    """Yield when an agent remembers more members than existed lately."""
    members = len(controller.members(at.now))
    if members > alive_lately:
        text = f"agent {at.index} keeps {members} members, {alive_lately} were alive"
        yield Violation(at.now, "bounded", text)


def remembered_s(scenario: Scenario) -> float:
    """Return how long a departed member may still be remembered."""
    lease = LEASE_MOST * scenario.interval_s
    return presumed_dead_s(scenario) + lease + MEMBERS_LATE_S


def _check_sum(shown: Explanation, at: Looked) -> Iterator[Violation]:
    heard = _sharing(shown)
    wanted = sum(row.demand for row in heard)
    total = sum(row.share for row in heard)
    expected = min(shown.available, wanted)
    if abs(total - expected) > UNIT + 1e-9 * expected:
        text = (
            f"agent {at.index}: shares sum to {total:.2f}, "
            f"Q' is {shown.available:.2f}, demand {wanted:.2f}"
        )
        yield Violation(at.now, "shares-add-up", text)


def _check_share(
    controller: Coordinator, shown: Explanation, at: Looked
) -> Iterator[Violation]:
    weights = {member.agent: member.weight for member in controller.members(at.now)}
    heard = _sharing(shown)
    names = [row.agent for row in heard]
    if shown.agent not in names or not set(names) <= weights.keys():
        text = f"agent {at.index}: {shown.agent} or a weight is not among the inputs"
        yield Violation(at.now, "recomputable", text)
        return
    shares = max_min(
        np.array([[row.demand] for row in heard]),
        np.array([weights[name] for name in names]),
        np.array([shown.available]),
    )[:, 0]
    again = float(shares[names.index(shown.agent)])
    if not isclose(again, shown.share, rel_tol=1e-6, abs_tol=1e-6):
        text = f"agent {at.index}: share {shown.share:.4f}, recomputed {again:.4f}"
        yield Violation(at.now, "recomputable", text)


def _check_force(
    scenario: Scenario, group: int, shown: Explanation, at: Looked
) -> Iterator[Violation]:
    late = scenario.network.delay_s + scenario.network.jitter_s + TICKS_S
    past = [change for change in scenario.changes if change.at_s <= at.now]
    if not past or at.now < past[-1].at_s + late:
        return
    rate = [r for start, r, _ in scenario.limits(group) if start <= at.now][-1]
    revision = 1 + len(past)
    alone = stands_alone(scenario, group)
    if shown.revision != revision or (alone and shown.rate != rate):
        text = (
            f"agent {at.index} goes by revision {shown.revision} and rate "
            f"{shown.rate:g}, in force are {revision} and {rate:g}"
        )
        yield Violation(at.now, "change-in-force", text)


def _check_fallback(
    scenario: Scenario,
    group: int,
    controller: Coordinator,
    shown: Explanation,
    at: Looked,
) -> Iterator[Violation]:
    since = _mute_since(scenario, at)
    if since is None or at.now < since + shown.lease_s + VISIBLE_S + TICKS_S:
        return
    if not shown.cut_off:
        text = f"agent {at.index} is cut off since {since:g} s and does not say so"
        yield Violation(at.now, "fallback", text)
        return
    spec = scenario.groups[group]
    if spec.mode == "strict" or not stands_alone(scenario, group):
        return
    if not 0 < shown.rate < inf:
        return
    now = np.array([at.now])
    ceiling = float(ceiling_at(at.told[group], now)[0])
    most = _fallback(scenario, group, shown.rate, since, at)
    if spec.isolation == "hold":
        most = max(most, _left_by_others(controller, shown, at))
    if ceiling > most:
        text = (
            f"agent {at.index} is cut off since {since:g} s and refills at "
            f"{ceiling:.1f} units/s, at most {most:.1f} under {spec.isolation!r}"
        )
        yield Violation(at.now, "fallback", text)


def _fallback(
    scenario: Scenario, group: int, rate: float, since: float, at: Looked
) -> float:
    """Return the most that an agent that is cut off may refill at, units/s."""
    weight = scenario.weights[at.index]
    part = rate * weight / sum(scenario.weights)
    spec = scenario.groups[group]
    trickle = TRICKLE * part
    if spec.isolation == "closed":
        return trickle
    if spec.isolation == "open" and at.now > since + presumed_dead_s(scenario):
        return inf
    if spec.isolation == "hold":
        told = at.told[group]
        shares = [
            share
            for at_s, share in zip(told.at_s, told.share, strict=True)
            if since - 2 * scenario.interval_s - 1.0 <= at_s <= since + VISIBLE_S
        ]
        return max([part, *shares]) * (1 + TRICKLE)
    # Members that join later make each part smaller, never larger.
    return _largest_part(scenario, rate, at.index) + trickle


def _left_by_others(controller: Coordinator, shown: Explanation, at: Looked) -> float:
    """Return the share of Q of an agent that wants all of it, units/s.

    Shares that were told are shares of Q', which is less than Q while a debt is paid.
    """
    weights = {member.agent: member.weight for member in controller.members(at.now)}
    rows = [row for row in shown.agents if row.agent in weights]
    wants = [
        shown.rate if row.agent == shown.agent else min(row.demand, shown.rate)
        for row in rows
    ]
    shares = max_min(
        np.array(wants)[:, None],
        np.array([weights[row.agent] for row in rows]),
        np.array([shown.rate]),
    )[:, 0]
    own = [row.agent == shown.agent for row in rows]
    return float(shares[own].sum())


def _largest_part(scenario: Scenario, rate: float, index: int) -> float:
    """Return an agent's part when only agents that never go away remain."""
    gone = {
        agent
        for fault in scenario.faults
        if fault.kind in ("crash", "leave", "partition", "cut", "pause", "duplicate-id")
        for agent in fault.agents
    }
    staying = sum(
        w for agent, w in enumerate(scenario.weights) if agent not in gone - {index}
    )
    return rate * scenario.weights[index] / staying


def _mute_since(scenario: Scenario, at: Looked) -> float | None:
    """Return since when an agent has not heard its own reports, else None."""
    since: float | None = None
    for fault in scenario.faults:
        down = at.index in fault.agents and fault.kind in DOWN
        if down and fault.start_s <= at.now < fault.until_s + LEASE_MOST:
            return None
        if not fault.start_s <= at.now < fault.until_s:
            continue
        inside = at.index in fault.agents
        side = len(fault.agents) if inside else scenario.agents - len(fault.agents)
        cut_off = (fault.kind == "cut" and inside) or (
            fault.kind == "partition" and side == 1
        )
        if cut_off:
            start = max(fault.start_s, at.born_s)
            since = start if since is None else min(since, start)
    return since


def _sharing(shown: Explanation) -> list[AgentRow]:
    """Return the rows of the agents that Q' is shared out among.

    The agent itself is one of them, even while it counts itself as silent.
    """
    return [
        row
        for row in shown.agents
        if row.agent == shown.agent or row.state in ("present", "disbelieved")
    ]
