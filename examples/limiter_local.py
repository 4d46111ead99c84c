"""Every way to be told "not now", in one process, without a server.

    python examples/limiter_local.py

Node-scoped limits need no cluster, so an enforcer alone is enough here; with an
agent (`headgate.connect`) the limiters are the same.
"""

import asyncio
import time

from headgate import (
    Attachment,
    Configuration,
    Enforcer,
    Estimate,
    Group,
    KeyedLimiter,
    Limit,
    RefusalMode,
    limited,
)

MODES: tuple[RefusalMode, ...] = ("reject", "delay", "wait", "suppress", "shadow")


def make_enforcer() -> Enforcer:
    """Return five groups, one of each mode, for five tenants of the same names."""
    limits = (
        Limit(dimension="requests", rate=20, burst=5, scope="node"),
        Limit(dimension="tokens", rate=1_000, burst=2_000, scope="node"),
    )
    enforcer = Enforcer(clock=time.monotonic)
    enforcer.configure(
        Configuration(
            revision=1,
            groups=tuple(
                Group(id=i, name=mode, limits=limits, refusal=mode)
                for i, mode in enumerate(MODES, 1)
            ),
            attachments=tuple(
                Attachment((("tenant", mode),), i) for i, mode in enumerate(MODES, 1)
            ),
        ),
        time.monotonic(),
    )
    return enforcer


def show_modes(enforcer: Enforcer) -> None:
    """Attempt twelve requests at once in each mode; the burst is five."""
    for mode in MODES:
        limiter = enforcer.limiter(tenant=mode)
        decisions = [limiter.try_acquire(requests=1) for _ in range(12)]
        print(f"{mode:9} admitted {sum(map(bool, decisions)):2}; last: {decisions[-1]}")


def show_reservation(enforcer: Enforcer) -> None:
    """Reserve what an answer may cost, settle what it did."""
    limiter = enforcer.limiter(tenant="reject")
    estimate = Estimate("tokens", first=500)
    for actual in (700, 350, 420):
        with limiter.reserve(estimate=estimate) as reservation:
            reservation.settle(actual)
    print(f"estimate of the next answer: {estimate.units:.0f} tokens")


async def show_waiting(enforcer: Enforcer) -> None:
    """Let ten tasks wait for their turn at 20 requests a second."""
    limiter = enforcer.limiter(tenant="wait")

    @limited(limiter)
    async def call(index: int) -> int:
        return index

    began = time.monotonic()
    order = await asyncio.gather(*(call(index) for index in range(10)))
    print(f"waited {time.monotonic() - began:.2f} s for {order}")


def show_keys() -> None:
    """Limit each key of this process, in bounded memory."""
    per_user = KeyedLimiter(rate=1, burst=2, clock=time.monotonic, most_keys=10_000)
    print("ann:", [bool(per_user.try_acquire("ann")) for _ in range(4)])
    print("bob:", per_user.try_acquire("bob"))


if __name__ == "__main__":
    made = make_enforcer()
    show_modes(made)
    show_reservation(made)
    asyncio.run(show_waiting(made))
    show_keys()
