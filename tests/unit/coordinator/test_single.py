"""What is computed for one row on plain floats is what columns give, bit for bit."""

from __future__ import annotations

from copy import deepcopy
from math import inf, nan

import numpy as np
import pytest

from headgate.coordinator.ledger import (
    charge_own,
    hear,
    hear_many,
    settle,
    settle_many,
    wake,
)
from headgate.coordinator.report import Rows
from headgate.coordinator.shelf import COLUMNS, LINES, Shelf
from headgate.coordinator.single import charge_one, wake_one
from headgate.coordinator.table import Place, place_of

SEEDS = range(60)
OTHERS = ("member", "subjects", "dirty", "full")


def shelf_of(random: np.random.Generator) -> Shelf:
    """Return a shelf of any width with any state, most of it likely."""
    shelf = Shelf(int(2 ** random.integers(3, 8)))
    for _ in range(3):
        shelf.take_slot()
    for name in (*LINES, *COLUMNS):
        column = getattr(shelf, name)
        column[...] = random.lognormal(2.0, 2.0, column.shape).round(3)
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
