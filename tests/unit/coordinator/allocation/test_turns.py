"""What an agent leaves to the others of a level that few requests use up."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.coordinator import Settings
from headgate.coordinator.allocation.ceilings import own_ceilings
from headgate.coordinator.allocation.conditions import Conditions
from headgate.coordinator.allocation.shares import share_out
from headgate.coordinator.allocation.turns import LEAD_COSTS, YIELDED_PART, YIELDED_S
from headgate.coordinator.ledger.replay import LEAD_S, hear, settle
from headgate.coordinator.messages.report import Rows
from headgate.coordinator.table.arrays import LedgerBlock
from headgate.coordinator.table.index import Place

RATE, BURST, COST = 35.0, 60.0, 6.0
NOW = 10.0
ONE = slice(0, 1)
HEED_S = 0.03

CONDITIONS = Conditions(
    settings=Settings(),
    now=NOW,
    lag_s=0.005,
    loss=0.0,
    age_s=0.1,
    heed_s=HEED_S,
    present=2.0,
    cut_off=False,
)


def block_of(
    demands: list[float],
    *,
    lead: float,
    rate: float = RATE,
    burst: float = BURST,
    weight: float = 1.0,
) -> LedgerBlock:
    """Return one ledger of requests of `COST` units; the first agent is this one."""
    block = LedgerBlock(8)
    assert block.take_slot() == 0
    size = len(demands)
    block.used[0] = size
    block.rate[0], block.burst[0], block.may_owe[0] = rate, burst, True
    block.level[0] = block.belief[0] = 0.5 * burst
    block.at[0] = NOW
    block.weight[:size, 0] = weight
    block.agents[0] = size
    block.present_weight[0] = weight * size
    block.demand[:size, 0] = demands
    block.cost[:size, 0] = COST
    block.known_demand[0] = block.reported_demand[0] = demands[0]
    block.lead[0] = lead
    return block


def yielded(block: LedgerBlock) -> float:
    """Return what this agent leaves after a look."""
    share_out(block, ONE, CONDITIONS)
    return float(block.yielded[0])


def hear_of(block: LedgerBlock, units: float) -> None:
    """Hear what another agent has admitted, if it reports each request."""
    line = np.array([block.capacity])  # of the first other one
    zero, none = np.array([0]), np.zeros(1)
    rows = Rows(
        dimension="requests",
        group_ids=zero + 1,
        refused=none,
        admitted=none + units,
        demand=block.demand[1, :1],
        held=none,
        cost=block.cost[1, :1],
    )
    place = Place(block, zero, zero, line)
    hear(place, rows, float(block.at[0]), lag_s=0.005, loss=0.0)


@pytest.mark.parametrize("requests", [0.5, 1.0, 2.0, 3.0])
def test_an_agent_leaves_as_many_requests_as_it_is_ahead(requests: float) -> None:
    assert yielded(block_of([400.0, 10.0], lead=requests * COST)) == pytest.approx(
        requests * COST
    )


def test_what_is_left_can_not_be_spent_but_the_level_is_told() -> None:
    without, ahead = block_of([400.0, 10.0], lead=0.0), block_of([400.0, 10.0], lead=12)
    for block in (without, ahead):
        yielded(block)
    at_one, at_other = (
        own_ceilings(b, np.array([0]), CONDITIONS) for b in (without, ahead)
    )
    assert at_other.level == at_one.level
    assert at_other.room[0] == pytest.approx(0.5 * BURST - 12.0)
    assert at_other.room[0] < at_one.room[0]


def test_it_leaves_no_more_than_a_small_burst_holds_beyond_a_request() -> None:
    small = block_of([400.0, 10.0], lead=LEAD_COSTS * COST, burst=2.0 * COST)
    assert yielded(small) == pytest.approx(YIELDED_PART * COST)
    single = block_of([400.0, 10.0], lead=LEAD_COSTS * COST, burst=COST)
    assert yielded(single) == 0.0


def test_it_waits_for_as_long_as_it_is_ahead() -> None:
    """A large request of a slow quota would keep the others' part for a long time."""
    slow = block_of([40.0, 1.0], lead=2.0 * COST, rate=1.0)
    assert yielded(slow) == pytest.approx(2.0 * YIELDED_S * 1.0)


@pytest.mark.parametrize(
    "demands",
    [
        [10.0, 400.0],  # it wants less than its part
        [30.0, 5.0],  # all fits
        [400.0],
        [400.0, 0.0, 0.0],
    ],
)
def test_it_leaves_nothing_where_nobody_is_short_of_its_part(
    demands: list[float],
) -> None:
    assert yielded(block_of(demands, lead=12.0)) == 0.0


def test_it_leaves_the_less_the_less_is_lacking() -> None:
    block = block_of([35.0, 24.5], lead=12.0)
    assert yielded(block) == pytest.approx((59.5 / 35.0 - 1.0) * COST)


@pytest.mark.parametrize(
    ("level", "heard", "left"),
    [
        (BURST / 2, 0.0, 0.0),
        (-RATE, 0.0, 2.0 * COST),  # nobody could be admitted
        (BURST / 2, COST, 1.5 * COST),  # one was: so much less is its lead
        (BURST / 2, 1.0, 2.0 * COST),  # a small one
    ],
)
def test_it_leaves_nothing_once_the_others_would_have_come(
    level: float, heard: float, left: float
) -> None:
    """They are said to want 40 requests/s, and none came in 0.7 s."""
    block = block_of([400.0, 120.0, 120.0], lead=2.0 * COST, burst=2.0 * BURST)
    block.level[0] = block.belief[0] = level
    settle(block, ONE, NOW + 0.25)
    assert yielded(block) > COST
    settle(block, ONE, NOW + 0.6)
    hear_of(block, heard)
    settle(block, ONE, NOW + 0.7)
    assert yielded(block) == pytest.approx(left, rel=0.1)


@pytest.mark.parametrize("weight", [0.3, 0.7, 1.0, 3.0])
def test_an_agent_that_is_alone_is_ahead_of_nobody(weight: float) -> None:
    """Its part of what all admit is 1, whatever rounding makes of it."""
    block = block_of([400.0], lead=12.0, rate=100.0 / 3600.0, weight=weight)
    assert yielded(block) == 0.0
    assert block.lead[0] == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_lead_is_bounded_and_fades(sign: float) -> None:
    block = block_of([400.0, 10.0], lead=sign * 1000.0)
    yielded(block)
    assert block.lead[0] == sign * LEAD_COSTS * COST
    settle(block, ONE, NOW + LEAD_S)
    assert block.lead[0] == pytest.approx(sign * LEAD_COSTS * COST / np.e)


def test_nothing_is_left_to_a_group_that_is_extrapolated() -> None:
    """There the margin sees to it that everyone gets its part."""
    many = block_of([9000.0, 10.0], lead=12.0, rate=3500.0, burst=3500.0)
    many.cost[:2, 0] = 1.0
    assert yielded(many) == 0.0
    assert not many.at_once[0, 0]
