"""What the log of an agent's thread says, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.agent.once_log import OnceLog

if TYPE_CHECKING:
    import pytest


def test_an_event_is_logged_once_and_a_change_of_state_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = OnceLog()
    for _ in range(3):
        log.note("malformed_report", "dropped")
        log.note("cut_off", "it hears nothing", each_time=True)
        log.note("heard_again", "it hears something", each_time=True)
    said = [record.getMessage() for record in caplog.records]
    there_and_back = ["cut_off: it hears nothing", "heard_again: it hears something"]
    assert said == ["malformed_report: dropped", *3 * there_and_back]
    assert log.counters == dict.fromkeys(
        ("malformed_report", "cut_off", "heard_again"), 3
    )
