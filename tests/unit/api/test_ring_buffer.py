"""The rings of the history: means, gaps, bounds, and who makes place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.history.ring_buffer import LEAST_SET_BACK, Rings


def written(rings: Rings[str], step: int, **values: float) -> None:
    rings.write(step, list(values), np.array([list(values.values())]))


def read(rings: Rings[str], key: str) -> list[float]:
    series = rings.read(key)
    assert series is not None
    return [float(value) for value in series[0]]


def test_a_point_is_the_mean_of_what_was_written_during_its_step() -> None:
    rings = Rings[str](1, capacity=4, points=3)
    written(rings, 7, a=1.0)
    written(rings, 7, a=2.0)
    written(rings, 8, a=9.0)
    assert read(rings, "a") == pytest.approx([np.nan, 1.5, 9.0], nan_ok=True)


def test_steps_without_a_word_are_empty_and_old_points_go() -> None:
    rings = Rings[str](1, capacity=4, points=3)
    written(rings, 1, a=1.0)
    written(rings, 3, a=3.0)
    assert read(rings, "a") == pytest.approx([1.0, np.nan, 3.0], nan_ok=True)
    written(rings, 4, a=4.0)
    assert read(rings, "a") == pytest.approx([np.nan, 3.0, 4.0], nan_ok=True)


def test_a_clock_that_jumps_back_overwrites_nothing() -> None:
    rings = Rings[str](1, capacity=4, points=3)
    written(rings, 10, a=1.0)
    written(rings, 10 - LEAST_SET_BACK, a=3.0)
    assert rings.newest_step == 10
    assert read(rings, "a") == pytest.approx([np.nan, np.nan, 2.0], nan_ok=True)


def test_after_a_clock_was_set_back_the_history_goes_on() -> None:
    rings = Rings[str](1, capacity=4, points=3)
    written(rings, 3600, a=1.0, gone=5.0)
    written(rings, 3601, a=2.0)
    written(rings, 10, a=3.0)
    assert rings.newest_step == 10
    assert read(rings, "a") == pytest.approx([1.0, 2.0, 3.0])
    written(rings, 11, a=4.0)
    assert read(rings, "a") == pytest.approx([2.0, 3.0, 4.0])
    assert rings.read("gone") is None


def test_a_series_that_was_silent_for_the_whole_span_is_forgotten() -> None:
    rings = Rings[str](1, capacity=4, points=3)
    written(rings, 1, a=1.0)
    written(rings, 4, b=1.0)
    assert rings.read("a") is None
    assert len(rings) == 1


def test_the_longest_silent_makes_place_and_the_newest_never_do() -> None:
    rings = Rings[str](1, capacity=2, points=9)
    written(rings, 1, a=1.0)
    written(rings, 2, b=2.0)
    written(rings, 3, c=3.0)
    assert sorted(rings) == ["b", "c"]
    written(rings, 4, c=1.0, d=1.0, e=1.0)
    assert sorted(rings) == ["c", "d"]
    assert rings.omitted == 1


def test_memory_does_not_grow_beyond_the_capacity() -> None:
    rings = Rings[str](2, capacity=100, points=10)
    for step in range(50):
        keys = [f"{step}-{number}" for number in range(80)]
        rings.write(step, keys, np.ones((2, len(keys))))
    assert len(rings) <= 100
    assert rings.nbytes < 100 * (2 * 10 * 4 + 2 * 8 + 8 + 8) + 1


Writes = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4),
    ),
    max_size=30,
)


@pytest.mark.long
@given(Writes)
@settings(deadline=None)
def test_rings_say_what_a_plain_dictionary_of_lists_would(
    writes: list[tuple[int, dict[str, int]]],
) -> None:
    points, step = 4, 0
    rings = Rings[str](1, capacity=4, points=points)
    twin: dict[tuple[str, int], list[int]] = {}
    for pause, values in writes:
        step += pause
        written(rings, step, **{key: float(value) for key, value in values.items()})
        for key, value in values.items():
            twin.setdefault((key, step), []).append(value)
    for key in "abcd":
        at = [twin.get((key, step - back)) for back in range(points - 1, -1, -1)]
        expected = [np.nan if each is None else float(np.mean(each)) for each in at]
        if all(each is None for each in at):
            series = rings.read(key)
            assert series is None or np.isnan(series).all()
        else:
            assert read(rings, key) == pytest.approx(expected, nan_ok=True)
