"""Data planes share what their server may spend, by what they report."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agent.envoy.explanations import seen

from headgate.agent.integrations.envoy.quota_shares import (
    BURST_S,
    EXPECTED_S,
    HORIZON_S,
    MOST_SURPLUS,
    NEAR,
    REPORT_S,
    VirtualAgent,
    divide,
    server_rate,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def wanting(demand: float, *, share: float = 0.0, gone: bool = False) -> VirtualAgent:
    return VirtualAgent(0.0, demand=demand, share=share, gone=gone)


def test_a_new_data_plane_gets_an_even_part_before_it_has_reported() -> None:
    assert divide(90.0, [wanting(inf), wanting(500.0), wanting(inf)]) == [30.0] * 3


def test_light_data_planes_get_what_they_want_and_heavy_ones_the_rest() -> None:
    light, heavy, other = divide(90.0, [wanting(10.0), wanting(80.0), wanting(200.0)])
    assert light == pytest.approx(10.0 * NEAR)
    assert heavy == other == pytest.approx((90.0 - light) / 2)


def test_what_nobody_wants_is_dealt_evenly_for_who_starts_next() -> None:
    assert divide(90.0, [wanting(0.0), wanting(0.0), wanting(0.0)]) == [30.0] * 3


def test_a_broken_streams_share_stays_reserved() -> None:
    gone, here = divide(100.0, [wanting(50.0, share=40.0, gone=True), wanting(500.0)])
    assert (gone, here) == (40.0, 60.0)


@given(
    st.floats(0.0, 1e6),
    st.lists(st.one_of(st.just(inf), st.floats(0.0, 1e6)), min_size=1, max_size=20),
)
def test_the_shares_add_up_to_the_rate(rate: float, demands: list[float]) -> None:
    shares = divide(rate, [wanting(demand) for demand in demands])
    assert min(shares) >= 0.0
    assert sum(shares) == pytest.approx(rate, abs=1e-6)


def test_the_server_shares_with_other_agents_by_weight() -> None:
    even = server_rate(seen(python=500.0), inf, 1.0, {})
    heavier = server_rate(seen(python=500.0), inf, 4.0, {"python": 1.0})
    assert even == pytest.approx(50.0)
    assert heavier == pytest.approx(80.0)
    assert server_rate(seen(python=20.0), inf, 1.0, {}) == pytest.approx(80.0)


def test_a_surplus_or_debt_is_worked_off_slowly() -> None:
    assert server_rate(seen(100.0), inf, 1.0, {}) == 100.0 + 100.0 / HORIZON_S
    assert server_rate(seen(-60.0), inf, 1.0, {}) == 100.0 - 60.0 / HORIZON_S
    assert server_rate(seen(-1e9), inf, 1.0, {}) == 100.0 * (1.0 - MOST_SURPLUS)


def test_the_level_that_counts_is_the_one_that_the_others_know() -> None:
    assert server_rate(seen(-60.0, 20.0), inf, 1.0, {}) == 100.0 - 40.0 / HORIZON_S
    most = server_rate(seen(100.0), inf, 1.0, {})
    assert server_rate(seen(90.0, 20.0), inf, 1.0, {}) == most


def charges(
    plane: VirtualAgent, used: Sequence[float], *, every_s: float = 0.1, parts: int = 1
) -> list[float]:
    """Return what a plane is charged while it lets `used` hits through per report."""
    charged: list[float] = []
    now = 0.0
    for hits in used:
        for _ in range(round(REPORT_S / every_s)):
            now += every_s
            charged.append(plane.spend(now, every_s)[0])
        for part in range(parts):
            plane.report(now + part * 0.001, hits / parts, hits / parts / 2)
    return charged


def test_everything_that_was_let_through_is_charged_once() -> None:
    plane = VirtualAgent(0.0, share=50.0)
    charged = refused = 0.0
    for second in range(1, 301):
        spent, denied = plane.spend(second, 1.0)
        charged, refused = charged + spent, refused + denied
        if second % 5 == 0:
            plane.report(float(second), 240.0, 160.0)
    first = 5.0 * 50.0 - 240.0  # was charged before anything was known
    assert charged + plane.difference - plane.ahead == pytest.approx(
        300.0 / 5.0 * 240.0 + first
    )
    assert refused == pytest.approx((80.0 - 50.0) * 295.0, rel=0.03)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("every_s", [0.1, 2.5, 5.0])
@pytest.mark.parametrize("mean", [500.0, 50.0, 5.0, 0.5])
def test_traffic_by_chance_is_charged_once(
    mean: float, every_s: float, parts: int
) -> None:
    used = np.random.default_rng(7).poisson(mean, 400).astype(float)
    plane = VirtualAgent(0.0, share=200.0, demand=mean / REPORT_S)
    charged = sum(charges(plane, used.tolist(), every_s=every_s, parts=parts))
    assert charged == pytest.approx(used.sum(), rel=0.02, abs=10.0)


@pytest.mark.parametrize(("on", "off"), [(1, 1), (1, 3), (6, 6)])
def test_traffic_that_comes_and_goes_is_charged_once(on: int, off: int) -> None:
    used = ([500.0] * on + [0.0] * off) * (240 // (on + off))
    plane = VirtualAgent(0.0, share=200.0, demand=100.0)
    assert sum(charges(plane, used)) == pytest.approx(sum(used), rel=0.03)


def test_a_data_plane_that_does_always_the_same_is_charged_always_the_same() -> None:
    plane = VirtualAgent(0.0, share=40.0)
    charged = charges(plane, [200.0] * 12)
    assert charged[100:] == pytest.approx([4.0] * 500)


def test_an_initial_burst_counts_from_when_it_is_given() -> None:
    plane = VirtualAgent(0.0)
    plane.assign(20.0, fresh=True)
    plane.assign(10.0, fresh=False)  # another came before it could spend that
    charged = charges(plane, [60.0])
    assert sum(charged) == pytest.approx(10.0 * 5.0 + 10.0 * BURST_S, rel=0.02)
    assert sum(charged[:10]) > 10.0 + 6.0


def test_what_it_was_expected_to_do_at_first_makes_no_later_hit_free() -> None:
    plane = VirtualAgent(0.0, share=100.0)
    before = sum(charges(plane, [5.0]))
    assert before == pytest.approx(500.0)
    later = sum(charges(plane, [500.0] * 20)) + plane.difference - plane.ahead
    assert later == pytest.approx(20 * 500.0)


def test_what_was_charged_in_vain_is_made_up_for_and_never_looks_like_silence() -> None:
    plane = VirtualAgent(0.0, demand=100.0, share=100.0)
    charged = charges(plane, [500.0, 50.0, 50.0, *[500.0] * 9])
    assert min(charged[50:]) >= 10.0 / 2 * 0.1
    assert sum(charged) + plane.difference - plane.ahead == pytest.approx(
        10 * 500 + 100
    )
    assert abs(plane.difference) < 1.0


def test_one_that_connects_anew_is_charged_once_for_the_time_without_a_stream() -> None:
    plane = VirtualAgent(0.0, demand=10.0, share=10.0)
    charged = sum(plane.spend(second, 1.0)[0] for second in range(1, 16))
    plane.resume()
    plane.report(15.0, 50.0, 0.0)  # what it did before is lost
    charged += sum(charges_from(plane, 15.0, [50.0] * 4))
    assert charged == pytest.approx(35.0 * 10.0, rel=0.01)


def charges_from(plane: VirtualAgent, begin_s: float, used: list[float]) -> list[float]:
    """Return what a plane is charged after `begin_s`, a second at a time."""
    charged: list[float] = []
    for number, hits in enumerate(used):
        for second in range(5):
            charged.append(plane.spend(begin_s + 5 * number + second + 1, 1.0)[0])
        plane.report(begin_s + 5 * number + 5, hits, 0.0)
    return charged


def test_nothing_is_expected_of_one_that_has_been_silent_for_long() -> None:
    plane = VirtualAgent(0.0, demand=200.0, share=200.0)
    charged = sum(plane.spend(second, 1.0)[0] for second in range(1, 61))
    assert charged == pytest.approx(200.0 * EXPECTED_S)


def test_reports_without_time_between_them_make_no_demand() -> None:
    plane = VirtualAgent(7.0)
    plane.report(7.0, 1.0, 0.0)
    plane.report(7.2, 30.0, 9.0)
    assert plane.demand == inf
    plane.report(12.0, 10.0, 0.0)
    assert plane.demand == pytest.approx(50.0 / 5.0)


def test_what_was_wanted_before_the_first_share_is_a_demand_if_its_time_is_known() -> (
    None
):
    agent = VirtualAgent(100.0)
    agent.begin(100.0, 900.0, 0.0)
    assert agent.demand == inf
    agent.begin(100.0, 900.0, 20.0)
    assert agent.demand == 45.0
    agent.report(105.0, 0.0, 300.0)
    assert agent.demand == 60.0
    assert (agent.ahead, agent.difference) == (0.0, 0.0)
