"""A cluster of twelve agents that is made up, and all that a topic can do to reports.

Counters are drawn at random, requests in whole units and tokens in thousandths; `truth`
says in plain Python what the tables must hold.  Nothing here knows the pipeline.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from headgate.agent.follow.snapshot import configuration_to_json
from headgate.agent.wire.codec import encode
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)
from headgate.coordinator.messages.report import Report, Rows

if TYPE_CHECKING:
    from pathlib import Path

MIDNIGHT_MS = 1_760_054_400_000
"""2025-10-10, 00:00 UTC: half of the recording is of the day before."""

BEGIN_MS = MIDNIGHT_MS - 90_000

END_S, EVERY_S = 180.0, 2.0

CLUSTER, OTHER_CLUSTER = "west", "east"

AGENTS, GROUPS = 12, 15

UNKNOWN_GROUP = 13
"""Used, but in no configuration."""

SWITCHED_S = 95.0
"""When agents go over from revision 5 to 6, which lowers the rate of group 6."""

Counted = dict[str, dict[int, tuple[Fraction, Fraction]]]
"""Refused and admitted since a life began, by dimension and group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one report says; `held` is that of all its rows."""

    agent: str
    life: int
    sequence: int
    at_ms: int
    revision: int
    weight: float
    leave: bool
    held: int
    counted: Counted


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of the topic; `wrong` are words of why it is no report at all."""

    second: float
    value: bytes
    told: Told | None
    wrong: str = ""


LIVES: dict[int, list[tuple[float, float, bool]]] = {
    2: [(0, 50, False), (58, END_S, False)],
    5: [(0, 70, False), (71, 120, False), (130, END_S, False)],
    7: [(0, 90, True)],
    8: [(0, 100, False)],
    10: [(40, END_S, False)],
}
"""Seconds from which until which an agent lives, and whether it says goodbye: those of
other agents last from begin to end."""

LATE_COMER, PARTITIONED, SET_BACK = 9, 4, 6
"""Agents: first heard at its 60th report; heard of late from second 50 to 85; with a
clock that is set back by five seconds."""


FINEST = {"requests": 1, "tokens": 1_000}
"""Parts of a unit that are counted, by dimension."""

NOTHING = Fraction(0)


def subjects_of(group: int) -> int:
    return 1 + group % 3


def weight_of(agent: int) -> float:
    return float(1 + agent % 3)


def name_of(agent: int) -> str:
    return f"agent-{agent:02}"


def configurations() -> list[Configuration]:
    """Revisions 5 and 6: limits of all groups but two, and whose they are."""

    def limits(group: int, part: float = 1.0) -> tuple[Limit, ...]:
        rate = (20.0 + 10 * group) * part
        requests = Limit(dimension="requests", rate=rate, burst=50.0)
        tokens = Limit(dimension="tokens", rate=15.0, burst=100.0)
        return (requests, tokens) if group <= 3 else (requests,)

    known = [g for g in range(1, GROUPS + 1) if g != UNKNOWN_GROUP]
    groups = {
        g: Group(id=g, name=f"group {g}", limits=limits(g) if g < GROUPS else ())
        for g in known
    }
    owners = {
        "acme": range(1, 6), "globex": range(6, 12), "initech": (11, 14, 15)
    }  # fmt: skip
    attached = tuple(
        Attachment(subject=(("namespace", f"{tenant}/{group}"),), group=group)
        for tenant, of in owners.items()
        for group in of
    )
    later = groups | {6: replace(groups[6], limits=limits(6, 0.05))}
    return [
        Configuration(
            revision=revision,
            cluster=CLUSTER,
            groups=tuple(of.values()),
            attachments=attached,
        )
        for revision, of in ((5, groups), (6, later))
    ]


def write_history(path: Path) -> None:
    """Write what was decided as the pipeline's ``--history`` takes it."""
    lines = [json.dumps(configuration_to_json(each)) for each in configurations()]
    path.write_text("\n".join(lines) + "\n")


def encoded(told: Told, cluster: str = CLUSTER) -> bytes:
    rows: list[Rows] = []
    for dimension, counted in told.counted.items():
        ids = sorted(counted)
        size = len(ids)
        rows.append(
            Rows(
                dimension=dimension,
                group_ids=np.array(ids, np.int64),
                refused=np.array([counted[g][0] for g in ids], np.float64),
                admitted=np.array([counted[g][1] for g in ids], np.float64),
                demand=np.zeros(size),
                held=np.full(size, float(told.held)),
                cost=np.ones(size),
                subjects=np.array([subjects_of(g) for g in ids], np.int64),
            )
        )
    return encode(
        Report(
            cluster=cluster,
            agent=told.agent,
            incarnation=told.life,
            sequence=told.sequence,
            sent_at_s=told.at_ms / 1e3,
            revision=told.revision,
            leave=told.leave,
            weight=told.weight,
            rows=tuple(rows),
        )
    )


def generated(seed: int) -> list[Sent]:
    """Return the messages of the topic in their order."""
    random = Random(seed)
    sent: list[Sent] = []
    for agent in range(AGENTS):
        for number, span in enumerate(LIVES.get(agent, [(0, END_S, False)]), start=1):
            life = _life(random, agent, number, span)
            sent += _on_the_way(random, agent, life)
    sent += _foreign(random)
    begin_s = BEGIN_MS / 1e3
    for second, junk in ((20, b""), (75, b"\xff\xfe rubbish"), (130, b"x" * 3000)):
        sent.append(Sent(begin_s + second, junk, None))
    return sorted(sent, key=lambda each: each.second)


def _life(
    random: Random, agent: int, number: int, span: tuple[float, float, bool]
) -> list[Told]:
    """Return all reports of one life."""
    begin_s, end_s, goodbye = span
    totals = {
        "requests": dict.fromkeys(
            random.sample(range(1, GROUPS + 1), 8), (NOTHING, NOTHING)
        ),
        "tokens": {g: (NOTHING, NOTHING) for g in (1, 2, 3) if agent % 2 == 0},
    }
    sequence, told = 59 if agent == LATE_COMER else 0, list[Told]()
    if sequence:
        totals["requests"] = dict.fromkeys(
            totals["requests"], (Fraction(70), Fraction(7_000))
        )
    moment_s = begin_s + 0.137 * agent
    while moment_s < end_s:
        _use(random, agent, totals)
        sequence += 1
        ends = goodbye and moment_s + EVERY_S >= end_s
        clock_s = moment_s - 5.0 * (agent == SET_BACK and moment_s > 100)
        told.append(
            Told(
                agent=name_of(agent),
                life=1_000 * agent + number,
                sequence=sequence,
                at_ms=BEGIN_MS + round(clock_s * 1e3) + random.randrange(200),
                revision=5 + (moment_s > SWITCHED_S),
                weight=weight_of(agent),
                leave=ends,
                held=random.randrange(40),
                counted=_shown(random, totals, whole=ends or sequence % 10 == 1),
            )
        )
        moment_s += EVERY_S
    return told


def _use(random: Random, agent: int, totals: Counted) -> None:
    """Let the callers use something of each group."""
    for dimension, counted in totals.items():
        parts = FINEST[dimension]
        for group, (refused, admitted) in counted.items():
            wanted = Fraction(random.randrange(1, 60 * parts), parts)
            # Every third group is contended, and not fairly.
            part = random.uniform(0.1, 1) / (1 + agent % 2) if group % 3 == 0 else 1.0
            granted = Fraction(round(wanted * part * parts), parts)
            counted[group] = refused + wanted - granted, admitted + granted


def _shown(random: Random, totals: Counted, *, whole: bool) -> Counted:
    """Return the rows that one report carries."""
    part = 1.0 if whole else 0.7
    shown = {
        dimension: {g: v for g, v in counted.items() if random.random() < part}
        for dimension, counted in totals.items()
    }
    return {dimension: counted for dimension, counted in shown.items() if counted}


def _on_the_way(random: Random, agent: int, told: list[Told]) -> list[Sent]:
    """Lose, double, delay and falsify the reports of one life."""
    sent: list[Sent] = []
    for report in told:
        # The clock that was set back is wrong by far less than this matters.
        second = report.at_ms / 1e3 + random.uniform(0.005, 0.04)
        since_s = (report.at_ms - BEGIN_MS) / 1e3
        message = Sent(second, encoded(report), report)
        if report is not told[-1] and random.random() < 0.15:
            continue
        if agent == PARTITIONED and 50 < since_s < 85:
            message = replace(message, second=BEGIN_MS / 1e3 + 85 + since_s / 100)
        elif random.random() < 0.05:
            message = replace(message, second=second + random.uniform(3, 12))
        sent.append(message)
        if random.random() < 0.05:
            again = message.second + random.uniform(0, 3)
            sent.append(replace(message, second=again))
    if agent == 1:
        sent[40] = _fallen(sent[40])
    if agent == 2 and told[0].life == 2_001:
        # Long after its end, when its counters are final.
        ghost = replace(told[-1], sequence=told[-1].sequence + 1)
        late_s = BEGIN_MS / 1e3 + 172
        sent.append(Sent(late_s, encoded(ghost), ghost))
    if agent == 3:
        sent.append(_forged(sent[50]))
        cut = sent[60]
        sent.append(Sent(cut.second, cut.value[:-10], None, "no checksum"))
    return sent


def _forged(message: Sent) -> Sent:
    """Return a report that would silence its sender for ever."""
    assert message.told is not None
    told = replace(message.told, sequence=1 << 40)
    return Sent(message.second + 0.5, encoded(told), told)


def _fallen(message: Sent) -> Sent:
    """Return a report in which the counters of one group have fallen."""
    assert message.told is not None
    counted = dict(message.told.counted["requests"])
    group = min(counted)
    refused, admitted = counted[group]
    counted[group] = refused, Fraction(admitted // 4)
    told = replace(
        message.told, counted=message.told.counted | {"requests": counted}
    )  # fmt: skip
    return Sent(message.second, encoded(told), told)


def _foreign(random: Random) -> list[Sent]:
    """Return reports of another cluster, whose agents have the same names."""
    sent: list[Sent] = []
    for sequence in range(1, 19):
        told = Told(
            agent=name_of(sequence % 2),
            life=7,
            sequence=sequence,
            at_ms=BEGIN_MS + 10_000 * sequence,
            revision=1,
            weight=1.0,
            leave=False,
            held=0,
            counted={"requests": {1: (NOTHING, Fraction(random.randrange(99)))}},
        )
        value = encoded(told, OTHER_CLUSTER)
        sent.append(Sent(told.at_ms / 1e3, value, None, "cluster 'east'"))
    return sent
