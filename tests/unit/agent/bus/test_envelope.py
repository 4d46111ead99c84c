"""Age and lag come from arrival times, whatever the clocks of the hosts say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.bus.envelope import (
    MAX_ORIGINS,
    MAX_OUTSTANDING,
    WINDOW_S,
    Ages,
    Envelope,
    Returns,
)

ORIGIN = b"12345678"


@given(
    st.binary(min_size=8, max_size=8),
    st.integers(0, (1 << 64) - 1),
    st.integers(-(1 << 40), 1 << 50),
)
def test_an_envelope_survives_the_wire(
    origin: bytes, number: int, sent_us: int
) -> None:
    envelope = Envelope(origin, number, sent_us / 1e6)
    got = Envelope.unpack(envelope.pack())
    assert got is not None
    assert (got.origin, got.number) == (origin, number)
    assert got.sent_s == pytest.approx(sent_us / 1e6, abs=1e-6)


@given(st.binary(max_size=60).filter(lambda packed: len(packed) != 24))
def test_what_is_no_envelope_is_none(packed: bytes) -> None:
    assert Envelope.unpack(packed) is None


@pytest.mark.parametrize("clock_ahead_s", [-3600.0, 0.0, 1e6])
def test_a_wrong_clock_does_not_make_a_message_old(clock_ahead_s: float) -> None:
    ages = Ages()
    for second in range(100):
        sent_s = second + clock_ahead_s
        age_s = ages.age_s(ORIGIN, sent_s=sent_s, received_s=second + 0.02)
        assert age_s == pytest.approx(0.0, abs=1e-6)


def test_a_flood_after_a_stall_is_as_old_as_it_is() -> None:
    ages = Ages()
    for second in range(30):
        ages.age_s(ORIGIN, sent_s=second, received_s=second + 0.02)
    stalled = [
        ages.age_s(ORIGIN, sent_s=second, received_s=45.02) for second in range(30, 46)
    ]
    assert stalled == pytest.approx([15.0 - k for k in range(16)])


def test_a_clock_that_was_set_back_mutes_its_sender_for_two_windows_at_most() -> None:
    ages = Ages()
    for second in range(30):
        ages.age_s(ORIGIN, sent_s=second, received_s=second + 0.02)
    old = [
        ages.age_s(ORIGIN, sent_s=second - 600, received_s=second + 0.02)
        for second in range(30, 80)
    ]
    assert old[0] == pytest.approx(600.0)
    assert max(old[int(2 * WINDOW_S) + 1 :]) == pytest.approx(0.0, abs=1e-6)


def test_the_own_clock_may_be_set_back() -> None:
    ages = Ages()
    for second in range(30):
        ages.age_s(ORIGIN, sent_s=second, received_s=second + 500.0)
    ages.age_s(ORIGIN, sent_s=30, received_s=30.0)
    assert ages.age_s(ORIGIN, sent_s=31, received_s=31.0) == pytest.approx(0.0)


def test_the_memory_of_delays_is_bounded() -> None:
    ages = Ages()
    ages.age_s(ORIGIN, sent_s=0.0, received_s=0.0)
    for number in range(MAX_ORIGINS):
        ages.age_s(number.to_bytes(8), sent_s=0.0, received_s=0.0)
    # The first was forgotten: its next message is a first one again.
    assert ages.age_s(ORIGIN, sent_s=0.0, received_s=9.0) == 0.0


def test_the_lag_follows_what_comes_back() -> None:
    returns = Returns()
    assert returns.lag(0.0) == 0.0
    for second in range(50):
        envelope = returns.number(second)
        returns.heard(envelope, second + 0.1)
    assert returns.lag(60.0) == pytest.approx(0.1)
    for second in range(50, 60):
        envelope = returns.number(second)
        returns.heard(envelope, second + 0.8)
    assert returns.lag(60.0) == pytest.approx(0.8, rel=0.01)


def test_the_lag_grows_while_a_message_is_missing_and_is_settled_by_a_later_one() -> (
    None
):
    returns = Returns()
    returns.number(0.0)
    later = returns.number(4.0)
    assert returns.lag(5.0) == 5.0
    returns.heard(later, 5.0)
    assert returns.lag(100.0) == 1.0


def test_foreign_and_doubled_messages_are_no_measure_of_the_lag() -> None:
    returns = Returns()
    own = returns.number(0.0)
    returns.heard(Envelope(ORIGIN, own.number, 0.0), 50.0)
    returns.heard(own, 0.5)
    returns.heard(own, 50.0)
    assert returns.lag(60.0) == 0.5


def test_a_bus_that_returns_nothing_fills_no_memory() -> None:
    returns = Returns()
    first = returns.number(0.0)
    for second in range(MAX_OUTSTANDING):
        returns.number(second)
    assert returns.lag(1000.0) == 1000.0
    returns.heard(first, 1000.0)
    assert returns.lag(1000.0) == 1000.0, "the first is no longer known"
