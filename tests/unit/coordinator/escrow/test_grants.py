"""A strict limit that nobody has used starts full, at one agent, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.scenarios.world import Process, World

from headgate.coordinator import (
    Claim,
    Granted,
    Keys,
    KnownLife,
    PermitRun,
    Report,
    SetCeilings,
    Settings,
)
from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.demand.local_buckets import LocalBuckets
from headgate.coordinator.escrow.holder import Strict
from headgate.coordinator.membership.members import Members
from headgate.coordinator.messages.report import PERMITS, AgentLife, Permits
from headgate.coordinator.table.index import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator import Effect
    from headgate.coordinator.escrow.permits import Escrow

KEY = ("requests", 1)
ME, OTHER = AgentLife("b", 1), AgentLife("a", 1)
BURST = 100.0
T = Settings().interval_s


def report_of(sender: AgentLife, permits: tuple[Permits, ...]) -> Report:
    """Return a keyframe."""
    return Report(
        cluster="default",
        agent=sender.agent,
        incarnation=sender.incarnation,
        sequence=1,
        sent_at_s=1.0,
        permits=permits,
        keyframe=True,
    )


def asked(claims: list[Claim], now: float) -> list[frozenset[object]]:
    """Return the limits of each claim."""
    assert all((claim.agent, claim.asked_at_s) == ("b", now) for claim in claims)
    return [frozenset[object](claim.limits) for claim in claims]


class Asking:
    """One agent's strict limits, whose shell has yet to hear from the API."""

    def __init__(self) -> None:
        self.table = Table()
        block, slot = self.table.add(KEY)
        block.burst[slot] = BURST
        keys = Keys((KEY[0],), np.zeros(1, np.int64), np.array([KEY[1]]))
        self.local = LocalBuckets(keys, {}, {}, 0.0)
        self.strict = Strict(Settings(), self.table, Members(Settings(), 0.0))
        self.strict.begin(ME.agent, ME.incarnation, 0.0)
        self.strict.open(KEY, 0.0)

    def come_back(self, now: float, *, group_id: int = 1) -> list[frozenset[object]]:
        """Hear the own report that tells that this agent uses a limit; as `step`."""
        lives = (KnownLife(group_id, ME, uses=True),)
        told = (Permits(dimension="requests", runs=(), lives=lives),)
        return asked(self.strict.echo(report_of(ME, told), now), now)

    def step(self, now: float) -> list[frozenset[object]]:
        """Let time pass; return what the API is asked for."""
        self.strict.step(now, self.local)
        return asked(self.strict.claims(now), now)

    def grant(self, now: float, *, asked_at_s: float = 0.1) -> bool:
        """Let the API's answer arrive."""
        return bool(self.strict.grant(Granted(frozenset({KEY}), asked_at_s), now))

    def hear(self, *, settled: bool, run: bool = False) -> None:
        """Hear another agent that uses the limit, and perhaps a part of its permits."""
        runs = (PermitRun(1, 0, 10, 1, OTHER, OTHER, 0.0),) if run else ()
        life = KnownLife(1, OTHER, settled=settled, uses=True)
        permits = (Permits(dimension="requests", runs=runs, lives=(life,)),)
        self.strict.note(report_of(OTHER, permits), 0.1)
        self.strict.hear(report_of(OTHER, permits), 0.1)

    @property
    def escrow(self) -> Escrow:
        """The limit's permits."""
        return self.strict._held[KEY].escrow  # pyright: ignore[reportPrivateUsage]

    @property
    def credited(self) -> float:
        """Units that the next ceilings put into the bucket."""
        return float(self.local.credit[0])


def test_what_is_granted_starts_full_at_once() -> None:
    asking = Asking()
    assert asking.step(0.0) == [], "nobody knows yet that it uses the limit"
    assert asking.come_back(0.04, group_id=2) == []
    assert asking.step(0.05) == []
    assert asking.come_back(0.1) == [{KEY}]
    assert asking.step(0.15) == [], "the API may need some time"
    assert len(asking.escrow.owned()) == 0
    assert asking.grant(0.3)
    asking.step(0.35)
    assert len(asking.escrow.owned()) == PERMITS
    assert asking.credited == BURST
    asking.local.credit[:] = 0.0
    assert not asking.grant(0.4), "a grant counts once"
    asking.step(0.45)
    assert asking.credited == 0.0


def stop_using(asking: Asking) -> None:
    asking.strict.stop_using(KEY, 0.2)


def hear_one_that_is_settled(asking: Asking) -> None:
    asking.hear(settled=True)


def hear_permits(asking: Asking) -> None:
    asking.hear(settled=False, run=True)


@pytest.mark.parametrize(
    "meanwhile", [stop_using, hear_one_that_is_settled, hear_permits]
)
def test_a_grant_is_not_used_where_the_limit_may_be_owned(
    meanwhile: Callable[[Asking], None],
) -> None:
    asking = Asking()
    asking.come_back(0.1)
    meanwhile(asking)
    assert not asking.grant(0.3)
    asking.step(0.35)
    assert len(asking.escrow.owned()) == 0
    assert asking.credited == 0.0


def test_a_grant_expires_before_another_agent_can_found() -> None:
    late, earlier = Asking(), Asking()
    late.come_back(0.1)
    earlier.come_back(0.1)
    assert not late.grant(0.1 + 1.01 * T)
    assert not earlier.grant(0.2, asked_at_s=-0.05), "of a coordinator before this one"
    for asking in (late, earlier):
        asking.step(0.2 + 1.01 * T)
        assert len(asking.escrow.owned()) == 0


def test_a_limit_that_is_not_used_here_is_not_claimed() -> None:
    asking = Asking()
    asking.strict.stop_using(KEY, 0.05)
    assert asking.come_back(0.1) == []
    assert asking.step(0.2) == []


def test_the_api_is_asked_again_while_nobody_has_founded_the_limit() -> None:
    asking = Asking()
    assert asking.come_back(0.1)
    again = [now / 20 for now in range(2, 30) if asking.step(now / 20)]
    assert 1 <= len(again) <= 4
    assert asking.grant(again[-1] + 0.01, asked_at_s=again[-1] - 0.3)
    assert asking.step(3.0) == []


def test_a_new_life_asks_once_the_others_know_of_it() -> None:
    asking = Asking()
    asking.come_back(0.1)
    asking.strict.begin(ME.agent, 2, 0.2)
    assert not any(asking.step(now / 20) for now in range(5, 30))
    assert asking.come_back(1.5) == [{KEY}]


def test_nobody_asks_for_a_limit_that_somebody_owns() -> None:
    asking = Asking()
    asking.hear(settled=True)
    assert asking.come_back(0.2) == []
    assert asking.step(0.2) == []


class Crediting(World):
    """A world that notes the units that buckets are given."""

    def __init__(self) -> None:
        super().__init__()
        self.grants = True
        self.group(1, rate=10.0, burst=BURST, mode="strict")
        self.given: dict[str, float] = {}

    def _perform(self, process: Process, effect: Effect) -> None:
        if isinstance(effect, SetCeilings) and effect.credit is not None:
            before = self.given.get(process.name, 0.0)
            self.given[process.name] = before + float(effect.credit.sum())
        super()._perform(process, effect)

    def capacity(self, name: str) -> float:
        """Return what the bucket of a process may hold, units."""
        told = self.processes[name].ceilings.get(1)
        return 0.0 if told is None else float(told.ceilings.capacity[0])


@pytest.mark.parametrize("slots", [False, True])
def test_a_listener_knows_what_was_made_while_it_listened(slots: bool) -> None:
    strict = Strict(Settings(), Table(), Members(Settings(), 0.0))
    strict.begin("observer", 1, 0.0)
    for group_id, since_made in ((1, True), (2, False)):
        if slots:
            made = [group_id] if since_made else []
            strict.follow_slots(dict.fromkeys(range(1, group_id + 1), 3), 0.0, made)
        else:
            strict.open(("requests", group_id), 0.0, since_made=since_made)
    dimension = IN_FLIGHT if slots else "requests"
    known = [(dimension, 1), (dimension, 2), (dimension, 3)]

    def grantable() -> list[bool]:
        return [strict.grantable(key, OTHER.agent) for key in known]

    assert grantable() == [False] * 3, "the agent that asks was not heard"
    strict.note(report_of(OTHER, ()), 0.1)
    for settled, expected in ((False, [True, False, False]), (True, [False] * 3)):
        lives = tuple(KnownLife(n, OTHER, settled=settled, uses=True) for n in (1, 2))
        told = (Permits(dimension=dimension, runs=(), lives=lives),)
        strict.hear(report_of(OTHER, told), 0.1)
        assert grantable() == expected


def test_an_observer_vouches_for_limits_that_are_younger_than_it() -> None:
    world = Crediting()
    world.start("observer", observing=True)
    world.group(2, rate=10.0, burst=BURST, mode="strict")
    world.grants = False
    world.start("a")
    world.run(0.2)
    observer = world.processes["observer"].coordinator
    known = [observer.grantable(group_id, "requests", "a") for group_id in (1, 2)]
    assert known == [False, True]
    assert not observer.grantable(2, "requests", "b"), "it doesn't hear b"
    world.run(4.0)
    assert not observer.grantable(2, "requests", "a"), "it was founded"


@pytest.mark.parametrize("restarts", [False, True])
def test_an_observer_that_was_deaf_does_not_vouch(restarts: bool) -> None:
    world = World()
    world.start("observer", observing=True)
    world.group(2, rate=10.0, burst=BURST)
    world.start("a")
    world.run(3.0)
    world.apart = [{"observer"}]
    world.group(1, rate=10.0, burst=BURST, mode="strict")
    if restarts:
        world.stop("a")
    world.start("a", incarnation=2)
    world.run(8.0)  # it has founded the limit, and has told so for long enough
    world.apart = []
    world.run(1.5)
    world.start("b")
    observer = world.processes["observer"].coordinator
    for _ in range(40):
        world.run(0.025)
        assert not observer.grantable(1, "requests", "b")


@pytest.mark.parametrize("modes", ["balanced strict", "strict balanced strict"])
def test_a_limit_that_was_balanced_may_have_been_used(modes: str) -> None:
    world = World()
    world.start("observer", observing=True)
    for mode in modes.split():
        balanced = mode == "balanced"
        world.group(
            1, rate=10.0, burst=BURST, mode="balanced" if balanced else "strict"
        )
    world.start("a")
    world.run(0.2)
    assert not world.processes["observer"].coordinator.grantable(1, "requests", "a")


def test_of_agents_that_start_together_one_starts_full_and_shares() -> None:
    world = Crediting()
    for name in "abc":
        world.start(name)
        world.load(name, 1, 5.0, 20.0)
    world.run(0.5)
    assert list(world.given.values()) == [BURST]
    world.run(3.0)
    parts = [world.capacity(name) for name in "abc"]
    assert min(parts) > 0.2 * BURST
    assert sum(parts) <= BURST + 1e-6


def test_the_next_agents_after_all_have_ended_start_empty() -> None:
    world = Crediting()
    world.start("a")
    world.load("a", 1, 5.0, 20.0)
    world.run(1.0)
    assert world.given == {"a": BURST}
    world.stop("a")
    world.run(1.0)
    world.start("b")
    world.load("b", 1, 5.0, 20.0)
    world.run(1.0)
    assert world.capacity("b") == 0.0, "it listens first"
    world.run(2.0)
    assert world.capacity("b") == pytest.approx(BURST)
    assert world.given == {"a": BURST}
