"""What parents are told to want: their own callers' demand apart, and exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.coordinator.demand.parents import Families

TOP, MIDDLE, LEFT, RIGHT, SUM = range(5)
"""SUM, without a bucket, holds TOP, that MIDDLE, that LEFT and RIGHT."""

PAIRS = [
    (TOP, MIDDLE),
    (TOP, LEFT),
    (TOP, RIGHT),
    (MIDDLE, LEFT),
    (MIDDLE, RIGHT),
    (SUM, TOP),
    (SUM, MIDDLE),
    (SUM, LEFT),
    (SUM, RIGHT),
]
TO, OF = np.array(PAIRS).T
LOOK_S = 0.025


def family(now: float = 0.0) -> Families:
    return Families(TO, OF, size=5, shell_size=4, now=now)


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
    wanted = families.add_up(rate, rate)
    assert wanted[[TOP, MIDDLE, SUM]].tolist() == [79.75, 79.75, 79.75]
    assert wanted[[LEFT, RIGHT]].tolist() == [31.25, 48.5]


def test_callers_of_parents_are_added_on_their_own_level() -> None:
    families = family()
    called(families, [400.0, 200.0, 30.0, 50.0, 0.0])
    rate = np.array([680.0, 280.0, 30.0, 50.0, 680.0])
    wanted = families.add_up(rate, rate)
    assert wanted[TOP] == pytest.approx(680.0, rel=0.02)
    assert wanted[MIDDLE] == pytest.approx(280.0, rel=0.02)
    assert wanted[SUM] == pytest.approx(680.0, rel=0.02)


demands = st.lists(st.floats(0.0, 1e4), min_size=4, max_size=4)
chosen = st.lists(st.booleans(), min_size=4, max_size=4)


@pytest.mark.long
@given(st.lists(st.tuples(demands, chosen), min_size=1, max_size=6))
def test_the_difference_of_what_was_told_is_exact_whatever_was_left_out(
    reports: list[tuple[list[float], list[bool]]],
) -> None:
    families = family()
    told = np.zeros(5)
    for demand, some in reports:
        rate = np.array([*demand, 0.0])
        wanted = families.add_up(rate, rate)
        rows = families.with_ancestors(np.array([*some, False]))
        sent = families.tell(rows, wanted)
        told[rows] = sent[rows]
        beside = told[TOP] - told[MIDDLE], told[MIDDLE] - told[LEFT] - told[RIGHT]
        assert beside == pytest.approx((0.0, 0.0), abs=1e-6)


def test_estimates_go_on_in_other_buckets() -> None:
    families = family()
    now = called(families, [400.0, 0.0, 0.0, 0.0, 0.0])
    # MIDDLE and what is in it are gone; TOP is 1 now, and another bucket stands first.
    after = Families(np.array([1]), np.array([0]), size=2, shell_size=2, now=now)
    to, of = np.array([[1], [TOP]])
    after.inherit(families, to, of, np.array([7.0, 400.0 * now]))
    later = now + LOOK_S
    after.look(later, np.array([7.0, 400.0 * later]), np.ones(2))
    rate = np.array([0.0, 400.0])
    assert after.add_up(rate, rate)[1] == pytest.approx(400.0, rel=0.02)
