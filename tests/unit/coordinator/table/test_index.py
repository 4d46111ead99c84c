"""Where ledgers stand: moving to wider shelves keeps what they hold, and no memory."""

from __future__ import annotations

import numpy as np

from headgate.coordinator.table.index import LEAST_WIDTH, Table

LEDGERS, MEMBERS = 100, 20


def test_ledgers_that_moved_to_a_wider_shelf_leave_no_memory_behind() -> None:
    table = Table()
    for group in range(1, LEDGERS + 1):
        shelf, slot = table.add(("requests", group), own=0)
        shelf.level[slot] = float(group)
    numbers = table.numbers("requests", np.arange(1, LEDGERS + 1))
    for member in range(1, MEMBERS + 1):
        for place in table.places(member, numbers):
            lines = place.shelf.demand.reshape(-1)
            lines[place.cells] = 1000.0 * member + numbers[place.rows]
    full = [shelf for shelf in table.shelves if shelf.width > MEMBERS]
    assert len(full) == 1
    assert table.cells() == full[0].width * full[0].capacity
    for group in range(1, LEDGERS + 1):
        shelf, slot = table.at(("requests", group))
        assert shelf is full[0]
        assert shelf.level[slot] == group
        number = int(numbers[group - 1])
        told = shelf.demand[1 : MEMBERS + 1, slot].tolist()
        assert told == [1000.0 * m + number for m in range(1, MEMBERS + 1)]


def test_a_shelf_that_was_left_takes_new_ledgers() -> None:
    table = Table()
    table.add(("requests", 1), own=0)
    numbers = table.numbers("requests", np.array([1]))
    for member in range(1, LEAST_WIDTH + 1):
        table.places(member, numbers)
    shelf, slot = table.add(("requests", 2), own=0)
    assert (shelf.width, shelf.used[slot]) == (LEAST_WIDTH, 1)
    assert table.at(("requests", 1))[0].width == 2 * LEAST_WIDTH
