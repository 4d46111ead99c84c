"""What this agent reports to the others, and its memory of what it has reported."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator.allocation.turns import LEAD_COSTS
from headgate.coordinator.allocation.window import UNSURE_LAGS, note_told
from headgate.coordinator.gossip.schedule import Extrapolation
from headgate.coordinator.messages.events import Publish
from headgate.coordinator.messages.report import Report
from headgate.coordinator.table.one_or_many import chosen, single

if TYPE_CHECKING:
    from headgate.coordinator.demand.local_buckets import LocalBuckets
    from headgate.coordinator.messages.report import Rows
    from headgate.coordinator.state import CoordinatorState
    from headgate.coordinator.table.arrays import Floats
    from headgate.coordinator.table.index import Place

STARVED_S = 0.25
"""How often an agent that others are far ahead of tells its level, seconds."""

NEW_KEYFRAMES = 1.5
"""A ledger counts as new, and its age is reported, until this many times the interval
of reports of all rows have passed, without counting a time in which nobody was heard:
nobody can then have missed it for want of one."""

LEAST_AGE_S = 1e-6
"""Age of a ledger that was opened just now; 0 would mean that it is an old one."""


def report_due(
    state: CoordinatorState, local: LocalBuckets, now: float
) -> list[Publish]:
    """Return the report that is due now, if one is."""
    if not state.schedule.may_speak(now, local):
        return []
    outlook = _outlook(state, local, now)
    picked = state.schedule.choose(local, now, outlook, state.members.loss)
    if picked is None:
        return []
    picked = local.with_ancestors(picked)
    columns = _optional(state, local, now)
    wanted = local.wanted & picked
    demand, beyond = local.tell(picked, outlook.at_once)
    told = local.rows_to_report(picked, demand, beyond, **columns)
    report = _report(state, told, now)
    if state.bootstrap:
        told_own = local.numbers[picked], local.admitted[picked]
        state.bootstrap.asked(report.sequence, *told_own, now)
    state.members.published(report.sequence, now)
    unsure_s = UNSURE_LAGS * state.members.lag_s
    for place in local.places:
        sent = picked[place.rows]
        if not np.count_nonzero(sent):
            continue
        block = place.block
        slots = block.slots[place.slots][sent]
        rows = local.positions[place.rows][sent]
        admitted, demand = local.sent_admitted[rows], local.sent_demand[rows]
        note_told(block, slots, admitted, demand, now, state.members.lag_s)
        block.dirty[slots] = True
        # Who asked for a row wants its level, too: tell that once it is sure.
        joined_at = block.joining_until[slots]
        unsure = (joined_at > now - unsure_s) & (joined_at < inf) & wanted[rows]
        state.owe_rows(block.number[slots][unsure], now + unsure_s)
    return [Publish(report)]


def _outlook(state: CoordinatorState, local: LocalBuckets, now: float) -> Extrapolation:
    """Return how the others extrapolate each row until they hear of it again."""
    if local.places and len(local.names) == 1:
        return _extrapolated(state, local, local.places[0], now)
    size = len(local.names)
    found = Extrapolation._make([*np.zeros((6, size)), *np.zeros((2, size), np.bool_)])
    for place in local.places:
        here = _extrapolated(state, local, place, now)
        for column, values in zip(found, here, strict=True):
            column[place.rows] = values
    return Extrapolation._make(column[local.all] for column in found)


def _extrapolated(
    state: CoordinatorState, local: LocalBuckets, place: Place, now: float
) -> Extrapolation:
    """Return that for the rows of one place, as numbers if there is one row."""
    block, slots, rows = place.block, single(place.slots), single(place.rows)
    rho = block.extrapolated_rate[0, slots]
    expected = block.predicted[0, slots] + rho * (now - block.at[slots])
    # An unlimited ledger has no shares, so nothing is urgent there.
    free = block.unlimited[slots]
    rate = chosen(free, inf, block.rate[slots])
    quiet_s = chosen(free, state.settings.interval_s, block.quiet_s[slots])
    at_once = block.at_once[0, slots] & ~free
    behind = block.lead[slots] <= -LEAD_COSTS * block.cost[0, slots]
    return Extrapolation(
        off=local.admitted[rows] - local.sent_admitted[rows] - expected,
        unsure=block.swung[slots] * state.age_s,
        theta=block.theta[slots] * state.settings.weight,
        quota=rate / block.agents[slots],
        extrapolated_rate=rho,
        quiet_s=quiet_s,
        at_once=at_once,
        starved=at_once & behind & (block.row_reported_at[slots] < now - STARVED_S),
    )


def _optional(
    state: CoordinatorState, local: LocalBuckets, now: float
) -> dict[str, Floats | None]:
    """Return the columns of rows that may be absent, ``float64[N]``.

    E is NaN for ledgers of which it is unsure.  What is used inside each row's group is
    left out if all are 0.
    """
    settings = state.settings
    within_s = NEW_KEYFRAMES * settings.keyframe_every * settings.interval_s
    new_from = state.detector.unheard_from(now, within_s)
    unsure_s = UNSURE_LAGS * state.members.lag_s
    # What others spent while this agent heard nothing comes with their reports.
    sure = not (state.detector.cut_off(now) or state.detector.missing(now))
    level, inside, age_s, told_s, before = np.zeros((5, len(local.names)))
    for place in local.places:
        block, slots, at = place.block, place.slots, place.rows
        others = block.outflow[slots] - block.extrapolated_rate[0, slots]
        grown = (block.rate[slots] - others) * (now - block.at[slots])
        believed = np.minimum(block.belief[slots] + grown, block.burst[slots])
        unsure = block.joining_until[slots] > now - unsure_s
        level[at] = np.where(unsure, nan, believed)
        so_long_s = np.maximum(now - block.begun_at[slots], LEAST_AGE_S)
        new = block.begun_at[slots] >= new_from
        age_s[at] = np.where(new, so_long_s, 0.0)
        ago_s = np.maximum(now - block.told_at[slots], LEAST_AGE_S)
        told_s[at] = np.where(new, ago_s, 0.0)
        before[at] = np.where(new, block.begun_admitted[slots], 0.0)
        if state.limits.children:
            inside[at] = block.inside[0, slots]
    if state.members.hears_late(now):  # who asked has no better answer
        level[~local.wanted] = nan
    return {
        "level": level if sure else None,
        "inside": inside if inside.any() else None,
        "age_s": age_s,
        "told_s": told_s,
        "before": before,
    }


def last_report(state: CoordinatorState, now: float) -> list[Publish]:
    """Return the last report: final counters, levels, and all permits given away.

    An observer has nothing to say.
    """
    if state.observing:
        return []
    local = state.local
    rows: tuple[Rows, ...] = ()
    if local is not None:
        every = local.numbers >= 0
        columns = _optional(state, local, now)
        rows = local.rows_to_report(every, local.usable, local.beyond, **columns)
    state.schedule.hello = False
    state.strict.leave(now)
    return [Publish(_report(state, rows, now, leave=True))]


def _report(
    state: CoordinatorState, rows: tuple[Rows, ...], now: float, *, leave: bool = False
) -> Report:
    """Make the report that is sent now."""
    schedule = state.schedule
    schedule.sequence += 1
    report = Report(
        cluster=state.settings.cluster,
        agent=state.agent,
        incarnation=state.incarnation,
        sequence=schedule.sequence,
        sent_at_s=state.wall_s,
        revision=state.limits.revision,
        hello=schedule.hello,
        leave=leave,
        keyframe=schedule.answer,
        rows=rows,
        permits=state.strict.permits(now, whole=leave or schedule.answer),
        weight=state.settings.weight,
        interval_s=state.settings.interval_s,
    )
    schedule.sent(now)
    return report
