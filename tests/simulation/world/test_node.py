"""When an agent of the simulation looks at its counters again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headgate.coordinator import Configuration, Configured, WakeAt
from headgate.simulation.controllers.controller import Birth
from headgate.simulation.world.node import Node

if TYPE_CHECKING:
    from headgate.coordinator import Effect, Event


class Asking:
    """A controller that asks for one look after another."""

    def __init__(self, *looks_s: float) -> None:
        self.looks_s = [*looks_s]

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        del now, event, wall_s
        return [WakeAt(self.looks_s.pop(0))]


def started(*looks_s: float) -> Node:
    """Return an agent that has its configuration and has looked at its counters."""
    birth = Birth(index=0, agent="a", incarnation=1, seed=1, now=1.0, wall_s=1.0)
    node = Node(birth, Asking(2.0, *looks_s), groups=(), streams={}, ceilings={})
    node.configure(1.0, 1.0, Configuration())
    return node


@pytest.mark.parametrize(("asked_s", "looks_s"), [(5.0, 4.0), (3.0, 3.0)])
def test_an_event_only_brings_the_next_look_forward(
    asked_s: float, looks_s: float
) -> None:
    node = started(4.0, asked_s)
    assert node.wake_s == 4.0
    node.step(1.5, 1.5, Configured(Configuration()))
    assert node.wake_s == looks_s


def test_a_look_replaces_what_was_asked_for_before() -> None:
    node = started(4.0, 5.0)
    node.tick(1.5, 1.5)
    assert node.wake_s == 5.0
