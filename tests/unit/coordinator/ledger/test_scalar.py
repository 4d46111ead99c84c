"""What is computed for one row on plain floats is what columns give, bit for bit."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pytest

import headgate.coordinator.demand.local_buckets as own_module
from headgate.coordinator.allocation.ceilings import (
    Ceilings,
    Conditions,
    own_ceilings,
    share_out,
)
from headgate.coordinator.allocation.max_min import shares_at, water_level
from headgate.coordinator.config.constants import Settings
from headgate.coordinator.demand.local_buckets import Own
from headgate.coordinator.gossip.schedule import Reporting
from headgate.coordinator.ledger.replay import (
    charge_own,
    hear,
    hear_many,
    settle,
    settle_many,
    wake,
)
from headgate.coordinator.ledger.scalar import charge_one, wake_one
from headgate.coordinator.messages.events import Counted, Keys
from headgate.coordinator.messages.report import Rows
from headgate.coordinator.table.arrays import COLUMNS, LINES, Shelf
from headgate.coordinator.table.index import Place, place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = range(60)
OTHERS = ("member", "subjects", "dirty", "full", "small")


def shelf_of(random: np.random.Generator) -> Shelf:
    """Return a shelf of any width with any state, most of it likely."""
    shelf = Shelf(int(2 ** random.integers(3, 8)))
    for _ in range(3):
        shelf.take_slot()
    for name in (*LINES, *COLUMNS):
        column: NDArray[np.float64] = getattr(shelf, name)
        column[...] = np.round(random.lognormal(2.0, 2.0, column.shape), 3)
    shelf.at[...] = random.uniform(9.0, 10.0, shelf.at.shape)
    shelf.told_at[...] = random.uniform(5.0, 10.0, shelf.told_at.shape)
    shelf.held[...] *= random.choice([-1.0, 1.0], shelf.held.shape)
    shelf.level[...] *= random.choice([-1.0, 1.0], shelf.level.shape)
    shelf.error[...] *= random.random(shelf.error.shape) < 0.5
    shelf.due[random.random(shelf.due.shape) < 0.5] = inf
    shelf.admitted[random.random(shelf.admitted.shape) < 0.2] = nan
    for name in ("full", "small"):
        column = getattr(shelf, name)
        column[...] = random.random(column.shape) < 0.5
    return shelf


def same(one: Shelf, many: Shelf) -> None:
    """Compare two shelves bit for bit."""
    for name in (*LINES, *COLUMNS, *OTHERS):
        assert getattr(one, name).tobytes() == getattr(many, name).tobytes(), name


def twins(seed: int) -> tuple[np.random.Generator, Shelf, Shelf]:
    random = np.random.default_rng(seed)
    shelf = shelf_of(random)
    return random, shelf, deepcopy(shelf)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_ledger_is_settled_as_columns_are(seed: int) -> None:
    random, one, many = twins(seed)
    at = slice(1, 2)
    now, small_s = 10.0 + random.random(), random.random()
    belief = settle(one, at, now, small_s=small_s)
    assert belief.tobytes() == settle_many(many, at, now, small_s).tobytes()
    same(one, many)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_ledger_is_shared_out_as_columns_are(seed: int) -> None:
    random, one, many = twins(seed)
    for name in ("strict", "unlimited"):
        flags = random.random(4) < 0.2
        for shelf in (one, many):
            getattr(shelf, name)[:] = flags
    policies, until = random.integers(0, 4, 4), random.choice([0.0, inf], 4)
    for shelf in (one, many):
        shelf.isolation[:] = policies
        shelf.joining_until[:] = until
        shelf.weight[:] = np.where(shelf.weight < 5.0, 0.0, 1.0)
        shelf.weight[0] = 1.0
    lag_s, unseen_s = random.random(2).tolist()
    mute, adrift, quorate = (random.random(3) < 0.3).tolist()
    on = Conditions(10.0, lag_s, unseen_s, mute, adrift=adrift, quorate=quorate)
    share_out(one, slice(1, 2), on, Settings())
    share_out(many, np.array([1]), on, Settings())
    same(one, many)
    lone = own_ceilings(one, slice(1, 2), on, Settings())
    column = own_ceilings(many, np.array([1]), on, Settings())
    for each in fields(Ceilings):
        values = getattr(lone, each.name), getattr(column, each.name)
        assert values[0].tobytes() == values[1].tobytes(), each.name


@pytest.mark.parametrize("seed", range(20))
def test_one_water_level_is_that_of_its_column(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 40))
    demand = random.lognormal(3.0, 2.0, count)
    weight = random.choice([0.0, 1.0, 2.0], count, p=[0.2, 0.6, 0.2])
    available = random.random() * float((demand * (weight > 0)).sum()) * 1.2
    level = water_level(demand, weight, np.array(available))
    columns = np.repeat(demand[:, None], 2, 1), np.repeat(weight[:, None], 2, 1)
    levels = water_level(*columns, np.full(2, available))
    # Columns are summed in another order.
    assert levels == pytest.approx(float(level), rel=1e-12)
    shares = shares_at(level, demand, weight)
    assert shares_at(levels, *columns)[:, 1] == pytest.approx(shares, rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_rows_are_heard_as_columns_are(seed: int) -> None:
    random, one, many = twins(seed)
    count = int(random.integers(1, 4))
    slots, lines = np.arange(count), random.integers(1, one.width, count)
    before = many.admitted[lines, slots]
    admitted = np.nan_to_num(before) + random.normal(20.0, 60.0, count).round(3)
    rows = Rows(
        dimension="requests",
        group_ids=np.arange(1, count + 1),
        refused=random.lognormal(2.0, 1.0, count),
        admitted=admitted,
        demand=random.lognormal(2.0, 1.0, count),
        held=random.normal(0.0, 1e3, count),
        subjects=random.integers(0, 5, count) if seed % 2 else None,
    )
    told_at = 9.0 + random.random()
    wrong = [
        step(place_of(shelf, np.arange(count), slots, lines), rows, told_at)
        for step, shelf in ((_hear, one), (hear_many, many))
    ]
    assert wrong[0] == wrong[1]
    same(one, many)


def _hear(place: Place, rows: Rows, told_at: float) -> int:
    assert place.few
    return hear(place, rows, told_at=told_at)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_ledger_wakes_and_is_charged_as_columns_are(seed: int) -> None:
    random, one, many = twins(seed)
    at, since = slice(2, 3), 9.0 + random.random()
    admitted, held = random.lognormal(2.0, 1.0, 2).tolist()
    wake_one(one, 2, since)
    charge_one(one, 2, admitted, held)
    wake(many, at, since)
    charge_own(many, at, np.array([admitted]), np.array([held]))
    same(one, many)


def test_rows_on_different_lines_are_no_run_even_if_the_ends_fit() -> None:
    shelf = Shelf(32)
    for _ in range(3):
        shelf.take_slot()
    place = place_of(shelf, np.arange(3), np.arange(3), np.array([6, 24, 6]))
    assert np.arange(32 * shelf.capacity)[place.cells].tolist() == [24, 97, 26]
    place = place_of(shelf, np.arange(3), np.array([0, 5, 2]))
    assert np.arange(8)[place.slots].tolist() == [0, 5, 2]


def keys_of(count: int) -> Keys:
    ids = np.arange(1, count + 1)
    return Keys(("requests",), np.zeros(count, dtype=np.int64), ids)


@pytest.mark.parametrize("seed", range(20))
def test_a_few_buckets_are_counted_as_columns_are(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 4))
    few = Own(keys_of(count), {}, {}, 0.0)
    monkeypatch.setattr(own_module, "FEW", 0)
    many = Own(few.keys, {}, {}, 0.0)
    counters = np.zeros((2, count))
    for _ in range(30):
        counters += random.poisson(0.5, (2, count)) * 0.1
        if random.random() < 0.1:
            counters *= random.choice([0.0, 0.9], (2, count))
        event = Counted(
            few.keys,
            counters[0].copy(),
            counters[1].copy(),
            random.normal(0.0, 5.0, count),
            random.lognormal(0.0, 1.0, count),
            random.integers(1, 5, count),
        )
        assert few.count(event) == many.count(event)
        for name in ("admitted", "refused", "held", "cost", "used", "subjects"):
            assert getattr(few, name).tobytes() == getattr(many, name).tobytes(), name


@pytest.mark.parametrize("seed", range(20))
def test_a_ceiling_that_moved_little_is_left_alone_by_one_as_by_many(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    lone, pair = Own(keys_of(1), {}, {}, 0.0), Own(keys_of(2), {}, {}, 0.0)
    both = np.arange(2)
    column = np.array([100.0])
    for tick in range(200):
        column = column * random.choice([1.0, 0.996, 1.006, 0.9, 1.11])
        chance = np.array([0.5 + 0.03 * random.random()])
        new = Ceilings(column, 10.0 * column, chance, column, column)
        # Of the second bucket the same comes out, so it changes when the first does.
        columns = (new.ceiling, new.capacity, chance, column, column)
        twice = Ceilings(*(np.repeat(each, 2) for each in columns))
        exact = np.full(2, seed % 2 == 1)
        at = 0.1 * tick
        one = lone.change(both[:1], new, now=at, lease_s=3.0, exact=exact[:1])
        two = pair.change(both, twice, now=at, lease_s=3.0, exact=exact)
        assert (one is None) == (two is None)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("ceiling", "capacity"), [(0.999, 1.0), (1.0, 0.99)])
def test_a_right_that_became_a_little_less_is_told(
    count: int, ceiling: float, capacity: float
) -> None:
    own, rows, one = Own(keys_of(count), {}, {}, 0.0), np.arange(count), np.ones(count)
    before = Ceilings(100.0 * one, 50.0 * one, one, one, one)
    after = Ceilings(100.0 * ceiling * one, 50.0 * capacity * one, one, one, one)
    strict, balanced = one > 0.0, one < 0.0
    own.change(rows, before, now=0.0, lease_s=3.0, exact=strict)
    assert own.change(rows, after, now=0.1, lease_s=3.0, exact=balanced) is None
    told = own.change(rows, after, now=0.1, lease_s=3.0, exact=strict)
    assert told is not None
    assert told.ceiling.tolist() == after.ceiling.tolist()
    assert told.capacity.tolist() == after.capacity.tolist()


def choose(
    reporting: Reporting,
    own: Own,
    now: float,
    *,
    theta: float,
    quota: float,
    eager: bool,
) -> NDArray[np.bool_] | None:
    """Choose rows as for many buckets."""
    return reporting.choose(
        own,
        now,
        off=np.zeros(1),
        theta=np.array([theta]),
        quota=np.array([quota]),
        burn=np.ones(1),
        eager=np.array([eager]),
        loss=0.0,
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_quiet_bucket_would_not_have_been_reported(seed: int) -> None:
    random = np.random.default_rng(seed)
    own = Own(keys_of(1), {}, {}, 0.0)
    own.numbers[0] = 0
    reporting = Reporting(Settings(), phase=0.5, now=0.0)
    reporting.hello = False
    # The first beat sets the phase: the next comes after half an interval.
    assert choose(reporting, own, 0.0, theta=inf, quota=inf, eager=False) is not None
    reporting.answer = False
    first = Settings().interval_s
    found = 0
    for _ in range(200):
        own.sent_demand[0] = random.choice([-1.0, 0.0, 100.0], p=[0.05, 0.15, 0.8])
        own.usable[0] = own.demand.rate[0] = random.choice([100.0, 112.0, 150.0])
        own.demand.age_s[0] = random.choice([0.1, 1.0])
        own.wanted[0] = random.random() < 0.1
        own.confirm_at[0] = random.choice([inf, 0.5 * first], p=[0.9, 0.1])
        own.admitted[0] = random.choice([0.0, 1.0])
        theta = float(random.choice([50.0, 95.0, inf]))
        quota = float(random.choice([10.0, 200.0, inf]))
        eager = bool(random.random() < 0.2)
        quiet = reporting.is_quiet(
            own, 0.4 * first, theta=theta, quota=quota, eager=eager
        )
        chosen = choose(
            reporting, own, 0.4 * first, theta=theta, quota=quota, eager=eager
        )
        assert quiet == (chosen is None)
        found += quiet
    assert 0 < found < 200
