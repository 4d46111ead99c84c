"""A sparse table: where each ledger stands, and each agent's line in it.

An agent keeps lines only for groups that it uses itself.  With PIP-82's own sizing
(100,000 groups, 100 brokers, each group on 5 of them) that is 25,000 lines per
dimension in a broker, not 10 million.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.table.arrays import NOBODY, Index, LedgerBlock, compact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.coordinator.table.arrays import Flags, Ints

LEAST_WIDTH = 8
"""Lines of the narrowest block: enough for PIP-82's five brokers and this agent."""

GROUPS_MAX = 1 << 24
"""Ids below this are looked up in an array: the store counts them up from 1.  Groups of
single values have far larger ones, which are searched for."""

NO_INDEX: Ints = np.zeros(0, dtype=np.int64)
"""The index of a dimension in which no small id is tracked."""

NO_FAR: Ints = np.zeros((2, 0), dtype=np.int64)
"""``int64[2, N]`` large ids in ascending order, and the numbers of their ledgers."""

Key = tuple[str, int]
"""(dimension, group id) of a ledger."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The lines of one member in one block.

    Attributes:
        block: The block.
        rows: K positions in what was looked up.
        slots: K columns of the block.
        cells: K positions in the flattened [A, G] arrays.
        fresh: ``bool[K]`` lines made by this look-up; None if there are none.
    """

    block: LedgerBlock
    rows: Index
    slots: Index
    cells: Index
    fresh: Flags | None = None


class Table:
    """All ledgers that this agent tracks.

    Attributes:
        blocks: By width, narrowest first.
        version: Grows whenever a line or ledger moves, comes or goes, which makes all
            positions looked up before invalid.
    """

    def __init__(self) -> None:
        self.blocks: list[LedgerBlock] = []
        self.version = 0
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._unused: list[int] = []
        self._index: dict[str, Ints] = {}
        self._far: dict[str, Ints] = {}
        self._block_of = np.zeros(0, dtype=np.int64)
        self._slot_of = np.zeros(0, dtype=np.int64)
        self._lines: dict[int, Ints] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: Key) -> bool:
        return key in self._numbers

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._numbers))

    def cells(self) -> int:
        """Return how many cells each [A, G] array has over all blocks."""
        return sum(block.width * block.capacity for block in self.blocks)

    def key_of(self, number: int) -> Key:
        """Return the key of a ledger that is tracked."""
        return self._keys[number]

    def at(self, key: Key) -> tuple[LedgerBlock, int]:
        """Return block and slot of a ledger.

        Raises:
            KeyError: It is not tracked.
        """
        number = self._numbers[key]
        return self._block(number), int(self._slot_of[number])

    def add(self, key: Key) -> tuple[LedgerBlock, int]:
        """Track a ledger, with line 0 for this agent; return block and slot."""
        dimension, group_id = key
        number = self._unused.pop() if self._unused else self._new_number(key)
        block_number = self._block_with(LEAST_WIDTH)
        block = self.blocks[block_number]
        slot = block.take_slot()
        block.number[slot] = number
        block.member[0, slot] = 0
        self._numbers[key] = number
        self._keys[number] = key
        self._block_of[number] = block_number
        self._slot_of[number] = slot
        if group_id < GROUPS_MAX:
            index = self._index.get(dimension)
            if index is None or group_id >= len(index):
                index = self._longer(index, group_id + 1, fill=-1)
                self._index[dimension] = index
            index[group_id] = number
        else:
            far = self._far.get(dimension, NO_FAR)
            at = np.searchsorted(far[0], group_id)
            self._far[dimension] = np.insert(far, at, (group_id, number), axis=1)
        self.version += 1
        return block, slot

    def remove(self, key: Key) -> None:
        """Forget a ledger and all its lines."""
        number = self._numbers.pop(key)
        block, slot = self._block(number), self._slot_of[number]
        for lines in self._lines.values():
            if number < len(lines):
                lines[number] = NOBODY
        block.clear_slot(int(slot))
        dimension, group_id = key
        if group_id < GROUPS_MAX:
            self._index[dimension][group_id] = -1
        else:
            far = self._far[dimension]
            at = np.searchsorted(far[0], group_id)
            self._far[dimension] = np.delete(far, at, axis=1)
        self._unused.append(number)
        self.version += 1

    def numbers(self, dimension: str, group_ids: Ints) -> Ints:
        """Return ``int64[N]`` ledger numbers, −1 where not tracked."""
        index = self._index.get(dimension, NO_INDEX)
        if not len(group_ids) or (
            np.minimum.reduce(group_ids) >= 0
            and np.maximum.reduce(group_ids) < len(index)
        ):
            return index[group_ids]
        known = (group_ids >= 0) & (group_ids < len(index))
        numbers = np.full(len(group_ids), -1, dtype=np.int64)
        numbers[known] = index[group_ids[known]]
        far_ids, far_numbers = self._far.get(dimension, NO_FAR)
        if len(far_ids):
            at = np.searchsorted(far_ids, group_ids)
            at[at == len(far_ids)] = 0
            found = far_ids[at] == group_ids
            numbers[found] = far_numbers[at[found]]
        return numbers

    def own_places(self, numbers: Ints) -> list[Place]:
        """Return where this agent's own lines of these ledgers stand.

        Args:
            numbers: ``int64[N]`` ledger numbers; −1 is left out.
        """
        return self._standing(numbers, np.zeros(len(numbers), dtype=np.int64))

    def places(self, member: int, numbers: Ints) -> list[Place]:
        """Return where a member's lines stand, making those that don't exist.

        Args:
            member: Number of the member, not this agent's own.
            numbers: ``int64[N]`` ledger numbers; −1 is left out.
        """
        lines = self._lines.get(member)
        if lines is None or len(lines) < len(self._keys):
            lines = self._longer(lines, len(self._keys), fill=NOBODY)
            self._lines[member] = lines
        if not self.blocks:
            return []
        fresh = (numbers >= 0) & (lines[numbers] == NOBODY)
        if not np.count_nonzero(fresh):
            return self._standing(numbers, lines[numbers])
        self._make_lines(member, lines, numbers[fresh])
        return [
            replace(place, fresh=fresh[place.rows])
            for place in self._standing(numbers, lines[numbers])
        ]

    def standing(
        self, members: list[int], sizes: list[int], numbers: Ints
    ) -> list[Place] | None:
        """Return where lines of several members stand; None if one doesn't exist.

        Args:
            members: Their numbers, each once.
            sizes: How many of `numbers` belong to each member, in that order.
            numbers: ``int64[N]`` ledger numbers; −1 is left out.
        """
        lines = np.empty(len(numbers), dtype=np.int64)
        first = 0
        for member, size in zip(members, sizes, strict=True):
            of_member = self._lines.get(member)
            if of_member is None or len(of_member) < len(self._keys):
                return None
            last = first + size
            # Clip −1, which is left out below: otherwise numpy would use a buffer.
            of_member.take(numbers[first:last], out=lines[first:last], mode="clip")
            first = last
        lines[numbers < 0] = 0
        if len(lines) and np.minimum.reduce(lines) == NOBODY:
            return None
        return self._standing(numbers, lines)

    def _standing(self, numbers: Ints, lines: Ints) -> list[Place]:
        """Return where lines stand, ``int64[N]``, each in the ledger of that number."""
        if not self.blocks:
            return []
        blocks = self._block_of[numbers]
        blocks[numbers < 0] = NOBODY
        places: list[Place] = []
        for at, block in enumerate(self.blocks):
            here = blocks == at
            size = int(np.count_nonzero(here))
            if size:
                whole = size == len(numbers)
                rows = slice(0, size) if whole else compact(here.nonzero()[0])
                slots = self._slot_of[numbers[rows]]
                cells = lines[rows] * block.capacity + slots
                places.append(Place(block, rows, compact(slots), compact(cells)))
        return places

    def all_places(self, member: int) -> list[Place]:
        """Return all lines that a member has."""
        return self.places(member, self.lines_of(member))

    def lines_of(self, member: int) -> Ints:
        """Return the ledger numbers, ``int64[K]``, in which a member has a line."""
        lines = self._lines.get(member)
        if lines is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(lines != NOBODY)

    def drop_member(self, member: int) -> None:
        """Take a member out of every ledger."""
        for number in self.lines_of(member).tolist():
            block, line = self._block(number), self._lines[member][number]
            block.clear_line(int(line), int(self._slot_of[number]))
        self._lines.pop(member, None)
        self.version += 1

    def _block(self, number: int) -> LedgerBlock:
        return self.blocks[int(self._block_of[number])]

    def _make_lines(self, member: int, lines: Ints, numbers: Ints) -> None:
        # One by one is fast enough: a line is made once in the life of a member.
        for number in numbers.tolist():
            block, slot = self._with_room(number)
            if block.holes[slot]:
                line = int(np.argmax(block.member[:, slot] == NOBODY))
                block.holes[slot] -= 1
            else:
                line = int(block.used[slot])
                block.used[slot] += 1
            block.member[line, slot] = member
            block.admitted[line, slot] = np.nan
            block.stale[slot] = True
            lines[number] = line
        self.version += 1

    def _with_room(self, number: int) -> tuple[LedgerBlock, int]:
        block, slot = self._block(number), int(self._slot_of[number])
        if block.used[slot] < block.width or block.holes[slot]:
            return block, slot
        wider_number = self._block_with(2 * block.width)
        wider = self.blocks[wider_number]
        to = wider.take_slot()
        block.copy_slot(slot, wider, to)
        block.clear_slot(slot)
        block.shrink()
        self._block_of[number] = wider_number
        self._slot_of[number] = to
        return wider, to

    def _block_with(self, width: int) -> int:
        for at, block in enumerate(self.blocks):
            if block.width == width:
                return at
        self.blocks.append(LedgerBlock(width))
        return len(self.blocks) - 1

    def _new_number(self, key: Key) -> int:
        number = len(self._keys)
        self._keys.append(key)
        if number >= len(self._block_of):
            length = max(16, 2 * number)
            self._block_of = self._longer(self._block_of, length, fill=0)
            self._slot_of = self._longer(self._slot_of, length, fill=0)
        return number

    @staticmethod
    def _longer(before: Ints | None, length: int, *, fill: int) -> Ints:
        old = 0 if before is None else len(before)
        after = np.full(max(length, old + old // 2), fill, dtype=np.int64)
        if before is not None:
            after[:old] = before
        return after
