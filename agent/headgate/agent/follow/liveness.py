"""What the API says about which agents live, passed on to the coordinator.

The API sees the agents' watch connections.  When one breaks, the process is gone, long
before its silence on the bus shows it; while one holds, a silent agent is partitioned
rather than dead.  A statement holds as long as the API maintains it: when the API can't
be reached, all its statements are withdrawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.agent.json_place import JsonPlace
from headgate.coordinator import ApiAnswers, Vouched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headgate.coordinator import Granted, Restored

    Word = Vouched | ApiAnswers | Restored | Granted

MAX_AGENTS = 10_000
"""Most agents with a statement; nothing is passed on about further ones."""


class LivenessFeed:
    """What the API last said about each agent's newest life; passes on what changed.

    Args:
        identity: Returns id and incarnation of this agent, which may change.
        deliver: Called with each change, in the thread of the watch.
    """

    def __init__(
        self,
        identity: Callable[[], tuple[str, int]],
        deliver: Callable[[Vouched | ApiAnswers], None],
    ) -> None:
        self._identity = identity
        self._deliver = deliver
        self._version = 0
        self._answers = True
        self._words: dict[str, Vouched] = {}

    def query(self) -> dict[str, str]:
        """Return what a request to the API says about this agent."""
        agent, incarnation = self._identity()
        return {
            "agent": agent,
            "incarnation": str(incarnation),
            "alive": str(self._version),
        }

    def take(self, document: object) -> bool:
        """Pass on what an answer of the API says about the agents.

        Returns:
            Whether the answer says nothing else.

        Raises:
            MalformedSnapshot: Its member ``alive`` is malformed.
        """
        top = JsonPlace.top(document)
        told = top.optional("alive")
        if told is None:
            return False
        version = told["version"].integer(least=0)
        words = {
            (agent := place["agent"].text()): Vouched(
                agent, place["incarnation"].integer(least=0), alive
            )
            for name, alive in (("present", True), ("gone", False))
            for place in told.items(name)[:MAX_AGENTS]
        }
        self._version = version
        self._go_over_to(words)
        return not top["revision"].present

    def answered(self) -> None:
        """Pass on that the API answers, if it didn't before."""
        self._note(answers=True)

    def withdraw(self) -> None:
        """Withdraw every statement: the API can't be reached."""
        self._version = 0
        self._go_over_to({})
        self._note(answers=False)

    def _note(self, *, answers: bool) -> None:
        before, self._answers = self._answers, answers
        if before != answers:
            self._deliver(ApiAnswers(answers))

    def _go_over_to(self, words: dict[str, Vouched]) -> None:
        before, self._words = self._words, words
        own, _ = self._identity()
        for agent in before.keys() | words.keys():
            if agent != own and before.get(agent) != words.get(agent):
                self._deliver(words.get(agent) or replace(before[agent], alive=None))


class LastWords:
    """The last statement about each agent, for a coordinator that starts over."""

    def __init__(self) -> None:
        self._words: dict[str, Vouched | ApiAnswers] = {}

    def __iter__(self) -> Iterator[Vouched | ApiAnswers]:
        """Return the statements in force."""
        return iter(self._words.values())

    def keep(self, word: Word) -> Word:
        """Keep a statement until the next about the same agent; return it."""
        if isinstance(word, ApiAnswers):
            self._words[""] = word
        if isinstance(word, Vouched):
            self._words.pop(word.agent, None)
            if word.alive is not None and len(self._words) < MAX_AGENTS:
                self._words[word.agent] = word
        return word
