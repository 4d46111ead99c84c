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

    def __bool__(self) -> bool:
        return bool(self.epoch.any())

    def __len__(self) -> int:
        return len(self.epoch)

    def of(self, life: AgentLife) -> Ints:
        """Return what a life owns and has received, ``int64[K]``."""
        mine = self.owner == self._index.get(life, -1)
        return np.flatnonzero(mine & ~self.missed)

    def counts(self, lives: list[AgentLife], worth: Ints | None = None) -> Ints:
        """Return how many permits each life owns, or what they are `worth`."""
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

    def merge(
        self, runs: list[PermitRun], me: AgentLife, *, whole_of: AgentLife = NOBODY
    ) -> None:
        """Merge reported registers.

        What they give to `me`, this agent's life, is missed until it is adopted.
        `whole_of` has sent all that it knows, which shows what it has missed.
        """
        if not runs and whole_of == NOBODY:
            return
        self._make_room()
        which = np.full(len(self), -1)  # the run of each permit
        for i, run in enumerate(runs):
            which[run.first : run.first + run.size] = i
        at = np.flatnonzero(which >= 0)
        which = which[at]
        epoch = np.array([run.epoch for run in runs])[which]
        owner = np.array([self._number(run.owner) for run in runs])[which]
        giver = np.array([self._number(run.giver) for run in runs])[which]
        tokens = np.array([run.tokens for run in runs])[which]
        newer = epoch > self.epoch[at]
        tied = (epoch == self.epoch[at]) & (owner != self.owner[at])
        for i in np.flatnonzero(tied).tolist():
            # Two lives wrote the same epoch.  That should never happen; if it does, all
            # agents decide alike.
            newer[i] = self.names[self.owner[at[i]]] < self.names[owner[i]]
        new = at[newer]
        missed = self.missed.copy()
        missed[new] = owner[newer] == self._number(me)
        self.epoch[new], self.owner[new] = epoch[newer], owner[newer]
        self.giver[new], self.tokens[new] = giver[newer], tokens[newer]
        self.changed_at[new] = -np.inf
        if whole_of != NOBODY:
            got = np.zeros_like(self.epoch)
            got[at] = np.where(np.array([run.missed for run in runs])[which], 0, epoch)
            its = self.owner == self._number(whole_of)
            missed[its] = got[its] < self.epoch[its]
        if len(new) or (missed != self.missed).any():
            self.missed = missed
            self.version += 1

    def adopt(self, run: PermitRun) -> int:
        """Adopt what this agent's life is given; return how much of it is new."""
        here = slice(run.first, run.first + run.size)
        same = self.owner[here] == self._index.get(run.owner, -1)
        due = same & (self.epoch[here] == run.epoch) & self.missed[here]
        if due.any():
            self.missed[here] &= ~due
            self.version += 1
        return int(np.count_nonzero(due))

    def to_give(self, owned: Ints, count: int, life: AgentLife) -> Ints:
        """Return `count` > 0 of an owner's permits, ascending, for another life.

        Stretches beside what that life owns go first, then short ones; the last one is
        cut.  So all owners' permits stay in few pieces, which keeps reports short.
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
        """Yield the `chosen` registers, ``bool[P]``, equal neighbours as one run.

        Only of its own permits does the teller know exactly which ones it missed.
        """
        missed = self.missed & (self.owner == self._index.get(teller, -1))
        columns = self.epoch, self.owner, self.giver, self.tokens, missed, chosen
        cuts = np.zeros(len(self) - 1, dtype=np.bool_)
        for column in columns:
            cuts |= column[1:] != column[:-1]
        bounds = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(self)]
        for first, end in pairwise(bounds):
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
