"""What is left of a limit over the cluster, between two looks at the ledger."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.agent.making import NODE, Clock, configuration, group

from headgate.agent.enforcement.common_levels import KEEP_S, LOOK_S
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.limiter.ratelimit_headers import ratelimit_headers

SHARED = replace(NODE, rate=200, burst=200, scope="cluster")


class Ledger:
    """What the cluster has left; counts how often it is looked at."""

    def __init__(self) -> None:
        self.left = (150.0, 80.0)
        self.told_of = 0.0
        self.looks = 0

    def __call__(self, group_id: int, dimension: str) -> tuple[float, float, float]:
        assert (group_id, dimension) == (1, "requests")
        self.looks += 1
        return *self.left, self.told_of


def _made() -> tuple[Enforcer, Clock, Ledger]:
    clock, ledger = Clock(), Ledger()
    enforcer = Enforcer(clock=clock, seed=1)
    enforcer.share_levels(ledger)
    made = configuration(group(SHARED), acme=1)
    enforcer.configure(made, clock.now)
    return enforcer, clock, ledger


def _told(enforcer: Enforcer) -> bytes:
    limiter = enforcer.limiter(tenant="acme")
    links = limiter.links({"requests": 1.0})
    return dict(ratelimit_headers(links, enforcer.clock()))[b"ratelimit"]


def test_a_limit_that_nobody_used_yet_is_full() -> None:
    enforcer, _, _ = _made()
    assert _told(enforcer) == b'"gold.requests";r=200;t=0'


def test_what_the_ledger_knows_is_told_and_goes_on_until_the_next_look() -> None:
    enforcer, clock, ledger = _made()
    _told(enforcer)
    enforcer.counts(clock.now)
    assert _told(enforcer) == b'"gold.requests";r=150;t=1'
    clock.now += 0.25  # 200/s come back, others take 80/s
    assert _told(enforcer) == b'"gold.requests";r=180;t=1'
    clock.now += 10.0
    assert _told(enforcer) == b'"gold.requests";r=200;t=0'
    ledger.left = (-7.0, 80.0)
    enforcer.counts(clock.now)
    assert _told(enforcer) == b'"gold.requests";r=0;t=2'  # 207 units are missing


def test_what_is_admitted_here_is_taken_off_at_once() -> None:
    enforcer, clock, ledger = _made()
    ledger.left = (150.0, 200.0)
    _told(enforcer)
    enforcer.counts(clock.now)
    assert enforcer.limiter(tenant="acme").try_acquire(requests=1)
    assert _told(enforcer) == b'"gold.requests";r=149;t=1'


def test_what_came_while_it_was_full_is_lost() -> None:
    enforcer, clock = _full()
    clock.now += 0.4  # 80 units come, in vain
    assert enforcer.limiter(tenant="acme").try_acquire(requests=199)
    assert _told(enforcer) == b'"gold.requests";r=1;t=1'


def test_what_was_taken_before_has_come_back() -> None:
    enforcer, clock = _full()
    for _ in range(10):
        assert enforcer.limiter(tenant="acme").try_acquire(requests=39)
        clock.now += 0.2
    assert _told(enforcer) == b'"gold.requests";r=200;t=0'


def test_what_was_taken_while_nobody_asked_has_come_back() -> None:
    enforcer, clock = _full()
    for _ in range(10):
        assert enforcer.limiter(tenant="acme").try_acquire(requests=100)
        clock.now += 1.0
    clock.now += KEEP_S
    enforcer.counts(clock.now)
    assert _told(enforcer) == b'"gold.requests";r=200;t=0'


def test_others_that_took_too_much_are_not_taken_to_go_on_for_ever() -> None:
    enforcer, clock, ledger = _made()
    ledger.left = (100.0, 210.0)
    _told(enforcer)
    enforcer.counts(clock.now)
    clock.now += 3600.0
    assert _told(enforcer) == b'"gold.requests";r=200;t=0'


def _full() -> tuple[Enforcer, Clock]:
    enforcer, clock, ledger = _made()
    ledger.left = (200.0, 0.0)
    _told(enforcer)
    enforcer.counts(clock.now)
    (link,) = enforcer.limiter(tenant="acme").links({"requests": 1.0})
    link.bucket.set_rate_at(clock.now, rate=200.0, capacity=200.0)
    link.bucket.fill()
    return enforcer, clock


def test_what_the_ledger_was_not_told_of_yet_is_taken_off() -> None:
    enforcer, clock, ledger = _made()
    ledger.left = (200.0, 200.0)
    _told(enforcer)
    enforcer.counts(clock.now)
    assert enforcer.limiter(tenant="acme").try_acquire(requests=30)
    clock.now += LOOK_S
    enforcer.counts(clock.now)  # looks at the ledger, which then hears of the 30
    assert _told(enforcer) == b'"gold.requests";r=170;t=1'
    ledger.left, ledger.told_of = (170.0, 200.0), 30.0
    clock.now += LOOK_S
    enforcer.counts(clock.now)
    assert _told(enforcer) == b'"gold.requests";r=170;t=1'


def test_a_limit_is_looked_at_only_while_somebody_wants_to_know() -> None:
    enforcer, clock, ledger = _made()
    enforcer.limiter(tenant="acme").try_acquire(requests=1)
    enforcer.counts(clock.now)
    assert ledger.looks == 0
    _told(enforcer)
    for _ in range(3):
        enforcer.counts(clock.now)
    assert ledger.looks == 1
    clock.now += LOOK_S
    enforcer.counts(clock.now)
    assert ledger.looks == 2
    clock.now += KEEP_S + 1.0
    for _ in range(5):
        enforcer.counts(clock.now)
        clock.now += LOOK_S
    assert ledger.looks == 2


def test_a_limit_of_this_process_alone_is_told_by_its_own_bucket() -> None:
    clock, ledger = Clock(), Ledger()
    enforcer = Enforcer(clock=clock, seed=1)
    enforcer.share_levels(ledger)
    enforcer.configure(configuration(group(NODE), acme=1), clock.now)
    assert enforcer.limiter(tenant="acme").try_acquire(requests=1)
    assert _told(enforcer) == b'"gold.requests";r=4;t=1'
    enforcer.counts(clock.now)
    assert ledger.looks == 0
