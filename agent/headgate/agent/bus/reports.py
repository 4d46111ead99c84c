"""Reports on a bus: encoded and split on the way out, checked and joined on the way in.

Between the agent's thread, which knows reports, and a `Bus`, which carries bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.bus.partitions import Joiner, PartitionPlan, cut
from headgate.agent.bus.signed import speaks_for
from headgate.agent.errors import MalformedReport
from headgate.agent.wire.codec import decode, encode
from headgate.coordinator.config.template_values import VALUES_FROM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from headgate.agent.bus.port import Bus, Message
    from headgate.agent.once_log import OnceLog
    from headgate.coordinator import Report


GROUPS_MAX = 1 << 24
"""Largest group id by which rows can be filtered: a table of 16 MB."""


class ReportBus:
    """A bus for reports, used by the thread of an agent.

    Args:
        bus: Carries the bytes.
        log: Counts and logs what is dropped.
        everything: Read all partitions whatever is used, as an observer does.
    """

    def __init__(self, bus: Bus, log: OnceLog, *, everything: bool = False) -> None:
        self.bus = bus
        self._log = log
        self._plan = PartitionPlan(bus.partitions)
        self._joiner = Joiner()
        self._everything = everything
        self._written: frozenset[int] = self._plan.all
        self._read: frozenset[int] = self._plan.all
        self._asked = True
        self._groups = np.zeros(0, np.int64)
        self._used: NDArray[np.bool_] | None = None
        if bus.partitions > 1 and not everything:
            self._go_over(self._plan.of(self._groups))

    @property
    def reads(self) -> frozenset[int]:
        """The partitions that are read."""
        return self._read

    def use(self, group_ids: NDArray[np.int64]) -> None:
        """Read the rows and partitions of these groups, and no others.

        The lobby is always read.  Once a new partition is being read, the next report
        asks the agents that write there for all their rows.

        Args:
            group_ids: ``int64[N]``; the same array means the same groups.
        """
        if group_ids is self._groups:
            return
        self._groups = group_ids
        self._used = used_of(group_ids) if not self._everything else None
        if self.bus.partitions == 1:
            return
        partitions = self._plan.of(group_ids)
        if partitions != self._written:
            self._go_over(partitions)

    def _go_over(self, partitions: frozenset[int]) -> None:
        """Write to these partitions, and read them unless all are read anyway."""
        self._written = partitions
        if self._everything:
            return
        self._asked &= not partitions - self._read
        self._read = partitions
        self.bus.read(partitions)

    def publish(self, report: Report) -> None:
        """Send a report, in one part for each partition that it touches."""
        ask = not self._asked and self.bus.reads(self._read)
        self._asked |= ask
        for partition, part in cut(report, self._plan, self._written, hello=ask):
            self.bus.publish(encode(part), partition)
        self._log.counters["reports_published"] += 1

    def receive(self, timeout_s: float) -> Iterator[tuple[Report, float]]:
        """Yield each report received, and the wall clock at its arrival."""
        messages = self.bus.receive(self._joiner.wait_s(timeout_s))
        if not messages and not self._joiner.waits:
            return
        for message in messages:
            report = self._checked(message)
            if report is not None:
                self._joiner.put(report, message.received_wall_s, self._read)
        for report, received_wall_s in self._joiner.take():
            self._log.counters["reports_heard"] += 1
            yield report, received_wall_s

    def _checked(self, message: Message) -> Report | None:
        """Return the report in a message, None if it must not be heard."""
        try:
            report = decode(message.payload, self._used)
        except MalformedReport as error:
            self._log.note("malformed_report", f"dropped: {error}")
            return None
        if not speaks_for(message.signer, report.agent):
            owner = message.signer and message.signer.owner
            sentence = f"dropped: signed by {owner!r} in the name of {report.agent!r}"
            self._log.note("forged_report", sentence, about=str(owner))
            return None
        return report


def used_of(group_ids: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Return ``bool[N]`` by group id, the last for all larger ids; None if too long.

    The ids of single values are digests, and no table can be that long: if there are
    any among the groups, the last one is True, and their rows are looked for later.
    """
    small = group_ids[group_ids < VALUES_FROM]
    most = int(small.max(initial=0))
    if most >= GROUPS_MAX:
        return None
    used = np.zeros(most + 2, dtype=np.bool_)
    used[small] = True
    used[-1] = len(small) < len(group_ids)
    return used
