"""Asks the API about limits that this process begins to use.

Strict limits that nobody has founded yet, which start full if it grants them (see
`headgate.coordinator.escrow.permits`), and limits that others have used, whose level it
may know.  A question that fails is not repeated here: the coordinator asks again while
nobody founds a strict limit.
"""

from __future__ import annotations

import json
import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from headgate.agent.follow.snapshot_file import document_of
from headgate.agent.follow.stored_levels import levels_of
from headgate.agent.http_connection import Connection, NoAnswer, beginning_of
from headgate.agent.json_place import JsonPlace
from headgate.coordinator import Granted

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from headgate.coordinator import Claim, Restored

log = logging.getLogger("headgate.agent")

PATH = "/api/v1/grants"

ANSWER_S = 2.0
"""Timeout of connecting, and of the answer."""

MOST_LIMITS = 500
"""Most limits in one question; the API takes no more."""

CLOSE_S = 1.0
"""Longest wait for the (daemon) thread to end."""


class Claims:
    """The questions that the API has yet to answer, and the thread that asks them.

    Args:
        url: Address of the API, without a path.
        deliver: Called with each answer, in that thread.
        headers: Sent with every request: token, agent.
        trust: Certificate authorities to trust; None for the system's.
    """

    def __init__(
        self,
        url: str,
        deliver: Callable[[Granted | Restored], None],
        *,
        headers: Mapping[str, str],
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._url = url
        self._deliver = deliver
        self._headers = {**headers, "Content-Type": "application/json"}
        self._trust = trust
        self._asked: SimpleQueue[Claim | None] = SimpleQueue()
        self._failed = self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, claim: Claim) -> None:
        """Ask in the background; from one thread only."""
        if self._closed:
            return
        self._asked.put(claim)
        if self._thread is None:
            thread = threading.Thread(
                target=self._run, name="headgate-claims", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # the process has no more threads, or ends
                log.warning("no limit is asked for: %s", error)
            else:
                self._thread = thread

    def close(self) -> None:
        """Ask no more."""
        self._closed = True
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (claim := self._asked.get()) is not None:
            keys = sorted(claim.limits)
            for first in range(0, len(keys), MOST_LIMITS):
                if not self._closed:
                    self._ask(claim, keys[first : first + MOST_LIMITS])

    def _ask(self, claim: Claim, keys: list[tuple[str, int]]) -> None:
        """Ask about some limits, and deliver what is granted or told."""
        limits = [{"group": group, "dimension": what} for what, group in keys]
        body = json.dumps({"agent": claim.agent, "limits": limits}).encode()
        try:
            granted, levels = self._answer(body)
        except Exception as error:  # the thread goes on, whatever is answered
            if not self._failed:
                log.warning("a limit may start empty: %s", error)
            self._failed = True
            return
        self._failed = False
        for told in levels:
            self._deliver(told)
        if granted & claim.limits:
            self._deliver(Granted(granted & claim.limits, claim.asked_at_s))

    def _answer(self, body: bytes) -> tuple[frozenset[tuple[str, int]], list[Restored]]:
        """Return what the API grants, and the levels that it tells.

        Raises:
            NoAnswer: The API did not answer.
            MalformedSnapshot: It answered something else.
            ValueError: The certificates that the environment names are wrong.
        """
        connection = Connection(self._url, trust=self._trust, timeout_s=ANSWER_S)
        try:
            answer = connection.send(
                "POST", PATH, headers=self._headers, body=body, timeout_s=ANSWER_S
            )
        finally:
            connection.close()
        if not answer.is_success:
            raise NoAnswer(f"{PATH}: {answer.status}: {beginning_of(answer.body)}")
        document = document_of(answer.body, PATH)
        granted = frozenset(
            (place["dimension"].text(), place["group"].integer(least=1))
            for place in JsonPlace.top(document).items("granted")
        )
        return granted, levels_of(document)
