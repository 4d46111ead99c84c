"""Callers that are muted by several threads at once."""

from __future__ import annotations

from headgate.agent.integrations.mutes import Mutes


def test_a_mute_that_comes_while_another_ends_counts() -> None:
    now_s = 100.0

    def clock() -> float:
        if now_s > 101.0 and not late:
            late.append(30.0)
            mutes.mute("a", late[0])  # by another thread
        return now_s

    late: list[float] = []
    mutes = Mutes(clock)
    mutes.mute("a", 1.0)
    now_s = 102.0
    mutes.left_s("a")
    assert mutes.left_s("a") == 30.0
