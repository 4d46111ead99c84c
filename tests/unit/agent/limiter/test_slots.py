"""Slots in flight in one process: how each can end, and who waits."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import time
import tracemalloc
from math import inf
from typing import TYPE_CHECKING

import pytest

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import (
    AlreadyReleased,
    CallerError,
    InvalidSetting,
    Throttled,
)
from headgate.coordinator import Attachment, Configuration, Group, SetSlots

if TYPE_CHECKING:
    from collections.abc import Iterator


class Process:
    """An enforcer with a clock that stands still, and two groups of slots.

    Attributes:
        now: Its time, seconds.
        limiter: Of acme, which is in the inner group.
    """

    def __init__(self, slots: int = 3) -> None:
        self.now = 100.0
        self.enforcer = Enforcer(clock=lambda: self.now)
        self.configure(slots)
        self.limiter = self.enforcer.limiter(tenant="acme")
        self.set(2)

    def configure(self, slots: int | None) -> None:
        """Follow a configuration: so many slots for acme, ten for all."""
        groups = (
            Group(id=1, name="all", limits=(), slots=10),
            Group(id=2, name="gold", limits=(), slots=slots, parent=1),
        )
        attached = (Attachment((("tenant", "acme"),), 2),)
        configuration = Configuration(revision=1, groups=groups, attachments=attached)
        self.enforcer.configure(configuration, self.now)

    def set(self, gold: int, *, everyone: int = 10, lost: bool = False) -> None:
        """Let callers hold so many slots, as the coordinator would."""
        self.enforcer.hold(SetSlots({1: everyone, 2: gold}, inf, lost=lost))

    def counted(self) -> dict[int, tuple[int, int]]:
        """Return (in use, wanted) by group."""
        slots = self.enforcer.counts(self.now).slots
        return {each.group_id: (each.in_use, each.wanted) for each in slots}


@pytest.fixture
def process() -> Process:
    """A process that may hold two slots of three."""
    return Process()


def test_no_more_are_held_than_the_coordinator_allows(process: Process) -> None:
    held = [process.limiter.try_slot() for _ in range(3)]
    assert [bool(slot) for slot in held] == [True, True, False]
    refusal = held[2].decision
    assert not refusal.never
    assert refusal.delay_s > 0.0
    assert str(refusal.limit) == "slots_in_flight of group 'gold' (tenant, cluster)"
    assert process.counted()[2] == (2, 3)
    held[0].release()
    assert process.limiter.try_slot()


def test_a_slot_needs_one_of_each_group_or_takes_none(process: Process) -> None:
    process.set(2, everyone=1)
    first, second = process.limiter.try_slot(), process.limiter.try_slot()
    assert first
    assert not second
    assert second.decision.limit is not None
    assert second.decision.limit.group == "all"
    assert {k: in_use for k, (in_use, _) in process.counted().items()} == {1: 1, 2: 1}


def test_a_slot_that_is_released_twice_is_given_back_once(process: Process) -> None:
    one, other = process.limiter.try_slot(), process.limiter.try_slot()
    assert other
    one.release()
    with pytest.raises(AlreadyReleased, match="it was already released"):
        one.release()
    assert process.counted()[2][0] == 1
    with process.limiter.slot() as slot:
        slot.release()  # at the end of the block nothing is left to release
    assert process.counted()[2][0] == 1


def test_a_slot_that_is_forgotten_comes_back_and_is_counted(process: Process) -> None:
    process.limiter.try_slot()
    gc.collect()
    assert process.counted()[2][0] == 0
    assert process.enforcer.metrics()["slots_dropped"] == 1.0


def test_a_slot_beyond_its_lease_goes_to_others(process: Process) -> None:
    slot = process.limiter.try_slot(lease_s=10.0)
    process.now += 9.0
    assert slot.renew()
    process.now += 9.0
    assert process.counted()[2][0] == 1
    process.now += 2.0
    assert process.counted()[2][0] == 0
    assert not slot.held
    assert not slot.renew()
    slot.release()  # its holder may have been slow, and does no harm
    assert process.counted()[2][0] == 0
    assert process.enforcer.metrics()["slots_expired"] == 1.0


def test_a_slot_that_was_released_leaves_nothing_behind(process: Process) -> None:
    tracemalloc.start()
    try:
        for _ in range(20_000):  # a lease of an hour would keep 200 bytes of each
            with process.limiter.slot():
                process.now += 0.001
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    held = process.limiter.try_slot()
    process.now += 3_600.0
    process.counted()
    assert held.state == "expired"


def test_slots_that_others_took_are_not_given_back(process: Process) -> None:
    before = process.limiter.try_slot()
    process.set(0, lost=True)
    assert not before.held
    process.set(2)
    after = process.limiter.try_slot()
    before.release()
    assert after.held
    assert process.counted()[2][0] == 1


def test_nothing_is_handed_out_past_the_deadline(process: Process) -> None:
    process.enforcer.hold(SetSlots({1: 9, 2: 2}, process.now + 1.5))
    assert process.limiter.try_slot()
    process.now += 1.5
    assert not process.limiter.try_slot()


def test_a_lowered_number_leaves_what_is_held(process: Process) -> None:
    held = [process.limiter.try_slot() for _ in range(2)]
    process.configure(1)
    assert all(slot.held for slot in held)
    held[0].release()
    assert not process.limiter.try_slot()
    held[1].release()
    assert process.limiter.try_slot()


def test_of_no_slots_none_ever_comes(process: Process) -> None:
    process.configure(0)
    slot = process.limiter.try_slot()
    assert slot.decision.never
    with pytest.raises(Throttled, match="never"), process.limiter.slot():
        pytest.fail("nobody may come in")


def test_without_a_number_nothing_is_limited(process: Process) -> None:
    assert process.limiter.has_slots
    free = process.enforcer.limiter(tenant="other")
    assert not free.has_slots
    assert all(free.try_slot() for _ in range(99))


def test_slots_that_are_held_count_when_the_limit_is_set_again(
    process: Process,
) -> None:
    held = [process.limiter.try_slot(), process.limiter.try_slot()]
    process.configure(None)
    process.configure(3)
    assert not process.limiter.try_slot(), "nobody has said how many there may be"
    process.set(2)
    assert not process.limiter.try_slot()
    assert process.counted()[2][0] == 2
    held.pop().release()
    assert process.limiter.try_slot()
    del held
    process.configure(None)
    gc.collect()
    process.configure(3)
    process.set(2)
    assert process.limiter.try_slot()
    assert process.limiter.try_slot()


def test_a_lease_of_no_time_is_refused(process: Process) -> None:
    for lease_s in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidSetting, match=r"lease_s: expected .*seconds"):
            process.limiter.try_slot(lease_s=lease_s)


def test_a_group_in_shadow_only_counts(process: Process) -> None:
    gold = Group(id=2, name="gold", limits=(), slots=0, refusal="shadow")
    attached = (Attachment((("tenant", "acme"),), 2),)
    process.enforcer.configure(
        Configuration(revision=2, groups=(gold,), attachments=attached), process.now
    )
    slot = process.limiter.try_slot()
    assert slot
    assert slot.decision.shadow
    assert process.enforcer.metrics()["slots_refused"] == 1.0


def waiting(process: Process) -> Iterator[None]:
    """Yield until somebody waits."""
    while not process.enforcer.slots.metrics()["slots_waiting"]:
        yield


def test_who_waits_gets_the_next_slot_and_nobody_overtakes(process: Process) -> None:
    first, second = process.limiter.try_slot(), process.limiter.try_slot()
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(bool(process.limiter.slot())))
    thread.start()
    thread.join()
    assert got == [True]  # a claim takes nothing before its block begins

    def work() -> None:
        with process.limiter.slot() as slot:
            got.append(slot.held)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in waiting(process):
        pass
    assert process.counted()[2] == (2, 3)
    process.set(3)  # room for one, which is the waiter's
    thread.join()
    assert got == [True, True]
    assert first.held
    assert second.held


def test_who_waits_in_vain_is_told_the_deadline(process: Process) -> None:
    held = [process.limiter.try_slot() for _ in range(2)]
    with (
        pytest.raises(Throttled, match="deadline"),
        process.limiter.slot(timeout_s=0.001),
    ):
        pytest.fail("all are held")
    assert all(slot.held for slot in held)
    assert process.enforcer.metrics()["slots_waiting"] == 0


def test_a_task_that_is_cancelled_takes_no_slot_with_it(process: Process) -> None:
    asyncio.run(cancel_one_of_two(process))


async def cancel_one_of_two(process: Process) -> None:
    """Let two wait for a slot, and cancel the first when it has just got it."""
    held = [process.limiter.try_slot() for _ in range(2)]

    async def work() -> None:
        async with process.limiter.slot() as slot:
            assert slot.held

    cancelled, patient = asyncio.create_task(work()), asyncio.create_task(work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert process.enforcer.metrics()["slots_waiting"] == 2
    held[0].release()  # the first one's, and it is cancelled before it runs
    cancelled.cancel()
    await asyncio.gather(cancelled, patient, return_exceptions=True)
    assert not patient.cancelled()
    assert process.counted()[2][0] == 1


def test_a_caller_that_a_signal_interrupts_no_longer_waits(process: Process) -> None:
    class TimeIsUp(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise TimeIsUp

    held = [process.limiter.try_slot() for _ in range(2)]
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeIsUp), process.limiter.slot():
            pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert process.enforcer.metrics()["slots_waiting"] == 0
    for slot in held:
        slot.release()
    assert process.enforcer.metrics()["slots_dropped"] == 0


def test_a_claim_serves_one_block_at_a_time(process: Process) -> None:
    """It would give back the slot of the first when the second begins."""
    claim = process.limiter.slot()

    async def work(number: int) -> int:
        async with claim:
            await asyncio.sleep(0)
            return number

    async def main() -> list[int | BaseException]:
        return await asyncio.gather(*map(work, range(3)), return_exceptions=True)

    for _ in range(2):  # one block after another is allowed
        first, *others = asyncio.run(main())
        assert first == 0
        assert all("one block at a time" in str(error) for error in others)
        assert {type(error) for error in others} == {CallerError}
        assert process.enforcer.metrics()["slots_in_use"] == 0
    with claim, pytest.raises(CallerError, match="call slot"), claim:
        pass
    process.set(0)
    claim = process.limiter.slot(timeout_s=0.0)
    for _ in range(2):
        with pytest.raises(Throttled), claim:
            pass


def test_a_number_of_zero_answers_those_who_wait(process: Process) -> None:
    asyncio.run(close_on_one(process))


async def close_on_one(process: Process) -> None:
    """Let one wait for a slot of a group that is closed then."""
    held = [process.limiter.try_slot() for _ in range(2)]

    async def work() -> bool:
        slot = await process.limiter.slot().take_async()
        return slot.decision.never

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    process.configure(0)
    assert await task
    assert all(slot.held for slot in held)


def test_when_the_agent_is_closed_nobody_goes_on_waiting(process: Process) -> None:
    held = [process.limiter.try_slot() for _ in range(2)]
    told: list[Throttled] = []

    def work() -> None:
        try:
            with process.limiter.slot():
                pass
        except Throttled as refused:
            told.append(refused)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    until_s = time.monotonic() + 30.0
    while not process.enforcer.metrics()["slots_waiting"]:
        assert time.monotonic() < until_s
    process.enforcer.close()
    thread.join(30.0)
    work()  # and nobody begins to wait
    for slot in held:
        slot.release()
    process.configure(5)
    process.set(5)
    work()
    assert [refused.decision.reason for refused in told] == ["agent closed"] * 3
    assert all(refused.decision.never for refused in told)


def test_whoever_asks_for_the_first_time_after_the_end_is_refused() -> None:
    process = Process()
    process.enforcer.close()
    groups = (Group(id=3, name="silver", limits=(), slots=5),)
    attached = (Attachment((("tenant", "other"),), 3),)
    later = Configuration(revision=2, groups=groups, attachments=attached)
    process.enforcer.configure(later, process.now)
    slot = process.enforcer.limiter(tenant="other").try_slot()
    assert (bool(slot), slot.decision.reason) == (False, "agent closed")


def test_threads_never_hold_more_than_is_allowed(process: Process) -> None:
    process.set(2)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    held, most = [0], [0]
    lock = threading.Lock()

    def work() -> None:
        for _ in range(2000):
            slot = process.limiter.try_slot()
            if slot:
                with lock:
                    held[0] += 1
                    most[0] = max(most[0], held[0])
                with lock:
                    held[0] -= 1
                slot.release()

    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert most[0] <= 2
    assert process.counted()[2][0] == 0
