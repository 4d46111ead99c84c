"""Response schemas of the live view: uses, agents, explanations."""

from collections.abc import Iterable

import numpy as np
from pydantic import BaseModel, Field

from headgate.agent.bus.partitions import PartitionPlan
from headgate.api.live.snapshot import ClusterSnapshot, Use
from headgate.api.values.quantities import Unlimited, shown
from headgate.coordinator.config.configuration import Period
from headgate.coordinator.escrow.slots import SlotView
from headgate.coordinator.explain.views import AgentRow, Explanation, MemberState

Rate = float | Unlimited


class AgentLiveShown(BaseModel):
    """One agent's part of a limit."""

    agent: str
    demand: float = Field(description="Attempted units/s, including refused ones.")
    share: float | None = Field(description="Allocated units/s; null: unlimited.")
    admitted_per_s: float
    refused_per_s: float
    level: float | None = Field(description="What the group's bucket holds, units.")
    held: float = Field(description="Tokens in the agent's own bucket.")
    age_s: float = Field(description="Age of the figures in this row, in seconds.")
    silent: bool = Field(description="Not heard for a whole lease.")


class LimitLiveShown(BaseModel):
    """A limit in use, with a row per agent."""

    group: str
    dimension: str
    rate: Rate = Field(description="Units per period.")
    burst: Rate
    period_s: float
    period: Period | None = Field(description="Calendar period; null: a steady rate.")
    level: float | None = Field(description="Units left; negative if in debt.")
    agents: list[AgentLiveShown]


class LiveShown(BaseModel):
    """All limits in use."""

    at_s: float | None = Field(
        description="Time of the observation; null before the first one."
    )
    revision: int
    items: list[LimitLiveShown]


class SlotHolderShown(BaseModel):
    """One agent's part of the slots of a group."""

    agent: str
    owned: int = Field(description="Slots that it may hand out now.")
    in_use: int = Field(description="Slots that its callers hold.")
    wanted: int = Field(description="Slots that its callers hold or ask for.")


class SlotsShown(BaseModel):
    """The slots of a group, with a row for each agent that has or wants some."""

    group: str
    slots: int | None = Field(description="Most in flight at once; null: no limit.")
    in_use: int = Field(description="Slots in use, as last reported.")
    agents: list[SlotHolderShown]


def slots_shown(group: str, slots: int | None, views: Iterable[SlotView]) -> SlotsShown:
    """Return the holders of a group's slots; none if it does not limit them."""
    held = views if slots is not None else ()
    agents = [SlotHolderShown(**view._asdict()) for view in held]
    in_use = sum(agent.in_use for agent in agents)
    return SlotsShown(group=group, slots=slots, in_use=in_use, agents=agents)


class AgentShown(BaseModel):
    """One agent as this process hears it."""

    agent: str
    incarnation: int
    state: MemberState
    age_s: float = Field(description="Seconds since it was last heard.")
    lag_s: float = Field(description="How long its reports take to arrive.")
    loss: float = Field(description="Fraction of its reports that do not arrive.")
    revision: int = Field(description="Revision of its configuration.")
    limits: int = Field(description="Limits that it uses now.")
    reads: list[int] = Field(
        description="Partitions of the bus that it reads, judging by the rows that it "
        "sends: those of the groups that it uses, and 0."
    )


class AgentsShown(BaseModel):
    """The agents of the cluster, by id."""

    at_s: float | None = Field(
        description="Time of the observation; null before the first one."
    )
    revision: int
    total: int = Field(
        description="Number of known agents, whether or not they are listed."
    )
    bus_open: bool
    partitions: int = Field(
        description="Partitions of the bus; several if reports are split by group."
    )
    lag_s: float
    agents: list[AgentShown]


class InputShown(BaseModel):
    """One agent's inputs of an explanation."""

    agent: str
    demand: float
    share: float | None
    ceiling: float | None
    refused: float
    admitted: float
    predicted: float
    held: float
    age_s: float
    state: MemberState


class ExplanationShown(BaseModel):
    """Every input of the shares of one limit, to be recomputed by hand."""

    formula: str
    revision: int
    rate: float | None = Field(description="Q, units/s, after the tree of groups.")
    burst: float | None
    mode: str
    isolation: str
    level_reported: float | None = Field(
        description="L, from what agents have reported."
    )
    predicted: float = Field(description="P, admitted but not yet reported.")
    level: float | None = Field(description="E = min(L − P, B).")
    unseen: float = Field(description="V, admitted beyond what others know or expect.")
    window: float | None = Field(
        description="a, how far V may grow; null: no other agent."
    )
    margin: float | None
    horizon_s: float
    lag_s: float
    loss: float
    lease_s: float
    available: float | None = Field(description="Q' = max(0, Q + (E + V − m) / H).")
    reserved: float = Field(description="Units/s reserved for silent agents.")
    theta: float | None = Field(description="Water level; null: all demand fits.")
    slack: float | None
    error: float
    bound: float | None = Field(
        description="How far the cluster may exceed the quota during the current "
        "partition, as a multiple of Q; null: no bound."
    )
    members: int
    agents: list[InputShown]


def live_shown(
    picture: ClusterSnapshot | None, revision: int, *, group: str | None = None
) -> LiveShown:
    """Return what `picture` shows of all groups, or of one."""
    uses = () if picture is None else picture.uses
    return LiveShown(
        at_s=None if picture is None else picture.at_s,
        revision=revision,
        items=[_limit(use) for use in uses if group in (None, use.group)],
    )


def agents_shown(
    picture: ClusterSnapshot | None, revision: int, *, most: int
) -> AgentsShown:
    """Return up to `most` agents of `picture`."""
    if picture is None:
        return AgentsShown(
            at_s=None,
            revision=revision,
            total=0,
            bus_open=False,
            partitions=0,
            lag_s=0.0,
            agents=[],
        )
    plan = PartitionPlan(max(1, picture.partitions))
    used: dict[str, list[int]] = {}
    for use in picture.uses:
        for row in use.agents:
            used.setdefault(row.agent, []).append(use.group_id)
    return AgentsShown(
        at_s=picture.at_s,
        revision=revision,
        total=len(picture.agents),
        bus_open=picture.bus_open,
        partitions=picture.partitions,
        lag_s=picture.lag_s,
        agents=[
            AgentShown(
                agent=seen.agent,
                incarnation=seen.incarnation,
                state=seen.state,
                age_s=seen.age_s,
                lag_s=seen.lag_s,
                loss=seen.loss,
                revision=seen.revision,
                limits=len(groups := used.get(seen.agent, [])),
                reads=sorted(plan.of(np.array(groups, np.int64))),
            )
            for seen in picture.agents[:most]
        ],
    )


def explanation_shown(seen: Explanation) -> ExplanationShown:
    """Return `seen`, with null for what is infinite."""
    values = {
        name: getattr(seen, name)
        for name in ExplanationShown.model_fields
        if name != "agents"
    }
    told = {
        name: finite(value) if isinstance(value, float) else value
        for name, value in values.items()
    }
    return ExplanationShown.model_validate(
        {**told, "agents": [_input(row) for row in seen.agents]}
    )


def finite(value: float) -> float | None:
    """Return `value`, or None where JSON has no word for it."""
    return value if abs(value) < float("inf") else None


def _limit(use: Use) -> LimitLiveShown:
    return LimitLiveShown(
        group=use.group,
        dimension=use.dimension,
        rate=shown(use.rate),
        burst=shown(use.burst),
        period_s=use.period_s,
        period=use.period,
        level=finite(use.level),
        agents=[
            AgentLiveShown(
                agent=row.agent,
                demand=row.demand_per_s,
                share=finite(row.share_per_s),
                admitted_per_s=row.admitted_per_s,
                refused_per_s=row.refused_per_s,
                level=finite(use.level),
                held=row.held_units,
                age_s=row.age_s,
                silent=row.state == "silent",
            )
            for row in use.agents
        ],
    )


def _input(row: AgentRow) -> InputShown:
    return InputShown(
        agent=row.agent,
        demand=row.demand,
        share=finite(row.share),
        ceiling=finite(row.ceiling),
        refused=row.refused,
        admitted=row.admitted,
        predicted=row.predicted,
        held=row.held,
        age_s=row.age_s,
        state=row.state,
    )
