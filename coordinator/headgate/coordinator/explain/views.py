"""What people and metrics may see of a coordinator: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MemberState = Literal["present", "silent", "disbelieved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One agent as this one sees it.

    Attributes:
        agent: Its id.
        incarnation: Its life.
        age_s: Seconds since it was last heard.
        lag_s: Estimated time that its reports take to arrive.
        state: ``silent`` past the lease, ``disbelieved`` if its counters can't be true,
            so that it is charged as predicted.
        weight: Among all agents.
        revision: Revision of its configuration.
        loss: Fraction of its reports that do not arrive.
    """

    agent: str
    incarnation: int
    age_s: float
    lag_s: float
    state: MemberState
    weight: float
    revision: int
    loss: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One agent's part of one ledger.

    Attributes:
        agent: Its id.
        incarnation: Its life.
        demand: Attempted units/s that count for shares; of groups inside, what their
            limits admit.
        attempted: All attempted units/s, of groups inside, too.
        share: Allocated units/s.
        ceiling: Units/s that may go on for longer, as computed here.
        refused: Units refused since its incarnation began.
        admitted: Units admitted since its incarnation began.
        predicted: Units assumed to be admitted since its last report.
        held: Units that it may admit before it reports.
        subjects: Limiters (topics, producers) that use the group there.
        age_s: Seconds since the row was true.
        state: As in `MemberView`.
    """

    agent: str
    incarnation: int
    demand: float
    attempted: float
    share: float
    ceiling: float
    refused: float
    admitted: float
    predicted: float
    held: float
    subjects: int
    age_s: float
    state: MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every input and the formula of this agent's share, to be recomputed offline.

    Attributes:
        group_id: Of the group.
        dimension: What is counted.
        agent: Whose share.
        now_s: Monotonic time of the explanation.
        revision: Of the configuration.
        rate: Q, units/s, after the tree of groups.
        burst: B, units.
        mode: ``balanced`` or ``strict``.
        isolation: What an agent that is cut off may spend.
        level_reported: L, the level from what was reported.
        predicted: P, admitted but not yet reported.
        level: E = min(L − P, B); never clamped from below.
        unseen: V, what this agent admitted beyond what the others know or expect.
        unheeded: V', the same and what they learnt too lately to have heeded it.
        window: a, how far V' may grow; infinite if there is no other agent.
        margin: m, units.
        horizon_s: H.
        lag_s: Of the bus, from the agent's own reports coming back.
        loss: Measured fraction of reports that are lost.
        lease_s: Silence after which a member counts as silent.
        available: Q' = max(0, Q + (E + V − m) / H), E + V ≤ B.
        reserved: Units/s kept for silent members.
        theta: Water level; infinite when all demand fits.
        slack: What is left of Q', units/s.
        demand: λ of this agent.
        share: min(λ, w·θ).
        ceiling: What may go on for longer, units/s.
        reserve: What it may spend when cut off, units/s.
        cut_off: This agent does not hear its own reports.
        agents: The inputs, one row per agent.
        members: How many agents use the group.
        error: The deepest debt of the last second, units: one bucket alone shows at
            most one request's cost.
        bound: Most that may be spent beyond Q·W + B while parts of the cluster do not
            hear each other, in multiples of Q; 0 if all are heard.
        formula: The calculation in one line, with the numbers filled in.
    """

    group_id: int
    dimension: str
    agent: str
    now_s: float
    revision: int
    rate: float
    burst: float
    mode: str
    isolation: str
    level_reported: float
    predicted: float
    level: float
    unseen: float
    unheeded: float
    window: float
    margin: float
    horizon_s: float
    lag_s: float
    loss: float
    lease_s: float
    available: float
    reserved: float
    theta: float
    slack: float
    demand: float
    share: float
    ceiling: float
    reserve: float
    cut_off: bool
    agents: tuple[AgentRow, ...]
    members: int
    error: float
    bound: float
    formula: str
