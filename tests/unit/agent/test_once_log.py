"""What the log of an agent's thread says, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.once_log import QUIET_S, OnceLog

if TYPE_CHECKING:
    import pytest


def test_an_event_is_logged_once_and_a_change_of_state_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    log = OnceLog(lambda: now)
    for _ in range(3):
        log.note("malformed_report", "dropped")
        log.note("cut_off", "it hears nothing", each_time=True)
        log.note("heard_again", "it hears something", ends="cut_off")
        now += QUIET_S
    said = [record.getMessage() for record in caplog.records]
    there_and_back = ["cut_off: it hears nothing", "heard_again: it hears something"]
    assert said == ["malformed_report: dropped", *3 * there_and_back]


def test_a_state_that_comes_and_goes_is_logged_once_a_minute_with_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    log = OnceLog(lambda: now)
    for _ in range(60):  # two minutes
        log.note("cut_off", "it hears nothing", each_time=True)
        now += 1.0
        log.note("heard_again", "it hears something", ends="cut_off")
        now += 1.0
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert said == 2 * ["cut_off", "heard_again"]
    assert log.counters == {"cut_off": 60, "heard_again": 60}
