"""Each invariant stays silent for the real coordinator and trips for a broken one.

Every broken coordinator is the real one with a single thing wrong.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headgate.coordinator import (
    Ceilings,
    Configured,
    Coordinator,
    Counted,
    Effect,
    Event,
    Explanation,
    Heard,
    MemberView,
    Publish,
    SetCeilings,
)
from headgate.simulation.controllers.controller import settings_of
from headgate.simulation.scenario.scenario import (
    DemandPiece,
    Fault,
    GroupSpec,
    LimitChange,
    Scenario,
)
from headgate.simulation.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from headgate.simulation.controllers.controller import Birth, Controller

SECONDS = 25.0
AGENTS = 4


def overloaded(*, rate: float = 150.0, **more: object) -> Scenario:
    scenario = Scenario(
        name="invariants",
        seconds=SECONDS,
        groups=(GroupSpec(rate=300.0),),
        agents=AGENTS,
        weights=(1.0,) * AGENTS,
        demands=(
            DemandPiece(
                agents=tuple(range(AGENTS)), start_s=0.0, until_s=SECONDS, rate=rate
            ),
        ),
    )
    return replace(scenario, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] (test values)


def light() -> Scenario:
    """One agent wants most of the quota, the others little."""
    pieces = tuple(
        DemandPiece(agents=(agent,), start_s=0.0, until_s=SECONDS, rate=rate)
        for agent, rate in enumerate((200.0, 10.0, 10.0, 10.0))
    )
    return overloaded(demands=pieces)


def fault(kind: str, *agents: int, until: float = 20.0) -> Fault:
    return Fault(kind=kind, agents=agents, start_s=8.0, until_s=until)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] (test values)


class Broken(Coordinator):
    """The real coordinator; subclasses spoil one thing."""

    def __init__(self, scenario: Scenario, birth: Birth) -> None:
        super().__init__(
            settings_of(scenario, birth.index),
            agent=birth.agent,
            incarnation=birth.incarnation,
            seed=birth.seed,
            now=birth.now,
        )
        self.index = birth.index

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        told = self.spoil_event(now, event)
        if told is None:
            return []
        effects = super().step(now, told, wall_s=wall_s)
        return [self.spoil(now, effect) for effect in effects]

    def spoil_event(self, now: float, event: Event) -> Event | None:
        del now
        return event

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        return effect


def private(ceilings: Ceilings, rate: NDArray[np.float64]) -> Ceilings:
    """Return buckets of one agent alone that refill at a rate."""
    return replace(
        ceilings,
        shared=np.zeros_like(ceilings.shared),
        rate=rate,
        ceiling=rate,
        reserve=rate,
    )


def scaled(effect: Effect, factor: float) -> Effect:
    if isinstance(effect, SetCeilings):
        return replace(
            effect,
            ceilings=private(effect.ceilings, factor * effect.ceilings.ceiling),
        )
    return effect


class Generous(Broken):
    """Lets its bucket refill twice as fast as it decided, and tells nobody."""

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        if isinstance(effect, Publish):
            rows = tuple(
                replace(r, admitted=np.floor(r.admitted / 2))
                for r in effect.report.rows
            )
            return Publish(replace(effect.report, rows=rows))
        return scaled(effect, 2.0)


class Timid(Broken):
    """Lets its bucket refill at half of what it decided, and says it spent all."""

    def spoil_event(self, now: float, event: Event) -> Event | None:
        if isinstance(event, Counted):
            return replace(event, admitted=event.admitted * 2)
        return super().spoil_event(now, event)


class EqualParts(Broken):
    """Never more than an equal part for anyone."""

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        if isinstance(effect, SetCeilings):
            rate = np.minimum(effect.ceilings.ceiling, 300.0 / AGENTS)
            return replace(effect, ceilings=private(effect.ceilings, rate))
        return effect


class Starving(Broken):
    """One agent gets nothing."""

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        return scaled(effect, 0.05) if self.index == 2 else effect


class Forgetful(Broken):
    """Its reports carry one request less than it admitted."""

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        if isinstance(effect, Publish):
            rows = tuple(
                replace(r, admitted=np.maximum(r.admitted - 1, 0))
                for r in effect.report.rows
            )
            return Publish(replace(effect.report, rows=rows))
        return effect


class Silent(Broken):
    """Stops telling its counters in the middle of the run."""

    def spoil(self, now: float, effect: Effect) -> Effect:
        if isinstance(effect, Publish) and now > 5.0:
            return Publish(replace(effect.report, rows=()))
        return effect


class Moody(Broken):
    """Decides by something that is not among its inputs."""

    moods = 0

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        Moody.moods += 1
        return scaled(effect, 1.0 + Moody.moods * 1e-12)


class Resentful(Broken):
    """Works at a third for good once any agent has come back."""

    def __init__(self, scenario: Scenario, birth: Birth) -> None:
        super().__init__(scenario, birth)
        self.seen: dict[str, int] = {}
        self.hurt = birth.now > 0

    def spoil_event(self, now: float, event: Event) -> Event | None:
        if isinstance(event, Heard):
            for report in event.reports:
                known = self.seen.setdefault(report.agent, report.incarnation)
                self.hurt |= report.incarnation != known
        return super().spoil_event(now, event)

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        return scaled(effect, 0.33) if self.hurt else effect


class Carefree(Broken):
    """Goes on at its last ceiling when it is cut off."""

    def spoil(self, now: float, effect: Effect) -> Effect:
        del now
        if isinstance(effect, SetCeilings):
            rate = np.full_like(effect.ceilings.ceiling, 280.0)
            ceilings = private(effect.ceilings, rate)
            return replace(effect, ceilings=ceilings, deadline_s=rate * np.inf)
        return effect


class Unaware(Broken):
    """Does not say that it is cut off."""

    def explain(self, group_id: int, dimension: str, now: float) -> Explanation:
        return replace(super().explain(group_id, dimension, now), cut_off=False)


class Talkative(Broken):
    """Repeats each report a hundred times."""

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        effects = super().step(now, event, wall_s=wall_s)
        said = [effect for effect in effects if isinstance(effect, Publish)]
        return [*effects, *(said * 99)]


class Hoarder(Broken):
    """Remembers members that were never there."""

    def members(self, now: float) -> list[MemberView]:
        known = super().members(now)
        return known + [replace(known[0], agent=f"ghost-{i}") for i in range(50)]


class Deaf(Broken):
    """Does not follow changes of the configuration."""

    def __init__(self, scenario: Scenario, birth: Birth) -> None:
        super().__init__(scenario, birth)
        self.configured = False

    def spoil_event(self, now: float, event: Event) -> Event | None:
        if isinstance(event, Configured):
            if self.configured:
                return None
            self.configured = True
        return super().spoil_event(now, event)


class Miscounting(Broken):
    """Shows shares that are a twentieth too large."""

    def explain(self, group_id: int, dimension: str, now: float) -> Explanation:
        shown = super().explain(group_id, dimension, now)
        rows = tuple(replace(row, share=row.share * 1.05) for row in shown.agents)
        return replace(shown, agents=rows)


class Inexplicable(Broken):
    """Its share does not follow from the inputs that it shows."""

    def explain(self, group_id: int, dimension: str, now: float) -> Explanation:
        shown = super().explain(group_id, dimension, now)
        return replace(shown, share=shown.share + 0.5)


CASES: list[tuple[str, Callable[[Scenario, Birth], Controller], Scenario]] = [
    ("safety", Generous, overloaded()),
    (
        "safety",
        Generous,
        overloaded(groups=(GroupSpec(rate=300.0, mode="strict"),)),
    ),
    ("work-conserved", Timid, overloaded()),
    ("no-false-refusal", EqualParts, light()),
    ("no-starvation", Starving, overloaded()),
    ("totals-exact", Forgetful, overloaded()),
    ("totals-exact", Silent, overloaded(faults=(fault("crash", 1),))),
    ("deterministic", Moody, overloaded()),
    ("recovery", Resentful, overloaded(faults=(fault("crash", 1, until=12.0),))),
    ("fallback", Carefree, overloaded(faults=(fault("partition", 3),))),
    ("fallback", Unaware, overloaded(faults=(fault("cut", 3),))),
    ("bounded", Talkative, overloaded()),
    ("bounded", Hoarder, overloaded()),
    (
        "change-in-force",
        Deaf,
        overloaded(changes=(LimitChange(at_s=10.0, rate=100.0),)),
    ),
    ("shares-add-up", Miscounting, overloaded()),
    ("recomputable", Inexplicable, overloaded()),
]


@pytest.mark.parametrize(
    ("name", "broken", "scenario"),
    CASES,
    ids=[f"{name}-{getattr(broken, '__name__', '')}" for name, broken, _ in CASES],
)
def test_a_broken_coordinator_trips_the_checker(
    name: str, broken: Callable[[Scenario, Birth], Controller], scenario: Scenario
) -> None:
    result, _ = simulate(scenario, seed=1, make_controller=broken)
    assert name in {violation.name for violation in result.violations}


@cache
def _whole(place: int) -> tuple[str, ...]:
    result, _ = simulate(CASES[place][2], seed=1, make_controller=Broken)
    return tuple(f"{v.name}: {v.detail}" for v in result.violations)


@pytest.mark.parametrize("place", range(len(CASES)))
def test_the_same_scenario_is_clean_when_nothing_is_broken(place: int) -> None:
    same = [i for i in range(place) if CASES[i][2] == CASES[place][2]]
    assert _whole(same[0] if same else place) == ()
