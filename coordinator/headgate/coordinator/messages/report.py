"""What agents tell each other: cumulative counters, demand, tokens held.

A report is a plain value here; only the agent's codec knows its bytes.  Shapes:
N rows of one dimension, ordered by group id.  Counters only grow within an
incarnation, so a lost, doubled or reordered report loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One dimension's rows of a report: columns of equal length N.

    Attributes:
        dimension: What is counted, such as ``requests``.
        group_ids: ``int64[N]``, strictly increasing.
        refused: ``float64[N]`` units refused since the incarnation began.
        admitted: ``float64[N]`` units admitted since the incarnation began.
        demand: ``float64[N]`` attempted units/s, refused ones included.
        held: ``float64[N]`` tokens in the local bucket; below zero it is a debt.
        level: ``float64[N]`` what the sender believes the ledger holds (E), or
            None where the report does not carry it.
        subjects: ``int64[N]`` limiters (topics, producers) in use, or None.
    """

    dimension: str
    group_ids: NDArray[np.int64]
    refused: NDArray[np.float64]
    admitted: NDArray[np.float64]
    demand: NDArray[np.float64]
    held: NDArray[np.float64]
    level: NDArray[np.float64] | None = None
    subjects: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grants:
    """Rights to strict groups that changed hands: grow-only counters of parts.

    See `headgate.coordinator.escrow.transfer`.  A report carries the sender's own
    gifts, and those of givers that can't tell them any more.

    Attributes:
        dimension: What is counted; with ``__burst`` behind it these are parts of
            the burst, without it parts of the rate.
        group_ids: ``int64[N]``; one group may stand in several rows.
        receivers: N transfers by name: ``agent@life`` is the life of an agent that
            the sender gave to, ``giver>receiver`` names the giver too; nobody
            (``>receiver``) gives what is minted.
        given: ``float64[N]`` handed over in all, ≥ 0, as parts of what was minted
            first, which is 1.
        tokens: ``float64[N]`` units of the burst handed over with them in all, ≥ 0,
            or None where there were none; see `headgate.coordinator.escrow.handover`.
    """

    dimension: str
    group_ids: NDArray[np.int64]
    receivers: tuple[str, ...]
    given: NDArray[np.float64]
    tokens: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """One message of one agent.

    Attributes:
        cluster: Name of the cluster.
        agent: Id of the sender.
        incarnation: Life of the sender; grows with each start.
        sequence: Number of this report within the incarnation, from 1.
        sent_at_s: Sender's wall clock, seconds since the epoch.  Only its
            differences are used: a wall clock may be wrong.
        revision: Revision of the configuration that the sender goes by.
        hello: The sender has just started and asks for everyone's keyframe.
        leave: The sender stops; its share is free at once.
        keyframe: All rows of the sender are here; what is missing is at rest.
        rows: At most one per dimension.
        grants: At most one per dimension.
        weight: Of the sender among all agents, > 0.
        interval_s: The sender's heartbeat T, from which its lease follows.
        part: Which of `parts` this is, on the wire only: what is heard is whole.
        parts: Partitions over which the report was cut; none when it was not.
    """

    cluster: str
    agent: str
    incarnation: int
    sequence: int
    sent_at_s: float
    revision: int = 0
    hello: bool = False
    leave: bool = False
    keyframe: bool = False
    rows: tuple[Rows, ...] = ()
    grants: tuple[Grants, ...] = ()
    weight: float = 1.0
    interval_s: float = 1.0
    part: int = 0
    parts: tuple[int, ...] = ()
