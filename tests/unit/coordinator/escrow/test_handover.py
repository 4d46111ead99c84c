"""Tokens go with rights: once, never more than were taken, whatever is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scenarios.world import World

from headgate.agent.bucket.bucket import Bucket
from headgate.coordinator import Keys
from headgate.coordinator.escrow.handover import Handover, burst_of
from headgate.coordinator.escrow.transfer import NOBODY, Row, Transfers

if TYPE_CHECKING:
    from headgate.coordinator.demand.local_buckets import Own

BURST = 1000.0
RATE = 100.0
KEY = "requests", 1
OF_BURST = burst_of(KEY)
NAMES = ("a@1", "b@1", "c@1")

steps = st.lists(
    st.tuples(
        st.sampled_from(("give", "give", "tell", "old", "spend", "crash", "wait")),
        st.integers(0, 2),
        st.integers(0, 2),
        st.floats(0, 1),
    ),
    max_size=80,
)


class Agent:
    """A real bucket, a table of rights, and gifts on their way into a report."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.transfers = Transfers()
        self.handover = Handover()
        self.bucket = Bucket(0.0, rate=0.0, capacity=0.0, may_owe=False)
        arrays = {"clipped": np.zeros(1), "credit": np.zeros(1)}
        self.own = cast("Own", SimpleNamespace(at={KEY: 0}, told_size=1, **arrays))

    def look(self, now: float, wanted: dict[str, float]) -> None:
        """Do what a step does: make gifts, set others aside, set the bucket."""
        self.own.clipped[0] = self.bucket.clipped
        self.handover.give(
            OF_BURST, self.transfers, self.name, self.own, now, tokens=BURST
        )
        if wanted:
            self.handover.set_aside(OF_BURST, wanted, self.own, urgent=True)
        part = self.transfers.owned(self.name)
        part -= self.handover.part(OF_BURST) / self.transfers.minted
        self.handover.credit(OF_BURST, self.transfers, self.own, tokens=BURST)
        credit, self.own.credit[0] = self.own.credit.item(0), 0.0
        self.bucket.set_ceiling_at(
            now, ceiling=RATE * part, capacity=max(BURST * part, 1e-9), credit=credit
        )

    def learn(self, rows: list[Row]) -> None:
        """Hear some rows."""
        for row in rows:
            if row.giver != self.name:
                gift = self.transfers.learn(*row)
                if gift and row.receiver == self.name:
                    self.handover.came(OF_BURST, gift)


@given(steps)
@settings(max_examples=300, deadline=None)
def test_what_is_admitted_never_exceeds_burst_and_rate(
    todo: list[tuple[str, int, int, float]],
) -> None:
    """Rows are lost, doubled and come late; agents crash and start anew."""
    agents = [Agent(name) for name in NAMES]
    agents[0].transfers.give(NOBODY, NAMES[0], 1.0, 0.0)
    agents[0].look(0.0, {})
    old: list[Row] = []
    now = spent = 0.0
    for verb, one, other, part in todo:
        agent, peer = agents[one], agents[other]
        if verb == "wait":
            now += part
        elif verb == "spend":
            spent += (
                part * BURST
                if not agent.bucket.try_acquire_at(now, part * BURST)
                else 0.0
            )
        elif verb == "crash":
            name = f"{agent.name.partition('@')[0]}@{len(old) + 2}"
            agents[one] = Agent(name)
        elif verb == "give" and one != other:
            balance = agent.transfers.balance(agent.name)
            agent.look(now, {peer.name: part * balance} if part * balance else {})
            agent.look(now, {})
        else:
            rows = agent.transfers.rows(agent.transfers.givers())
            old += rows
            peer.learn(rows if verb == "tell" else old[: len(old) // 2])
            peer.look(now, {})
        held = sum(each.bucket.held_at(now) for each in agents)
        assert held + spent <= BURST + RATE * now + 1e-6


def test_tokens_arrive_once_and_only_those_that_were_taken() -> None:
    giver, receiver = Agent("a@1"), Agent("b@1")
    giver.transfers.give(NOBODY, "a@1", 1.0, 0.0)
    giver.look(0.0, {})
    giver.bucket.fill()
    assert giver.bucket.try_acquire_at(0.0, 300.0) == 0.0
    giver.look(0.0, {"b@1": 0.75})
    assert giver.bucket.held_at(0.0) == 250.0  # of 700, clipped to its new part
    assert not giver.transfers.rows({"a@1"})  # not before that is known
    giver.look(0.0, {})
    (row,) = giver.transfers.rows({"a@1"})
    assert row == ("a@1", "b@1", 0.75, 450.0)
    for _ in range(3):
        receiver.learn([Row(NOBODY, "a@1", 1.0), row])
        receiver.look(0.0, {})
        assert receiver.bucket.held_at(0.0) == 450.0


def test_an_heir_that_had_guessed_is_credited_what_its_new_part_can_hold() -> None:
    heir = Agent("b@1")
    heir.transfers.learn(NOBODY, "a@1", 1.0)
    heir.transfers.give("a@1", "b@1", 0.7, 0.0)
    heir.look(0.0, {})
    heir.learn([Row("a@1", "b@1", 0.75, 700.0)])
    heir.look(0.0, {})
    assert abs(heir.bucket.held_at(0.0) - 50.0) < 1e-6


def test_a_ledger_that_is_closed_and_opened_again_owns_no_more_than_before() -> None:
    world = World()
    world.group(1, rate=1000, burst=1000, mode="strict")
    for name in "ab":
        world.start(name)
    world.run(6.0)
    strict = [world.processes[n].coordinator._core.strict for n in "ab"]  # pyright: ignore[reportPrivateUsage]  # no other way
    for each in strict:
        before = each.owned(KEY)
        each.close(KEY)
        assert each.owned(KEY) == {}
        each.open(KEY, world.now)
        assert each.owned(KEY) == before
    world.run(3.0)
    parts = [p.ceilings[1].ceiling.item(0) for p in world.processes.values()]
    assert 950.0 < sum(parts) <= 1000.0 + 1e-6


def test_a_new_name_owns_what_was_owned_when_a_ledger_was_closed() -> None:
    world = World()
    world.group(1, rate=1000, burst=1000, mode="strict")
    world.start("a")
    world.run(6.0)
    strict = world.processes["a"].coordinator._core.strict  # pyright: ignore[reportPrivateUsage]  # no other way
    assert strict.owned(KEY) == {"a@1": 1.0}
    strict.close(KEY)
    strict.begin("a~1", 1, world.now)
    strict.open(KEY, world.now)
    assert strict.owned(KEY) == {"a~1@1": 1.0}  # or it could give it and keep it, too


def ceilings(world: World) -> float:
    """Return the sum of the ceilings of the strict group's buckets."""
    parts = [p.ceilings.get(1) for p in world.processes.values()]
    return sum(float(each.ceiling[0]) for each in parts if each is not None)


def use_groups(world: World, name: str, *groups: int) -> None:
    """Let a process have buckets for these of the groups 1 and 2, from now on."""
    process = world.processes[name]
    process.keys = Keys(
        dimensions=(KEY[0],),
        dimension=np.zeros(len(groups), dtype=np.int64),
        group_ids=np.array(groups, dtype=np.int64),
    )
    process.admitted, process.refused, process.held = np.zeros((3, len(groups)))
    process.rates = {}
    process.ceilings = {g: c for g, c in process.ceilings.items() if g in groups}


def test_who_has_no_bucket_any_more_leaves_all_to_those_who_have() -> None:
    world = World()
    world.group(1, rate=1000, burst=1000, mode="strict")
    world.group(2, rate=1000, burst=1000)
    for name in "abc":
        world.start(name)
        world.load(name, 1, 300, 200)
    world.run(6.0)
    world.load("c", 1, 0, 0)
    world.run(12.0)
    use_groups(world, "c", 2)
    for _ in range(12):  # it is told with the next report, and nobody gives it back
        world.run(0.5)
        assert ceilings(world) <= 1000.0 + 1e-6
    assert ceilings(world) > 999.0
    capacities = [world.processes[n].ceilings[1].capacity.item(0) for n in "ab"]
    assert sum(capacities) > 0.99 * (1000.0 - 2.0 * 3)
    world.load("b", 1, 0, 0)
    world.run(12.0)
    use_groups(world, "b", 2)
    world.run(0.025)
    use_groups(world, "c", 1, 2)  # while b's last gifts are on their way
    world.load("c", 1, 300, 200)
    for _ in range(40):
        world.run(0.25)
        assert ceilings(world) <= 1000.0 + 1e-6
    assert ceilings(world) > 950.0
    assert 450.0 < world.processes["c"].ceilings[1].ceiling.item(0) < 550.0


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_the_last_one_shares_with_those_who_may_come_back_first(order: str) -> None:
    world = World()
    world.group(1, rate=1000, burst=1000, mode="strict")
    world.group(2, rate=1000, burst=1000)
    for name in "ab":
        world.start(name)
    world.run(6.0)
    for name in "ab":
        use_groups(world, name, 2)
        world.run(12.0)
    for name, part in zip(order, (500.0, 1000.0), strict=True):
        use_groups(world, name, 1, 2)
        world.load(name, 1, 300, 400)
        for _ in range(20):
            world.run(0.25)
            assert ceilings(world) <= 1000.0 + 1e-6
        assert ceilings(world) >= 0.99 * part
