"""What each agent makes of the views that others tell of one level."""

from __future__ import annotations

from dataclasses import replace
from math import e, inf, isnan, nan
from typing import TypedDict

import numpy as np
import pytest

from headgate.coordinator import Settings
from headgate.coordinator.allocation.ceilings import own_ceilings
from headgate.coordinator.allocation.conditions import NEAR, Conditions
from headgate.coordinator.allocation.shares import share_out
from headgate.coordinator.allocation.window import note_told
from headgate.coordinator.ledger.replay import charge_own, hear, settle
from headgate.coordinator.messages.report import Rows
from headgate.coordinator.table.arrays import LedgerBlock
from headgate.coordinator.table.index import Place

RATE, BURST, AGE_S, LAG_S = 1000.0, 1000.0, 0.1, 0.025
NOW = 10.0


class Bus(TypedDict):
    lag_s: float
    loss: float


BUS: Bus = {"lag_s": LAG_S, "loss": 0.0}
LOSSY: Bus = {"lag_s": LAG_S, "loss": 0.1}
ONE = slice(0, 1)
USED = np.ones(1, np.bool_)


def block_of(demands: list[float], level: float = 500.0) -> LedgerBlock:
    """Return one ledger in column 0; the first demand is this agent's own."""
    block = LedgerBlock(8)
    assert block.take_slot() == 0
    size = len(demands)
    block.used[0] = size
    block.rate[0], block.burst[0], block.may_owe[0] = RATE, BURST, True
    block.level[0] = block.belief[0] = level
    block.at[0] = NOW
    block.weight[:size, 0] = 1.0
    block.agents[0] = block.present_weight[0] = size
    block.demand[:size, 0] = demands
    block.reported_at[:size, 0] = NOW
    block.known_demand[0] = block.reported_demand[0] = demands[0]
    return block


HEED_S = 0.03

CONDITIONS = Conditions(
    settings=Settings(),
    now=NOW,
    lag_s=LAG_S,
    loss=0.0,
    age_s=AGE_S,
    heed_s=HEED_S,
    present=1.0,
    cut_off=False,
)


def look(block: LedgerBlock, now: float = NOW, *, unheard_s: float = 0.0) -> None:
    present = float(block.used[0])
    on = replace(CONDITIONS, now=now, present=present, unheard_s=unheard_s)
    share_out(block, ONE, on)


def tell(
    block: LedgerBlock,
    levels: list[float],
    at_s: float = NOW,
    bus: Bus = BUS,
) -> None:
    """Let the others tell their levels; NaN of who doesn't."""
    for line, level in enumerate(levels, 1):
        if not isnan(level):
            demand = block.demand.item(line, 0)
            told = row(block.admitted.item(line, 0), demand, level)
            hear(other(block, line), told, at_s, **bus)


def explained(block: LedgerBlock) -> float:
    """Return by how much views may differ: as the look has found."""
    look(block)
    return float(block.margin[0]) + 2.0


@pytest.mark.parametrize(
    ("told", "middle"),
    [
        ([800.0, 800.0, 800.0, 800.0], 300.0),
        ([200.0, 200.0, 200.0, 200.0], -300.0),
        ([800.0, nan, 800.0, nan], 300.0),  # half of the others
    ],
)
def test_an_agent_goes_over_to_what_the_others_agree_on(
    told: list[float], middle: float
) -> None:
    block = block_of([100.0] * 5)
    chance = explained(block)
    tell(block, told)
    look(block)
    moved = float(block.level[0]) - 500.0
    assert abs(middle) > chance
    assert moved == pytest.approx(middle)
    assert block.belief[0] == block.level[0]
    look(block)
    assert block.level[0] == 500.0 + moved, "each voice counts once"


def test_two_agents_meet_half_way() -> None:
    block = block_of([100.0] * 2)
    chance = explained(block)
    tell(block, [900.0])
    look(block)
    assert chance < 200.0
    assert block.level[0] - 500.0 == pytest.approx(200.0)


@pytest.mark.parametrize(
    "told",
    [
        [1000.0, 500.0, 500.0, 500.0],  # one lies
        [900.0, nan, nan, nan],  # too few have told
        [510.0, 505.0, 495.0, 501.0],  # chance
    ],
)
def test_nobody_is_moved_by_one_alone_or_by_chance(told: list[float]) -> None:
    block = block_of([100.0] * 5)
    explained(block)
    tell(block, told)
    look(block)
    assert block.level[0] == 500.0


@pytest.mark.parametrize(("after_s", "moves"), [(0.05, False), (1.0, True)])
def test_a_level_told_before_what_was_heard_here_is_no_other_view(
    after_s: float, *, moves: bool
) -> None:
    # A herd: each of the others tells its own request, and a level without the rest.
    block = block_of([100.0] * 5, level=-500.0)
    block.rate[0] = 0.0  # the level stands still
    block.news[0] = block.unheard[0] = 1000.0
    settle(block, ONE, NOW + after_s, AGE_S)
    block.reported_at[:5, 0] = NOW + after_s
    block.rate[0] = RATE
    tell(block, [500.0] * 4, NOW + after_s)
    look(block, NOW + after_s)
    assert (block.level[0] > -500.0) == moves


def averaged(offs: list[float]) -> float:
    """Return how far the level goes if four others are off, amid reports in flight."""
    block = block_of([1.0] * 5)
    for off in offs:
        block.news[0], block.unheard[0] = 20.0, 5.0
        level = float(block.level[0])
        # What arrived here during the lag is not in their levels yet.
        tell(block, [level + 5.0 + off] * 4)
        look(block)
    return float(block.level[0]) - 500.0


def test_views_that_stay_apart_come_together_although_reports_are_in_flight() -> None:
    assert averaged([6.0]) == 0.0
    assert averaged([6.0] * 60) > 2.0
    assert averaged([-6.0] * 60) < -2.0


def exactly(
    off: float,
    *,
    voices: int = 4,
    amid: float = 0.0,
    bus: Bus = BUS,
) -> float:
    """Return how far the level goes if all others are off by so many requests once.

    Args:
        off: Units.
        voices: Number of the others.
        amid: What others reported within the lag, units.
        bus: Its lag and loss.
    """
    block = block_of([1.0] * (voices + 1))
    look(block)
    for line in range(1, voices + 1):
        block.news[0] = block.unheard[0] = amid
        told = [nan] * voices
        told[line - 1] = float(block.level[0]) + amid + off
        tell(block, told, bus=bus)
    look(block)
    return float(block.level[0]) - 500.0


def test_where_nothing_is_on_its_way_views_agree_within_half_a_request() -> None:
    assert exactly(0.4) == 0.0
    assert exactly(1.0) == pytest.approx(1.0)
    assert exactly(-1.0) == pytest.approx(-1.0)
    assert exactly(1.0, amid=2.0) == 0.0, "it may be noise"
    assert exactly(1.4, voices=1) == pytest.approx(0.7)
    assert exactly(1.4, bus=LOSSY) == 0.0, "reports may be lost"
    assert exactly(6.0, voices=1, bus=LOSSY) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("bus", "ago_s", "explained"),
    [(BUS, 0.1, 0.0), (BUS, 0.03, 1.0), (LOSSY, 0.1, 1.0)],
)
def test_what_the_sender_reported_explains_nothing_if_it_heard_all_of_this_agent(
    bus: Bus, ago_s: float, explained: float
) -> None:
    """It hides an agent that admits much more than another one expects."""
    block = block_of([100.0] * 5)
    block.news[0] = 5.0
    look(block)
    block.row_reported_at[0] = NOW - ago_s
    for line in range(1, 5):
        block.reported_at[line, 0] = NOW - 1.0
        block.admitted[line, 0] = 0.0
    common = 500.0
    for line in range(1, 5):
        common -= 30.0
        hear(other(block, line), row(30.0, 100.0, common + 300.0), NOW, **bus)
        block.news[0] = 5.0
    before = float(block.level[0])
    look(block)
    expected = 300.0 - e * (5.0 + 30.0 * explained)
    assert block.level[0] - before == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("ago_s", [0.03, 0.2])
def test_a_difference_is_not_exact_while_the_own_report_is_on_its_way(
    ago_s: float,
) -> None:
    block = block_of([1.0] * 5)
    look(block)
    block.row_reported_at[0] = NOW - ago_s
    tell(block, [501.0] * 4)
    look(block)
    assert (block.level[0] > 500.0) == (ago_s > 0.1)
    block = block_of([1.0] * 5)
    look(block)
    block.admitted[0, 0] = 1.0  # and it is not reported yet
    tell(block, [502.0] * 4)
    look(block)
    assert block.level[0] == 500.0


@pytest.mark.parametrize("heard_s", [0.006, 0.02])
def test_a_burst_of_this_agent_that_another_has_heard_of_is_no_other_view(
    heard_s: float,
) -> None:
    """On a quick bus, an answer comes before the look that finds the report known.

    A request of 1,100 units of 1,000 then cost both agents some 500 units more.
    """
    quick: Bus = {"lag_s": 0.004, "loss": 0.0}
    block = block_of([1.0, 1.0], level=BURST)
    look(block)
    now = NOW + 0.05
    charge_own(block, ONE, np.array([1100.0]), np.array([0.0]), NOW, now, USED)
    note_told(block, ONE, np.array([1100.0]), np.array([1.0]), now, quick["lag_s"])
    on = replace(CONDITIONS, now=now, lag_s=quick["lag_s"], present=2.0)
    settle(block, ONE, now, AGE_S, quick["lag_s"])
    share_out(block, ONE, on)
    level = float(block.level[0])
    tell(block, [level], now + heard_s, quick)
    settle(block, ONE, now + heard_s, AGE_S, quick["lag_s"])
    share_out(block, ONE, replace(on, now=now + heard_s))
    assert block.level[0] == pytest.approx(level, abs=25.0)


def test_what_may_be_on_its_way_is_not_exact_because_an_earlier_difference_was() -> (
    None
):
    block = block_of([1.0] * 2)
    look(block)
    tell(block, [500.0])
    look(block)
    assert block.exact[1, 0]
    # A request of this agent that the other one hadn't heard of when it reported.
    block.row_reported_at[0] = NOW - 0.03
    tell(block, [500.0 + 4.0])
    look(block)
    assert block.level[0] == 500.0


def test_chance_that_reports_in_flight_explain_moves_nobody() -> None:
    assert averaged([0.0] * 60) == 0.0
    assert averaged([6.0, -6.0] * 30) == 0.0
    assert averaged([40.0] * 2 + [0.0] * 30) == 0.0, "a herd"


def test_small_differences_of_levels_that_are_cut_at_the_burst_are_none() -> None:
    block = block_of([1.0] * 5, level=BURST)
    for _ in range(60):
        look(block)
        block.news[0] = 20.0
        tell(block, [BURST - 6.0] * 4)
    look(block)
    assert block.level[0] == BURST
    block.news[0] = 20.0
    tell(block, [BURST - 100.0] * 4)
    look(block)
    assert block.level[0] == pytest.approx(BURST - 100.0 + e * 20.0)


@pytest.mark.parametrize("once", [150.0, 58.0, 56.0])
def test_large_differences_of_different_times_do_not_add_up(once: float) -> None:
    block = block_of([1.0] * 5)
    for line in range(1, 5):
        for off in (once, 0.0, 0.0, 0.0, 0.0):
            block.news[0], block.unheard[0] = 20.0, 0.0
            told = [nan] * 4
            told[line - 1] = float(block.level[0]) + off
            tell(block, told)
            look(block)
    assert block.level[0] == 500.0


def test_a_strict_ledger_goes_by_permits() -> None:
    block = block_of([100.0] * 5)
    block.strict[0] = True
    explained(block)
    tell(block, [900.0] * 4)
    look(block)
    assert block.level[0] == 500.0


def windows(own: float) -> tuple[float, float, float]:
    """Return a, the own θ and the max-min part, of one among four that want more."""
    block = block_of([own] + [1000.0] * 4, level=20.0)
    look(block)
    theta = float(block.theta[0])
    return float(block.window[0]), theta, 20.0 / 5


def test_an_agent_near_its_share_may_exceed_its_part_by_chance() -> None:
    _, theta, _ = windows(200.0)
    light, _, part = windows(0.9 * theta)
    near, _, _ = windows((NEAR - 0.05) * theta)
    heavy, _, _ = windows((NEAR + 0.05) * theta)
    assert light > part
    assert near > part
    assert heavy <= part


def row(admitted: float, demand: float = 400.0, level: float | None = None) -> Rows:
    return Rows(
        dimension="requests",
        group_ids=np.array([1]),
        refused=np.array([0.0]),
        admitted=np.array([admitted]),
        demand=np.array([demand]),
        held=np.array([0.0]),
        cost=np.array([1.0]),
        level=None if level is None else np.array([level]),
    )


def other(block: LedgerBlock, line: int = 1) -> Place:
    zero = np.zeros(1, dtype=np.int64)
    return Place(block, zero, zero, zero + line * block.capacity)


def test_a_full_bucket_at_rest_overflows_once_whoever_used_it_first() -> None:
    heard_first, counted_first = (block_of([0.0, 0.0], level=BURST) for _ in range(2))
    # At rest since NOW.  At 10 s both agents admit 100 units.
    for block in (heard_first, counted_first):
        block.due[0] = inf
        block.reported_at[1, 0] = NOW
        block.admitted[1, 0] = 0.0
    at_s, nothing, own = NOW + 10.0, np.array([nan]), np.array([100.0])
    hear(other(heard_first), row(100.0), at_s, **BUS)
    charge_own(heard_first, ONE, own, nothing, at_s, at_s, USED)
    charge_own(counted_first, ONE, own, nothing, at_s, at_s, USED)
    hear(other(counted_first), row(100.0), at_s, **BUS)
    for block in (heard_first, counted_first):
        settle(block, ONE, at_s, AGE_S)
        assert block.belief[0] == pytest.approx(BURST - 200.0)


@pytest.mark.parametrize("ended_by", ["heartbeat", "refusal"])
def test_a_long_rest_pays_for_no_charge_that_is_heard_after_it(ended_by: str) -> None:
    """The rest ends although nothing was admitted; the charge comes later."""
    block = block_of([0.0, 0.0, 0.0], level=BURST)
    block.due[0] = inf
    block.admitted[:3, 0] = 0.0
    end_s = NOW + 10.0
    if ended_by == "heartbeat":
        hear(other(block, 1), row(0.0), end_s - 0.01, **BUS)
    else:
        nothing = np.array([nan])
        charge_own(block, ONE, np.zeros(1), nothing, end_s - 0.025, end_s, USED)
        block.due[0] = end_s
    settle(block, ONE, end_s, AGE_S)
    hear(other(block, 2), row(600.0), end_s - 0.015, **BUS)
    settle(block, ONE, end_s, AGE_S)
    # At most what flowed in within Δ is given back.
    assert block.belief[0] <= BURST - 600.0 + RATE * AGE_S


def test_what_a_silent_member_may_have_spent_at_rest_stays_expected() -> None:
    block = block_of([0.0, 0.0], level=BURST)
    block.due[0] = inf
    block.reported_at[1, 0] = NOW
    block.admitted[:2, 0] = 0.0
    block.extrapolated_rate[1, 0] = 0.3 * RATE  # its reserve
    charge_own(
        block, ONE, np.array([10.0]), np.array([nan]), NOW + 60.0, NOW + 60.0, USED
    )
    assert block.predicted[1, 0] == pytest.approx(18.0 * RATE)
    assert block.level[0] == pytest.approx(block.belief[0] + 18.0 * RATE)
    hear(other(block, 1), row(6.0 * RATE), NOW + 60.0, **BUS)
    settle(block, ONE, NOW + 60.0, AGE_S)
    assert block.belief[0] == BURST  # it spent a third of what was reserved


def full_and_late(*, after_s: float) -> float:
    """Return the level after 40 units were cut at B, and 25 of them had been spent."""
    block = block_of([0.0, 400.0], level=BURST)
    block.due[0] = NOW
    block.admitted[1, 0] = 0.0
    settle(block, ONE, NOW + 0.04, AGE_S)
    assert block.level[0] == BURST
    block.reported_at[1, 0] = NOW
    now = NOW + 0.04 + after_s
    if after_s:
        block.rate[0] = 0.0  # nothing more comes in
        settle(block, ONE, now, AGE_S)
    block.rate[0] = 0.0
    hear(other(block), row(25.0), NOW + 0.03, **BUS)
    settle(block, ONE, now, AGE_S)
    return float(block.level[0])


def test_what_was_cut_though_it_had_been_spent_is_given_back() -> None:
    assert full_and_late(after_s=0.0) == pytest.approx(BURST)


def test_what_was_cut_long_before_the_news_is_gone() -> None:
    assert full_and_late(after_s=2.0) == pytest.approx(BURST - 25.0, abs=1e-3)


def test_no_more_is_given_back_than_was_cut() -> None:
    block = block_of([0.0, 400.0], level=BURST)
    block.due[0] = NOW
    block.admitted[1, 0] = 0.0
    settle(block, ONE, NOW + 0.01, AGE_S)
    block.rate[0] = 0.0
    hear(other(block), row(25.0), NOW + 0.005, **BUS)
    settle(block, ONE, NOW + 0.01, AGE_S)
    assert block.level[0] == pytest.approx(BURST - 15.0)


def test_nothing_counts_as_known_before_a_report_came_back() -> None:
    block = block_of([400.0, 400.0])
    block.admitted[0, 0] = block.pending_admitted[0] = 30.0
    block.pending_at[0] = NOW
    look(block, NOW + 1.0, unheard_s=inf)
    assert block.unseen[0] == 30.0
    look(block, NOW + 1.0)
    assert block.unseen[0] == 0.0


def pays(demands: list[float], *, level: float = BURST, reserved: float = 0.0) -> float:
    """Return the rate at which overflow pays for what the first agent spent unseen."""
    block = block_of(demands, level=level)
    block.reserved[0] = reserved
    look(block)
    return float(block.paying[0])


@pytest.mark.parametrize("demands", [[50.0, 100.0, 1.0], [800.0, 400.0, 1.0]])
@pytest.mark.parametrize("reserved", [0.0, 90.0])
def test_all_agents_together_are_paid_the_overflow_of_a_full_bucket(
    demands: list[float], reserved: float
) -> None:
    turns = [demands[n:] + demands[:n] for n in range(3)]
    paid = sum(pays(turn, reserved=reserved) for turn in turns)
    assert paid == pytest.approx(RATE - reserved)
    assert all(pays(turn) >= min(turn[0], 300.0) for turn in turns)


def test_nothing_is_paid_below_the_burst() -> None:
    assert pays([50.0, 50.0], level=BURST - 1.0) == 0.0


def test_a_full_bucket_that_nobody_uses_needs_no_payment() -> None:
    block = block_of([0.0, 0.0], level=BURST)
    look(block)
    terms = own_ceilings(block, np.array([0]), CONDITIONS)
    assert block.paying[0] == RATE / 2
    assert terms.expected_rate[0] == 0.0, "its room stands still, so it may rest"


def test_an_expectation_that_falls_again_has_paid_for_nothing() -> None:
    block = block_of([400.0, 400.0])
    look(block)
    settle(block, ONE, NOW + 0.2, AGE_S)  # the others expect 80
    look(block, NOW + 0.2)
    block.known_predicted[0] = 0.0
    block.admitted[0, 0] = 60.0
    look(block, NOW + 0.2)
    assert block.unseen[0] == 60.0


def test_nothing_is_paid_while_this_agent_is_cut_off() -> None:
    block = block_of([50.0, 50.0], level=BURST)
    share_out(block, ONE, replace(CONDITIONS, cut_off=True))
    assert block.paying[0] == 0.0


def test_what_was_spent_unseen_is_paid_once() -> None:
    block = block_of([1.0, 1.0], level=BURST)  # too few to be expected
    look(block)
    block.admitted[0, 0] = block.reported_admitted[0] = 40.0
    block.belief[0] = block.level[0] = BURST - 40.0
    settle(block, ONE, NOW + 0.02, AGE_S)
    look(block, NOW + 0.02)
    assert block.unseen[0] == 40.0, "it may be newer than what flowed in"
    settle(block, ONE, NOW + 0.04, AGE_S)
    look(block, NOW + 0.04)
    assert block.unseen[0] == pytest.approx(40.0 - 0.02 * 500.0)
    settle(block, ONE, NOW + 1.0, AGE_S)
    look(block, NOW + 1.0)
    assert block.unseen[0] == 0.0
    # The report arrives everywhere: it counts what is paid already.
    block.pending_admitted[0], block.pending_at[0] = 40.0, NOW
    look(block, NOW + 1.0)
    assert block.unseen[0] == 0.0


def test_terms_that_were_told_do_not_change_with_the_ledger() -> None:
    block = block_of([400.0, 900.0])
    look(block)
    told = own_ceilings(block, ONE, CONDITIONS)
    one = np.ones(1, dtype=np.bool_)
    assert told.at(one) is told
    before = {name: getattr(told, name).tolist() for name in told.__slots__}
    for name in ("rate", "burst", "demand_cap", "window", "belief", "unseen", "theta"):
        getattr(block, name)[:] = 7.0
    block.extrapolated_rate[:] = block.demand[:] = block.weight[:] = 7.0
    assert {name: getattr(told, name).tolist() for name in told.__slots__} == before


def test_a_closed_limit_of_a_large_burst_is_computed_without_overflow() -> None:
    block = block_of([400.0, 400.0], level=1e12)
    block.rate[0], block.burst[0] = 0.0, 1e12
    with np.errstate(over="raise"):
        look(block)
    assert block.theta[0] == 0.0
