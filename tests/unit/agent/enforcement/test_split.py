"""A group that divides what a process may spend among the process's topics."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.unit.agent.making import Clock, configuration, group

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.coordinator.config.configuration import Limit
from headgate.coordinator.messages.events import Ceilings, SetCeilings

if TYPE_CHECKING:
    from headgate.agent import Limiter
    from headgate.agent.bucket.local import Usage
    from headgate.coordinator.config.configuration import Scope, Split
    from headgate.coordinator.messages.events import Counted

LIMIT = Limit(dimension="requests", rate=100, burst=100, scope="node")
TICK_S = 0.05


class Broker:
    """One process, its topics, and what each attempts.

    Attributes:
        admitted: Requests of each topic that were admitted in the last `run`.
    """

    def __init__(
        self, split: Split | None, *topics: str, scope: Scope = "node"
    ) -> None:
        self.clock = Clock(0.0)
        self.enforcer = Enforcer(clock=self.clock)
        self.scope: Scope = scope
        self.configure(split)
        self.topics = {
            topic: self.enforcer.limiter(tenant="acme", topic=f"acme/orders/{topic}")
            for topic in topics
        }
        self.admitted: dict[str, int] = {}

    def configure(self, split: Split | None, **changes: float) -> None:
        limit = replace(LIMIT, scope=self.scope, **changes)  # type: ignore[arg-type]  # by name
        gold = group(limit, split=split)
        self.enforcer.configure(configuration(gold, acme=1), self.clock.now)

    def share(self, rate: float) -> None:
        """Give the process a share, as the coordinator does."""
        counted = self.enforcer.counts(self.clock.now)
        now = self.clock.now
        self.enforcer.apply(ceilings(counted, rate, now), now)

    def run(self, seconds: float, **attempts: float) -> None:
        """Attempt so many requests a second of each topic."""
        self.admitted = dict.fromkeys(attempts, 0)
        owed = dict.fromkeys(attempts, 0.0)
        for _ in range(round(seconds / TICK_S)):
            self.clock.now += TICK_S
            for topic, rate in attempts.items():
                owed[topic] += rate * TICK_S
                while owed[topic] >= 1.0:
                    owed[topic] -= 1.0
                    decision = self.topics[topic].try_acquire(requests=1)
                    self.admitted[topic] += bool(decision)
            self.enforcer.counts(self.clock.now)


@pytest.mark.parametrize(
    ("split", "hot", "cold"),
    # In proportion, but for the tenth of an even part that each has at least; not
    # divided, the first one in each turn takes everything.
    [("even", 500, 500), ("proportional", 860, 140), (None, 1000, 0)],
)
def test_pip82_a_group_splits_a_share_over_its_topics(
    split: Split | None, hot: int, cold: int
) -> None:
    broker = Broker(split, "hot", "cold")
    broker.run(5.0, hot=900.0, cold=100.0)
    broker.run(10.0, hot=900.0, cold=100.0)
    assert broker.admitted["hot"] == pytest.approx(hot, abs=10)
    assert broker.admitted["cold"] == pytest.approx(cold, abs=10)


def test_pip82_an_even_split_keeps_a_quiet_topics_part_for_it() -> None:
    broker = Broker("even", "hot", "cold")
    broker.run(10.0, hot=900.0, cold=10.0)
    broker.run(10.0, hot=900.0, cold=10.0)
    assert broker.admitted["hot"] == pytest.approx(500, rel=0.05)
    assert broker.admitted["cold"] == 100  # a well-behaved topic is never refused


def test_pip82_a_proportional_split_leaves_nothing_unused() -> None:
    broker = Broker("proportional", "hot", "cold")
    broker.run(10.0, hot=900.0, cold=1.0)
    broker.run(10.0, hot=900.0, cold=1.0)
    assert broker.admitted["hot"] == pytest.approx(950, abs=10)
    assert broker.admitted["cold"] == 10


def test_a_topic_that_is_refused_by_its_part_is_demand_of_the_group() -> None:
    broker = Broker("even", "hot", "cold", scope="cluster")
    broker.share(100.0)
    broker.run(3.0, hot=300.0, cold=1.0)
    broker.run(7.0, hot=300.0, cold=1.0)
    assert broker.admitted["hot"] == pytest.approx(350, abs=60)
    whole = broker.enforcer.usage()[0]
    assert whole.admitted + whole.refused == pytest.approx(3010, abs=5)


def test_the_parts_follow_the_share_at_once() -> None:
    broker = Broker("even", "a", "b", scope="cluster")
    broker.share(100.0)
    broker.run(TICK_S, a=0.0, b=0.0)
    broker.share(400.0)
    broker.run(TICK_S, a=0.0, b=0.0)
    assert [part.rate for part in parts(broker)] == []
    broker.run(TICK_S, a=20.0, b=20.0)
    assert {part.rate for part in parts(broker)} == {200.0}
    broker.share(100.0)
    broker.run(TICK_S, a=0.0, b=0.0)
    assert {part.rate for part in parts(broker)} == {50.0}


def test_a_split_is_followed_live_and_left_again() -> None:
    broker = Broker(None, "hot", "cold")
    broker.run(2.0, hot=900.0, cold=900.0)
    assert parts(broker) == []
    broker.configure("even")
    broker.run(2.0, hot=900.0, cold=900.0)
    assert [part.group for part in parts(broker)] == [
        "gold of topic acme/orders/hot",
        "gold of topic acme/orders/cold",
    ]
    broker.configure("even", rate=inf)
    broker.run(1.0, hot=900.0, cold=900.0)
    assert broker.admitted == {"hot": 900, "cold": 900}
    broker.configure(None)
    broker.run(1.0, hot=900.0, cold=900.0)
    assert parts(broker) == []


def test_a_closed_group_lets_no_topic_through_and_opens_again() -> None:
    broker = Broker("proportional", "a", "b")
    broker.run(1.0, a=10.0, b=10.0)
    broker.configure("proportional", rate=0.0, burst=0.0)
    broker.run(3.0, a=10.0, b=10.0)
    assert broker.admitted == {"a": 0, "b": 0}
    broker.configure("proportional")
    broker.run(3.0, a=10.0, b=10.0)
    assert broker.admitted["a"] >= 25


def test_who_names_no_topic_has_the_whole_share() -> None:
    broker = Broker("even", "a", "b")
    whole: Limiter = broker.enforcer.limiter(tenant="acme")
    broker.run(1.0, a=10.0, b=10.0)
    assert len(whole.chain("requests").links) == 1


def test_a_calendar_limit_has_no_parts_because_it_flows_only_at_boundaries() -> None:
    broker = Broker("even", "a", "b")
    limit = replace(LIMIT, period="month")
    broker.enforcer.configure(
        configuration(group(limit, split="even"), acme=1), broker.clock.now
    )
    broker.run(1.0, a=300.0, b=1.0)
    assert parts(broker) == []
    assert broker.admitted["a"] >= 99


def ceilings(counted: Counted, rate: float, now: float) -> SetCeilings:
    count = len(counted.keys.group_ids)
    values = dict.fromkeys(Ceilings.__slots__, 0.0)
    values |= dict.fromkeys(("rate", "capacity", "share", "ceiling", "reserve"), rate)
    return SetCeilings(
        counted.keys,
        np.arange(count),
        Ceilings(**{name: np.full(count, value) for name, value in values.items()}),
        counted=counted.admitted,
        as_of_s=now,
        deadline_s=np.full(count, inf),
    )


def parts(broker: Broker) -> list[Usage]:
    return [x for x in broker.enforcer.usage() if "of topic" in x.group]
