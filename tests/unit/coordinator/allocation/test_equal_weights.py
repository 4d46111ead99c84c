"""Ledgers whose agents all weigh the same are computed with one row of weights."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.coordinator import Settings
from headgate.coordinator.allocation.conditions import Conditions
from headgate.coordinator.allocation.reserves import seat
from headgate.coordinator.allocation.shares import share_out
from headgate.coordinator.ledger.replay import settle
from headgate.coordinator.membership.failure_detector import Roster
from headgate.coordinator.table.arrays import LedgerBlock

RATE, BURST, COST, NOW = 100.0, 200.0, 1.0, 10.0
DEMANDS = np.array([[80.0, 5.0], [10.0, 90.0], [0.0, 60.0], [45.0, 0.0]])
HEED_S = 0.03

CONDITIONS = Conditions(
    settings=Settings(),
    now=NOW,
    lag_s=0.005,
    loss=0.0,
    age_s=0.1,
    heed_s=HEED_S,
    present=4.0,
    cut_off=False,
)


def seated(weights: list[float], *, silent: int | None = None) -> LedgerBlock:
    """Return two ledgers whose agents have these weights; one may be silent."""
    block = LedgerBlock(8)
    for slot in (block.take_slot(), block.take_slot()):
        block.used[slot] = len(weights)
        block.member[: len(weights), slot] = np.arange(len(weights))
        block.rate[slot], block.burst[slot] = RATE, BURST
        block.level[slot] = block.belief[slot] = 0.0
        block.at[slot], block.may_owe[slot] = NOW, True
        block.demand[: len(weights), slot] = DEMANDS[:, slot]
        block.known_demand[slot] = DEMANDS[0, slot]
        block.cost[: len(weights), slot] = COST
    gone = np.arange(len(weights) + 1) == (-1 if silent is None else silent)
    roster = Roster(
        weights=np.array([*weights, 0.0]),  # the last one is nobody's
        silent=gone,
        heard_at=np.full(len(weights) + 1, NOW),
    )
    seat(block, np.arange(2), roster)
    return block


@pytest.mark.parametrize(
    ("weights", "silent", "equal"),
    [
        ([1.0, 1.0, 1.0, 1.0], None, 1.0),
        ([2.5, 2.5, 2.5, 2.5], None, 2.5),
        ([1.0, 1.0, 1.0, 4.0], None, np.nan),
        ([1.0, 1.0, 1.0, 4.0], 3, 1.0),
        ([4.0, 1.0, 1.0, 1.0], None, np.nan),
    ],
)
def test_shares_of_two_ledgers_are_those_of_each_by_itself(
    weights: list[float], silent: int | None, equal: float
) -> None:
    """One ledger by itself is always computed with all weights."""
    together, alone = seated(weights, silent=silent), seated(weights, silent=silent)
    assert together.equal_weight[:2] == pytest.approx([equal] * 2, nan_ok=True)
    for block, parts in (
        (together, [slice(0, 2)]),
        (alone, [slice(0, 1), slice(1, 2)]),
    ):
        for slots in parts:
            settle(block, slots, NOW)
            share_out(block, slots, CONDITIONS)
    for name in ("theta", "demand_cap", "window", "margin", "fair_part", "outflow"):
        assert getattr(together, name)[:2] == pytest.approx(
            getattr(alone, name)[:2], rel=1e-12
        ), name
    assert np.isfinite(together.theta[:2]).all()  # demand exceeds the rate
