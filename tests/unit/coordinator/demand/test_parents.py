"""What parents are told to want: their own callers' demand apart, and exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.coordinator.demand.parents import Families

TOP, MIDDLE, LEFT, RIGHT, SUM = range(5)
"""SUM, without a bucket, holds TOP, that MIDDLE, that LEFT and RIGHT."""

LEVELS = [
    (np.array([LEFT, RIGHT]), np.array([MIDDLE, MIDDLE])),
    (np.array([MIDDLE]), np.array([TOP])),
    (np.array([TOP]), np.array([SUM])),
]
ALL_PASSES = np.ones(5)
LOOK_S = 0.025


def family(now: float = 0.0) -> Families:
    return Families(LEVELS, size=5, shell_size=4, now=now)


def called(families: Families, rates: list[float], seconds: float = 3.0) -> float:
    """Let callers come at these rates, units/s; return when that ended."""
    looks = round(seconds / LOOK_S)
    for look in range(1, looks + 1):
        now = look * LOOK_S
        families.look(now, np.array(rates) * now, np.ones(5))
    return looks * LOOK_S


def test_a_parent_that_nobody_calls_wants_what_its_children_want() -> None:
    families = family()
    called(families, [0.0, 0.0, 30.0, 50.0, 0.0])
    # An average of the sum says something else than the averages of the parts.
    rate = np.array([91.0, 85.0, 31.25, 48.5, 91.0])
    wanted, _ = families.add_up(rate, rate, ALL_PASSES)
    assert wanted[[TOP, MIDDLE, SUM]].tolist() == [79.75, 79.75, 79.75]
    assert wanted[[LEFT, RIGHT]].tolist() == [31.25, 48.5]


def test_callers_of_parents_are_added_on_their_own_level() -> None:
    families = family()
    called(families, [400.0, 200.0, 30.0, 50.0, 0.0])
    rate = np.array([680.0, 280.0, 30.0, 50.0, 680.0])
    wanted, _ = families.add_up(rate, rate, ALL_PASSES)
    assert wanted[TOP] == pytest.approx(680.0, rel=0.02)
    assert wanted[MIDDLE] == pytest.approx(280.0, rel=0.02)
    assert wanted[SUM] == pytest.approx(680.0, rel=0.02)


def test_what_limits_inside_refuse_is_told_apart_at_each_level() -> None:
    families = family()
    called(families, [40.0, 0.0, 30.0, 50.0, 0.0])
    rate = np.array([120.0, 80.0, 30.0, 50.0, 120.0])
    passes = np.array([1.0, 0.5, 1.0, 0.2, 1.0])
    wanted, beyond = families.add_up(rate, rate, passes)
    # Of 50 inside MIDDLE its limit admits 10; of these and 30, that of MIDDLE half.
    assert wanted == pytest.approx([60.0, 40.0, 30.0, 50.0, 60.0], rel=0.02)
    assert beyond == pytest.approx([60.0, 40.0, 0.0, 0.0, 60.0], rel=0.02)


demands = st.lists(st.floats(0.0, 1e4), min_size=4, max_size=4)
chosen = st.lists(st.booleans(), min_size=4, max_size=4)
fractions = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4)


@pytest.mark.long
@given(st.lists(st.tuples(demands, chosen, fractions), min_size=1, max_size=6))
def test_the_difference_of_what_was_told_is_exact_whatever_was_left_out(
    reports: list[tuple[list[float], list[bool], list[float]]],
) -> None:
    families = family()
    told = np.zeros(5)
    for demand, some, parts in reports:
        passes = np.array([*parts, 1.0])
        rate = np.array([*demand, 0.0])
        wanted, _ = families.add_up(rate, rate, ALL_PASSES)
        rows = families.with_ancestors(np.array([*some, False]))
        sent, beyond = families.tell(rows, wanted, passes)
        told[rows] = (sent + beyond)[rows]
        beside = told[TOP] - told[MIDDLE], told[MIDDLE] - told[LEFT] - told[RIGHT]
        assert beside == pytest.approx((0.0, 0.0), abs=1e-6)


def test_estimates_go_on_in_other_buckets() -> None:
    families = family()
    now = called(families, [400.0, 0.0, 0.0, 0.0, 0.0])
    # MIDDLE and what is in it are gone; TOP is 1 now, and another bucket stands first.
    levels = [(np.array([0]), np.array([1]))]
    after = Families(levels, size=2, shell_size=2, now=now)
    to, of = np.array([[1], [TOP]])
    after.inherit(families, to, of, np.array([7.0, 400.0 * now]))
    later = now + LOOK_S
    after.look(later, np.array([7.0, 400.0 * later]), np.ones(2))
    rate = np.array([0.0, 400.0])
    assert after.add_up(rate, rate, np.ones(2))[0][1] == pytest.approx(400.0, rel=0.02)
