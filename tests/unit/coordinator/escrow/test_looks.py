"""How soon an agent looks again when it hears of permits."""

import numpy as np
import pytest

from headgate.coordinator import (
    AgentLife,
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Event,
    Group,
    Heard,
    Keys,
    KnownLife,
    Limit,
    Permits,
    Report,
    Settings,
    WakeAt,
)
from headgate.coordinator.receiver import PERMITS_GAP_S

KEYS = Keys(("requests",), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))
GROUP = Group(
    id=1,
    name="g",
    limits=(Limit(dimension="requests", rate=1000, burst=1000),),
    mode="strict",
)
COUNTED = Counted(
    KEYS,
    refused=np.zeros(1),
    admitted=np.zeros(1),
    held=np.zeros(1),
    cost=np.ones(1),
    subjects=np.ones(1, dtype=np.int64),
)
LIFE = AgentLife("b", 1)
PERMITS = Permits(dimension="requests", lives=(KnownLife(1, LIFE),))


@pytest.mark.parametrize("heard_after_s", [0.0, 0.004, 0.02])
def test_permits_are_looked_at_soon_but_several_together(heard_after_s: float) -> None:
    agent = Coordinator(Settings(), agent="a", incarnation=1, seed=1, now=0.0)

    def wake_s(now: float, event: Event) -> float:
        effects = agent.step(now, event, wall_s=now)
        return min((e.at_s for e in effects if isinstance(e, WakeAt)), default=np.inf)

    wake_s(0.0, Configured(Configuration(revision=1, groups=(GROUP,))))
    wake_s(1.0, COUNTED)
    report = Report(
        cluster="default",
        agent="b",
        incarnation=1,
        sequence=1,
        sent_at_s=1.0,
        revision=1,
        permits=(PERMITS,),
    )
    heard_s = 1.0 + heard_after_s
    expected = max(heard_s, 1.0 + PERMITS_GAP_S)
    assert wake_s(heard_s, Heard((report,))) == pytest.approx(expected)
