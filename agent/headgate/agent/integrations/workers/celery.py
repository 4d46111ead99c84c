"""Celery: the rate of a task across all workers, not in each.

::

    limit_tasks(app, partial(headgate.connect, URL), {"shop.mail": {"tenant": "mail"}})

Celery's own ``rate_limit`` is one token bucket in each worker, so that ten workers do
ten times as much.  This puts Headgate's limiter in that bucket's place: a task that is
not admitted is held in the worker's consumer and started when its quota allows.  It
takes no process of the pool, is not retried, and goes back to the broker when the
worker dies.  As with ``rate_limit``, what is held counts as prefetched: give slow tasks
a queue of their own, or they block others.

The agent lives in the worker's main process, one for each worker; the pool's processes
are not involved.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from celery.exceptions import ImproperlyConfigured
from celery.signals import celeryd_init
from celery.worker.consumer.consumer import Consumer
from celery.worker.state import revoked as revoked_tasks
from celery.worker.state import revoked_stamps
from kombu.utils.functional import maybe_list

from headgate.agent.errors import HeadgateError
from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.integrations.web.answers import ONE_REQUEST

if TYPE_CHECKING:
    from celery.app.base import Celery
    from celery.apps.worker import Worker
    from celery.worker.request import Request

    from headgate.agent.integrations.sources import LimiterSource, SubjectCache
    from headgate.agent.limiter.limiter import Limiter

LONGEST_HOLD_S = 1.0
"""A held task asks again at least this often: a limit may have been raised."""

LEAST_HOLD_S = 0.001
"""A timer of the worker's event loop is no finer."""

EX_CONFIG = 78
"""Exit status of a worker whose rules or settings can't be followed (sysexits)."""

RATE_LIMITS_OFF = "worker_disable_rate_limits is set: no task would be held back"

logger = logging.getLogger("headgate.agent")

TaskSubject = (
    Mapping[str, str | None] | Callable[["Request"], Mapping[str, str | None] | None]
)
"""A subject, or a function from a received task to one; None there for no limit."""


@dataclass(frozen=True, slots=True)
class _Rules:
    connect: Callable[[], LimiterSource]
    subjects: Mapping[str, TaskSubject]
    costs: Mapping[str, Mapping[str, float]]

    def check(self) -> None:
        """Raise `ImproperlyConfigured` if a rule can't be followed."""
        if not callable(self.connect):
            what = f"expected a function that makes the agent, got {self.connect!r}"
            raise ImproperlyConfigured(f"connect: {what}")
        for task, subject in cast("Mapping[str, object]", self.subjects).items():
            if not callable(subject) and not isinstance(subject, Mapping):
                what = f'expected such as {{"tenant": "mail"}}, got {subject!r}'
                raise ImproperlyConfigured(f"subjects: {task}: {what}")
        if unlimited := sorted(set(self.costs) - set(self.subjects)):
            what = f"expected tasks among {sorted(self.subjects)}, got {unlimited}"
            raise ImproperlyConfigured(f"costs: {what}")
        for task, costs in self.costs.items():
            for dimension, cost in cast("Mapping[str, object]", costs).items():
                if not isinstance(cost, (int, float)) or not 0.0 <= cost < inf:
                    what = f"expected a finite number of at least 0, got {cost!r}"
                    raise ImproperlyConfigured(f"costs: {task}: {dimension}: {what}")


_rules: WeakKeyDictionary[Celery, _Rules] = WeakKeyDictionary()


def limit_tasks(
    app: Celery,
    connect: Callable[[], LimiterSource],
    subjects: Mapping[str, TaskSubject],
    *,
    costs: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Hold tasks of an application to quotas of the whole cluster.

    Args:
        app: The application; a process that only sends tasks is not affected.
        connect: Makes the agent, in each worker when it starts, such as
            ``partial(headgate.connect, "http://127.0.0.1:8080")``.
        subjects: By name of a task, whose quota it is under; a function may decide by
            the received task's arguments.  Replaces the task's ``rate_limit``.
        costs: By name of a task, units by dimension; one of ``requests`` by default.

    Raises:
        ImproperlyConfigured: Rate limits are disabled in this application, costs name
            a task without a subject, or an argument is not what is described here.
    """
    rules = _Rules(connect, dict(subjects), dict(costs or {}))
    rules.check()
    _rules[app] = rules
    if not _put_in_force(app):
        raise ImproperlyConfigured(RATE_LIMITS_OFF)


def _put_in_force(app: Celery) -> bool:
    """Put Headgate's consumer in place; return whether the settings let it limit."""
    app.conf.worker_consumer = f"{__name__}:{QuotaConsumer.__name__}"
    return not app.conf.worker_disable_rate_limits


@celeryd_init.connect
def _when_a_worker_starts(instance: Worker, **_: object) -> None:
    """Read the settings again: they may have been replaced since `limit_tasks`."""
    if instance.app in _rules and not _put_in_force(instance.app):
        logger.critical("headgate: %s", RATE_LIMITS_OFF)
        sys.exit(EX_CONFIG)


class QuotaConsumer(Consumer):
    """Celery's consumer with Headgate's limits in place of its buckets."""

    _held: dict[str, HeldTasks] | None = None

    def start(self) -> None:
        """Join the cluster, then consume; ends the worker when the rules are wrong."""
        if self._held is None:
            self._held = self._make()
            self.reset_rate_limits()
        super().start()

    def bucket_for_task(self, type: object) -> object:
        """Return where a task is held: always the same, or held tasks would be lost."""
        held = (self._held or {}).get(str(getattr(type, "name", "")))
        return super().bucket_for_task(type) if held is None else held

    def _make(self) -> dict[str, HeldTasks]:
        rules = _rules[self.app]
        unknown = sorted(set(rules.subjects) - set(self.app.tasks))
        if unknown:
            known = sorted(name for name in self.app.tasks if "celery." not in name)
            logger.critical("headgate: expected tasks among %s, got %s", known, unknown)
            sys.exit(EX_CONFIG)
        try:
            limiters = limiter_cache(rules.connect())
        except HeadgateError as error:
            logger.critical("headgate: %s", error)
            sys.exit(EX_CONFIG)
        return {
            name: HeldTasks(name, subject, limiters, rules.costs.get(name, ONE_REQUEST))
            for name, subject in rules.subjects.items()
        }


class _Queue:
    """The held tasks of one subject, in the order in which they came."""

    __slots__ = ("due_s", "limiter", "requests")

    def __init__(self, limiter: Limiter | None) -> None:
        self.limiter = limiter
        self.requests: deque[Request] = deque()
        self.due_s = 0.0


class HeldTasks:
    """Received tasks of one name that wait for their quotas.

    Replaces the `kombu.utils.limits.TokenBucket` of Celery's consumer, and so has its
    methods.  FIFO within a subject, round robin between subjects.  Thread-safe: without
    an event loop the worker's timer is a thread of its own.
    """

    def __init__(
        self,
        name: str,
        subject: TaskSubject,
        limiters: SubjectCache[Limiter],
        costs: Mapping[str, float],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Hold nothing yet.

        Args:
            name: Name of the task.
            subject: Whose quota.
            limiters: The limiters of this worker.
            costs: Units by dimension that each task costs.
            clock: Seconds, monotonic.
        """
        self._name = name
        self._subject = subject
        self._limiters = limiters
        self._costs = costs
        self._clock = clock
        self._lock = threading.Lock()
        self._queues: OrderedDict[object, _Queue] = OrderedDict()
        self._said = False

    @property
    def contents(self) -> HeldTasks:
        """Where the consumer puts back what was not admitted."""
        return self

    def add(self, entry: tuple[Request, float]) -> None:
        """Hold a received task."""
        key, limiter = self._limiter_of(entry[0])
        with self._lock:
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = _Queue(limiter)
            queue.requests.append(entry[0])

    def pop(self) -> tuple[Request, float]:
        """Return the next task that is admitted, with 1.

        If none is, return one with 0 and leave it where it is: the consumer then
        asks to put it back, and another thread may have taken it meanwhile.

        Raises:
            IndexError: Nothing is held.
        """
        with self._lock:
            for _ in range(len(self._queues)):
                key, queue = next(iter(self._queues.items()))
                self._queues.move_to_end(key)
                if _is_dropped(queue.requests[0]) or self._admits(queue):
                    request = queue.requests.popleft()
                    if not queue.requests:
                        del self._queues[key]
                    return request, 1.0
            for queue in self._queues.values():
                return queue.requests[0], 0.0
        raise IndexError

    def appendleft(self, entry: tuple[Request, float]) -> None:
        """Do nothing: what was not admitted has not been taken."""

    def can_consume(self, tokens: float) -> bool:
        """Return whether `pop` admitted: it has charged already."""
        return tokens > 0.0

    def expected_time(self, tokens: float) -> float:
        """Return the seconds until the next task may be admitted."""
        del tokens
        with self._lock:
            due_s = min((queue.due_s for queue in self._queues.values()), default=0.0)
        return max(due_s - self._clock(), LEAST_HOLD_S)

    def clear_pending(self) -> None:
        """Forget all tasks: the connection is gone, and the broker resends them."""
        with self._lock:
            self._queues.clear()

    def _admits(self, queue: _Queue) -> bool:
        now = self._clock()
        if queue.limiter is None:
            return True
        if now < queue.due_s:
            return False
        try:
            decision = queue.limiter.try_acquire(**self._costs)
        except HeadgateError as error:  # such as a tenant that nobody knows, if strict
            self._say_once(error)
            return True
        if decision.delay_s > 0.0:  # refused, or admitted and muted
            queue.due_s = now + min(max(decision.delay_s, LEAST_HOLD_S), LONGEST_HOLD_S)
        return bool(decision)

    def _limiter_of(self, request: Request) -> tuple[object, Limiter | None]:
        """Return a task's queue and limiter.

        A task whose subject can't be determined runs without a limit: a mistake in a
        function or an argument must neither lose work nor stop the worker.
        """
        try:
            subject = (
                self._subject(request) if callable(self._subject) else self._subject
            )
            if subject is None:
                return None, None
            return tuple(subject.items()), self._limiters.get(subject)
        except Exception as error:
            self._say_once(error)
            return None, None

    def _say_once(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            logger.error(
                "%s: a task whose limit can't be determined runs without one: %s: %s",
                self._name,
                type(error).__name__,
                error,
            )


def _is_dropped(request: Request) -> bool:
    """Return whether Celery will discard a task: it has expired, or was revoked."""
    expired = bool(request.expires and request.maybe_expire())
    return expired or request.id in revoked_tasks or _is_revoked_by_stamp(request)


def _is_revoked_by_stamp(request: Request) -> bool:
    """Return whether a task bears a stamp that was revoked."""
    if not revoked_stamps:
        return False
    return any(
        value in maybe_list(revoked_stamps[header])
        for header in request.stamped_headers or ()
        if header in revoked_stamps
        for value in maybe_list(request.stamps.get(header)) or ()
    )
