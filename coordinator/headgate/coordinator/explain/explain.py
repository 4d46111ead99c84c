"""What a coordinator knows, as values for people, metrics and the live view."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isinf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import own_ceilings
from headgate.coordinator.allocation.shares import allocated_of
from headgate.coordinator.config.configuration import CLOSED, ISOLATIONS, OPEN
from headgate.coordinator.explain.views import AgentRow, Explanation, MemberView

if TYPE_CHECKING:
    from headgate.coordinator.allocation.conditions import Conditions
    from headgate.coordinator.explain.views import MemberState
    from headgate.coordinator.membership.members import Member
    from headgate.coordinator.recompute import Recomputation
    from headgate.coordinator.state import CoordinatorState
    from headgate.coordinator.table.arrays import LedgerBlock
    from headgate.coordinator.table.index import Key

DISBELIEVED_S = 10.0
"""How long a member is shown as disbelieved after its last impossible counter."""


def _state_of(member: Member, now: float) -> MemberState:
    """Return the word for a member's state."""
    if member.silent:
        return "silent"
    if now - member.disbelieved_at < DISBELIEVED_S:
        return "disbelieved"
    return "present"


def member_views(state: CoordinatorState, now: float) -> list[MemberView]:
    """Return all agents by id, this one included unless it only observes."""
    members = state.members
    views = [
        MemberView(
            agent=member.agent,
            incarnation=member.incarnation,
            age_s=now - member.heard_at,
            lag_s=members.least_lag_s + member.late_s,
            state=_state_of(member, now),
            weight=member.weight,
            revision=member.revision,
            loss=member.loss,
        )
        for member in members.by_agent.values()
    ]
    if not state.observing:
        views.append(
            MemberView(
                agent=state.agent,
                incarnation=state.incarnation,
                age_s=max(0.0, now - members.echo_at),
                lag_s=members.lag_s,
                state="silent" if state.detector.cut_off(now) else "present",
                weight=state.settings.weight,
                revision=state.limits.revision,
                loss=members.loss,
            )
        )
    return sorted(views, key=lambda view: view.agent)


def _rows(
    state: CoordinatorState, block: LedgerBlock, slot: int, now: float
) -> tuple[AgentRow, ...]:
    shares = allocated_of(block, slot)
    unlimited = bool(block.unlimited[slot])
    spare = float(block.slack[slot] / block.agents[slot])
    burst, cap = block.burst[slot], block.demand_cap[slot]
    rows: list[AgentRow] = []
    for line in np.flatnonzero(block.member[:, slot] >= 0).tolist():
        number = int(block.member[line, slot])
        if number == 0:
            if not block.weight[0, slot]:
                continue
            agent, incarnation, reported_at = state.agent, state.incarnation, now
            how: MemberState = "present"
        else:
            member = state.members.by_number[number]
            agent, incarnation = member.agent, member.incarnation
            how = _state_of(member, now)
            reported_at = float(block.reported_at[line, slot])
        # For this agent, too, show what the others know, so that the shares sum to Q'.
        demand = block.demand[line, slot] if line else block.known_demand[slot]
        rows.append(
            AgentRow(
                agent=agent,
                incarnation=incarnation,
                demand=float(min(demand, cap)),
                attempted=float(demand + block.beyond[line, slot]),
                share=inf if unlimited else float(shares[line]),
                ceiling=inf if unlimited else float(shares[line] + spare),
                refused=float(block.refused[line, slot]),
                admitted=float(np.nan_to_num(block.admitted[line, slot])),
                predicted=float(block.predicted[line, slot]) if line else 0.0,
                held=float(np.clip(block.held[line, slot], -burst, burst)),
                subjects=int(block.subjects[line, slot]),
                age_s=now - reported_at,
                state=how,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.agent))


def explained(
    state: CoordinatorState, recomputation: Recomputation, key: Key, now: float
) -> Explanation:
    """Return every input of this agent's share of one limit, brought to `now`.

    Raises:
        KeyError: No such limit is tracked here.
    """
    block, slot = recomputation.fresh(key, now)
    on, agents = recomputation.conditions(now), _rows(state, block, slot, now)
    unlimited = bool(block.unlimited[slot])
    own = own_ceilings(block, np.array([slot]), on)
    shown = Explanation(
        group_id=key[1],
        dimension=key[0],
        agent=state.agent,
        now_s=now,
        revision=state.limits.revision,
        rate=inf if unlimited else float(block.rate[slot]),
        burst=inf if unlimited else float(block.burst[slot]),
        mode="strict" if block.strict[slot] else "balanced",
        isolation=ISOLATIONS[int(block.isolation[slot])],
        level_reported=float(block.level[slot]),
        predicted=float(block.predicted[1:, slot].sum()),
        unseen=float(block.unseen[slot]),
        unheeded=float(block.unheeded[slot]),
        window=float(block.window[slot]),
        level=float(block.belief[slot]),
        margin=float(block.margin[slot]),
        horizon_s=float(block.horizon[slot]),
        lag_s=state.members.lag_s,
        loss=state.members.loss,
        lease_s=state.members.lease_of(None),
        available=inf if unlimited else float(block.available[slot]),
        reserved=float(block.reserved[slot]),
        theta=float(block.theta[slot]),
        slack=float(block.slack[slot]),
        demand=float(min(block.known_demand[slot], block.demand_cap[slot])),
        share=inf if unlimited else float(allocated_of(block, slot)[0]),
        ceiling=float(own.ceiling[0]),
        reserve=float(own.reserve[0]),
        cut_off=on.cut_off,
        agents=agents,
        members=len(agents),
        error=float(block.error[slot]),
        bound=_bound(int(block.isolation[slot]), on, state),
        formula="",
    )
    return replace(shown, formula=_formula(shown))


def _formula(of: Explanation) -> str:
    if isinf(of.rate):
        return "unlimited: nothing is refused"
    water = "∞ (all demand fits)" if isinf(of.theta) else f"{of.theta:.6g}"
    return (
        "Q' = max(0, Q + (E + V − m)/H − reserved) = "
        f"max(0, {of.rate:.6g} + ({of.level:.6g} + {of.unseen:.6g} − {of.margin:.6g})/"
        f"{of.horizon_s:.6g} − {of.reserved:.6g}) = {of.available:.6g}; "
        f"θ = {water}; share = min(λ, w·θ) = min({of.demand:.6g}, w·θ) = {of.share:.6g}"
    )


def _bound(isolation: int, on: Conditions, state: CoordinatorState) -> float:
    """Return how far parts that don't hear each other may exceed Q together."""
    if isolation == CLOSED:
        return 0.0
    if isolation == OPEN and on.presumed_dead:
        return inf
    # Each of them may spend all of Q.
    return float(state.detector.apart(on.now))
