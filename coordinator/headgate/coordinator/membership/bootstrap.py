"""How a new agent learns the levels: the median of the answers to its hello.

Until it has heard one round of answers it spends no more than an even part of the
level that it starts with, among as many agents as there may be.  A round is over
when its own hello has come back and the answers have had enough time: the gap by which
they are coalesced, the ticks of both sides and twice the lag.

Why the median?  Any single answer may be a lie.  Why never a full bucket?  An agent
that is restarted every few seconds would get a burst each time.  If nobody answers, all
agents are new: the level has started at what was stored before the cluster stopped, or
else at the margin, where the feedback is at rest and each agent gets exactly its share
of Q; what was spent since is charged.  An agent that asks again, because it stood still
or heard nothing, goes on at its own level if nobody answers, or if the bucket can't
have been full meanwhile: what the others have spent is in the rows that they report now
(docs/decisions/0088-a-level-is-taken-only-where-the-bucket-may-have-been-full.md).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from headgate.coordinator.messages.report import AgentLife
    from headgate.coordinator.table.arrays import Flags, Floats, Ints
    from headgate.coordinator.table.index import Key

ANSWERS_MAX = 256
"""Most answers kept for one round, and most moves: the median of more is no better."""

OWN_MAX = 32
"""Most own reports kept since this agent asked anew; a round of answers is shorter."""

FORGOTTEN = -1
"""Number in the rows of a ledger that is gone; no ledger has it."""

OLDER_S = 1.0
"""An answer that is older than the newest by more than this does not count: an agent
that stood still finds reports from before it asked."""

TOLD_S = 1.0
"""Seconds after the API's answer, or after a silence in which it came, in which a first
report may come that left before."""

API_ANSWERS_S = 2.0
"""How long to wait for the API's word on a limit whose level is not known."""

STORED_MAX = 100_000
"""Most stored levels kept: PIP-82's number of groups."""


ANSWER = np.dtype(
    [
        ("number", np.int64),  # of the ledger
        ("member", np.int64),  # number of the sender
        ("level", np.float64),  # E and this agent's counter that it includes, units
        ("apart", np.float64),  # the same, minus this agent's own level at that time
        ("reported_at", np.float64),  # when the level held, monotonic seconds
    ]
)
"""One row for each ledger whose level a report tells."""

MOVE = np.dtype(
    [
        ("number", np.int64),
        ("by", np.float64),
        ("known_at", np.float64),
        ("member", np.int64),
        ("reported_at", np.float64),
    ]
)
"""One row for each of `Moves`, with the same fields."""


class Answered(NamedTuple):
    """Medians of the answers about one ledger.

    Attributes:
        level: E and this agent's own counter that it includes, units.
        reported_at: When it held, monotonic seconds.
        apart: By how much this agent's own level was lower at the time of each answer.
    """

    level: float
    reported_at: float
    apart: float


class Moves(NamedTuple):
    """Corrections of this agent's own levels, and who knows of their reasons.

    Attributes:
        numbers: ``int64[K]`` of the ledgers.
        by: ``float64[K]`` units; below 0 if another agent spent more than expected.
        known_at: ``float64[K]``, or one for all: since when all agents know it, as far
            as can be told, monotonic seconds.
        member: Number of the agent that spent it.
        reported_at: Since when that one knows it.
    """

    numbers: Ints
    by: Floats
    known_at: Floats | float = -inf
    member: int = -1
    reported_at: float = -inf

    def rows(self) -> NDArray[np.void]:
        """Return one row of `MOVE` for each ledger."""
        rows = np.empty(len(self.numbers), dtype=MOVE)
        rows["number"], rows["by"], rows["known_at"] = self[:3]
        rows["member"], rows["reported_at"] = self.member, self.reported_at
        return rows


class Newest:
    """The rows of the newest messages, in one array: a report is compared with all."""

    def __init__(self, kind: np.dtype[np.void]) -> None:
        self._buffer = np.empty(0, dtype=kind)
        self._first = self._end = 0
        self._lengths: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def rows(self) -> NDArray[np.void]:
        """All rows, the oldest first; fields may be changed."""
        return self._buffer[self._first : self._end]

    def append(self, rows: NDArray[np.void]) -> None:
        """Add a message, and drop the oldest of too many."""
        self._lengths.append(len(rows))
        if len(self) > ANSWERS_MAX:
            self._first += self._lengths.popleft()
        if self._end + len(rows) > len(self._buffer):
            kept = self.rows
            size = len(kept) + len(kept) // 2 + len(rows)
            self._buffer = np.empty(size, kept.dtype)
            self._first, self._end = 0, len(kept)
            self._buffer[: self._end] = kept
        self._end += len(rows)
        self._buffer[self._end - len(rows) : self._end] = rows

    def forget(self, number: int) -> None:
        """Leave the rows of a ledger without one."""
        numbers = self.rows["number"]
        numbers[numbers == number] = FORGOTTEN

    def clear(self) -> None:
        """Drop all messages, and the memory that they took."""
        self._lengths.clear()
        self._first = self._end = 0
        self._buffer = np.empty(0, self._buffer.dtype)


@dataclass(slots=True)
class Opened:
    """How a ledger began whose level this agent does not know.

    Attributes:
        level: E at that time, units; corrected by what the API has told since.
        at: When, monotonic seconds.
        until: Until when to wait for the API's answer; `at` if it isn't asked, or has
            answered.
    """

    level: float
    at: float
    until: float


@dataclass(slots=True)
class Round:
    """What this agent asks about one ledger.

    Attributes:
        opened: How the ledger began; None if it is in doubt: it isn't new, and this
            agent may have missed what others spent.
        sequence: Number of this agent's first report that had a row of it.
        ready_at: When the answers to that should be here, monotonic seconds.
    """

    opened: Opened | None
    sequence: float = inf
    ready_at: float = inf


class Bootstrap:
    """The ledgers whose level this agent does not know yet, by number.

    Attributes:
        questions: Limits about which to ask the API.
    """

    def __init__(self) -> None:
        self._rounds: dict[int, Round] = {}
        self._answers, self._moves = Newest(ANSWER), Newest(MOVE)
        self._anew, self._anew_at = np.empty(0, dtype=np.int64), -inf
        self._told_anew: deque[tuple[float, Ints, Floats]] = deque(maxlen=OWN_MAX)
        self._stored: dict[Key, tuple[float, float]] = {}
        self._told: dict[int, tuple[Mapping[AgentLife, float], float]] = {}
        self.questions: set[Key] = set()

    def __bool__(self) -> bool:
        return bool(self._rounds)

    def begin(self, number: int, opened: Opened | None) -> None:
        """Start asking about a ledger.

        The round does not end before the API has answered if that is asked, too: those
        that used the limit may be gone, and then only the API knows its level.
        """
        self._rounds[number] = Round(opened)

    def ask_api(self, key: Key, opened: Opened, now: float) -> None:
        """Ask the API, too, how much is left of a limit, and what that includes."""
        opened.until = now + API_ANSWERS_S
        self.questions.add(key)

    def how_opened(self, number: int) -> Opened | None:
        """Return how a ledger began that this agent still asks about; to be changed."""
        found = self._rounds.get(number)
        return None if found is None else found.opened

    def start_over(self, numbers: Sequence[int], now: float) -> dict[int, Opened]:
        """End all rounds, because those of these ledgers follow.

        Returns:
            How those began of which nobody has told the level yet.
        """
        rounds = self._rounds.items()
        began = {n: each.opened for n, each in rounds if each.opened is not None}
        for number, opened in began.items():
            opened.level += self.moved_by(number)
        self.questions.clear()
        self._rounds.clear()
        self._end()
        self._anew, self._anew_at = np.array(numbers, dtype=np.int64), now
        return began

    def forget(self, number: int) -> None:
        """Stop asking: the ledger is gone, and another one may get its number."""
        self._rounds.pop(number, None)
        self._answers.forget(number)
        self._moves.forget(number)
        self._anew[self._anew == number] = FORGOTTEN
        self._told.pop(number, None)

    def asked(self, sequence: int, numbers: Ints, admitted: Floats, now: float) -> None:
        """Note that a report told this agent's counters, ``float64[K]``, of ledgers."""
        for number in numbers.tolist():
            if (found := self._rounds.get(number)) is not None:
                found.sequence = min(found.sequence, sequence)
        if len(self._anew):
            of, at = _same(numbers, self._anew)
            self._told_anew.append((now, at, admitted[of]))

    def known_own(
        self, numbers: Ints, seen: Floats, answered_at: float, heard_until: float
    ) -> Floats:
        """Return the own counters that the sender of levels knew, ``float64[K]``.

        Of ledgers of which this agent asks anew: its first report since then if this is
        an answer, or the newest one that had been heard.  What it reported before may
        be known to nobody.

        Args:
            numbers: ``int64[K]``, each once.
            seen: ``float64[K]`` what it is taken to know of any other ledger.
            answered_at: When an answer left, or what a report that is none had heard.
            heard_until: When what it had heard had left, monotonic seconds.
        """
        if not len(self._anew):
            return seen
        known = np.full(len(self._anew), np.nan)
        for at, places, admitted in self._told_anew:
            if at <= heard_until:
                known[places] = admitted
            elif at <= answered_at:
                first = np.isnan(known[places])
                known[places[first]] = admitted[first]
        of, here = _same(numbers, self._anew)
        told = ~np.isnan(known[here])
        seen = seen.copy()
        seen[of[told]] = known[here[told]]
        return seen

    def echoed(self, sequence: int, ready_at: float) -> None:
        """Note that this agent's report came back, so the others have heard it, too."""
        for each in self._rounds.values():
            if each.sequence <= sequence and each.ready_at == inf:
                each.ready_at = ready_at

    def take_what_came(self, ready_at: float) -> None:
        """End the round without having asked, once any agent has told its level."""
        if self._answers:
            for each in self._rounds.values():
                each.ready_at = min(each.ready_at, ready_at)

    def answer(
        self,
        numbers: Ints,
        levels: Floats,
        apart: Floats,
        *,
        member: int,
        reported_at: float,
    ) -> None:
        """Keep another agent's levels, and how far this agent's own were off.

        Those that left before this agent asked anew are no answer.  Columns are those
        of `ANSWER`, ``float64[K]`` and ``int64[K]``.
        """
        if reported_at < self._anew_at:
            return
        rows = np.empty(len(numbers), dtype=ANSWER)
        rows["number"], rows["level"], rows["apart"] = numbers, levels, apart
        rows["member"], rows["reported_at"] = member, reported_at
        news = self._moves.rows[~_knew(self._moves.rows, member, reported_at)]
        of, at = _same(news["number"], numbers)
        np.add.at(rows["apart"], at, news["by"][of])
        self._answers.append(rows)

    def moved(self, moves: Moves) -> None:
        """Note that this agent's own levels were corrected."""
        rows, answers = moves.rows(), self._answers.rows
        least = min(moves.reported_at, float(np.min(moves.known_at)))
        late = np.flatnonzero(answers["reported_at"] >= least)
        of, at = _same(answers["number"][late], moves.numbers)
        told = answers[late[of]]
        knew = _knew(rows[at], told["member"], told["reported_at"])
        answers["apart"][late[of[knew]]] -= moves.by[at[knew]]
        self._moves.append(rows)

    def moved_by(
        self, number: int, until: float = inf, *, but: Sequence[int] = ()
    ) -> float:
        """Return by how many units others moved a ledger that all knew of by then.

        Those numbered in `but` don't count.
        """
        moves = self._moves.rows
        known = (moves["number"] == number) & (moves["known_at"] <= until)
        known &= moves["member"] >= 0  # else the API told it
        if but:
            known &= ~np.isin(moves["member"], but)
        return float(sum(moves["by"][known].tolist()))

    def told_of(
        self,
        number: int,
        others: Mapping[AgentLife, float] | None,
        now: float,
        *,
        since: float,
    ) -> None:
        """Keep what of others' counters the level of a ledger includes.

        Args:
            number: Of the ledger.
            others: For each life, units; None if that is not known.
            now: Monotonic seconds.
            since: What was told before that may be forgotten.
        """
        self._told.pop(number, None)
        if others is not None:
            self._told[number] = others, now
        while self._told and next(iter(self._told.values()))[1] <= since:
            del self._told[next(iter(self._told))]  # the oldest is the first

    def told(self, number: int, since: float) -> Mapping[AgentLife, float] | None:
        """Return what was told of a ledger since some time; None if nothing was."""
        others, at = self._told.get(number, (None, since))
        return others if at > since else None

    def stored(self, key: Key, level: float, *, at: float) -> None:
        """Keep a level, units, that held at some time before the cluster stopped."""
        if len(self._stored) < STORED_MAX:
            self._stored[key] = (level, at)

    def recall(
        self, key: Key, *, rate: float, now: float
    ) -> tuple[float, float] | None:
        """Return a stored level, including what it has earned since, and its age."""
        stored = self._stored.get(key)
        if stored is None:
            return None
        level, at = stored
        return level + rate * (now - at), now - at

    def opened(self, key: Key) -> None:
        """Forget the stored level of a ledger that has started from it."""
        self._stored.pop(key, None)

    def finish(self, now: float, patience_s: float = 0.0) -> dict[int, Answered | None]:
        """Return the ledgers whose rounds are over, by number, and others' answers.

        Of these only the newest of each member counts.  Rounds last `patience_s` longer
        than they must, for more answers.
        """
        due = now - patience_s
        over = {n: each for n, each in self._rounds.items() if each.ready_at <= due}
        if not over:
            return {}
        medians = self._medians()
        result: dict[int, Answered | None] = {}
        for number, each in over.items():
            answered, opened = medians.get(number), each.opened
            if answered is not None or opened is None or now >= opened.until:
                result[number] = answered
                del self._rounds[number]
                if answered is not None:  # the others' level includes more by now
                    self._told.pop(number, None)
        if not self:
            self._end()
        return result

    def _end(self) -> None:
        self._anew = self._anew[:0]
        self._told_anew.clear()
        self._answers.clear()
        self._moves.clear()

    def _medians(self) -> dict[int, Answered]:
        if not len(self._answers.rows):
            return {}
        # Newest first, so that the newest answer of each member is the one that counts.
        fresh = self._answers.rows[::-1]
        fresh = fresh[fresh["reported_at"] > fresh["reported_at"].max() - OLDER_S]
        pairs = (fresh["number"] << 32) + fresh["member"]
        fresh = fresh[np.unique(pairs, return_index=True)[1]]
        by_level = fresh[np.lexsort((fresh["level"], fresh["number"]))]
        by_apart = fresh[np.lexsort((fresh["apart"], fresh["number"]))]
        numbers, start, count = np.unique(
            by_level["number"], return_index=True, return_counts=True
        )
        low, high = start + (count - 1) // 2, start + count // 2
        columns = by_level["level"], by_level["reported_at"], by_apart["apart"]
        medians = [(0.5 * (each[low] + each[high])).tolist() for each in columns]
        known = map(Answered, *medians)
        return dict(zip(numbers.tolist(), known, strict=True))


def _knew(
    moves: NDArray[np.void], member: Ints | int, reported_at: Floats | float
) -> Flags:
    """Return ``bool[K]``: a report left when its sender knew of a move."""
    own = moves["member"] == member
    since = np.where(own, moves["reported_at"], moves["known_at"])
    knew: Flags = reported_at >= since
    return knew


def _same(numbers: Ints, among: Ints) -> tuple[Ints, Ints]:
    """Return where numbers are that both have, in each; `among` has each only once."""
    if not len(numbers) or not len(among):
        none = np.empty(0, dtype=np.int64)
        return none, none
    order = np.argsort(among)
    at = np.searchsorted(among, numbers, sorter=order)
    at = order[np.minimum(at, len(among) - 1)]
    of = np.flatnonzero(among[at] == numbers)
    return of, at[of]
