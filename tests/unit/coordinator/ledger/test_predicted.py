"""What agents are expected to have spent, as time passes without a report."""

from __future__ import annotations

from math import exp

import pytest

from headgate.coordinator.ledger.replay import settle
from headgate.coordinator.table.arrays import LedgerBlock

AGE_S, ELAPSED_S, BEFORE, RATE = 0.1, 0.05, 8.0, 40.0


@pytest.mark.parametrize("ledgers", [1, 2])
def test_what_an_agent_that_reports_at_once_was_expected_to_spend_is_given_back(
    ledgers: int,
) -> None:
    """Of three agents, the second reports each admission; the third is extrapolated."""
    block = LedgerBlock(8)
    for slot in range(ledgers):
        assert block.take_slot() == slot
        block.used[slot], block.burst[slot], block.at[slot] = 3, 1000.0, 10.0
        block.at_once[1, slot] = True
        block.predicted[1:3, slot] = BEFORE
        block.extrapolated_rate[2, slot] = RATE
        block.level[slot], block.belief[slot] = 2.0 * BEFORE, 0.0
    settle(block, slice(0, ledgers), 10.0 + ELAPSED_S, AGE_S)
    kept, grown = BEFORE * exp(-ELAPSED_S / AGE_S), RATE * ELAPSED_S
    for slot in range(ledgers):
        predicted = block.predicted[1:3, slot].tolist()
        assert predicted == pytest.approx([kept, BEFORE + grown])
        assert block.belief[slot] == pytest.approx(BEFORE - kept - grown)
