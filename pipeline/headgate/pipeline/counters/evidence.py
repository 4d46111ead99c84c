"""What a message must show before anything is billed for it.

Agents refuse the same messages or more (docs/reference/reports.md): a report is read
through the agents' codec, must be whole (a checksum), must be signed where keys are
given, and must not come from a life whose counters are final.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.bus.signed import Signing, speaks_for, split
from headgate.agent.errors import BusUnavailable, MalformedReport
from headgate.agent.wire.checksum import stripped
from headgate.agent.wire.codec import EXACT, decode
from headgate.pipeline.settings import WrongSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from headgate.agent.json_place import Json
    from headgate.coordinator.messages.report import Report

    Marks = NDArray[np.uint64]


def signing_of(keys: str) -> Signing | None:
    """Return what verifies reports.

    Args:
        keys: As in the agents' option ``report_keys``: a list of keys, or a mapping
            from the id of an agent to its public key or keys, in JSON; or keys, one
            per line.  Empty for none.

    Raises:
        WrongSettings: They have another form.
    """
    if not keys:
        return None
    try:
        is_json = keys.lstrip().startswith(("{", "["))
        lines: list[Json] = [*keys.split()]
        accepted: Json = json.loads(keys) if is_json else lines
        return Signing.of({"report_keys": accepted})
    except (ValueError, BusUnavailable) as error:
        raise WrongSettings(f"report-keys: {error}") from None


def checked(payload: bytes, signing: Signing | None) -> Report:
    """Return the report that a message holds.

    Raises:
        MalformedReport: It can't be evidence; says why.
    """
    if stripped(payload) is payload:
        raise MalformedReport("no checksum: it may have been cut short")
    verdict = None
    if signing is not None:
        parts = split(payload, signing.keyring.sizes)
        if parts is None:
            raise MalformedReport("signature: the report is not signed")
        verdict = signing.keyring.verify(*parts)
        if verdict is None:
            raise MalformedReport("signature: forged, or made with an unknown key")
    report = decode(payload)
    if not speaks_for(verdict, report.agent):
        raise MalformedReport(f"signature: its key may not sign for {report.agent!r}")
    for rows in report.rows:
        # No agent writes more; sums of such numbers are no longer whole.
        largest = max(rows.refused.max(initial=0.0), rows.admitted.max(initial=0.0))
        if largest > EXACT:
            raise MalformedReport(
                f"{rows.dimension}: expected counters ≤ 2⁵³, got {largest:.4g}"
            )
    return report


def mark_of(agent: str, incarnation: int) -> int:
    """Return 64 bits that stand for one life."""
    name = f"{agent}\0{incarnation}".encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLives:
    """The lives whose counters are final: 8 bytes each.

    Attributes:
        marks: ``uint64[N]`` from `mark_of`, ascending.
    """

    marks: Marks

    @classmethod
    def of(cls, lives: Iterable[tuple[str, int]]) -> ClosedLives:
        """Return the marks of ``(agent, incarnation)`` pairs."""
        found = {mark_of(agent, incarnation) for agent, incarnation in lives}
        return cls(np.array(sorted(found), np.uint64))

    def joined(self, other: ClosedLives) -> ClosedLives:
        """Return the lives of both."""
        return ClosedLives(np.union1d(self.marks, other.marks))

    def __contains__(self, life: tuple[str, int]) -> bool:
        mark = np.uint64(mark_of(*life))
        place = int(np.searchsorted(self.marks, mark))
        return place < len(self.marks) and bool(self.marks[place] == mark)
