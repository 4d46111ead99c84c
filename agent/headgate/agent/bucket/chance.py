"""Numbers for decisions by chance: seeded, fast, the same on every machine."""

WORD = 0xFFFFFFFF
"""The generator works on 32 bits, which stay unboxed integers when compiled."""

UNIT = 1.0 / 4294967296.0
"""From a word to a number in [0, 1)."""


class Chance:
    """A xorshift generator of 32 bits (Marsaglia 2003), period 2^32 - 1.

    Attributes:
        word: The state, never 0, the one state that xorshift does not leave.
    """

    __slots__ = ("word",)

    def __init__(self, seed: int) -> None:
        """Start at a word made of `seed`; near seeds give distant words."""
        self.word: int = (seed * 2654435761 ^ 0x9E3779B9) & WORD or 1

    def draw(self) -> float:
        """Return the next number in [0, 1)."""
        word = self.word
        word ^= (word << 13) & WORD
        word ^= word >> 17
        word ^= (word << 5) & WORD
        self.word = word
        return word * UNIT
