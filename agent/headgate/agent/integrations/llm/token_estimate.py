"""How many tokens a call to a language model will cost, learnt from those before it.

The prompt's tokens are nearly proportional to its characters (about four to a token in
English, one in Chinese), the answer's length is that of other answers.  Both are
running averages for each model; counting with the model's own tokenizer would cost
milliseconds a call, and still not know the answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

FIRST_TOKENS_PER_CHARACTER = 0.25
"""Before anything was settled: English prose."""

FIRST_ANSWER_TOKENS = 256.0
"""Before anything was settled: a few paragraphs."""

WEIGHT = 0.1
"""Weight of the newest call in the running averages: ten make up most of it."""

MOST_MODELS = 10_000
"""Models whose averages are kept; a client can make up names."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What a call has cost, tokens.

    Attributes:
        prompt: Read.
        answer: Written.
    """

    prompt: float
    answer: float

    @property
    def total(self) -> float:
        """All tokens."""
        return self.prompt + self.answer


class TokenEstimates:
    """Running averages by model; thread-safe."""

    def __init__(
        self, *, first_answer: float = FIRST_ANSWER_TOKENS, weight: float = WEIGHT
    ) -> None:
        """Start without averages.

        Args:
            first_answer: Tokens of a model's first answer.
            weight: Weight of the newest call in the averages, in (0, 1].
        """
        self._first_answer = first_answer
        self._weight = weight
        self._lock = threading.Lock()
        self._models: dict[str, tuple[float, float]] = {}

    def of(self, model: str, characters: int, most_answer: float | None) -> TokenUsage:
        """Return what a call will probably cost.

        Args:
            model: As the caller names it.
            characters: Length of the prompt.
            most_answer: Tokens that the caller lets the answer have; None for no bound.
        """
        per_character, answer = self._models.get(model, self._first())
        if most_answer is not None:
            answer = min(answer, most_answer)
        return TokenUsage(max(per_character * characters, 1.0), answer)

    def note(self, model: str, characters: int, actual: TokenUsage) -> None:
        """Add an actual cost to the averages."""
        with self._lock:
            per_character, answer = self._models.pop(model, self._first())
            if characters > 0:
                seen = actual.prompt / characters
                per_character += self._weight * (seen - per_character)
            answer += self._weight * (actual.answer - answer)
            while len(self._models) >= MOST_MODELS:
                del self._models[next(iter(self._models))]
            self._models[model] = (per_character, answer)

    def _first(self) -> tuple[float, float]:
        return FIRST_TOKENS_PER_CHARACTER, self._first_answer
