"""The painter: a thread that looks at the cluster each second, as an observer.

It hears the same reports as the agents and keeps the same ledgers, so a page shows
what agents compute.  No failure in here may end it or affect a request.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import nan

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.agent.follow.snapshot import (
    Snapshot,
    snapshot_from_changes,
    snapshot_from_json,
)
from headgate.agent.follow.stored_levels import restored
from headgate.agent.observer import AgentUse as ObservedPart
from headgate.agent.observer import LimitUse, Observer, Sight
from headgate.api.levels.service import IN_USE, LEAST_PERIOD_S, Key, load, save
from headgate.api.live.snapshot import (
    AgentSeen,
    ClusterSnapshot,
    InFlight,
    LiveAgentUse,
    Use,
)
from headgate.api.observing.observing import Observing
from headgate.api.snapshot.service import changes_document, group_documents
from headgate.api.store import Store
from headgate.api.store.tables import StateRow
from headgate.api.store.transactions import current_revision
from headgate.coordinator.config.configuration import NOMINAL_PERIOD_S
from headgate.coordinator.explain.views import MemberView

INTERVAL_S = 1.0
"""Between two pictures: as fast as an eye follows, as often as agents report."""

SAVE_EVERY = 5
"""Pictures from one saving of levels to the next: a server that is killed
forgets at most 5 s of an hourly quota's use."""

LISTENS_S = 0.01
"""Time between two checks whether the bus is open."""

CLOSE_S = 10.0
"""Time for the thread to end; it waits for nothing longer than one look."""

_log = logging.getLogger(__name__)


class GroupsOnly:
    """The newest snapshot without attachments, which an observer has no use for."""

    def __init__(self, store: Store, fixed: Mapping[str, object]) -> None:
        """Read `store`; `fixed` are the members `bus` and `report`."""
        self._store = store
        self._fixed = dict(fixed)
        self._newest: Snapshot | None = None

    def __call__(self) -> Snapshot:
        """Return it, the same object while the revision is the same."""
        with self._store.reading() as session:
            newest, revision = self._newest, current_revision(session)
            if newest and newest.configuration.revision == revision:
                return newest
            changed = newest and changes_document(
                session, newest.configuration.revision
            )
            if newest and changed:
                changed.update(self._fixed, attachments=[], detached=[])
                self._newest = snapshot_from_changes(newest, changed)
            else:
                self._newest = snapshot_from_json(self._whole(session))
        return self._newest

    def _whole(self, session: Session) -> dict[str, object]:
        state = session.scalars(select(StateRow)).one()
        return {
            "revision": state.revision,
            "cluster": state.cluster,
            "groups": group_documents(session),
            "attachments": [],
            **self._fixed,
        }


class Sampler:
    """Looks each second and passes pictures to `see`; leaving the context ends it."""

    def __init__(
        self,
        source: Callable[[], Snapshot | None],
        observing: Observing,
        store: Store,
    ) -> None:
        """Join the bus that `source` names; keep levels of long limits in `store`."""
        self._source = source
        self._store = store
        self._observing = observing
        self._number = 0
        self._presence: dict[str, object] | None = None
        self._in_use: set[Key] = set()
        self._failures: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="headgate-painter", daemon=True
        )

    def __enter__(self) -> "Sampler":
        self._observing.begins()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        with Observer(self._newest_snapshot) as observer:
            self._restore(observer)
            self._observing.observer = observer
            # Until it listens, no limit may be reported as full.
            while not observer.listening and self._observing.may_yet_listen():
                if self._stopping.wait(LISTENS_S):
                    break
            due_s = time.monotonic()
            while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
                # Don't catch up: after a slow look the next is a full pause later.
                due_s = max(due_s + INTERVAL_S, time.monotonic() + INTERVAL_S / 2)
                self._try_to_paint(observer, save_every=SAVE_EVERY)
            # So that what was spent since the last save is not given out again.
            self._try_to_paint(observer, save_every=1)
            self._observing.observer = None

    def _try_to_paint(self, observer: Observer, *, save_every: int) -> None:
        try:
            self._paint(observer, save_every=save_every)
        except Exception as error:
            self._say(error)

    def _paint(self, observer: Observer, *, save_every: int) -> None:
        presence = self._observing.presence
        if presence is not None and presence is not self._presence:
            # Otherwise a killed agent would keep its limits in use for half a minute.
            self._presence = presence
            observer.hear_of(presence)
        sight = observer.look()
        self._number += 1
        picture = painted(sight, number=self._number, at_s=time.time())
        left = observer.left()
        used = {(use.group_id, use.dimension): use for use in picture.uses}
        # Store at once that a limit is in use: it must not be reported as full.
        seen = {key: (used[key], IN_USE) for key in used.keys() - self._in_use}
        if self._number % save_every == 0:
            long = (key for key, use in used.items() if use.period_s >= LEAST_PERIOD_S)
            seen.update((key, (used[key], picture.at_s)) for key in long)
        for limit in left:
            key = limit.group.id, limit.limit.dimension
            seen[key] = _use(limit), picture.at_s
            used.pop(key, None)
        try:
            if seen:
                save(self._store, seen.values())
        finally:
            self._observing.see(picture)
        self._in_use = set(used)
        observer.forget(left)  # whoever asks finds their levels in the store

    def _restore(self, observer: Observer) -> None:
        """Give the observer the levels that were stored before it started."""
        try:
            stored = load(self._store)
        except Exception as error:
            self._say(error)
            return
        now_s = time.time()
        rows = (
            (
                known.group_id,
                known.dimension,
                known.level,
                known.age_s(now_s),
                nan,
                None,
            )
            for known in stored
        )
        for levels in restored(rows):
            observer.restore(levels)

    def _newest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot; None when the database does not answer."""
        try:
            return self._source()
        except Exception as error:
            self._say(error)
            return None

    def _say(self, error: Exception) -> None:
        """Log a kind of failure once; the next look may succeed."""
        kind = type(error).__name__
        if kind not in self._failures:
            self._failures.add(kind)
            _log.exception("the live view has a gap: %s", error)


def painted(sight: Sight, *, number: int, at_s: float) -> ClusterSnapshot:
    """Return what an observer saw as a picture."""
    return ClusterSnapshot(
        at_s=at_s,
        number=number,
        revision=sight.revision or 0,
        uses=tuple(_use(seen) for seen in sight.limits),
        in_flight=tuple(
            InFlight(
                group=group.name,
                group_id=group.id,
                slots=group.slots or 0,
                holders=holders,
            )
            for group, holders in sight.in_flight
        ),
        agents=tuple(_member(member) for member in sight.members),
        lag_s=sight.lag_s,
        bus_open=sight.bus_open,
        partitions=sight.partitions,
        counters=dict(sight.counters),
    )


def _use(seen: LimitUse) -> Use:
    period = seen.limit.period
    return Use(
        group_id=seen.group.id,
        group=seen.group.name,
        dimension=seen.limit.dimension,
        rate=seen.limit.rate,
        period_s=NOMINAL_PERIOD_S[period] if period else seen.limit.period_s,
        period=period,
        burst=seen.limit.burst,
        soft_threshold=seen.group.soft_threshold,
        level=seen.level,
        available_per_s=seen.available_per_s,
        error_units=seen.error_units,
        agents=tuple(_part(row) for row in seen.agents),
    )


def _part(row: ObservedPart) -> LiveAgentUse:
    return LiveAgentUse(
        **{each.name: getattr(row, each.name) for each in fields(LiveAgentUse)}
    )


def _member(member: MemberView) -> AgentSeen:
    return AgentSeen(
        agent=member.agent,
        incarnation=member.incarnation,
        age_s=member.age_s,
        lag_s=member.lag_s,
        loss=member.loss,
        state=member.state,
        revision=member.revision,
    )
