"""Pictures of a cluster, painted by hand."""

from headgate.api.live.snapshot import AgentSeen, ClusterSnapshot, LiveAgentUse, Use


def agent_use(agent: str, *, demand: float, admitted: float) -> LiveAgentUse:
    return LiveAgentUse(
        agent=agent,
        demand_per_s=demand,
        share_per_s=admitted,
        ceiling_per_s=admitted,
        admitted_per_s=admitted,
        refused_per_s=demand - admitted,
        held_units=1.0,
        subjects=1,
        age_s=0.5,
        state="present",
    )


def use(
    group_id: int,
    *agents: LiveAgentUse,
    rate: float = 100.0,
    soft_threshold: float | None = None,
) -> Use:
    return Use(
        group_id=group_id,
        group=f"group-{group_id}",
        dimension="requests",
        rate=rate,
        period_s=1.0,
        burst=rate,
        soft_threshold=soft_threshold,
        level=10.0,
        available_per_s=rate,
        agents=agents,
    )


def seen(agent: str, *, age_s: float = 0.5) -> AgentSeen:
    return AgentSeen(
        agent=agent,
        incarnation=1,
        age_s=age_s,
        lag_s=0.01,
        loss=0.0,
        state="present",
        revision=0,
    )


def picture(
    *uses: Use, at_s: float = 1000.0, agents: tuple[AgentSeen, ...] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(at_s=at_s, number=int(at_s), uses=uses, agents=agents)
