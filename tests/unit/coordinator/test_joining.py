"""Asking for the levels of ledgers that come and go meanwhile."""

from __future__ import annotations

import numpy as np

from headgate.coordinator.joining import Joining


def asked(*numbers: int) -> Joining:
    """A round of ledgers whose answers are due at 10 s."""
    joining = Joining()
    for number in numbers:
        joining.begin(number)
    joining.asked(1, np.array(numbers))
    joining.answer(np.array(numbers), np.array([float(n) for n in numbers]))
    joining.echoed(1, ready_at=10.0)
    return joining


def test_a_ledger_that_went_away_in_the_middle_of_a_round_is_not_told() -> None:
    joining = asked(5, 7)
    joining.forget(5)
    assert joining.finish(10.0) == [(7, 7.0)]
    assert not joining


def test_a_new_ledger_of_an_old_number_is_asked_for_anew() -> None:
    joining = asked(5)
    joining.forget(5)
    joining.begin(5)
    assert joining.finish(10.0) == []
    joining.asked(2, np.array([5]))
    joining.echoed(2, ready_at=20.0)
    assert joining.finish(20.0) == [(5, None)]
