"""Calls to language models from their reservation to their true cost.

A call is under the quotas of several subjects at once (key, user, team, model).  It is
admitted when all of them admit; then each holds an estimate of its tokens until the
true usage is known, and a slot in flight until it is over.  Every way in which a call
can end has an answer:

====================================  =================================================
it succeeded, with usage              the usage is charged
usage is missing, 0, or no number     the estimate stands
usage is larger than the context      the context is charged
it came from a cache                  the request is charged, no tokens
it failed                             the request is charged, no tokens
it was cancelled, or never began      as if it had never been reserved
its stream was cut                    what was read and streamed until then
nobody says anything                  returned after `timeout_s`; charged if it is late
====================================  =================================================

However it ends, its slots are released then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING

from headgate.agent.decision import ADMITTED, Decision, Refusal
from headgate.agent.errors import AlreadyReleased, AlreadySettled
from headgate.agent.integrations.llm.token_estimate import TokenEstimates, TokenUsage
from headgate.agent.integrations.sources import limiter_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headgate.agent.integrations.sources import LimiterSource
    from headgate.agent.limiter.limiter import Limiter
    from headgate.agent.limiter.reservation import Reservation
    from headgate.agent.limiter.slots import Slot

TIMEOUT_S = 600.0
"""When a reservation that nobody settled is returned: longer than models answer."""

MOST_TOKENS = 10_000_000.0
"""More than the context of any model: a usage above this is a mistake."""

FORGOTTEN_AFTER = 2.0
"""Timeouts after which a call that nobody settled is forgotten here as well."""

logger = logging.getLogger("headgate.agent")


class TokenCall:
    """One call that was admitted.

    Attributes:
        call_id: As the gateway calls it.
        mark: Tells it from other calls of this id.
        model: As the caller names it.
        characters: Length of the prompt.
        estimate: What was reserved.
        streamed: Characters of the answer that have been passed on.
        by_attempt: It is one attempt of a call, and ends when that fails.
        on_end: Called once when the call ends, however it does.
        due_s: When its reservations are returned.
    """

    __slots__ = (
        "_reservations",
        "_slots",
        "by_attempt",
        "call_id",
        "characters",
        "due_s",
        "estimate",
        "mark",
        "model",
        "on_end",
        "streamed",
    )

    def __init__(
        self,
        call_id: str,
        mark: str,
        model: str,
        characters: int,
        estimate: TokenUsage,
        reservations: Sequence[Reservation],
        slots: Sequence[Slot],
        due_s: float,
    ) -> None:
        """Hold what was reserved."""
        self.call_id = call_id
        self.mark = mark
        self.model = model
        self.characters = characters
        self.estimate = estimate
        self.streamed = 0
        self.by_attempt = False
        self.on_end: Callable[[], object] | None = None
        self.due_s = due_s
        self._reservations = reservations
        self._slots = slots

    def end(self, tokens: float | None) -> None:
        """Charge this many tokens and the request; None gives everything back."""
        for reservation in self._reservations:
            with suppress(AlreadySettled):  # the first settlement was right
                if tokens is None:
                    reservation.cancel()
                elif "tokens" in reservation.costs:
                    reservation.settle(tokens=tokens)
                else:
                    reservation.settle()
        _release(self._slots)
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


class TokenCalls:
    """The calls of one gateway that are under way; thread-safe.

    Attributes:
        unsettled: Calls that nobody settled in time.
        odd_usages: Usages that were missing, 0, not a number or larger than the
            context.
    """

    def __init__(
        self,
        source: LimiterSource,
        *,
        timeout_s: float = TIMEOUT_S,
        estimates: TokenEstimates | None = None,
        context_of: Callable[[str], float | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without calls.

        Args:
            source: The agent.
            timeout_s: When a reservation that nobody settled is returned.
            estimates: Estimates of what calls cost; by default they start from nothing.
            context_of: Tokens that a model can read and write in one call, by name.
            clock: Seconds, monotonic.
        """
        self.unsettled = 0
        self.odd_usages = 0
        self._limiters = limiter_cache(source)
        self._timeout_s = timeout_s
        self._estimates = estimates or TokenEstimates()
        self._context_of = context_of
        self._clock = clock
        self._lock = threading.Lock()
        # Several calls may have the same id: clients can choose it.
        self._open: dict[str, deque[TokenCall]] = {}

    def __len__(self) -> int:
        """Return how many ids are under way."""
        return len(self._open)

    def limiter(self, subject: Mapping[str, str | None]) -> Limiter:
        """Return the limiter of a subject, held ready."""
        return self._limiters.get(subject)

    def find(self, call_id: str, mark: str = "") -> TokenCall | None:
        """Return the call of this id and mark that is under way.

        Without a mark, return the oldest of this id.
        """
        with self._lock:
            calls = self._open.get(call_id, ())
            return next((call for call in calls if mark in ("", call.mark)), None)

    def begin(
        self,
        call_id: str,
        subjects: Sequence[Mapping[str, str | None]],
        *,
        model: str,
        characters: int,
        most_answer: float | None = None,
        uses_tokens: bool = True,
        mark: str = "",
    ) -> Decision:
        """Reserve a call's estimate in all subjects' quotas, or in none.

        Args:
            call_id: To find it again.
            subjects: Whose quotas; one that is attached to no group limits nothing.
            model: As the caller names it.
            characters: Length of the prompt.
            most_answer: Tokens that the caller lets the answer have.
            uses_tokens: False for calls that are counted as requests only.
            mark: To tell it from other calls of this id.

        Returns:
            Admitted, muted by the longest of their delays, or the first refusal.

        Raises:
            InvalidSubject: A subject's name is not valid.
        """
        limiters = [self._limiters.get(subject) for subject in subjects]
        estimate = self._estimates.of(model, characters, most_answer)
        costs = {"requests": 1.0}
        if uses_tokens:
            costs["tokens"] = estimate.total
        slots, refused = self._take_slots(limiters)
        if refused is not None:
            return refused
        reservations: list[Reservation] = []
        worst: Decision = ADMITTED
        for limiter in limiters:
            reservation = limiter.reserve(
                estimate=None, timeout_s=self._timeout_s, wait_s=None, **costs
            )
            if not reservation:
                for before in reservations:
                    before.cancel()
                _release(slots)
                return reservation.decision
            reservations.append(reservation)
            if reservation.decision.delay_s >= worst.delay_s:
                worst = reservation.decision
        due_s = self._clock() + self._timeout_s
        call = TokenCall(
            call_id, mark, model, characters, estimate, reservations, slots, due_s
        )
        with self._lock:
            self._forget_overdue()
            self._open.setdefault(call_id, deque()).append(call)
        return worst

    def limited(self, subjects: Sequence[Mapping[str, str | None]]) -> bool:
        """Return whether any limit of requests, tokens or slots applies to subjects."""
        costs = {"requests": 1.0, "tokens": 1.0}
        limiters = [self._limiters.get(subject) for subject in subjects]
        return any(limiter.links(costs) or limiter.has_slots for limiter in limiters)

    def succeeded(
        self, call: TokenCall, usage: TokenUsage | None, *, from_cache: bool = False
    ) -> None:
        """Charge what a call has cost, unless it has ended already."""
        if not self._remove(call):
            return
        if from_cache:
            call.end(0.0)
            return
        if usage is None or not isfinite(usage.total) or usage.total <= 0.0:
            self.odd_usages += 1
            call.end(call.estimate.total)
            return
        most = min(self._context_of(call.model) or MOST_TOKENS, MOST_TOKENS)
        if usage.total > most or min(usage.prompt, usage.answer) < 0.0:
            self.odd_usages += 1
            call.end(min(max(usage.total, 0.0), most))
            return
        self._estimates.note(call.model, call.characters, usage)
        call.end(usage.total)

    def failed(self, call: TokenCall) -> None:
        """Charge the request of a call that failed, and no tokens."""
        if self._remove(call):
            call.end(0.0)

    def cancelled(self, call: TokenCall) -> None:
        """Give everything back."""
        if self._remove(call):
            call.end(None)

    def cut(self, call: TokenCall) -> None:
        """Charge what was read and streamed of a call that nobody settled.

        If nothing was streamed, it is unknown whether the model read the prompt, so the
        estimate stands.
        """
        if not self._remove(call):
            return
        tokens = call.estimate.total
        if call.streamed:
            per_character = call.estimate.prompt / max(call.characters, 1)
            if call.characters == 0:
                per_character = 0.25
            tokens = call.estimate.prompt + per_character * call.streamed
        call.end(tokens)

    def _take_slots(
        self, limiters: Sequence[Limiter]
    ) -> tuple[list[Slot], Decision | None]:
        """Take a slot of each, or of none and return the refusal."""
        slots: list[Slot] = []
        for limiter in limiters:
            slot = limiter.try_slot(lease_s=self._timeout_s)
            if not slot:
                _release(slots)
                return [], slot.decision
            slots.append(slot)
        return slots, None

    def _remove(self, call: TokenCall) -> bool:
        with self._lock:
            calls = self._open.get(call.call_id)
            if not calls or call not in calls:
                return False
            calls.remove(call)
            self._put_last(call.call_id)
            return True

    def _put_last(self, call_id: str) -> None:
        """Let other ids come first, now that one of this id's calls has ended."""
        if calls := self._open.pop(call_id):
            self._open[call_id] = calls

    def _forget_overdue(self) -> None:
        """Forget the oldest calls whose reservations were returned long ago."""
        oldest = self._clock() - (FORGOTTEN_AFTER - 1.0) * self._timeout_s
        for _ in range(2):  # more than the one that comes in, so it never grows
            calls = next(iter(self._open.values()), None)
            if not calls or calls[0].due_s > oldest:
                return
            call = calls.popleft()
            self._put_last(call.call_id)
            self.unsettled += 1
            call.on_end = None


def _release(slots: Sequence[Slot]) -> None:
    for slot in slots:
        with suppress(AlreadyReleased):
            slot.release()


def refusal(reason: str) -> Decision:
    """Return a refusal that no limit made."""
    return Refusal(never=True, reason=reason)
