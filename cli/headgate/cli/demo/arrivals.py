"""Arrivals of requests: a Poisson process whose rate follows the phases.

Open loop: arrivals do not wait for earlier answers, so neither a limiter that refuses
nor a busy machine lowers the demand.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from headgate.cli.demo.script import Phase


class PhasedArrivals:
    """The arrivals of one caller, in order.

    Attributes:
        next_s: When the next one is due, seconds after the start; infinite after
            the last.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        *,
        agent: int,
        random: Random,
        from_s: float,
        cost: float = 1.0,
    ) -> None:
        """Start at `from_s`; earlier arrivals are skipped.

        Args:
            phases: In order, without gaps.
            agent: Index of the caller in each phase's demand.
            random: Source of randomness.
            from_s: Seconds after the start of the run.
            cost: Units of the average request.
        """
        self._ends = deque((p.ends_s, p.demand_per_s[agent] / cost) for p in phases)
        self._random = random
        self.next_s = from_s
        self._advance()

    def due(self, now_s: float) -> int:
        """Take the arrivals up to `now_s` and return how many there are."""
        count = 0
        while self.next_s <= now_s:
            count += 1
            self._advance()
        return count

    def _advance(self) -> None:
        """Move to the next arrival.

        A Poisson process has no memory: if the rate changes before the drawn arrival,
        the draw is discarded and repeated from the change on.
        """
        at_s = self.next_s
        while self._ends:
            ends_s, rate = self._ends[0]
            drawn = at_s + self._random.expovariate(rate) if rate > 0 else inf
            if at_s < ends_s and drawn < ends_s:
                self.next_s = drawn
                return
            at_s = max(at_s, ends_s)
            self._ends.popleft()
        self.next_s = inf
