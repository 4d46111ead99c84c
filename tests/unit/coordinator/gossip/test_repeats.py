"""A demand that was told once is told again, in case that report was lost."""

from __future__ import annotations

import numpy as np

from headgate.coordinator.config.constants import Settings
from headgate.coordinator.demand.local_buckets import LocalBuckets
from headgate.coordinator.gossip.schedule import Extrapolation, ReportSchedule
from headgate.coordinator.messages.events import Keys

COLUMNS = Extrapolation(
    off=np.zeros(1),
    unsure=np.zeros(1),
    theta=np.full(1, 10.0),
    quota=np.full(1, 10.0),
    extrapolated_rate=np.full(1, 10.0),
    quiet_s=np.ones(1),
    at_once=np.zeros(1, dtype=np.bool_),
    starved=np.zeros(1, dtype=np.bool_),
)
OUTLOOK = Extrapolation._make(column[0] for column in COLUMNS)
"""One row that the others extrapolate correctly."""


class Sender:
    """An agent with one row, asked for a report at times of the test's choosing."""

    def __init__(self) -> None:
        keys = Keys(("units",), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))
        self.local = LocalBuckets(keys, {("units", 1): []}, {}, 0.0)
        self.local.numbers[:] = 0
        self.schedule = ReportSchedule(Settings(), phase=0.5, now=0.0)

    def tells(self, now: float, loss: float = 0.0) -> bool:
        """Return whether a report leaves that has the row."""
        rows = self.schedule.choose(self.local, now, OUTLOOK, loss)
        if rows is None:
            return False
        self.local.rows_to_report(rows, self.local.usable, self.local.beyond)
        self.schedule.sent(now)
        return bool(rows.any())

    def heartbeats(self, count: int, loss: float = 0.0) -> list[bool]:
        """Return whether each of the next heartbeats has the row."""
        return [self.tells(self.schedule.next_beat, loss) for _ in range(count)]


def test_a_demand_first_told_in_a_keyframe_is_repeated() -> None:
    sender = Sender()
    assert sender.tells(0.0)  # hello
    assert sender.heartbeats(1) == [False]
    sender.local.usable[:] = 6.0
    sender.schedule.owe(1.0, 0.0)
    assert sender.tells(1.0)
    assert sender.heartbeats(3) == [True, False, False]


def test_a_loss_that_is_measured_later_leads_to_more_repeats() -> None:
    sender = Sender()
    assert sender.tells(0.0)
    sender.local.usable[:] = 6.0
    assert sender.tells(0.1)
    assert sender.heartbeats(1) == [True]
    assert sender.heartbeats(3, loss=0.2) == [True, True, False]


def test_rows_that_keyframes_have_carried_since_are_not_repeated() -> None:
    """However much is lost later, an agent does not repeat all rows at once."""
    sender = Sender()
    assert sender.tells(0.0)
    sender.local.usable[:] = 6.0
    assert sender.tells(0.1)
    sender.heartbeats(40)
    assert not any(sender.heartbeats(8, loss=0.3))


def drifted(*, off: float, quota: float = 10.0, quiet_s: float = 1.0) -> list[bool]:
    """Return whether a row is off by more than noise, and so far that it can't wait.

    Its noise is √(10/s · T') units, and heartbeats are a second apart.
    """
    outlook = OUTLOOK._replace(
        off=np.array([off]), quota=np.array([quota]), quiet_s=np.array([quiet_s])
    )
    return [bool(row[0]) for row in outlook.drifted(np.ones(1), interval_s=1.0)]


def test_what_is_far_off_does_not_wait_for_a_heartbeat() -> None:
    assert drifted(off=3.0) == [False, False]
    assert drifted(off=4.0) == [True, False]
    assert drifted(off=9.0) == [True, False]
    assert drifted(off=10.0) == [True, True]
    assert drifted(off=-100.0) == [True, False], "it spent less than expected"


def test_a_tenth_of_the_quota_waits_for_a_heartbeat() -> None:
    """As PIP-82 has it, however little chance explains of it."""
    assert drifted(off=99.0, quota=1000.0) == [True, False]
    assert drifted(off=101.0, quota=1000.0) == [True, True]
    assert drifted(off=1e9, quota=np.inf) == [True, False], "nothing is refused"


def test_where_a_row_may_not_be_old_what_is_off_does_not_wait() -> None:
    assert drifted(off=2.0, quota=1000.0, quiet_s=0.2) == [True, True]
