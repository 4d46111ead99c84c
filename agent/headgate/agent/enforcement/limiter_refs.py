"""Which limiters are alive, and how many of them use each group.

Not thread-safe, except for the callbacks of collected limiters, which only append.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from headgate.agent.limiter.limiter import Limiter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headgate.agent.follow.subject import Subject
    from headgate.coordinator.config.configuration import Refusal


class HeldLimiter(Limiter):
    """A limiter that is known here as long as anyone holds it.

    It is a class of its own because a compiled class can't be weakly referenced.
    """

    __slots__ = ("__weakref__",)


LimiterKey = tuple["Subject", "Refusal | None"]


class LimiterRefs:
    """The limiters of one process.

    Attributes:
        of_group: Number of living limiters by group id.
    """

    def __init__(self) -> None:
        """Begin without limiters."""
        self.of_group: Counter[int] = Counter()
        self._told: Mapping[int, int] | None = None
        self._limiters: WeakValueDictionary[LimiterKey, Limiter] = WeakValueDictionary()
        # Keyed by a number, as an id() may be reused after a limiter is collected.
        self._groups: dict[int, tuple[ref[Limiter], tuple[int, ...]]] = {}
        self._numbers: WeakKeyDictionary[Limiter, int] = WeakKeyDictionary()
        self._next = count()
        self._gone: deque[int] = deque()

    def __len__(self) -> int:
        """Return how many limiters are alive."""
        return len(self._limiters)

    def numbers(self) -> Mapping[int, int]:
        """Return a copy of `of_group`: the same object until it changes."""
        if self._told is None:
            self._told = dict(self.of_group)
        return self._told

    def in_no_group(self) -> int:
        """Return the number of limiters that no group applies to."""
        return sum(not ids for _, ids in self._groups.copy().values())

    def find(self, key: LimiterKey) -> Limiter | None:
        """Return the limiter of a subject and mode, if it is alive."""
        return self._limiters.get(key)

    def all(self) -> list[Limiter]:
        """Return the living limiters."""
        return list(self._limiters.values())

    def add(self, key: LimiterKey, limiter: Limiter, groups: Iterable[int]) -> None:
        """Count a new limiter as a user of groups until it is collected."""
        self._limiters[key] = limiter
        self.count(limiter, groups)

    def count(self, limiter: Limiter, groups: Iterable[int]) -> None:
        """Count a limiter as a user of groups, and no others, until it is collected."""
        ids = tuple(groups)
        self._uncount(self._groups.pop(self._numbers.get(limiter, -1), None))
        self.of_group.update(ids)
        self._told = None
        key = self._numbers[limiter] = next(self._next)
        # The callback may run anywhere, even under the enforcer's lock.
        note = self._gone.append
        self._groups[key] = (ref(limiter, lambda _: note(key)), ids)

    def forget_groups(self) -> None:
        """Forget all counts, before everyone is counted again."""
        self.of_group.clear()
        self._told = None
        self._groups.clear()

    def _uncount(self, counted: tuple[ref[Limiter], tuple[int, ...]] | None) -> bool:
        if counted is None:  # everyone has been counted again since
            return False
        for group_id in counted[1]:
            self.of_group[group_id] -= 1
            if not self.of_group[group_id]:
                del self.of_group[group_id]
        self._told = None
        return True

    def forget_gone(self) -> bool:
        """Stop counting collected limiters; return whether there were any."""
        gone = False
        while self._gone:
            gone |= self._uncount(self._groups.pop(self._gone.popleft(), None))
        return gone
