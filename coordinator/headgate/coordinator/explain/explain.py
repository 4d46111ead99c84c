"""What a coordinator knows, as values for people, metrics and the live view."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.ceilings import (
    allocated_of,
    own_ceilings,
)
from headgate.coordinator.config.configuration import CLOSED, ISOLATIONS, OPEN
from headgate.coordinator.explain.views import (
    AgentRow,
    Explanation,
    LedgerView,
    MemberView,
)

if TYPE_CHECKING:
    from headgate.coordinator.allocation.ceilings import Conditions
    from headgate.coordinator.config.constants import Settings
    from headgate.coordinator.explain.views import MemberState
    from headgate.coordinator.membership.members import Member, Members
    from headgate.coordinator.table.arrays import LedgerBlock
    from headgate.coordinator.table.index import Key

DISBELIEVED_S = 10.0
"""How long a member is shown as disbelieved after its last impossible counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where the agent stands at one moment.

    Attributes:
        agent: Its id.
        incarnation: Its life.
        revision: Of the configuration.
        on: Time, lag and ages.
        members: All others.
        apart: How many unheard agents may be alive and have dropped this one.
    """

    agent: str
    incarnation: int
    revision: int
    on: Conditions
    members: Members
    apart: int = 0


def state_of(member: Member, now: float) -> MemberState:
    """Return the word for a member's state."""
    if member.silent:
        return "silent"
    if now - member.disbelieved_at < DISBELIEVED_S:
        return "disbelieved"
    return "present"


def member_views(
    stand: Stand, settings: Settings, *, observing: bool
) -> list[MemberView]:
    """Return all agents by id, this one included unless it only observes."""
    now = stand.on.now
    views = [
        MemberView(
            agent=member.agent,
            incarnation=member.incarnation,
            age_s=now - member.heard_at,
            lag_s=stand.members.least_lag_s + member.late_s,
            state=state_of(member, now),
            weight=member.weight,
            revision=member.revision,
            loss=member.loss,
        )
        for member in stand.members.by_agent.values()
    ]
    if not observing:
        views.append(
            MemberView(
                agent=stand.agent,
                incarnation=stand.incarnation,
                age_s=max(0.0, now - stand.members.echo_at),
                lag_s=stand.members.lag_s,
                state="silent" if stand.on.cut_off else "present",
                weight=settings.weight,
                revision=stand.revision,
                loss=stand.members.loss,
            )
        )
    return sorted(views, key=lambda view: view.agent)


def ledger_view(
    block: LedgerBlock, slot: int, key: Key, stand: Stand, settings: Settings
) -> LedgerView:
    """Return a ledger that was just calculated."""
    unlimited = bool(block.unlimited[slot])
    return LedgerView(
        group_id=key[1],
        dimension=key[0],
        level=float(block.belief[slot]),
        rate=inf if unlimited else float(block.rate[slot]),
        burst=inf if unlimited else float(block.burst[slot]),
        available=inf if unlimited else float(block.available[slot]),
        theta=float(block.theta[slot]),
        agents=_rows(block, slot, stand, settings),
    )


def _rows(
    block: LedgerBlock, slot: int, stand: Stand, settings: Settings
) -> tuple[AgentRow, ...]:
    now = stand.on.now
    shares = allocated_of(block, slot)
    unlimited = bool(block.unlimited[slot])
    spare = float(block.slack[slot] / block.agents[slot])
    burst = block.burst[slot]
    rows: list[AgentRow] = []
    for line in np.flatnonzero(block.member[:, slot] >= 0).tolist():
        number = int(block.member[line, slot])
        if number == 0:
            if not block.weight[0, slot]:
                continue
            agent, reported_at = stand.agent, now
            state: MemberState = "present"
        else:
            member = stand.members.by_number[number]
            agent, state = member.agent, state_of(member, now)
            reported_at = float(block.reported_at[line, slot])
        # For this agent, too, show what the others know, so that the shares sum to Q'.
        demand = block.demand[line, slot] if line else block.known_demand[slot]
        rows.append(
            AgentRow(
                agent=agent,
                demand=float(min(demand, block.demand_cap[slot])),
                share=inf if unlimited else float(shares[line]),
                ceiling=inf if unlimited else float(shares[line] + spare),
                refused=float(block.refused[line, slot]),
                admitted=float(np.nan_to_num(block.admitted[line, slot])),
                predicted=float(block.predicted[line, slot]) if line else 0.0,
                held=float(np.clip(block.held[line, slot], -burst, burst)),
                subjects=int(block.subjects[line, slot]),
                age_s=now - reported_at,
                state=state,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.agent))


def explained(
    block: LedgerBlock, slot: int, key: Key, stand: Stand, settings: Settings
) -> Explanation:
    """Return the explanation of a ledger that was just calculated."""
    view = ledger_view(block, slot, key, stand, settings)
    at = np.array([slot])
    own = own_ceilings(block, at, stand.on, settings)
    predicted = float(block.predicted[1:, slot].sum())
    demand = float(min(block.known_demand[slot], block.demand_cap[slot]))
    share = inf if block.unlimited[slot] else float(allocated_of(block, slot)[0])
    values = {
        "Q": view.rate,
        "E": view.level,
        "V": float(block.unseen[slot]),
        "m": float(block.margin[slot]),
        "H": float(block.horizon[slot]),
        "reserved": float(block.reserved[slot]),
    }
    return Explanation(
        group_id=view.group_id,
        dimension=view.dimension,
        agent=stand.agent,
        now_s=stand.on.now,
        revision=stand.revision,
        rate=view.rate,
        burst=view.burst,
        mode="strict" if block.strict[slot] else "balanced",
        isolation=ISOLATIONS[int(block.isolation[slot])],
        level_reported=float(block.level[slot]),
        predicted=predicted,
        unseen=float(block.unseen[slot]),
        window=float(block.window[slot]),
        level=view.level,
        margin=values["m"],
        horizon_s=values["H"],
        lag_s=stand.members.lag_s,
        loss=stand.members.loss,
        lease_s=stand.members.lease_of(None),
        available=view.available,
        reserved=values["reserved"],
        theta=view.theta,
        slack=float(block.slack[slot]),
        demand=demand,
        share=share,
        ceiling=float(own.ceiling[0]),
        reserve=float(own.reserve[0]),
        cut_off=stand.on.cut_off,
        agents=view.agents,
        members=len(view.agents),
        error=float(block.error[slot]),
        bound=_bound(block, slot, stand),
        formula=_formula(view, values, demand=demand, share=share),
    )


def _formula(
    view: LedgerView, values: dict[str, float], *, demand: float, share: float
) -> str:
    if isinf(view.rate):
        return "unlimited: nothing is refused"
    water = "∞ (all demand fits)" if isinf(view.theta) else f"{view.theta:.6g}"
    return (
        "Q' = max(0, Q + (E + V − m)/H − reserved) = "
        f"max(0, {values['Q']:.6g} + ({values['E']:.6g} + {values['V']:.6g}"
        f" − {values['m']:.6g})/"
        f"{values['H']:.6g} − {values['reserved']:.6g}) = {view.available:.6g}; "
        f"θ = {water}; share = min(λ, w·θ) = min({demand:.6g}, w·θ) = {share:.6g}"
    )


def _bound(block: LedgerBlock, slot: int, stand: Stand) -> float:
    """Return how far parts that don't hear each other may exceed Q together."""
    policy = int(block.isolation[slot])
    if policy == CLOSED:
        return 0.0
    if policy == OPEN and stand.on.presumed_dead:
        return inf
    # Each of them may spend all of Q.
    return float(stand.apart)
