"""The registers of one strict limit, in columns: who owns each permit.

Copies of a register merge by the larger (epoch, owner), so a lost, doubled or reordered
report does no harm.  Letters: P permits; K, some of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.escrow.lives import NOBODY
from headgate.coordinator.messages.report import PERMITS, AgentLife, PermitRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headgate.coordinator.table.arrays import Flags, Ints

NAMES_MAX = 4096
"""Number of lives in the columns above which unused ones are dropped."""


class Registers:
    """One copy of all registers.

    Attributes:
        version: Grows with each change.
        names: Lives that `owner` and `giver` point into; `NOBODY` first.
        epoch: ``int64[P]``; 0 for a permit that was never minted.
        owner: ``int64[P]`` index into `names`.
        giver: ``int64[P]`` index into `names`: the life that wrote the epoch.
        tokens: ``float64[P]`` units of the burst that came with the permit.
        changed_at: ``float64[P]`` when *this* agent wrote the epoch, or −∞.
        missed: ``bool[P]`` the owner did not get it; exact for this agent's own life,
            for another one as of its newest keyframe.
    """

    def __init__(self, permits: int = PERMITS) -> None:
        self.version = 0
        self.names: list[AgentLife] = [NOBODY]
        self._index = {NOBODY: 0}
        self.epoch, self.owner, self.giver = np.zeros((3, permits), dtype=np.int64)
        self.tokens = np.zeros(permits)
        self.changed_at = np.full(permits, -np.inf)
        self.missed = np.zeros(permits, dtype=np.bool_)
        self._of: tuple[int, AgentLife, Ints] = (-1, NOBODY, np.arange(0))

    def __bool__(self) -> bool:
        return bool(self.epoch.any())

    def __len__(self) -> int:
        return len(self.epoch)

    def of(self, life: AgentLife) -> Ints:
        """Return the permits that a life owns and has received, ``int64[K]``.

        Callers must not change the array: it is returned again until the registers
        change.
        """
        version, of, owned = self._of
        if version != self.version or of != life:
            mine = self.owner == self._index.get(life, -1)
            owned = (mine & ~self.missed).nonzero()[0]
            self._of = self.version, life, owned
        return owned

    def counts(self, lives: list[AgentLife], worth: Ints | None = None) -> Ints:
        """Return what each of these lives owns, ``int64[len(lives)]``.

        Args:
            lives: The owners.
            worth: ``int64[P]`` value of each permit; 1 by default.
        """
        sums = np.bincount(self.owner, weights=worth, minlength=len(self.names))
        owned = np.append(sums, 0).astype(np.int64)  # the last for unknown lives
        return owned[[self._index.get(life, -1) for life in lives]]

    def named(self) -> set[str]:
        """Return the ids of all agents that own or gave a permit."""
        both: Ints = np.unique(np.concatenate([self.owner, self.giver]))
        numbers: list[int] = both.tolist()
        return {self.names[i].agent for i in numbers if i}

    def where(self, holds: Callable[[AgentLife], bool]) -> Flags:
        """Return for which of `names` something holds, ``bool[len(names)]``."""
        return np.array([i > 0 and holds(life) for i, life in enumerate(self.names)])

    def write(
        self,
        at: Ints,
        owner: AgentLife,
        giver: AgentLife,
        now: float,
        *,
        by: int = 1,
        tokens: float = 0.0,
    ) -> None:
        """Write a new epoch, as the owner of permits or as the one who takes them.

        All get the same epoch, so that they are reported as one run.

        Args:
            at: ``int64[K]`` permits.
            owner: Their new owner.
            giver: This agent's life.
            now: Monotonic seconds.
            by: Least increase of the epoch.
            tokens: Units of the burst that go with each permit.
        """
        if not len(at):
            return
        self._make_room()
        self.version += 1
        self.epoch[at] = self.epoch[at].max() + by
        self.owner[at], self.giver[at] = self._number(owner), self._number(giver)
        self.tokens[at] = tokens
        self.changed_at[at] = now
        self.missed[at] = False

    def learn(self, run: PermitRun, *, missed: bool = False) -> None:
        """Merge reported registers.

        Args:
            run: What was reported.
            missed: Its owner did not get them.
        """
        here = slice(run.first, run.first + run.size)
        epoch, owner = self.epoch[here], self.owner[here]
        newer = epoch < run.epoch
        tied = (epoch == run.epoch) & (owner != self._index.get(run.owner, -1))
        for i in np.flatnonzero(tied).tolist():
            # Two lives wrote the same epoch.  That should never happen; if it does, all
            # agents decide alike.
            newer[i] = self.names[owner[i]] < run.owner
        at = run.first + np.flatnonzero(newer)
        if len(at):
            self._make_room()
            self.version += 1
            self.epoch[at] = run.epoch
            self.owner[at] = self._number(run.owner)
            self.giver[at] = self._number(run.giver)
            self.tokens[at] = run.tokens
            self.changed_at[at] = -np.inf
            self.missed[at] = missed

    def get(self, run: PermitRun) -> Ints:
        """Adopt what this agent's life is given; return what is new, ``int64[K]``."""
        here = slice(run.first, run.first + run.size)
        same = self.owner[here] == self._index.get(run.owner, -1)
        due = same & (self.epoch[here] == run.epoch) & self.missed[here]
        at = run.first + np.flatnonzero(due)
        if len(at):
            self.missed[at] = False
            self.version += 1
        return at

    def note_missed(self, owner: AgentLife, told: Ints) -> None:
        """Note what an owner's keyframe shows.

        Args:
            owner: The sender.
            told: ``int64[P]`` the epochs that it knows.
        """
        its = self.owner == self._index.get(owner, -1)
        missed = np.where(its, told < self.epoch, self.missed)
        if (missed != self.missed).any():
            self.version += 1
        self.missed = missed

    def to_give(self, owned: Ints, count: int, life: AgentLife) -> Ints:
        """Return some of an owner's permits for another life, ``int64[count]``.

        Stretches beside what that life owns go first, then short ones; the last one is
        cut.  So all owners' permits stay in few pieces, which keeps reports short.

        Args:
            owned: ``int64[K]`` ascending, K ≥ `count`.
            count: How many, > 0.
            life: Their new owner.
        """
        # One more, since -1 and P stand for the permits beside the first and the last.
        its = np.append(self.owner == self._index.get(life, -1), False)
        stretches = np.split(owned, np.flatnonzero(np.diff(owned) != 1) + 1)
        stretches.sort(key=lambda s: (not (its[s[0] - 1] or its[s[-1] + 1]), len(s)))
        chosen: list[Ints] = []
        for stretch in stretches:
            if count <= 0:
                break
            after_its = its[stretch[0] - 1]
            chosen.append(stretch[:count] if after_its else stretch[-count:])
            count -= len(chosen[-1])
        return np.sort(np.concatenate(chosen))

    def runs(
        self, group_id: int, chosen: Flags, teller: AgentLife = NOBODY
    ) -> Iterator[PermitRun]:
        """Yield registers for a report, equal neighbours as one run.

        Args:
            group_id: Id of the limit's group.
            chosen: ``bool[P]`` which registers.
            teller: The life that knows exactly what it missed.
        """
        missed = self.missed & (self.owner == self._index.get(teller, -1))
        columns = self.epoch, self.owner, self.giver, self.tokens, missed, chosen
        cuts = np.zeros(len(self) - 1, dtype=np.bool_)
        for column in columns:
            cuts |= column[1:] != column[:-1]
        for first, end in pairwise(
            [0, *(np.flatnonzero(cuts) + 1).tolist(), len(self)]
        ):
            if chosen[first] and self.epoch[first]:
                yield PermitRun(
                    group_id,
                    first,
                    end - first,
                    int(self.epoch[first]),
                    self.names[self.owner[first]],
                    self.names[self.giver[first]],
                    float(self.tokens[first]),
                    bool(missed[first]),
                )

    def _number(self, life: AgentLife) -> int:
        """Return a life's index in `names`, adding it if necessary."""
        if life not in self._index:
            self._index[life] = len(self.names)
            self.names.append(life)
        return self._index[life]

    def _make_room(self) -> None:
        """Drop unused names if there are many."""
        if len(self.names) < NAMES_MAX:
            return
        used = np.unique(np.concatenate([[0], self.owner, self.giver]))
        self.owner = np.searchsorted(used, self.owner)
        self.giver = np.searchsorted(used, self.giver)
        self.names = [self.names[i] for i in used.tolist()]
        self._index = {life: i for i, life in enumerate(self.names)}
