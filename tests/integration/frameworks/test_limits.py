"""`limits`: flask-limiter and slowapi, unchanged but for the URI of their storage."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest
from limits import RateLimitItemPerMinute, RateLimitItemPerSecond, parse
from limits.aio.strategies import FixedWindowRateLimiter as AsyncFixedWindow
from limits.errors import ConfigurationError
from limits.storage import storage_from_string
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    RateLimiter,
    SlidingWindowCounterRateLimiter,
)
from tests.integration.frameworks.rigs import (
    EXAMPLES,
    Hammer,
    check_admitted,
    gunicorn,
    start_server,
    until,
)

from headgate.agent.connecting import connect
from headgate.agent.integrations.web.key_groups import (
    KeyGroups,
    Quota,
    template_name,
    user_name,
)
from headgate.limits import AsyncHeadgateStorage, HeadgateStorage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.frameworks.rigs import Quotas

    from headgate.cli.process.children import Children

STRATEGIES = [
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    SlidingWindowCounterRateLimiter,
]


def _uri(quotas: Quotas, **options: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return quotas.url.replace("http", "headgate", 1) + (f"?{query}" if query else "")


def _storage(quotas: Quotas, **options: object) -> HeadgateStorage:
    storage = storage_from_string(_uri(quotas, **options))
    assert isinstance(storage, HeadgateStorage)
    return storage


def _await_template(storage: HeadgateStorage, key: str) -> None:
    until(lambda: storage.keys.governs(key), f"the limit of {key} to be in force")


@pytest.mark.parametrize("app", ["flask_limiter", "slowapi"])
def test_ten_a_second_is_ten_over_all_workers(
    quotas: Quotas, children: Children, tmp_path: Path, app: str
) -> None:
    command = gunicorn(f"limiter_{app}:app", "--workers", "2")
    if app == "slowapi":
        command = ["uvicorn", f"limiter_{app}:app", "--port", "0"]
        command += ["--app-dir", str(EXAMPLES)]
    _, url = start_server(children, app, command, tmp_path / "server.log")
    Hammer(url, seconds=2.0)  # until the limit's template is there
    hammer = Hammer(url, seconds=4.0)
    assert set(hammer.statuses) == {200, 429}
    check_admitted(
        hammer.statuses[200],
        rate=10.0,
        burst=10.0,
        elapsed_s=hammer.elapsed_s,
        processes=2,
    )


@pytest.mark.parametrize("kind", STRATEGIES)
def test_every_strategy_admits_its_amount_and_then_refuses(
    quotas: Quotas, kind: type[RateLimiter]
) -> None:
    storage = _storage(quotas)
    limiter = kind(storage)
    item = RateLimitItemPerMinute(5, namespace=kind.__name__)
    key = item.key_for("alice")
    assert limiter.test(item, "alice", cost=5)
    assert [limiter.hit(item, "alice") for _ in range(6)] == [True] * 5 + [False]
    assert not limiter.test(item, "alice")
    # The key's bucket takes over what this process admitted before it was there.
    _await_template(storage, key)
    more = 0
    for _ in range(20):
        more += limiter.hit(item, "alice")
        time.sleep(0.1)
    assert more <= 1, "it owes what this process admitted before it was there"
    stats = limiter.get_window_stats(item, "alice")
    assert stats.remaining == 0
    assert time.time() < stats.reset_time < time.time() + 61.0
    assert limiter.hit(item, "bob"), "another key has a limit of its own"
    with pytest.raises(NotImplementedError, match="can't be reset"):
        limiter.clear(item, "alice")


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_cost_above_the_limit_is_refused_and_charges_nothing(
    quotas: Quotas, kind: type[RateLimiter]
) -> None:
    limiter = kind(_storage(quotas))
    item = RateLimitItemPerMinute(5, namespace=f"dear {kind.__name__}")
    for cost in (6, 2**60):
        assert not limiter.hit(item, "alice", cost=cost)
        if kind is not SlidingWindowCounterRateLimiter:  # of no use, it says now
            # What flask-limiter tells the client: not to come back at once.
            reset_time = limiter.get_window_stats(item, "alice").reset_time
            assert reset_time > time.time() + 50.0
    assert limiter.hit(item, "alice", cost=5)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_limit_of_0_admits_nothing(quotas: Quotas, kind: type[RateLimiter]) -> None:
    limiter = kind(_storage(quotas))
    item = RateLimitItemPerMinute(0, namespace=kind.__name__)
    assert not limiter.test(item, "alice")
    assert not limiter.hit(item, "alice")
    stats = limiter.get_window_stats(item, "alice")
    assert stats.remaining == 0
    if kind is not SlidingWindowCounterRateLimiter:  # of no use, it says now
        assert stats.reset_time > time.time() + 50.0


def test_limits_are_refilled_like_a_bucket(quotas: Quotas) -> None:
    limiter = MovingWindowRateLimiter(_storage(quotas))
    item = RateLimitItemPerSecond(20)
    began = time.monotonic()
    admitted = 0
    while time.monotonic() - began < 2.0:
        admitted += limiter.hit(item, "refilled")
        time.sleep(0.005)
    elapsed_s = time.monotonic() - began
    # Twenty of the stand-in's burst and as many of the group's at most.
    assert 20 <= admitted <= 20 * elapsed_s + 2 * 20


def test_the_asynchronous_storage_answers_alike(quotas: Quotas) -> None:
    storage = storage_from_string(f"async+{_uri(quotas)}")
    assert isinstance(storage, AsyncHeadgateStorage)

    async def hits() -> list[bool]:
        limiter = AsyncFixedWindow(storage)
        item = RateLimitItemPerMinute(3, namespace="async")
        assert await storage.check()
        return [await limiter.hit(item, "alice") for _ in range(4)]

    assert asyncio.run(hits()) == [True, True, True, False]


def test_while_the_api_is_away_each_process_limits_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = storage_from_string("headgate://127.0.0.1:9")
    assert isinstance(storage, HeadgateStorage)
    assert not storage.check()
    limiter = FixedWindowRateLimiter(storage)
    item = parse("3/minute")
    with caplog.at_level(logging.WARNING, "headgate.agent"):
        assert [limiter.hit(item, "a") for _ in range(4)] == [True] * 3 + [False]
        until(lambda: storage.keys.failed > 0, "the API to be missed")
    assert "each process enforces them on its own" in caplog.text
    storage.keys.close()


def test_keys_beyond_the_bound_are_limited_by_this_process_alone(
    quotas: Quotas,
) -> None:
    storage = _storage(quotas, most_keys=2)
    limiter = FixedWindowRateLimiter(storage)
    item = RateLimitItemPerMinute(2, namespace="crowd")
    for name in ("one", "two", "three"):
        assert [limiter.hit(item, name) for _ in range(3)] == [True, True, False]
    assert len(storage.keys) == 2
    assert storage.keys.overflowed == 3
    _await_template(storage, item.key_for("two"))
    assert not storage.keys.governs(item.key_for("three"))


def test_all_keys_of_a_limit_share_one_template_and_idle_ones_are_forgotten(
    quotas: Quotas,
) -> None:
    agent = _storage(quotas).keys.source
    now_s = 0.0
    keys = KeyGroups(agent, quotas.url, idle_s=0.5, clock=lambda: now_s)
    quota = Quota(100.0, 0.1)
    before = quotas.groups()
    with closing(keys):
        assert keys.try_acquire("first", quota, 1.0)
        until(lambda: template_name(quota) in quotas.groups(), "the template")
        until(lambda: keys.governs("first"), "the template to be in force")
        for number in range(50):
            now_s += 0.1
            assert keys.try_acquire(f"key {number}", quota, 1.0)
            assert keys.governs(f"key {number}"), "it needs no call"
        assert quotas.groups() == before | {template_name(quota)}
        assert 5 <= len(keys) <= 10, "the others were idle"
        assert keys.try_acquire("first", quota, 1.0), "it may come back"


def test_a_key_that_was_forgotten_is_not_charged_again(quotas: Quotas) -> None:
    now_s = 0.0
    keys = KeyGroups(
        _storage(quotas).keys.source, quotas.url, idle_s=0.5, clock=lambda: now_s
    )
    quota = Quota(100.0, 86_400.0)
    with closing(keys):
        for _ in range(40):  # by this process alone, before its limit is in force
            assert keys.try_acquire("mine", quota, 1.0)
        until(lambda: keys.governs("mine"), "the limit to be in force")
        keys.charge("mine", quota, 1.0)
        for name in ("one", "two"):
            now_s += 1.0
            keys.charge(name, quota, 1.0)
            assert not keys.governs("mine"), "it is forgotten"
            keys.charge("mine", quota, 1.0)
        # Before its agent's first look, the bucket takes nothing to be left.
        until(lambda: keys.level("mine", quota)[0] > 0.0, "a look at the bucket")
        level, _ = keys.level("mine", quota)
        assert level == pytest.approx(100.0 - 43.0, abs=0.5)


def test_what_others_used_of_a_key_is_known_without_using_it(quotas: Quotas) -> None:
    quota = Quota(200.0, 86_400.0)
    with (
        closing(KeyGroups(_storage(quotas).keys.source, quotas.url)) as used,
        connect(quotas.url, agent="other", keep_snapshot=False) as other,
        closing(KeyGroups(other, quotas.url)) as asked,
    ):
        for _ in range(40):
            assert used.try_acquire("mine", quota, 1.0)
        until(lambda: used.governs("mine"), "the limit to be in force")
        used.charge("mine", quota, 1.0)
        until(lambda: 0.0 < asked.level("mine", quota)[0] < 160.0, "others' use")
        assert asked.level("yours", quota)[0] == 200.0


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("headgate://127.0.0.1:9?tokn=x", "expected options among token, ca_file"),
        ("headgate://127.0.0.1:9?most_keys=many", "most_keys: expected a number > 0"),
        ("headgate://127.0.0.1:9?most_keys=0", "most_keys: expected a number > 0"),
        ("headgate://", "headgate://: "),
        ("headgates://127.0.0.1:9?ca_file=/nowhere.pem", "headgates://: "),
    ],
)
def test_a_uri_that_can_t_be_says_what_was_expected(uri: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        storage_from_string(uri)


def test_a_key_without_its_limit_says_what_was_expected(quotas: Quotas) -> None:
    with pytest.raises(ConfigurationError, match=r"\.\.\./10/1/minute, got 'bare'"):
        _storage(quotas).incr("bare", 60)


@pytest.mark.parametrize(
    "key", ["LIMITER/::1/a b/\n/10/1/minute", "x" * 5_000, "/", "é\udc80", "?#%"]
)
def test_every_key_has_a_name_that_the_api_takes(quotas: Quotas, key: str) -> None:
    groups: dict[str, object] = {"mine": {}}
    attachment = {"subject": {"user": user_name(key)}, "group": "mine"}
    body: dict[str, object] = {"groups": groups, "attachments": [attachment]}
    answer = httpx.post(f"{quotas.url}/api/v1/apply", json=body)
    assert answer.is_success, answer.text
    assert os.path.basename(user_name(key)) == user_name(key)
