"""Where ledgers stand: moving to wider blocks keeps what they hold, and no memory."""

from __future__ import annotations

import numpy as np

from headgate.coordinator.table.index import LEAST_WIDTH, Table

LEDGERS, MEMBERS = 100, 20


def test_ledgers_that_moved_to_a_wider_block_leave_no_memory_behind() -> None:
    table = Table()
    for group in range(1, LEDGERS + 1):
        block, slot = table.add(("requests", group))
        block.level[slot] = float(group)
    numbers = table.numbers("requests", np.arange(1, LEDGERS + 1))
    for member in range(1, MEMBERS + 1):
        for place in table.places(member, numbers):
            lines = place.block.demand.reshape(-1)
            lines[place.cells] = 1000.0 * member + numbers[place.rows]
    full = [block for block in table.blocks if block.width > MEMBERS]
    assert len(full) == 1
    assert table.cells() == full[0].width * full[0].capacity
    for group in range(1, LEDGERS + 1):
        block, slot = table.at(("requests", group))
        assert block is full[0]
        assert block.level[slot] == group
        number = int(numbers[group - 1])
        told = block.demand[1 : MEMBERS + 1, slot].tolist()
        assert told == [1000.0 * m + number for m in range(1, MEMBERS + 1)]


def test_a_block_that_was_left_takes_new_ledgers() -> None:
    table = Table()
    table.add(("requests", 1))
    numbers = table.numbers("requests", np.array([1]))
    for member in range(1, LEAST_WIDTH + 1):
        table.places(member, numbers)
    block, slot = table.add(("requests", 2))
    assert (block.width, block.used[slot]) == (LEAST_WIDTH, 1)
    assert table.at(("requests", 1))[0].width == 2 * LEAST_WIDTH
