"""What the others know counts until they have had time to answer.

Otherwise several agents that spend a burst at once would each spend a part of what the
others leave, before it has heard what these had spent.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from tests.scenarios.world import World

from headgate.coordinator.allocation.ceilings import own_ceilings
from headgate.coordinator.allocation.conditions import Conditions
from headgate.coordinator.allocation.inside import left_inside
from headgate.coordinator.allocation.shares import share_out
from headgate.coordinator.allocation.window import GROWTH_AGES, KNOWN_LAGS, heed_s
from headgate.coordinator.config.constants import Settings
from headgate.coordinator.ledger.replay import settle
from headgate.coordinator.table.arrays import LedgerBlock

NOW = 100.0
LAG_S = 0.01
HEED_S = 0.04
RATE = 10.0
BURST = 1000.0

CONDITIONS = Conditions(
    settings=Settings(),
    now=NOW,
    lag_s=LAG_S,
    loss=0.0,
    age_s=0.1,
    heed_s=HEED_S,
    present=2.0,
    cut_off=False,
)

KNOWN_S = KNOWN_LAGS * LAG_S + 1e-6
"""When the others know what left at `NOW`."""

ONE = slice(0, 1)


def block_of(agents: int = 2) -> LedgerBlock:
    """Return a full ledger that some agents use, none of which asks for anything."""
    block = LedgerBlock(8)
    block.take_slot()
    block.used[0] = agents
    block.weight[:agents, 0] = 1.0
    block.present_weight[0] = block.whole_weight[0] = block.agents[0] = agents
    block.equal_weight[0] = 1.0
    block.rate[0], block.burst[0] = RATE, BURST
    block.level[0] = block.belief[0] = BURST
    block.at[0] = NOW
    return block


def look(block: LedgerBlock, after_s: float = 0.0) -> None:
    share_out(block, ONE, replace(CONDITIONS, now=NOW + after_s))


def room(block: LedgerBlock) -> float:
    """Return what this agent's bucket may admit, in units."""
    terms = own_ceilings(block, np.array([0]), CONDITIONS)
    return float(terms.room[0])


def spend(block: LedgerBlock, units: float, demand: float = 0.0) -> None:
    """Let this agent spend units, and report them now."""
    block.admitted[0, 0] += units
    block.belief[0] -= units
    block.level[0] -= units
    block.reported_admitted[0] = block.pending_admitted[0] = block.admitted[0, 0]
    block.reported_demand[0] = block.pending_demand[0] = demand
    block.demand[0, 0] = demand
    block.pending_at[0] = NOW


def test_what_the_others_know_opens_no_room_before_they_had_time_to_answer() -> None:
    block = block_of()
    look(block)
    assert room(block) == pytest.approx(BURST / 2)
    spend(block, BURST / 2)
    look(block)
    assert room(block) == pytest.approx(0.0)
    look(block, KNOWN_S)
    assert block.unseen[0] == 0.0
    assert block.unheeded[0] == BURST / 2, "the other may have spent the rest"
    assert room(block) == 0.0, "one request that the others don't know of"
    look(block, KNOWN_S + 0.9 * HEED_S)
    assert room(block) == 0.0
    look(block, KNOWN_S + 1.1 * HEED_S)
    assert room(block) == pytest.approx(BURST / 4)


@pytest.mark.parametrize(
    ("reported_s", "waits_s"),
    [
        (-0.01, -0.01 + CONDITIONS.settings.urgent_gap_s + HEED_S),
        (0.0, HEED_S),
        (0.01, HEED_S),
    ],
)
def test_who_has_just_reported_has_time_until_it_may_report_again(
    reported_s: float, waits_s: float
) -> None:
    """The other one spends its part while it may not say so; times since it knows."""
    block = block_of()
    block.reported_at[1, 0] = NOW + KNOWN_S + reported_s
    look(block)
    spend(block, BURST / 2)
    look(block, KNOWN_S)
    look(block, KNOWN_S + waits_s - 0.001)
    assert room(block) == 0.0
    look(block, KNOWN_S + waits_s + 0.001)
    assert room(block) == pytest.approx(BURST / 4)


def test_a_part_that_grows_waits_for_who_has_just_reported() -> None:
    block = block_of()
    look(block)
    block.reported_at[1, 0] = NOW
    block.part[0] = 0.25  # it was a half all the time
    look(block, 0.01)
    look(block, 0.01 + HEED_S + 0.001)
    assert block.part[0] == 0.25
    look(block, CONDITIONS.settings.urgent_gap_s + HEED_S + 0.001)
    assert block.part[0] == 0.5


@pytest.mark.parametrize(("burst", "waits"), [(BURST, True), (30.0, False)])
def test_on_a_slow_bus_only_a_large_burst_waits_for_answers(
    burst: float, waits: bool
) -> None:
    """The rate earns a thousandth of the one meanwhile, and a tenth of the other."""
    slow = replace(CONDITIONS, heed_s=0.3)
    block = block_of()
    block.burst[0] = block.level[0] = block.belief[0] = burst
    share_out(block, ONE, slow)
    spend(block, burst / 2)
    share_out(block, ONE, replace(slow, now=NOW + KNOWN_S))
    for after_s in (0.0, 0.29):
        at = replace(slow, now=NOW + KNOWN_S + after_s)
        share_out(block, ONE, at)
        assert (block.unheeded[0] > 0.0) == waits
    share_out(block, ONE, replace(slow, now=NOW + KNOWN_S + 0.31))
    assert block.unheeded[0] == 0.0


def test_each_ledger_waits_by_its_own_burst_and_none_for_more_than_a_second() -> None:
    block = block_of()
    block.take_slot()
    block.rate[:2], block.burst[:2] = RATE, (BURST, 30.0)
    for h, waits in ((0.3, [0.3, 0.0]), (0.05, [0.05, 0.05]), (2.0, [0.0, 0.0])):
        found = heed_s(block, slice(0, 2), replace(CONDITIONS, heed_s=h))
        assert np.broadcast_to(found, 2).tolist() == waits


def test_what_is_not_spent_yet_stays_open() -> None:
    block = block_of()
    look(block)
    spend(block, 100.0)
    look(block, KNOWN_S)
    assert room(block) == pytest.approx(BURST / 2 - 100.0)


def test_a_second_report_waits_from_when_it_is_known() -> None:
    block = block_of()
    look(block)
    spend(block, 300.0)
    look(block, KNOWN_S)
    spend(block, 200.0)
    block.pending_at[0] = NOW + 0.02
    look(block, 0.02 + KNOWN_S)
    assert block.unheeded[0] == 500.0
    look(block, KNOWN_S + 1.1 * HEED_S)
    assert block.unheeded[0] == 200.0
    look(block, 0.02 + KNOWN_S + 1.1 * HEED_S)
    assert block.unheeded[0] == 0.0


def test_reports_known_meanwhile_wait_from_the_last_of_them() -> None:
    block = block_of()
    look(block)
    for at_s in (0.0, 0.01, 0.02):
        spend(block, 100.0)
        block.pending_at[0] = NOW + at_s
        look(block, at_s + KNOWN_S)
    assert block.unheeded[0] == 300.0
    look(block, 0.01 + KNOWN_S + 1.1 * HEED_S)
    assert block.unheeded[0] == 200.0
    look(block, 0.02 + KNOWN_S + 1.1 * HEED_S)
    assert block.unheeded[0] == 0.0


def test_after_a_rest_everything_is_heeded_at_one_look() -> None:
    block = block_of()
    look(block)
    for at_s in (0.0, 0.01):
        spend(block, 100.0)
        block.pending_at[0] = NOW + at_s
        look(block, at_s + KNOWN_S)
    look(block, 60.0)
    assert block.unheeded[0] == 0.0


def test_what_was_expected_and_not_spent_is_not_awaited() -> None:
    block = block_of()
    look(block)
    block.at_once[0, 0] = False
    block.known_predicted[0] = 70.0
    spend(block, 0.0, demand=50.0)
    look(block, KNOWN_S)
    assert block.unheeded[0] == block.unseen[0] == 0.0


def test_what_the_others_expect_may_be_spent_at_any_time() -> None:
    block = block_of()
    look(block)
    spend(block, BURST / 2, demand=50.0)
    block.at_once[0, 0] = False
    block.rate_left[0] = 50.0
    block.pending_predicted[0] = 70.0  # they count 70 units more than it has spent
    look(block, KNOWN_S)
    assert block.unseen[0] == -70.0
    assert room(block) == pytest.approx(70.0)


def test_a_part_that_grows_counts_when_the_others_have_left_it() -> None:
    block = block_of()
    look(block)
    spend(block, 1.0, demand=1e6)
    look(block, KNOWN_S)
    assert block.known_demand[0] == 1e6
    growth = GROWTH_AGES * 0.1 * RATE / 2
    assert block.window[0] == pytest.approx(BURST / 2 + growth)
    look(block, KNOWN_S + 1.1 * HEED_S)
    assert block.window[0] > 0.9 * BURST


def settled_look(block: LedgerBlock, after_s: float) -> None:
    settle(block, ONE, NOW + after_s)
    look(block, after_s)


def expected_rate(block: LedgerBlock) -> float:
    """Return the rate at which this agent's bucket lets its room grow, units/s."""
    terms = own_ceilings(block, np.array([0]), CONDITIONS)
    return float(terms.expected_rate[0])


def test_a_rate_that_grows_counts_when_the_others_have_left_it() -> None:
    """They expect it at once, but may have spent their parts of the same level."""
    block = block_of()
    look(block)
    spend(block, BURST / 2, demand=1e6)
    settled_look(block, KNOWN_S)
    grown = block.extrapolated_rate[0, 0]
    assert grown > 400.0
    assert expected_rate(block) == RATE, "its part of what flows in"
    settled_look(block, KNOWN_S + 0.5 * HEED_S)
    assert block.unseen[0] == pytest.approx(-0.5 * HEED_S * grown, rel=0.1)
    assert block.unheeded[0] == pytest.approx(BURST / 2, abs=HEED_S * RATE)
    assert room(block) < 2.0
    assert left_inside(block, ONE)[0] < 2.0
    settled_look(block, KNOWN_S + 1.1 * HEED_S)
    assert expected_rate(block) > 400.0
    assert room(block) > 0.25 * BURST
    settled_look(block, KNOWN_S + 3.0 * HEED_S)
    settled_look(block, KNOWN_S + 4.0 * HEED_S)
    assert block.ahead[0] == block.heeding[0] == block.heeding_next[0] == 0.0


def test_of_a_rate_that_grows_only_the_part_of_the_quota_counts_at_once() -> None:
    block = block_of()
    block.rate[0] = 10 * RATE
    block.demand[1, 0] = 1e6
    look(block)
    spend(block, BURST / 4, demand=1e6)
    settled_look(block, KNOWN_S)
    assert block.extrapolated_rate[0, 0] > 200.0
    assert expected_rate(block) == pytest.approx(5 * RATE)


def test_a_rate_that_hardly_grows_delays_nothing_else() -> None:
    """At each look it would begin another wait."""
    block = block_of()
    look(block)
    spend(block, BURST / 2)
    for step in range(-1, 12):
        block.ahead_since[0] += 1e-9
        look(block, KNOWN_S + step * 0.1 * HEED_S)
    assert block.unheeded[0] == 0.0


def test_a_part_that_shrinks_while_it_is_awaited_is_not_given_later() -> None:
    block = block_of()
    look(block)
    block.known_demand[0] = block.demand[0, 0] = 1e6
    look(block, 0.001)
    assert block.part_next[0] > 0.9
    block.demand[1, 0] = 3000.0  # wants 300 units within Δ
    look(block, 0.02)
    block.demand[1, 0] = 0.0
    look(block, 0.03)
    look(block, 0.001 + 1.1 * HEED_S)
    assert block.part[0] == pytest.approx(0.7)


def test_a_bucket_rests_when_nothing_is_awaited_any_more() -> None:
    """Its window would otherwise stay as small as it was before others left."""
    world = World()
    world.group(1, rate=1000.0, burst=1000.0)
    names = [f"agent-{n}" for n in range(10)]
    for name in names:
        world.start(name)
    world.run(12.0)
    for name in names[2:]:
        world.stop(name)
    world.run(0.6)
    told = world.processes[names[0]].ceilings[1].ceilings
    assert told.window[0] == pytest.approx(500.0)


def test_a_part_that_shrinks_counts_at_once() -> None:
    block = block_of()
    look(block)
    block.demand[1, 0] = 1e6
    look(block, 0.001)
    assert block.window[0] < 0.1 * BURST


def test_an_agent_alone_waits_for_nobody() -> None:
    block = block_of(1)
    look(block)
    spend(block, BURST / 2)
    look(block, KNOWN_S)
    assert block.unheeded[0] == 0.0
    assert room(block) == inf
