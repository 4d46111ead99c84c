"""Metric families of the newest observation, with few and bounded labels.

Operators choose the groups, and agents come and go, so both are bounded: the
busiest limits are exported one by one, and the rest is only counted.
"""

import time
from collections.abc import Callable, Generator, Iterable

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.api.live.snapshot import ClusterSnapshot, Use
from headgate.api.observing.observing import Observing
from headgate.api.overview.entries import RANK
from headgate.api.watch import RevisionWatch

MAX_LIMITS = 2_000
"""Most limits listed one by one, those over or near first: 9 samples each, 2 MB."""

MAX_AGENTS = 500
"""Most agents listed one by one, those unheard for longest first."""

MAX_KINDS = 100
"""Most kinds of events listed; the code names some thirty."""

_PER_LIMIT: tuple[tuple[str, str, Callable[[Use], float]], ...] = (
    ("limit_per_second", "The limit, units/s.", lambda use: use.rate_per_s),
    ("burst_units", "Units that may pass at once.", lambda use: use.burst),
    ("admitted_per_second", "Admitted units/s.", lambda use: use.admitted_per_s),
    ("demand_per_second", "Attempted units/s.", lambda use: use.demand_per_s),
    ("refused_per_second", "Refused units/s.", lambda use: use.refused_per_s),
    ("level_units", "Units left; negative if in debt.", lambda use: use.level),
    ("available_per_second", "Units/s to share out.", lambda use: use.available_per_s),
    (
        "error_units",
        "Units over (+) or under (-) a single bucket.",
        lambda use: use.error_units,
    ),
    ("agents", "Agents that use the limit.", lambda use: len(use.agents)),
)
"""Name after ``headgate_group_``, help, value."""


class LiveCollector(Collector):
    """Yields fresh families at each scrape."""

    def __init__(
        self, observing: Observing, watch: RevisionWatch, version: str
    ) -> None:
        """Read from `observing` and `watch`; `version` is exported unchanged."""
        self._observing = observing
        self._watch = watch
        self._version = version

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are fixed, and no other collector uses them."""
        return ()

    def collect(self) -> Generator[Metric]:
        """Return the families of the newest picture, and of this process."""
        picture = self._observing.newest()
        yield from self._process(picture)
        if picture is not None:
            yield from _bus(picture)
            yield from _agents(picture, self._watch.revision)
            yield from _limits(picture)

    def _process(self, picture: ClusterSnapshot | None) -> Generator[Metric]:
        yield InfoMetricFamily(
            "headgate_build", "Version of this server.", {"version": self._version}
        )
        age_s = float("inf") if picture is None else time.time() - picture.at_s
        for name, help_text, value in (
            ("revision", "Revision of the configuration.", self._watch.revision),
            ("watchers", "Requests waiting for a revision.", self._watch.waiting),
            ("event_streams", "Open event streams.", self._observing.streams),
            (
                "history_bytes",
                "Memory used by history.",
                self._observing.history.nbytes,
            ),
            (
                "history_omitted",
                "Series left out for lack of room.",
                self._observing.history.omitted,
            ),
            (
                "picture_age_seconds",
                "Seconds since the cluster was last observed.",
                age_s,
            ),
        ):
            yield GaugeMetricFamily(f"headgate_{name}", help_text, value)
        number = 0 if picture is None else picture.number
        yield CounterMetricFamily(
            "headgate_pictures", "Observations of the cluster.", number
        )


def _bus(picture: ClusterSnapshot) -> Generator[Metric]:
    yield GaugeMetricFamily(
        "headgate_bus_open", "1 if the bus could be opened.", picture.bus_open
    )
    yield GaugeMetricFamily(
        "headgate_bus_lag_seconds", "How long a report takes to arrive.", picture.lag_s
    )
    events = CounterMetricFamily(
        "headgate_observer_events", "Reports, drops and notices.", labels=["kind"]
    )
    for kind, count in sorted(picture.counters.items())[:MAX_KINDS]:
        events.add_metric([kind], count)
    yield events


def _agents(picture: ClusterSnapshot, revision: int) -> Generator[Metric]:
    states = GaugeMetricFamily("headgate_agents", "Agents by state.", labels=["state"])
    for state in ("present", "silent", "disbelieved", "left"):
        count = sum(agent.state == state for agent in picture.agents)
        states.add_metric([state], count)
    yield states
    behind = sum(
        agent.state == "present" and agent.revision < revision
        for agent in picture.agents
    )
    yield GaugeMetricFamily(
        "headgate_agents_behind", "Agents with an older revision.", behind
    )
    age = GaugeMetricFamily(
        "headgate_agent_age_seconds",
        "Seconds since it was last heard.",
        labels=["agent"],
    )
    lag = GaugeMetricFamily(
        "headgate_agent_lag_seconds",
        "How long its reports take to arrive.",
        labels=["agent"],
    )
    oldest = sorted(picture.agents, key=lambda agent: -agent.age_s)
    for agent in oldest[:MAX_AGENTS]:
        age.add_metric([agent.agent], agent.age_s)
        lag.add_metric([agent.agent], agent.lag_s)
    yield age
    yield lag


def _limits(picture: ClusterSnapshot) -> Generator[Metric]:
    uses = sorted(picture.uses, key=lambda use: (RANK[use.pressure], -use.demand_per_s))
    yield GaugeMetricFamily(
        "headgate_groups_omitted",
        f"Limits in use beyond the {MAX_LIMITS} listed one by one.",
        max(0, len(uses) - MAX_LIMITS),
    )
    told = uses[:MAX_LIMITS]
    for name, help_text, value in _PER_LIMIT:
        family = GaugeMetricFamily(
            f"headgate_group_{name}", help_text, labels=["group", "dimension"]
        )
        for use in told:
            family.add_metric([use.group, use.dimension], value(use))
        yield family
