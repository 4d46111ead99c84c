"""All local enforcement of one process: limiters, buckets, the live configuration.

The agent's thread calls `configure`, `counts` and `apply`; callers hold limiters.  The
enforcer's lock guards the registry.  An attempt takes it only when it is the first of
its dimension after a change, to resolve the limiter's chain.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack, get_args
from weakref import WeakSet, WeakValueDictionary

from headgate.agent.bucket.chain import Chain, Link
from headgate.agent.decision import LimitName
from headgate.agent.enforcement.bucket_registry import Registry, unconfigured
from headgate.agent.enforcement.common_levels import LevelOf, note_common_levels
from headgate.agent.enforcement.entity_buckets import EntityBuckets
from headgate.agent.enforcement.limiter_refs import HeldLimiter, LimiterRefs
from headgate.agent.enforcement.policy_buckets import PolicyBuckets
from headgate.agent.enforcement.resolution import Buckets, Resolution
from headgate.agent.enforcement.sampling import KEYS_KEPT, Columns
from headgate.agent.enforcement.soft_threshold import UseOf, warn_above_soft_thresholds
from headgate.agent.enforcement.split import SplitBuckets
from headgate.agent.enforcement.template_groups import TemplateGroups
from headgate.agent.enforcement.unlimited import UnlimitedUses
from headgate.agent.errors import InvalidSetting
from headgate.agent.follow.policies import NO_POLICIES
from headgate.agent.follow.subject import Subject, SubjectNames, resolve_subject
from headgate.agent.limiter.dispatch import Dispatcher, EntryAverages
from headgate.agent.limiter.fair_queue import MOST_WAITERS, FairQueue
from headgate.agent.limiter.reservation import OpenReservations
from headgate.agent.limiter.slots import SlotBook, SlotPool
from headgate.coordinator.config.configuration import IN_FLIGHT
from headgate.coordinator.config.configuration import Refusal as RefusalMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headgate.agent.bucket.local import LocalBucket, Usage
    from headgate.agent.enforcement.bucket_registry import BucketKey, FirstTerms
    from headgate.agent.follow.policies import DispatchOptions, Policies
    from headgate.agent.limiter.limiter import Limiter
    from headgate.agent.ports import ChainHolder, Returnable
    from headgate.agent.settings import WithoutConfiguration
    from headgate.coordinator.config.configuration import Configuration, Group
    from headgate.coordinator.messages.events import Counted, SetCeilings, SetSlots

RETAIN_S = 60.0
"""How long a bucket without limiters is kept: a limiter made per request finds its
bucket again, and a tenant that went away costs nothing after a minute."""

MOST_SUBJECTS = 100_000
"""Most subjects whose slots are cached; with more, the cache starts over."""

logger = logging.getLogger("headgate.agent")


class Enforcer:
    """Buckets and limiters of one process, under one configuration.

    Attributes:
        clock: Seconds, monotonic.
        waiting: Where callers wait for tokens.
        slots: Slots in flight.
        use_of: Returns the units/s that the whole cluster attempts under a limit, for
            soft thresholds; without it, an agent sees only its own attempts.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        seed: int = 1,
        without_configuration: WithoutConfiguration = "admit",
        most_waiters: int = MOST_WAITERS,
        strict: bool = False,
    ) -> None:
        """Make an enforcer that knows no configuration yet.

        Args:
            clock: Seconds, monotonic; read once per attempt.
            seed: Seed of the random draws of small quotas.
            without_configuration: What happens to attempts before the first
                configuration.  By default an agent that starts without API and snapshot
                admits everything rather than stop the service.
            most_waiters: Most callers waiting in the queue.
            strict: Raise `NoLimitApplies` for attempts that no limit counts, rather
                than admit them and log a warning.
        """
        self.clock = clock
        self.waiting = FairQueue(clock, most_waiters=most_waiters)
        self._lock = threading.Lock()
        # Held around attempts only if threads may switch between any two lines.
        self._attempt_lock = threading.Lock() if _threads_interleave() else None
        self._asked: set[LocalBucket] = set()
        self._level_of: LevelOf | None = None
        self.slots = SlotBook(clock, lock=self._attempt_lock)
        self._pools: dict[Subject, tuple[SlotPool, ...]] = {}
        self._registry = Registry(seed, first_terms=self._first_terms_of)
        self._policies = PolicyBuckets()
        self._entities = EntityBuckets()
        self._splits = SplitBuckets()
        self._templates = TemplateGroups()
        self._without_value: WeakSet[Limiter] = WeakSet()
        self._entries: WeakValueDictionary[str, EntryAverages] = WeakValueDictionary()
        self._resolution: Resolution | None = None
        self._limiters = LimiterRefs()
        self._reservations = OpenReservations()
        self._columns: list[Columns] = []
        self._stale = True
        self._warning = False
        self._unlimited = UnlimitedUses(strict=strict)
        self._without_configuration = without_configuration
        self._unconfigured = unconfigured(admit=without_configuration == "admit")
        self._said: set[str] = set()
        self._seed = seed
        self._most_waiters = most_waiters
        self._on_first_use: Callable[[], None] | None = None
        self._inherited_debts: tuple[float, Mapping[BucketKey, float]] = 0.0, {}
        self.use_of: UseOf | None = None
        self.first_terms: FirstTerms | None = None

    def share_levels(self, level_of: LevelOf) -> None:
        """Show callers what is left across the whole cluster rather than here.

        Applies to buckets made from now on, so it is called before any limiter is made.

        Args:
            level_of: Returns what is left of a limit, in the agent's thread.
        """
        if self._level_of is None:
            self._registry = Registry(
                self._seed, self._asked, first_terms=self._first_terms_of
            )
        self._level_of = level_of

    def _first_terms_of(
        self, group: Group, dimension: str
    ) -> tuple[float, float] | None:
        return self.first_terms and self.first_terms(group, dimension)

    def limiter(self, **names: Unpack[SubjectNames]) -> Limiter:
        """Return the limiter of a subject: the same object as long as it is in use.

        Args:
            names: Who asks: any of ``tenant``, ``namespace``, ``topic``,
                ``subscription``, ``user`` and ``client``; see `SubjectNames`.

        Raises:
            InvalidSubject: A name can't be resolved, or contradicts another.
        """
        return self._find_or_make(resolve_subject(**names), None)

    def sibling(self, subject: Subject, refusal: RefusalMode | None) -> Limiter:
        """Return the limiter of a subject with a mode of its own."""
        if refusal is not None and refusal not in get_args(RefusalMode):
            raise InvalidSetting(
                f"mode: expected one of {', '.join(get_args(RefusalMode))}, "
                f"got {refusal!r:.40}"
            )
        return self._find_or_make(subject, refusal)

    def dispatcher(self, limiter: Limiter) -> Dispatcher:
        """Return the dispatcher of a limiter: how much may be read under its limits.

        Args:
            limiter: The limiter of a topic, or of a topic and a subscription.
        """
        topic = limiter.subject.topic or ""
        with self._lock:
            entries = self._entries.get(topic)
            if entries is None:
                entries = self._entries[topic] = EntryAverages()
        return Dispatcher(
            limiter,
            clock=self.clock,
            options=lambda: self.dispatch_options,
            entries=entries,
        )

    @property
    def dispatch_options(self) -> DispatchOptions:
        """How dispatch is counted at present."""
        return self._policies.policies.options

    def configure(
        self,
        configuration: Configuration,
        now: float,
        policies: Policies = NO_POLICIES,
        wall_s: float | None = None,
    ) -> None:
        """Adopt a configuration; limiters follow at their next attempt.

        Args:
            configuration: Groups and attachments.
            now: Seconds on the enforcer's clock.
            policies: Rate policies of topics.
            wall_s: The wall clock, by which calendar periods end; read by default.
        """
        calendar_s = (time.time() if wall_s is None else wall_s) - now
        with self._lock, self._attempt_lock or nullcontext():
            self._resolution = Resolution(configuration, self._templates)
            groups = self._resolution.all_groups()
            self._policies.follow(policies, now)
            self._entities.follow(groups, now, calendar_s)
            self._registry.follow(groups, now, calendar_s)
            self._splits.follow(groups, now)
            self._pools = {}
            self._limiters.forget_groups()
            for limiter in self._limiters.all():
                limiter.forget_chains()
                self._limiters.count(limiter, self._prepare(limiter, now))
            self._registry.mark_idle(self._limiters.of_group, now)
            self._stale = self._warning = True
        self.slots.follow(groups)
        self.waiting.nudge()

    def counts(self, now: float) -> Counted:
        """Return the counters of the cluster-scoped buckets of groups in use.

        The `Keys` object is the same as before unless a bucket was added or dropped.
        """
        self._reservations.return_overdue(now)
        with self._lock, self._attempt_lock or nullcontext():
            if self._limiters.forget_gone():
                self._registry.mark_idle(self._limiters.of_group, now)
            dropped = self._registry.drop_idle(now, RETAIN_S)
            if dropped and self._templates:
                self._forget_values(now)
            locals_ = None
            if dropped or self._stale:
                self._stale = False
                locals_ = [x for x in self._registry if x.limit.scope == "cluster"]
        if locals_ is not None:
            # Columns are this thread's alone.  With ten thousand buckets it takes long
            # to make and read them, and a thread that makes a limiter waits for the
            # lock.
            before = self._columns[0] if self._columns else None
            columns = Columns(locals_, before)
            self._columns = [columns, *self._columns[: KEYS_KEPT - 1]]
        with self._lock, self._attempt_lock or nullcontext():
            self._policies.tick(now)
            self._entities.tick(now)
            self._splits.tick(now)
            if self._level_of is not None:
                note_common_levels(self._asked, now, self._level_of)
            if self._warning:
                warn_above_soft_thresholds(
                    self._registry, self._limiters.all(), now, self.use_of
                )
                self._warning = self._warns()
            users = self._limiters.numbers()
        with self._attempt_lock or nullcontext():
            counted = self._columns[0].counted(now, users)
        self._say_once()
        slots = self.slots.counts(users, now)
        return replace(counted, slots=slots) if slots else counted

    def at_rest(self) -> bool:
        """Return whether `counts` would return what it returned last; takes no lock.

        False while anything else depends on the same tick: slots, waiting callers,
        reservations, common levels, soft thresholds, permits of strict groups.
        """
        return (
            not self._stale
            and bool(self._columns)
            and self._columns[0].at_rest
            and not (self._asked or self._warning or self.waiting or self.slots)
            and not self._reservations
        )

    def hold(self, slots: SetSlots) -> None:
        """Set how many slots callers may hold, as the coordinator decided."""
        self.slots.hold(slots)

    def apply(self, ceilings: SetCeilings, now: float) -> None:
        """Set the ceilings of buckets, as the coordinator decided."""
        with self._attempt_lock or nullcontext():
            for columns in self._columns:
                if columns.keys is ceilings.keys:
                    columns.apply(ceilings, now)
                    break
        self.waiting.nudge()

    def start_anew(self, on_first_use: Callable[[], None]) -> None:
        """Start over in a forked child: counters at 0, buckets at their initial rate.

        Everything with a lock is replaced: the parent's threads, which may have held
        the locks, don't exist here to release them.  A bucket that was in debt still
        is, or each of many short children would have a request.

        Args:
            on_first_use: Called once, by the first attempt.
        """
        self._on_first_use = on_first_use
        now = self.clock()
        debts = self._registry.debts(now)
        self._inherited_debts = now, debts
        self.waiting = FairQueue(self.clock, most_waiters=self._most_waiters)
        self._lock = threading.Lock()
        self._seed += 1
        self._asked.clear()
        self._registry = Registry(
            self._seed,
            None if self._level_of is None else self._asked,
            first_terms=self._first_terms_of,
        )
        if self._resolution is not None:
            # A bucket must know the groups above it before anyone asks.
            groups = self._resolution.all_groups()
            self._registry.follow(groups, now, time.time() - now)
        policies, self._policies = self._policies.policies, PolicyBuckets()
        self._policies.follow(policies, now)
        self._entities = EntityBuckets()
        self._splits = SplitBuckets()
        self._reservations = OpenReservations()
        self.slots = SlotBook(self.clock, lock=self._attempt_lock)
        self._pools = {}
        self._columns = []
        self._stale = True
        self._limiters.forget_groups()
        for limiter in self._limiters.all():
            limiter.forget_chains()
            self._limiters.count(limiter, self._prepare(limiter, now))
        self._registry.owe(debts, now)

    def inherited_debts(self, now: float) -> list[tuple[int, str, float, float]]:
        """Return the debts at the fork that can't have been paid since.

        Returns:
            Group id, dimension, level in units, and seconds since then.
        """
        at, debts = self._inherited_debts
        left = self._registry.debts(now)
        return [(*key[:2], debts[key], now - at) for key in debts.keys() & left.keys()]

    def close(self) -> None:
        """Refuse slots from now on: the agent has left the cluster.

        Nobody would give it any, so that callers without a deadline would wait for
        ever.
        """
        self.slots.close()

    def usage(self, now: float | None = None) -> list[Usage]:
        """Return the counters and tokens of each limit in force in this process.

        Args:
            now: Seconds on the enforcer's clock; read from it by default.
        """
        at_s = self.clock() if now is None else now
        with self._lock:
            return [local.usage_at(at_s) for local in self._all()]

    def locals(self) -> list[LocalBucket]:
        """Return all local buckets with their limits."""
        with self._lock:
            return self._all()

    def metrics(self) -> dict[str, float]:
        """Return the counters and sizes of the whole enforcer, by name."""
        with self._lock:
            known = self._resolution
            return {
                "limiters": len(self._limiters),
                "buckets": len(self._registry),
                "policy_buckets": len(self._policies),
                "entity_buckets": len(self._entities),
                "limiters_in_no_group": self._limiters.in_no_group() if known else 0,
                "template_values": len(self._templates),
                "template_values_turned_away": self._templates.refused,
                "groups_in_use": len(self._limiters.of_group),
                "revision": known.configuration.revision if known else 0,
                "attempts_without_configuration": self._unconfigured.bucket.sampled,
                "subjects_in_no_group": self._unlimited.subjects,
                "dimensions_without_limit": self._unlimited.dimensions,
                "attempts_without_cost": self._unlimited.without_cost,
                "attachments_to_unknown_groups": known.unknown_groups() if known else 0,
                "reservations_open": len(self._reservations),
                "reservations_returned": self._reservations.returned,
                "waiting": len(self.waiting),
                "woken": self.waiting.woken,
                "turned_away": self.waiting.turned_away,
                **self.slots.metrics(),
            }

    def resolve(self, limiter: ChainHolder, dimension: str) -> Chain:
        """Build, store and return a limiter's chain of one dimension."""
        if self._on_first_use is not None:
            first_use, self._on_first_use = self._on_first_use, None
            first_use()
        with self._lock:
            known = self._resolution
            if known is None:
                name = LimitName("(no configuration)", dimension, "cluster", "node")
                chain = Chain((Link(name, self._unconfigured),))
            else:
                held = Buckets(
                    self._registry, self._entities, self._policies, self._splits
                )
                chain = known.chain(limiter, dimension, held, self.clock())
                if not chain.links:
                    self._unlimited.note(
                        limiter.subject, dimension, known, self._policies.policies
                    )
            limiter.set_chain(dimension, chain)
            return chain

    def group_id(self, name: str) -> int | None:
        """Return the id of a group, or of a template's value; None if unknown here."""
        with self._lock:
            known = self._resolution
            return None if known is None else known.id_of(name)

    def note_no_cost(self) -> None:
        """Note an attempt that named no cost; raises as `resolve` does."""
        with self._lock:
            self._unlimited.note_no_cost()

    def slot_pools(self, subject: Subject) -> tuple[SlotPool, ...]:
        """Return the pools of slots that apply to a subject."""
        pools = self._pools.get(subject)
        if pools is not None:
            return pools
        if self._on_first_use is not None:
            first_use, self._on_first_use = self._on_first_use, None
            first_use()
        with self._lock:
            known = self._resolution
            if known is None:
                if self._without_configuration == "admit":
                    return ()
                name = LimitName("(no configuration)", IN_FLIGHT, "cluster", "node")
                return (SlotPool(0, name, 1),)
            named = [self.slots.pool_of(*each) for each in known.slot_groups(subject)]
            pools = tuple(pool for pool in named if pool is not None)
            if len(self._pools) >= MOST_SUBJECTS:
                self._pools = {}
            self._pools[subject] = pools
        return pools

    def keep_open(self, reservation: Returnable) -> None:
        """Return the reservation if it is not settled in time."""
        self._reservations.add(reservation)

    def _warns(self) -> bool:
        """Return whether any group has a soft threshold."""
        groups = self._resolution.groups.values() if self._resolution else ()
        return any(group.soft_threshold is not None for group in groups)

    def _all(self) -> list[LocalBucket]:
        return [*self._registry, *self._entities, *self._policies, *self._splits]

    def _find_or_make(self, subject: Subject, refusal: RefusalMode | None) -> Limiter:
        key = (subject, refusal)
        with self._lock:
            limiter = self._limiters.find(key)
            if limiter is None:
                limiter = HeldLimiter(
                    subject, self, lock=self._attempt_lock, refusal=refusal
                )
                groups = self._prepare(limiter, self.clock())
                self._limiters.add(key, limiter, groups)
            return limiter

    def _forget_values(self, now: float) -> None:
        """Forget values without a bucket; those turned away may take their places."""
        used = {local.group.id for local in self._registry}
        self._templates.keep(used | self._limiters.of_group.keys())
        turned_away, self._without_value = self._without_value, WeakSet()
        for limiter in turned_away:
            limiter.forget_chains()
            self._limiters.count(limiter, self._prepare(limiter, now))

    def _prepare(self, limiter: Limiter, now: float) -> list[int]:
        """Create a limiter's buckets early, so that shares arrive before first use."""
        known, subject = self._resolution, limiter.subject
        refused = self._templates.refused
        groups = known.groups_of(subject) if known else []
        if self._templates.refused > refused:
            self._without_value.add(limiter)
        for group in groups:
            for limit in group.limits:
                before = len(self._registry)
                self._registry.use(group, limit, now)
                self._stale |= len(self._registry) != before
        for each in known.slot_groups(subject) if known else ():
            self.slots.pool_of(*each)
        return [group.id for group in groups]

    def _say_once(self) -> None:
        """Log each condition once; runs only in the agent's thread."""
        if self._unconfigured.bucket.sampled and "unconfigured" not in self._said:
            self._said.add("unconfigured")
            what = "refused" if self._unconfigured.bucket.closed else "admitted"
            logger.warning(
                "no configuration yet, neither from the API nor from disk;"
                " every attempt is %s until there is one",
                what,
            )
        with self._lock:
            unlimited = self._unlimited.take_unsaid()
        for sentence in unlimited:
            logger.warning("%s", sentence)
        unknown = self._resolution.unknown_groups() if self._resolution else 0
        if unknown and "unknown" not in self._said:
            self._said.add("unknown")
            logger.warning(
                "%d attachments name a group that is not in the configuration;"
                " they limit nothing",
                unknown,
            )


def _threads_interleave() -> bool:
    """Whether a thread may be switched between any two lines.

    True without a GIL, and under a tracer (a debugger, a coverage tool), whose code
    runs between the lines.
    """
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return not has_gil or sys.gettrace() is not None or threading.gettrace() is not None
