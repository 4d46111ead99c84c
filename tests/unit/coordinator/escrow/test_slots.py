"""Slots as permits: never more than N, whatever happens; and who gets how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.coordinator.escrow.adversary import PERMITS, Adversary, Process

from headgate.coordinator.escrow.permits import Escrow
from headgate.coordinator.escrow.slots import Stock, gifts_of, worth_of
from headgate.coordinator.messages.events import SlotCount
from headgate.coordinator.messages.report import AgentLife

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


SEEDS = range(40)
SIZES = (1, 2, 3, 5, 7)


class Careless(Stock):
    """Gives slots that are held."""

    def _give(self, worth: NDArray[np.int64], now: float) -> bool:
        counted, self.escrow.in_use = self.escrow.in_use, 0
        moved = super()._give(worth, now)
        self.escrow.in_use = counted
        return moved


class Hasty(Stock):
    """Hands out slots that it has decided to give."""

    def step(self, weight_of: object, now: float) -> bool:
        moved = super().step(lambda _: 1.0, now)
        self.may_hold = int(worth_of(self.size, PERMITS)[self.escrow.owned()].sum())
        return moved


class SlotAdversary(Adversary):
    """Agents whose permits are slots, and callers who take and release them."""

    def __init__(self, stock: type[Stock], seed: int) -> None:
        super().__init__(Escrow, seed)
        self.size = self._random.choice(SIZES)
        self.worked = 0
        self._stock = stock
        self._stocks: dict[AgentLife, Stock] = {}
        self._in_use: dict[AgentLife, int] = {}

    def _actions(self) -> dict[Callable[[], None], float]:
        return {**super()._actions(), self._tick_all: 25}

    def _tick_all(self) -> None:
        for process in list(self._procs.values()):
            self._tick(process)

    def _give(self) -> None:
        """Let callers of one agent come and go around its tick, and it give slots."""
        self._tick(self._any())

    def _tick(self, process: Process) -> None:
        life = process.life
        if life not in self._stocks:
            self._stocks[life] = self._stock(process.escrow, self.size)
        stock = self._stocks[life]
        self._come_and_go(life, stock)
        in_use = self._in_use[life]
        wanted = in_use + self._random.choice([0, 0, 1, 5])
        stock.count(SlotCount(1, in_use, wanted), self._now)
        self._come_and_go(life, stock)  # callers don't wait for a tick to end
        before = len(process.escrow.owned())
        stock.step(lambda _: 1.0, self._now)
        if len(process.escrow.owned()) < before:
            self._emit(process, whole=self._often(), late=self._often())

    def _come_and_go(self, life: AgentLife, stock: Stock) -> None:
        held = self._in_use.setdefault(life, 0)
        if held and self._random.random() < 0.1:  # most work takes long
            held -= self._random.randint(1, held)
        if stock.may_hold > held and self._random.random() < 0.8:
            held = self._random.randint(held, stock.may_hold)
            self.worked += 1
        self._in_use[life] = held

    def _check(self) -> None:
        super()._check()
        held = {p.life: self._in_use.get(p.life, 0) for p in self._procs.values()}
        if sum(held.values()) > self.size:
            self.doubled = self.doubled or f"{held} of {self.size} slots"


@pytest.mark.long
def test_never_more_than_n_slots_are_held_against_the_adversary() -> None:
    worked = given_on = crashed = 0
    for seed in SEEDS:
        run = SlotAdversary(Stock, seed)
        run.run()
        assert not run.doubled, f"seed {seed}: {run.doubled}"
        worked, given_on = worked + run.worked, given_on + run.given
        crashed += run.crashed
    assert min(worked, given_on, crashed) > len(SEEDS), "the adversary is too tame"


@pytest.mark.long
@pytest.mark.parametrize("broken", [Careless, Hasty])
def test_the_adversary_finds_what_is_left_out(broken: type[Stock]) -> None:
    for seed in SEEDS:
        run = SlotAdversary(broken, seed)
        run.run()
        if run.doubled:
            return
    pytest.fail(f"{broken.__name__} was not found out")


@given(st.integers(0, 5000), st.integers(1, 1024))
def test_permits_are_worth_all_slots_and_never_less_of_a_larger_number(
    size: int, permits: int
) -> None:
    worth, more = worth_of(size, permits), worth_of(size + 1, permits)
    assert worth.sum() == size
    assert ((more - worth) >= 0).all()


@st.composite
def stands(draw: st.DrawFn) -> tuple[NDArray[np.int64], ...]:
    """Draw what agents own, hold and want, and how long each had it."""
    count = draw(st.integers(2, 6))
    column = st.lists(st.integers(0, 12), min_size=count, max_size=count)
    owned = np.array(draw(column))
    wanted = np.array(draw(column))
    return owned, np.minimum(owned, wanted), wanted


def passed_on(
    owned: NDArray[np.int64],
    used: NDArray[np.int64],
    wanted: NDArray[np.int64],
    weight: NDArray[np.float64],
    *,
    rotate: bool = False,
) -> NDArray[np.int64]:
    """Return what each owns once all have given, ``int64[K]``."""
    after = owned.copy()
    for me in range(len(owned)):
        gifts = gifts_of(me, owned, used, wanted, weight, rotate=rotate)
        assert (gifts >= 0).all()
        assert gifts[me] == 0
        assert gifts.sum() <= owned[me]
        after += gifts
        after[me] -= gifts.sum()
    return after


@pytest.mark.long
@given(stands())
def test_who_gives_what_comes_to_rest_with_each_having_its_part(
    stand: tuple[NDArray[np.int64], ...],
) -> None:
    owned, _, wanted = stand
    weight = np.ones(len(owned))
    for _ in range(20):
        owned = passed_on(owned, np.minimum(owned, wanted), wanted, weight)
    again = passed_on(owned, np.minimum(owned, wanted), wanted, weight)
    assert (again == owned).all(), "slots go back and forth"
    part = owned.sum() // len(owned)
    assert (owned >= np.minimum(wanted, part)).all()


def test_weights_divide_what_is_scarce() -> None:
    owned, wanted = np.array([12, 0]), np.array([12, 12])
    weight = np.array([1.0, 3.0])
    assert passed_on(owned, owned, wanted, weight).tolist() == [3, 9]


def test_a_single_slot_goes_round() -> None:
    owned, wanted = np.array([1, 0, 0]), np.array([1, 1, 1])
    seen: list[int] = []
    for _ in range(6):
        seen.append(int(owned.argmax()))
        owned = passed_on(
            owned, np.minimum(owned, wanted), wanted, np.ones(3), rotate=True
        )
    assert seen == [0, 1, 2, 0, 1, 2]


def test_an_idle_agent_has_a_slot_in_hand_where_some_are_left() -> None:
    owned, used, wanted = np.array([10, 0]), np.array([3, 0]), np.array([3, 0])
    after = passed_on(owned, used, wanted, np.ones(2))
    assert after.tolist() == [9, 1]


def test_a_lowered_number_takes_no_slot_and_gives_none() -> None:
    process = Process(Escrow, AgentLife("a", 1), 0.0)
    process.escrow.step(1.0, may_found=True)
    stock = Stock(process.escrow, 9)
    stock.count(SlotCount(1, 6, 9), 1.0)
    stock.step(lambda _: 1.0, 1.0)
    assert stock.may_hold == 9
    stock.size = 4
    stock.step(lambda _: 1.0, 2.0)
    assert stock.may_hold == 4  # below the six that are held: none is handed out
