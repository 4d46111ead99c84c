"""Response schemas of the overview and of a group's present use."""

from typing import Literal

from pydantic import BaseModel, Field

from headgate.api.live.schemas import Rate, SlotsShown, finite, slots_shown
from headgate.api.live.snapshot import ClusterSnapshot, LiveAgentUse, Use
from headgate.api.overview.entries import OverviewRow
from headgate.api.overview.overview import GroupRows, Window
from headgate.api.overview.tenant_limits import LimitedSubject, TenantGroups
from headgate.api.values.quantities import shown
from headgate.coordinator.config.configuration import Period
from headgate.coordinator.explain.views import MemberState


class RowShown(BaseModel):
    """A limit at a glance; what is known only of limits in use is null otherwise."""

    group: str
    parent: str | None
    attachments: int = Field(description="Subjects attached to the group.")
    dimension: str = Field(description="Empty if the group has no limit.")
    scope: str = Field(
        description="Agents report nothing about limits of scope node: their "
        "figures are null and they count as idle."
    )
    rate: Rate = Field(description="Units per period.")
    period_s: float
    period: Period | None = Field(description="Calendar period; null: a steady rate.")
    burst: Rate
    standing: Literal["over", "near", "calm", "idle"]
    used: float | None = Field(
        description="Units used of the present calendar period; null without one."
    )
    admitted: float | None = Field(description="Units/s.")
    demand: float | None = Field(
        description="Estimated units/s, which the shares are computed from."
    )
    attempted: float | None = Field(description="Units/s: admitted plus refused.")
    refused: float | None = Field(description="Units/s.")
    level: float | None = Field(description="Units left; negative if in debt.")
    agents: int = Field(description="Agents that use it.")
    slots: int | None = Field(
        description="Most requests of the group in flight at once; null: no limit."
    )
    in_flight: int | None = Field(
        description="Slots of the group in use; null: no limit."
    )


class StandingsShown(BaseModel):
    """Number of limits in each state."""

    over: int = Field(description="Limits that refuse requests.")
    near: int = Field(description="At the soft threshold, or at 80 % of the rate.")
    calm: int
    idle: int = Field(description="Limits that no agent uses.")


class OverviewShown(BaseModel):
    """A window of the matching limits."""

    revision: int
    at_s: float | None = Field(
        description="Time of the observation; null before the first one."
    )
    total: int
    matching: int
    offset: int
    standings: StandingsShown
    agents: int = Field(description="Agents that are present.")
    silent: int = Field(description="Agents not heard from for a whole lease.")
    rows: list[RowShown]


class AgentUseShown(BaseModel):
    """One agent's part of a limit."""

    agent: str
    demand: float = Field(
        description="Estimated units/s, which the shares are computed from."
    )
    attempted: float = Field(description="Units/s: admitted plus refused.")
    share: float | None = Field(description="Allocated units/s; null: unlimited.")
    ceiling: float | None = Field(description="Refill rate of its bucket.")
    admitted: float = Field(description="Units/s.")
    refused: float = Field(description="Units/s.")
    held: float = Field(description="Tokens in its bucket.")
    subjects: int = Field(description="Limiters that use the limit there.")
    age_s: float
    state: MemberState


class UseShown(BaseModel):
    """One limit of a group and the agents that use it."""

    dimension: str
    rate: Rate = Field(description="Units per period.")
    period_s: float
    period: Period | None = Field(description="Calendar period; null: a steady rate.")
    burst: Rate
    standing: Literal["over", "near", "calm", "idle"]
    admitted: float
    demand: float
    attempted: float = Field(description="Units/s: admitted plus refused.")
    refused: float
    level: float | None
    available: float | None = Field(description="Units/s to share out now.")
    error: float = Field(description="Units over (+) or under (−) a single bucket.")
    agents: list[AgentUseShown]


class GroupUseShown(BaseModel):
    """A group's use now."""

    group: str
    revision: int
    at_s: float | None
    uses: list[UseShown]
    slots: SlotsShown | None = Field(
        description="Requests in flight; null if the group does not limit them."
    )


class ThroughShown(BaseModel):
    """A group that applies to a subject, and why."""

    group: str
    subject: dict[str, str | None] = Field(
        description="The attachment that applies: the subject's own, that of a wider "
        "subject, or a default (null)."
    )


class LimitedShown(BaseModel):
    """A tenant or namespace, and the groups that apply to it."""

    name: str = Field(examples=["acme/orders"])
    through: list[ThroughShown]


class GroupLimitsShown(BaseModel):
    """A group with its limits and their use now."""

    group: str
    parent: str | None = Field(description="The parent group, which limits it too.")
    rows: list[RowShown]


class TenantLimitsShown(BaseModel):
    """What limits a tenant and a window of its namespaces."""

    revision: int
    at_s: float | None = Field(
        description="Time of the observation; null before the first one."
    )
    tenant: LimitedShown
    namespaces: list[LimitedShown] = Field(description="In order of their names.")
    total: int = Field(description="Namespaces of the tenant.")
    matching: int = Field(description="Namespaces that match the search.")
    offset: int
    groups: list[GroupLimitsShown] = Field(
        description="Each group that applies here, and each of its ancestors, once."
    )


def tenant_limits_shown(
    found: TenantGroups, limits: GroupRows, offset: int
) -> TenantLimitsShown:
    """Return a tenant's groups with the limits of each as a response."""
    return TenantLimitsShown(
        revision=limits.revision,
        at_s=None if limits.picture is None else limits.picture.at_s,
        tenant=_limited(found.tenant),
        namespaces=[_limited(one) for one in found.namespaces],
        total=found.total,
        matching=found.matching,
        offset=offset,
        groups=[
            GroupLimitsShown(
                group=name,
                parent=rows[0].entry.parent,
                rows=[_row(row) for row in rows],
            )
            for name, rows in limits.rows.items()
        ],
    )


def overview_shown(window: Window, offset: int) -> OverviewShown:
    """Return `window`, which begins at row `offset`, as a response."""
    picture = window.picture
    members = () if picture is None else picture.agents
    return OverviewShown(
        revision=window.revision,
        at_s=None if picture is None else picture.at_s,
        total=window.total,
        matching=window.matching,
        offset=offset,
        standings=StandingsShown.model_validate(window.standings),
        agents=sum(member.state == "present" for member in members),
        silent=sum(member.state == "silent" for member in members),
        rows=[_row(row) for row in window.rows],
    )


def group_use_shown(
    group: str, revision: int, picture: ClusterSnapshot | None
) -> GroupUseShown:
    """Return what `picture` shows of a group."""
    uses = () if picture is None else picture.uses
    seen = () if picture is None else picture.in_flight
    in_flight = next((one for one in seen if one.group == group), None)
    return GroupUseShown(
        group=group,
        revision=revision,
        at_s=None if picture is None else picture.at_s,
        uses=[_use(use) for use in uses if use.group == group],
        slots=None
        if in_flight is None
        else slots_shown(group, in_flight.slots, in_flight.holders),
    )


def _limited(subject: LimitedSubject) -> LimitedShown:
    return LimitedShown(
        name=subject.name,
        through=[
            ThroughShown(group=one.group, subject=dict(one.subject))
            for one in subject.through
        ],
    )


def _row(row: OverviewRow) -> RowShown:
    entry, use = row.entry, row.use
    return RowShown(
        group=entry.group,
        parent=entry.parent,
        attachments=entry.attachments,
        dimension=entry.dimension,
        scope=entry.scope,
        rate=shown(entry.rate),
        period_s=entry.period_s,
        period=entry.period,
        burst=shown(entry.burst),
        standing=row.standing,
        used=None if use is None else _rounded(use.used_units),
        admitted=None if use is None else round(use.admitted_per_s, 3),
        demand=None if use is None else round(use.demand_per_s, 3),
        attempted=None if use is None else round(use.attempted_per_s, 3),
        refused=None if use is None else round(use.refused_per_s, 3),
        level=None if use is None else finite(round(use.level, 3)),
        agents=0 if use is None else len(use.agents),
        slots=entry.slots,
        in_flight=row.in_flight,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else finite(round(value, 3))


def _use(use: Use) -> UseShown:
    return UseShown(
        dimension=use.dimension,
        rate=shown(use.rate),
        period_s=use.period_s,
        period=use.period,
        burst=shown(use.burst),
        standing=use.pressure,
        admitted=use.admitted_per_s,
        demand=use.demand_per_s,
        attempted=use.attempted_per_s,
        refused=use.refused_per_s,
        level=finite(use.level),
        available=finite(use.available_per_s),
        error=use.error_units,
        agents=[_agent(row) for row in use.agents],
    )


def _agent(row: LiveAgentUse) -> AgentUseShown:
    return AgentUseShown(
        agent=row.agent,
        demand=row.demand_per_s,
        attempted=row.attempted_per_s,
        share=finite(row.share_per_s),
        ceiling=finite(row.ceiling_per_s),
        admitted=row.admitted_per_s,
        refused=row.refused_per_s,
        held=row.held_units,
        subjects=row.subjects,
        age_s=row.age_s,
        state=row.state,
    )
