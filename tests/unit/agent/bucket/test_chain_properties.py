"""Limiters over chains of limits and dimensions, over random lives."""

from __future__ import annotations

from math import inf

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.agent.making import Clock

from headgate.agent.enforcement.enforcer import Enforcer
from headgate.coordinator.config.configuration import (
    Attachment,
    Configuration,
    Group,
    Limit,
)

DIMENSIONS: tuple[str, ...] = ("requests", "tokens")
RATE = st.one_of(st.just(0.0), st.floats(0.01, 1e9), st.just(inf))
BURST = st.floats(0.5, 1e9)
LIMIT = st.tuples(st.sampled_from(DIMENSIONS), RATE, BURST, st.floats(0.1, 3_600.0))
GROUP = st.tuples(
    st.lists(LIMIT, min_size=1, max_size=2, unique_by=lambda limit: limit[0]),
    st.booleans(),
)
COSTS = st.dictionaries(
    st.sampled_from(DIMENSIONS), st.floats(0.0, 2e9), min_size=1, max_size=2
)
STEP = st.tuples(st.floats(0.0, 100.0), COSTS)


def made(
    groups: list[tuple[list[tuple[str, float, float, float]], bool]], *, revision: int
) -> Configuration:
    """A group at each of tenant, user and subscription, as many as there are."""
    kinds = ("tenant", "user", "subscription")[: len(groups)]
    return Configuration(
        revision=revision,
        groups=tuple(
            Group(
                id=index,
                name=kind,
                may_owe=may_owe,
                limits=tuple(
                    Limit(
                        dimension=dimension,
                        rate=rate,
                        burst=burst,
                        period_s=period_s,
                        scope="node",
                    )
                    for dimension, rate, burst, period_s in limits
                ),
            )
            for index, (kind, (limits, may_owe)) in enumerate(
                zip(kinds, groups, strict=True), 1
            )
        ),
        attachments=tuple(
            Attachment(((kind, "a"),), index) for index, kind in enumerate(kinds, 1)
        ),
    )


@settings(deadline=None, max_examples=60)
@given(
    groups=st.lists(GROUP, min_size=1, max_size=3),
    life=st.lists(STEP, min_size=1, max_size=30),
)
@example(  # given back within a lull, and asked for again
    groups=[([("requests", 0.0, 1.0, 1.0), ("tokens", 1.0, 1.0, 1.0)], True)],
    life=[
        (0.0, {"tokens": 1.0}),
        (1e-5, {"requests": 1.0, "tokens": 1.0}),
        (0.0, {"tokens": 1.0}),
    ],
)
@example(  # all that a full bucket held, charged within a lull
    groups=[([("tokens", 1.0, 1.0, 1.0)], True)],
    life=[(0.0, {"tokens": 0.0}), (0.0, {"tokens": 1.0}), (1e-5, {"tokens": 1.0})],
)
def test_all_limits_are_charged_or_none_and_a_delay_is_true(
    groups: list[tuple[list[tuple[str, float, float, float]], bool]],
    life: list[tuple[float, dict[str, float]]],
) -> None:
    clock = Clock(0.0)
    enforcer = Enforcer(clock=clock)
    enforcer.configure(made(groups, revision=1), clock.now)
    limiter = enforcer.limiter(tenant="a", user="a", subscription="a")
    admitted = dict.fromkeys(DIMENSIONS, 0.0)
    largest = dict.fromkeys(DIMENSIONS, 0.0)
    for step, costs in life:
        clock.now += step
        foreseen = limiter.validate(**costs)
        decision = limiter.try_acquire(**costs)
        assert bool(decision) == bool(foreseen)
        if not decision and not decision.never and decision.delay_s < 1e6:
            assert decision.delay_s > 0.0
            # Longer by what rounding may cost, then it passes.
            clock.now += decision.delay_s * (1 + 1e-9) + 1e-6
            decision = limiter.try_acquire(**costs)
            assert decision, decision
        for dimension, cost in costs.items():
            largest[dimension] = max(largest[dimension], cost)
            admitted[dimension] += cost * bool(decision)
    for local in enforcer.locals():
        bucket, limit = local.bucket, local.limit
        wanted = admitted[limit.dimension]
        # What was charged and given back rounds a double by its own size.
        size = max(wanted, largest[limit.dimension], 1.0)
        assert abs(bucket.admitted - wanted) <= 1e-9 * size
        most = limit.burst + limit.rate_per_s * clock.now + largest[limit.dimension]
        assert limit.rate == inf or wanted <= most * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(
    first=st.lists(GROUP, min_size=1, max_size=3),
    second=st.lists(GROUP, min_size=1, max_size=3),
    life=st.lists(STEP, min_size=1, max_size=20),
)
def test_no_change_of_the_configuration_forgets_a_debt_or_breaks_a_limiter(
    first: list[tuple[list[tuple[str, float, float, float]], bool]],
    second: list[tuple[list[tuple[str, float, float, float]], bool]],
    life: list[tuple[float, dict[str, float]]],
) -> None:
    clock = Clock(0.0)
    enforcer = Enforcer(clock=clock)
    limiter = enforcer.limiter(tenant="a", user="a", subscription="a")
    for revision, (step, costs) in enumerate(life, 1):
        before = {id(x): (x, x.bucket.level_at(clock.now)) for x in enforcer.locals()}
        groups = first if revision % 2 else second
        enforcer.configure(made(groups, revision=revision), clock.now)
        for local in enforcer.locals():
            level = local.bucket.level_at(clock.now)
            held = before.get(id(local), (local, inf))[1]
            if held < 0.0 and not local.bucket.closed and level < inf:
                assert level <= held + 1e-6 * abs(held) or level == 0.0
            assert level <= max(local.bucket.capacity, 0.0)
        clock.now += step
        limiter.try_acquire(**costs)
        limiter.try_acquire_some(**{"requests": costs.get("requests", 1.0)})
