from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.coordinator import (
    Configuration,
    Configured,
    Coordinator,
    Counted,
    Group,
    Keys,
    Limit,
    Restored,
    SetCeilings,
    Settings,
)
from headgate.coordinator.allocation.hierarchy import Branch, fill


@st.composite
def children_of_one(draw: st.DrawFn) -> Branch:
    minimum = draw(st.floats(0, 100))
    extra = draw(st.one_of(st.floats(0, 500), st.just(inf)))
    return Branch(
        weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
        minimum=minimum,
        maximum=minimum + extra,
        demand=draw(st.floats(0, 1000)),
    )


branches = st.lists(children_of_one(), min_size=1, max_size=8)


@pytest.mark.long
@given(branches, st.floats(0, 2000))
@settings(max_examples=400, deadline=None)
def test_parts_sum_to_what_is_there_or_can_be_used(
    children: list[Branch], available: float
) -> None:
    parts, _ = fill(available, children)
    usable = sum(min(c.demand, c.maximum) for c in children)
    assert sum(parts) == pytest.approx(min(available, usable), rel=1e-9, abs=1e-6)
    for part, child in zip(parts, children, strict=True):
        assert -1e-9 <= part <= min(child.demand, child.maximum) + 1e-6


@pytest.mark.long
@given(branches, st.floats(0, 2000))
@settings(max_examples=400, deadline=None)
def test_a_wanted_minimum_is_kept_while_the_minima_fit(
    children: list[Branch], available: float
) -> None:
    low = [min(c.minimum, c.demand, c.maximum) for c in children]
    if sum(low) > available:
        return
    for part, least in zip(fill(available, children)[0], low, strict=True):
        assert part >= least - 1e-6


def test_weights_share_what_minima_leave() -> None:
    children = [
        Branch(weight=2, minimum=0, maximum=inf, demand=900),
        Branch(weight=1, minimum=0, maximum=inf, demand=900),
        Branch(weight=1, minimum=100, maximum=300, demand=900),
    ]
    assert fill(1000, children)[0] == pytest.approx([500, 250, 250])


def test_a_minimum_that_is_not_wanted_is_not_set_aside() -> None:
    children = [
        Branch(weight=1, minimum=0, maximum=inf, demand=900),
        Branch(weight=1, minimum=500, maximum=inf, demand=0),
    ]
    assert fill(800, children)[0] == [800, 0]


def test_minima_that_do_not_fit_are_scaled_together() -> None:
    children = [
        Branch(weight=1, minimum=300, maximum=inf, demand=900),
        Branch(weight=9, minimum=100, maximum=inf, demand=900),
    ]
    assert fill(200, children)[0] == pytest.approx([150, 50])


@pytest.mark.parametrize("agents", [1, 3])
def test_a_group_is_told_what_the_one_around_it_has_at_the_first_look(
    agents: int,
) -> None:
    """Agents of which nobody has heard yet may start as well."""
    around = Group(
        id=1, name="around", limits=(Limit(dimension="requests", rate=200, burst=100),)
    )
    inside = Group(
        id=2,
        name="inside",
        parent=1,
        limits=(Limit(dimension="requests", rate=2000, burst=2000),),
    )
    agent = Coordinator(Settings(), agent="a", incarnation=1, seed=1, now=0.0)
    configuration = Configuration(revision=1, groups=(around, inside))
    agent.step(0.0, Configured(configuration, agents=agents), wall_s=0.0)
    levels = np.array([100.0, 2000.0])
    agent.step(0.0, Restored("requests", np.array([1, 2]), levels), wall_s=0.0)
    one, none = np.ones(1), np.zeros(1)
    keys = Keys(("requests",), np.zeros(1, np.int64), np.array([2]))
    counted = Counted(keys, none, none, none, one, np.ones(1, np.int64))
    effects = agent.step(0.025, counted, wall_s=0.0)
    (told,) = (each.ceilings for each in effects if isinstance(each, SetCeilings))
    assert told.room_cap[0] <= 100.0
    # Q and what is in the bucket, within a second.
    assert told.ceiling[0] <= 300.0 / agents + 1e-6
