"""Reports heard together do what they do one after the other, bit for bit."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from tests.sample import thorough

from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Effect,
    Event,
    Group,
    Heard,
    Keys,
    Limit,
    Noticed,
    Publish,
    Report,
    Rows,
    Settings,
)
from headgate.coordinator.gossip import batch as gathering
from headgate.coordinator.ledger.replay import hear
from headgate.coordinator.table.arrays import FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMENSIONS = ("requests", "bytes")
GROUPS = 30
"""Of which the agent uses the first twenty-four; the last six are rarely asked for."""

USED = 24

STRICT = 5
"""A seed with a strict group, for which no report waits."""


class Twins:
    """Two coordinators of one agent; the second hears together what came at once."""

    def __init__(self, random: np.random.Generator, *, strict: bool) -> None:
        self.random = random
        self.odd = float(random.choice([0.1, 1.0]))  # how much of it is out of order
        self.now = 0.0
        self.both = [
            Coordinator(Settings(), agent="self", incarnation=1, seed=1, now=0.0)
            for _ in range(2)
        ]
        limits = tuple(Limit(dimension=d, rate=900, burst=500) for d in DIMENSIONS)
        groups = [Group(id=i, name=f"g{i}", limits=limits) for i in range(1, USED + 1)]
        if strict:
            groups[0] = replace(groups[0], mode="strict")
        ids = np.arange(1, USED + 1)
        self.keys = Keys(DIMENSIONS, np.repeat([0, 1], USED), np.tile(ids, 2))
        self.admitted = np.zeros(2 * USED)
        self.sent: list[Report] = []
        self.life = {f"b{i}": 1 for i in range(8)}
        self.sequence = dict.fromkeys(self.life, 0)
        self.counters = {name: np.zeros((2, 2, GROUPS)) for name in self.life}
        configuration = Configuration(revision=1, groups=tuple(groups))
        self.step(Configured(configuration))

    def step(self, event: Event) -> list[Effect]:
        """Step both with the same; return what the first wants done."""
        found = [one.step(self.now, event, wall_s=self.now) for one in self.both]
        assert told(found[0]) == told(found[1])
        return found[0]

    def tick(self, seconds: float) -> None:
        """Let time pass, and some of it be used."""
        self.now += seconds
        busy = self.random.random(2 * USED) < 0.3
        self.admitted = self.admitted + 5.0 * busy
        zeros, ones = np.zeros(2 * USED), np.ones(2 * USED)
        counted = Counted(
            self.keys, zeros, self.admitted, zeros, ones, ones.astype(np.int64)
        )
        effects = self.step(counted)
        self.sent += [each.report for each in effects if isinstance(each, Publish)]

    def come(self) -> list[Report]:
        """Return what comes at once: a report of most, some of it wrong or twice."""
        random, reports = self.random, list[Report]()
        for name in self.life:
            if random.random() < 0.8:
                reports.append(self.report(name))
        if reports and random.random() < 0.3:
            reports.append(reports[0])
        if random.random() < 0.3:
            reports.append(self.report("b0"))
        reports += self.sent
        self.sent = []
        return [reports[at] for at in random.permutation(len(reports))]

    def report(self, name: str) -> Report:
        """Return the next report of an agent."""
        random = self.random
        if random.random() < 0.03 * self.odd:
            self.life[name] += 1
            self.sequence[name] = 0
            self.counters[name][:] = 0.0
        self.sequence[name] += 1 + int(random.random() < 0.05 * self.odd)
        return Report(
            cluster="default",
            agent=name,
            incarnation=self.life[name],
            sequence=self.sequence[name],
            sent_at_s=self.now - 0.02 * random.random(),
            hello=bool(random.random() < 0.03 * self.odd),
            leave=bool(random.random() < 0.02 * self.odd),
            weight=2.0 if random.random() < 0.02 * self.odd else 1.0,
            rows=tuple(
                self.rows(self.counters[name][at], dimension)
                for at, dimension in enumerate(DIMENSIONS)
                if random.random() < 0.8
            ),
        )

    def rows(self, counters: np.ndarray, dimension: str) -> Rows:
        """Return rows of some groups, of all counters some that can't be true."""
        random = self.random
        known = GROUPS if random.random() < 0.2 * self.odd else USED
        at = (random.random(known) < random.choice([0.1, 0.5])).nonzero()[0]
        size = len(at)
        counters[:, at] += random.poisson(8.0, (2, size))
        if random.random() < 0.05 * self.odd:
            counters[0, at[:1]] += random.choice([-1e3, 1e6])
        demand = random.uniform(-1.0, 90.0, size)
        subjects = random.integers(0, 9, size)
        if random.random() < 0.03 * self.odd:
            demand[:1] = np.nan
        return Rows(
            dimension=dimension,
            group_ids=at + 1,
            refused=counters[1, at],
            admitted=counters[0, at],
            demand=demand,
            held=random.normal(0.0, 400.0, size),
            cost=random.uniform(0.5, 3.0, size),
            largest=random.uniform(0.0, 9.0, size) if random.random() < 0.3 else None,
            counted=random.uniform(0.0, 90.0, size) if random.random() < 0.2 else None,
            own=np.linspace(0.0, 90.0, size) if size % 2 else None,
            level=random.normal(100.0, 50.0, size) if random.random() < 0.2 else None,
            subjects=None if random.random() < 0.03 * self.odd else subjects,
        )

    def hear(self, reports: list[Report]) -> None:
        """Let the first hear them one after the other, the second together."""
        apart, together = self.both
        found = [
            effect
            for report in reports
            for effect in apart.step(self.now, Heard((report,)), wall_s=self.now)
        ]
        event = Heard(tuple(reports))
        others = together.step(self.now, event, wall_s=self.now)
        # What is noticed of rows that waited is said when they are entered.
        assert sorted(told(found)) == sorted(told(others))


def told(effects: list[Effect]) -> list[str]:
    """Return effects as words; of a report and of ceilings their columns."""
    return [
        f"{type(each).__name__} "
        + (repr(each) if isinstance(each, Noticed) else repr(plain(each)))
        for each in effects
    ]


def plain(thing: object) -> object:
    """Return a value with arrays as bytes."""
    if isinstance(thing, np.ndarray):
        return thing.tobytes()
    if isinstance(thing, tuple):
        return [plain(each) for each in cast("tuple[object, ...]", thing)]
    if is_dataclass(thing):
        return {
            each.name: plain(getattr(thing, each.name))
            for each in fields(thing)
            if each.name not in ("keys", "cache")
        }
    return thing


def state(coordinator: Coordinator) -> dict[str, object]:
    """Return all ledgers and members of a coordinator, to the bit."""
    core = coordinator._state  # pyright: ignore[reportPrivateUsage]
    found: dict[str, object] = {
        f"{block.width}.{name}": plain(getattr(block, name))
        for block in core.table.blocks
        for name in FIELDS
    }
    for name, member in core.members.by_agent.items():
        found[name] = plain(member)
    found["loss"] = core.members.loss
    found["wanted"] = None if core.local is None else core.local.wanted.tobytes()
    return found


def bus_of(coordinator: Coordinator) -> tuple[float, float]:
    """Return the lag and the loss that it has measured."""
    members = coordinator._state.members  # pyright: ignore[reportPrivateUsage]
    return members.lag_s, members.loss


@pytest.mark.long
@pytest.mark.parametrize("rows_together", [*thorough(1, 40), 1 << 13])
def test_reports_heard_together_do_what_they_do_one_by_one(
    rows_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.coordinator.receiver.ROWS_TOGETHER", rows_together)
    entered = 0

    def counted(*args: object) -> list[int] | None:
        nonlocal entered
        found = gathering.enter_together(*args)  # type: ignore[arg-type]
        entered += found is not None
        return found

    twins = Twins(np.random.default_rng(0), strict=False)

    def noted(
        *args: Any, lag_s: float, loss: float, **options: Any
    ) -> NDArray[np.bool_]:
        assert (lag_s, loss) in map(bus_of, twins.both)
        return hear(*args, lag_s=lag_s, loss=loss, **options)

    monkeypatch.setattr("headgate.coordinator.receiver.enter_together", counted)
    monkeypatch.setattr("headgate.coordinator.receiver.hear", noted)
    monkeypatch.setattr(gathering, "hear", noted)
    for seed in range(6):
        twins = Twins(np.random.default_rng(seed), strict=seed == STRICT)
        for _ in range(25):
            twins.tick(float(twins.random.choice([0.025, 0.1, 0.5])))
            twins.hear(twins.come())
            before, after = (state(one) for one in twins.both)
            assert before == after
    # Else this would only compare one by one with one by one.
    assert (entered > 20) == (rows_together > 1)


def test_who_uses_no_group_yet_hears_many_at_once() -> None:
    one = Coordinator(Settings(), agent="self", incarnation=1, seed=1, now=0.0)
    column = np.ones(2)
    for sequence in (1, 2):
        rows = Rows(
            dimension="requests",
            group_ids=np.array([1, 2]),
            refused=column,
            admitted=sequence * column,
            demand=column,
            held=column,
            cost=column,
        )
        reports = tuple(
            Report(
                cluster="default",
                agent=agent,
                incarnation=1,
                sequence=sequence,
                sent_at_s=float(sequence),
                rows=(rows,),
            )
            for agent in ("a", "b")
        )
        one.step(float(sequence), Heard(reports), wall_s=0.0)
    assert [each.age_s for each in one.members(2.0) if each.agent != "self"] == [0, 0]
