"""The LiteLLM hook against LiteLLM's library: every way in which a call can end."""

from __future__ import annotations

import asyncio
import os
import time
from contextvars import Context
from datetime import UTC, datetime
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, cast

import pytest
from tests.integration.limiter.making import make, node_limit

from headgate.agent.integrations.llm.litellm import (
    GatewayCall,
    characters_of,
    default_subjects,
    usage_of,
)
from headgate.agent.integrations.llm.token_calls import TokenCall, TokenCalls
from headgate.agent.integrations.llm.token_estimate import TokenEstimates, TokenUsage
from headgate.coordinator import Attachment, Configuration, Group, SetSlots
from headgate.litellm import LiteLLMLimiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from types import ModuleType

    from headgate.agent.decision import Decision
    from headgate.agent.enforcement.enforcer import Enforcer

# LiteLLM warns of its own code when it is imported and used.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENCE_S = 30.0

BURST = 1_000_000.0
"""Tokens; they refill so slowly that what is missing was charged."""

MESSAGES = [{"role": "user", "content": "Tell me about canals."}]

MODEL = "openai/gpt-4o-mini"

ACME: dict[str, object] = {"user_api_key_team_id": "acme"}
"""What the library's callers say of themselves."""


@pytest.fixture(scope="module")
def litellm() -> Iterator[ModuleType]:
    """The library, which else asks the network for prices when it is imported."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    module = import_module("litellm")
    yield module
    module.callbacks = []  # type: ignore[attr-defined]
    _RUNNER.close()


class Gateway:
    """The proxy's order of events around calls of the real library."""

    def __init__(
        self, litellm: ModuleType, *, tokens: float = BURST, requests: float = BURST
    ) -> None:
        self.source: Enforcer = make(
            node_limit("tokens", 1e-9, tokens), node_limit("requests", 1e-9, requests)
        )
        self.limiter = LiteLLMLimiter(
            self.source, subjects=lambda call: [{"tenant": call.team}], timeout_s=600.0
        )
        self.calls = cast("TokenCalls", getattr(self.limiter, "calls"))  # noqa: B009
        self.library = litellm
        litellm.logging_callback_manager._reset_all_callbacks()
        litellm.callbacks = [self.limiter]  # type: ignore[attr-defined]

    def spent(self, dimension: str) -> float:
        """Return what has been charged and not given back."""
        uses = self.source.usage()
        return sum(x.admitted for x in uses if x.dimension == dimension)

    def hook(self, name: str) -> Callable[..., Awaitable[object]]:
        """Return a hook that LiteLLM calls."""
        return cast("Callable[..., Awaitable[object]]", getattr(self.limiter, name))

    async def begin(self, call_id: str, *, team: str = "acme", **data: object) -> None:
        """Do what the proxy does before it routes."""
        key = import_module("litellm.proxy._types").UserAPIKeyAuth(
            key_alias="key", team_id=team
        )
        body = {"model": MODEL, "messages": MESSAGES, "litellm_call_id": call_id}
        await self.hook("async_pre_call_hook")(
            key, None, {**body, **data}, "completion"
        )

    async def complete(self, call_id: str | None, **options: object) -> object:
        """Call the library as the proxy does: with the request's id."""
        acompletion = cast("Callable[..., Awaitable[object]]", self.library.acompletion)
        given = {} if call_id is None else {"litellm_call_id": call_id}
        return await acompletion(
            model=MODEL, messages=MESSAGES, api_key="none", **given, **options
        )

    def logged(self, call_id: str) -> dict[str, object]:
        """Return the log that the proxy sets up before anything else."""
        utils = import_module("litellm.utils")
        log, _ = utils.function_setup(
            "acompletion",
            utils.Rules(),
            datetime.now(UTC),
            model=MODEL,
            messages=MESSAGES,
            litellm_call_id=call_id,
        )
        return {"litellm_logging_obj": log}

    async def spends(self, *, requests: float) -> None:
        """Wait until so many requests are charged."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.spent("requests") < requests:
            assert time.monotonic() < deadline_s, "no call began"
            await asyncio.sleep(0.02)

    async def settled(self) -> None:
        """Wait until no call is under way: LiteLLM logs in tasks of its own."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.calls):
            assert time.monotonic() < deadline_s, "a reservation stays"
            await asyncio.sleep(0.02)


_RUNNER = asyncio.Runner()
"""LiteLLM's logging worker keeps to the first event loop that it meets."""


def _run(coroutine: Awaitable[None]) -> None:
    async def outer() -> None:
        await coroutine

    _RUNNER.run(outer())


def test_a_call_is_settled_with_its_true_usage(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)

    async def call() -> None:
        await gateway.begin("a")
        reserved = gateway.spent("tokens")
        response = await gateway.complete("a", mock_response="Water flows downhill.")
        await gateway.settled()
        usage = usage_of(response)
        assert usage is not None
        assert gateway.spent("tokens") == pytest.approx(usage.total)
        assert gateway.spent("requests") == 1.0
        assert reserved > usage.total  # 256 tokens of answer, as nothing was learnt

    _run(call())


def test_the_proxy_finds_every_hook(litellm: ModuleType) -> None:
    """It looks into the class of a callback itself, not into those it inherits from."""
    kind = type(Gateway(litellm).limiter)
    hooks = {name for name in dir(kind.__mro__[1]) if name.startswith("async_")}
    offered = dir(import_module("litellm.integrations.custom_logger").CustomLogger)
    assert "async_pre_call_hook" in hooks
    assert hooks <= set(vars(kind)) & set(offered)


def test_the_proxy_itself_reserves_and_tells_what_is_left(litellm: ModuleType) -> None:
    pytest.importorskip("backoff", reason="LiteLLM's proxy needs it")
    gateway = Gateway(litellm)
    common = "litellm.proxy.common_utils.user_api_key_cache"
    cache = import_module(common).UserApiKeyCache()
    proxy = import_module("litellm.proxy.utils").ProxyLogging(user_api_key_cache=cache)
    key = import_module("litellm.proxy._types").UserAPIKeyAuth(team_id="acme")
    log = gateway.logged("a")
    data = {"model": MODEL, "messages": MESSAGES, "litellm_call_id": "a", **log}

    async def call() -> None:
        await proxy.pre_call_hook(
            user_api_key_dict=key, data=data, call_type="acompletion"
        )
        assert gateway.spent("requests") == 1.0
        response = await gateway.complete("a", mock_response=_answer(50), **log)
        await gateway.settled()
        assert gateway.spent("requests") == 1.0
        assert gateway.spent("tokens") == pytest.approx(50.0)
        headers = await proxy.post_call_response_headers_hook(data, key, response)
        assert headers["x-ratelimit-remaining-tokens"] == f"{BURST - 50:.0f}"

    _run(call())


def test_a_stream_is_settled_when_it_ends(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)

    async def call() -> None:
        await gateway.begin("a")
        stream = await gateway.complete(
            "a", mock_response="So it is. " * 20, stream=True
        )
        count = 0
        hooked = gateway.hook("async_post_call_streaming_iterator_hook")
        wrapped = cast(
            "AsyncIterator[object]", hooked(None, stream, {"litellm_call_id": "a"})
        )
        async for _ in wrapped:
            count += 1
        assert count > 5
        await gateway.settled()
        assert 20 < gateway.spent("tokens") < 200

    _run(call())


def test_a_stream_that_is_cut_is_charged_with_what_was_streamed(
    litellm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = import_module("headgate.agent.integrations.llm.litellm")
    monkeypatch.setattr(hooks, "GRACE_S", 0.05)
    gateway = Gateway(litellm)

    async def request() -> None:
        await gateway.begin("a", messages=[{"role": "user", "content": "x" * 400}])
        stream = await gateway.complete("a", mock_response="words " * 200, stream=True)
        hooked = gateway.hook("async_post_call_streaming_iterator_hook")
        wrapped = cast(
            "AsyncIterator[object]", hooked(None, stream, {"litellm_call_id": "a"})
        )
        count = 0
        async for _ in wrapped:
            count += 1
            if count == 20:
                return  # the client is gone

    async def serve() -> None:
        await asyncio.create_task(request())
        await gateway.settled()
        # 100 tokens of prompt, and a few words; not the 256 that were reserved.
        assert 100 < gateway.spent("tokens") < 160

    _run(serve())


def test_a_call_that_is_cancelled_gives_everything_back(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)

    async def request() -> None:
        await gateway.begin("a")
        await gateway.complete("a", mock_response="late", mock_delay=PATIENCE_S)

    async def serve() -> None:
        task = asyncio.create_task(request())
        await asyncio.sleep(0.5)
        assert gateway.spent("requests") == 1.0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gateway.settled()
        assert gateway.spent("tokens") == 0.0
        assert gateway.spent("requests") == 0.0

    _run(serve())


def test_a_call_that_is_cancelled_before_its_reservation_charges_nothing(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)

    async def serve() -> None:
        task = asyncio.create_task(gateway.begin("a"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(gateway.calls) == 0
        assert gateway.spent("requests") == 0.0

    _run(serve())


def test_a_call_that_failed_costs_a_request_and_no_tokens(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)
    failing = "litellm.InternalServerError"

    async def call() -> None:
        await gateway.begin("a")
        with pytest.raises(Exception, match="mock"):
            await gateway.complete("a", mock_response=failing)
        # Another attempt may follow: the proxy says when the last has failed.
        await asyncio.sleep(0.3)
        assert gateway.spent("tokens") > 0.0
        data = {"litellm_call_id": "a"}
        await gateway.hook("async_post_call_failure_hook")(data, ValueError(), None)
        await gateway.settled()
        assert gateway.spent("tokens") == 0.0
        assert gateway.spent("requests") == 1.0

    _run(call())


def test_a_retry_that_succeeds_at_another_deployment_is_charged_once(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)
    router = cast("Callable[..., object]", litellm.Router)(
        model_list=[
            {
                "model_name": name,
                "litellm_params": {
                    "model": MODEL,
                    "api_key": "none",
                    "mock_response": response,
                },
            }
            for name, response in (
                ("bad", "litellm.InternalServerError"),
                ("good", "fine"),
            )
        ],
        fallbacks=[{"bad": ["good"]}],
        num_retries=1,
        retry_after=0,
    )
    acompletion = cast(
        "Callable[..., Awaitable[object]]",
        getattr(router, "acompletion"),  # noqa: B009
    )

    async def call() -> None:
        await gateway.begin("a", model="bad")
        response = await acompletion(
            model="bad", messages=MESSAGES, litellm_call_id="a"
        )
        await gateway.settled()
        usage = usage_of(response)
        assert usage is not None
        assert gateway.spent("tokens") == pytest.approx(usage.total)
        assert gateway.spent("requests") == 1.0

    _run(call())


def test_the_library_alone_is_limited_by_attempt(litellm: ModuleType) -> None:
    gateway = Gateway(litellm, requests=2.0)

    async def call() -> None:
        options: dict[str, object] = {"metadata": {"user_api_key_team_id": "acme"}}
        await gateway.complete(None, mock_response="fine", **options)
        await gateway.settled()
        assert gateway.spent("requests") == 1.0
        failing = "litellm.InternalServerError"
        with pytest.raises(Exception, match="mock"):
            await gateway.complete(None, mock_response=failing, **options)
        await gateway.settled()
        assert gateway.spent("requests") == 2.0
        assert gateway.spent("tokens") < 100.0, "the second one's tokens came back"
        await gateway.complete(None, mock_response="owed", **options)
        with pytest.raises(Exception, match="requests of group 'gold'") as refused:
            await gateway.complete(None, mock_response="more", **options)
        assert getattr(refused.value, "status_code", None) == 429

    _run(call())


def test_a_call_in_an_event_loop_of_its_own_is_settled(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)
    for calls in (1, 2, 3):
        asyncio.run(gateway.complete(None, mock_response=_answer(50), metadata=ACME))
        assert len(gateway.calls) == 0
        assert gateway.spent("requests") == calls
        assert gateway.spent("tokens") == pytest.approx(50.0 * calls)


def test_two_limiters_settle_each_call(litellm: ModuleType) -> None:
    first, second = Gateway(litellm), Gateway(litellm)
    litellm.callbacks = [first.limiter, second.limiter]  # type: ignore[attr-defined]

    async def call() -> None:
        await first.complete(None, mock_response=_answer(50), metadata=ACME)
        for gateway in first, second:
            await gateway.settled()
            assert gateway.spent("requests") == 1.0
            assert gateway.spent("tokens") == pytest.approx(50.0)

    _run(call())


def test_each_fallback_of_the_library_is_a_call(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)
    failing = {"model": MODEL, "mock_response": "litellm.InternalServerError"}
    answering = {"model": MODEL, "mock_response": _answer(50)}

    async def call() -> None:
        await gateway.complete(
            None, metadata=ACME, mock_response=_answer(20), fallbacks=[failing]
        )
        await gateway.settled()
        assert gateway.spent("requests") == 1.0
        assert gateway.spent("tokens") == pytest.approx(20.0)
        await gateway.complete(
            None,
            metadata=ACME,
            mock_response="litellm.InternalServerError",
            fallbacks=[failing, answering, failing],
        )
        await gateway.settled()
        assert gateway.spent("requests") == 4.0
        assert gateway.spent("tokens") == pytest.approx(70.0)

    _run(call())


def test_a_stream_of_the_library_is_charged_if_its_reader_is_cancelled(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)
    read: list[object] = []

    async def request() -> None:
        stream = await gateway.complete(
            None,
            stream=True,
            mock_response="word " * 500,
            metadata={"user_api_key_team_id": "acme"},
        )
        async for chunk in cast("AsyncIterator[object]", stream):
            read.append(chunk)
            if len(read) == 5:
                await asyncio.sleep(PATIENCE_S)

    async def serve() -> None:
        task = asyncio.create_task(request())
        deadline_s = time.monotonic() + PATIENCE_S
        while len(read) < 5:
            assert time.monotonic() < deadline_s, "no answer"
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gateway.settled()
        assert gateway.spent("requests") == 1.0
        assert gateway.spent("tokens") > 0.0

    _run(serve())


def test_a_timeout_in_a_task_that_goes_on_gives_back_a_call_without_an_answer(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)

    async def end_when_begun(limit: asyncio.Timeout) -> None:
        await gateway.spends(requests=1.0)
        limit.reschedule(asyncio.get_running_loop().time())

    async def complete(limit: asyncio.Timeout) -> None:
        async with limit:
            await gateway.complete(
                None, mock_response="late", mock_delay=PATIENCE_S, metadata=ACME
            )

    async def call() -> None:
        limit = asyncio.timeout(None)
        ending = asyncio.create_task(end_when_begun(limit))
        with pytest.raises(TimeoutError):
            await complete(limit)
        await ending
        await gateway.settled()
        assert gateway.spent("requests") == 0.0
        assert gateway.spent("tokens") == 0.0

    _run(call())


def test_a_timeout_in_a_task_that_goes_on_charges_a_stream_that_had_begun(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)
    read: list[object] = []

    async def read_some(limit: asyncio.Timeout) -> None:
        stream = await gateway.complete(
            None, stream=True, mock_response="word " * 500, metadata=ACME
        )
        async for chunk in cast("AsyncIterator[object]", stream):
            read.append(chunk)
            if len(read) == 5:
                limit.reschedule(asyncio.get_running_loop().time())
                await asyncio.sleep(PATIENCE_S)

    async def call() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                await read_some(limit)
        await gateway.settled()
        assert len(read) == 5
        assert gateway.spent("requests") == 1.0
        assert gateway.spent("tokens") > 0.0

    _run(call())


def test_a_stream_of_the_library_may_outlive_the_task_that_began_it(
    litellm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = import_module("headgate.agent.integrations.llm.litellm")
    monkeypatch.setattr(hooks, "GRACE_S", 0.0)
    gateway = Gateway(litellm)

    async def read() -> None:
        begin = gateway.complete(
            None, stream=True, mock_response="So it is. " * 20, metadata=ACME
        )
        stream = await asyncio.ensure_future(begin)
        reserved = gateway.spent("tokens")
        await asyncio.sleep(0.1)
        assert len(gateway.calls) == 1
        async for _ in cast("AsyncIterator[object]", stream):
            pass
        await gateway.settled()
        assert 20 < gateway.spent("tokens") < reserved

    _run(read())


def _answer(tokens: int) -> dict[str, object]:
    """Return a mock answer of this usage; that of a text is always the same."""
    usage = {"prompt_tokens": 6, "completion_tokens": tokens - 6}
    return {"usage": {**usage, "total_tokens": tokens}}


def test_calls_of_one_id_at_once_are_charged_each_for_itself(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)

    async def call() -> None:
        for_tokens = [
            gateway.complete("mine", mock_response=_answer(tokens), metadata=ACME)
            for tokens in (100, 20, 50)
        ]
        await asyncio.gather(*for_tokens)
        await gateway.settled()
        assert gateway.spent("requests") == 3.0
        assert gateway.spent("tokens") == pytest.approx(170.0)

    _run(call())


def test_the_proxy_charges_a_call_to_its_own_team_whatever_its_id(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)

    async def call() -> None:
        logs = {team: gateway.logged("mine") for team in ("acme", "other")}
        for team, log in logs.items():
            await gateway.begin("mine", team=team, **log)
        for team, tokens in ("other", 20), ("acme", 100):
            await gateway.complete("mine", mock_response=_answer(tokens), **logs[team])
        await gateway.settled()
        assert gateway.spent("requests") == 1.0
        assert gateway.spent("tokens") == pytest.approx(100.0)

    _run(call())


def test_a_call_that_fails_ends_no_other_of_its_id(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)

    async def complete(answer: str, delay_s: float = 0.0) -> object:
        return await gateway.complete(
            "mine", mock_response=answer, mock_delay=delay_s, metadata=ACME
        )

    async def call() -> None:
        late = asyncio.create_task(complete("late", PATIENCE_S))
        await gateway.spends(requests=1.0)
        reserved = gateway.spent("tokens")
        with pytest.raises(Exception, match="mock"):
            await complete("litellm.InternalServerError")
        assert len(gateway.calls) == 1
        assert gateway.spent("requests") == 2.0
        assert gateway.spent("tokens") == reserved > 0.0
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        await gateway.settled()
        assert gateway.spent("requests") == 1.0

    _run(call())


@pytest.mark.parametrize("begun", [True, False])
def test_a_request_of_the_proxy_that_fails_ends_no_other_of_its_id(
    litellm: ModuleType, *, begun: bool
) -> None:
    """The proxy hides the log of one that fails; one without a valid key has none."""
    gateway = Gateway(litellm)

    async def fail() -> None:
        if begun:
            await gateway.begin("mine", team="acme", **gateway.logged("mine"))
        data = {"litellm_call_id": "mine"}
        await gateway.hook("async_post_call_failure_hook")(data, ValueError(), None)

    async def call() -> None:
        await gateway.begin("mine", team="acme", **gateway.logged("mine"))
        first = _found(gateway.calls, "mine")
        reserved = gateway.spent("tokens")
        await asyncio.create_task(fail(), context=Context())  # as each request has one
        assert gateway.spent("tokens") == reserved > 0.0
        gateway.calls.succeeded(first, TokenUsage(100.0, 900.0))
        assert gateway.spent("tokens") == 1_000.0
        assert len(gateway.calls) == 0

    _run(call())


def test_a_refusal_is_429_and_says_when_to_come_back(litellm: ModuleType) -> None:
    gateway = Gateway(litellm, requests=1.0)

    async def call() -> None:
        await gateway.begin("a")
        await gateway.begin("b")  # owed
        with pytest.raises(Exception, match="requests of group 'gold'") as refused:
            await gateway.begin("c")
        assert getattr(refused.value, "status_code", None) == 429
        headers = cast("Mapping[str, str]", getattr(refused.value, "headers", {}))
        assert int(headers["retry-after"]) > 0
        assert int(headers["retry-after-ms"]) > 0
        assert getattr(refused.value, "rate_limit_type", None) == "requests"
        assert len(gateway.calls) == 2

    _run(call())


def test_a_refused_call_gives_back_nothing_of_another_with_its_id(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm, tokens=100.0)

    async def call() -> None:
        await gateway.begin("mine")  # owed
        reserved = gateway.spent("tokens")
        for team in ("acme", "a/b"):
            with pytest.raises(Exception, match=r"tokens|determined") as refused:
                await gateway.begin("mine", team=team)
            await gateway.hook("async_post_call_failure_hook")(
                {"litellm_call_id": "mine"}, refused.value, None
            )
        assert len(gateway.calls) == 1
        assert gateway.spent("tokens") == reserved > 0.0
        mine = _found(gateway.calls, "mine")
        gateway.calls.succeeded(mine, TokenUsage(100.0, 900.0))
        assert gateway.spent("tokens") == 1_000.0

    _run(call())


def test_a_call_too_many_in_flight_is_429_and_names_what_is_limited(
    litellm: ModuleType,
) -> None:
    _, source = _slots(1)
    gateway = Gateway(litellm)
    gateway.limiter = LiteLLMLimiter(
        source, subjects=lambda call: [{"tenant": call.team}]
    )

    async def call() -> None:
        await gateway.begin("a")
        with pytest.raises(Exception, match="slots_in_flight of group") as refused:
            await gateway.begin("b")
        assert getattr(refused.value, "status_code", None) == 429
        kind = getattr(refused.value, "rate_limit_type", None)
        assert kind == "concurrent_requests"
        data = {"litellm_call_id": "a"}
        await gateway.hook("async_post_call_failure_hook")(data, ValueError(), None)
        await gateway.begin("b")

    _run(call())


def test_an_unknown_team_is_not_limited_unless_that_is_asked_for(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm, requests=1.0)
    strict = LiteLLMLimiter(gateway.source, unattached="refuse")
    key = import_module("litellm.proxy._types").UserAPIKeyAuth(team_id="nobody")
    data: dict[str, object] = {"model": MODEL, "litellm_call_id": "x"}
    hook = cast(
        "Callable[..., Awaitable[object]]",
        getattr(strict, "async_pre_call_hook"),  # noqa: B009
    )

    async def call() -> None:
        for number in range(3):
            await gateway.begin(str(number), team="nobody")
        with pytest.raises(Exception, match="no quota") as refused:
            await hook(key, None, data, "completion")
        assert getattr(refused.value, "status_code", None) == 429
        assert len(strict_calls) == 0

    strict_calls = cast("TokenCalls", getattr(strict, "calls"))  # noqa: B009
    _run(call())
    assert gateway.spent("requests") == 0.0


def test_an_unknown_key_is_refused_where_that_is_asked_for_unless_its_team_is_known(
    litellm: ModuleType,
) -> None:
    gateway = Gateway(litellm)
    strict = LiteLLMLimiter(gateway.source, unattached="refuse")
    hook = cast(
        "Callable[..., Awaitable[object]]",
        getattr(strict, "async_pre_call_hook"),  # noqa: B009
    )
    key_of = import_module("litellm.proxy._types").UserAPIKeyAuth
    data: dict[str, object] = {"model": MODEL, "messages": MESSAGES}

    async def call() -> None:
        unknown = key_of(api_key="sk-unknown")
        with pytest.raises(Exception, match="no quota"):
            await hook(unknown, None, {**data, "litellm_call_id": "x"}, "completion")
        known = key_of(api_key="sk-unknown", team_id="acme")
        await hook(known, None, {**data, "litellm_call_id": "y"}, "completion")

    _run(call())
    assert gateway.spent("requests") == 1.0


def test_a_team_whose_name_can_t_be_one_is_a_bad_request(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)

    async def call() -> None:
        with pytest.raises(Exception, match="expected a name without '/'") as wrong:
            await gateway.begin("a", team="a/b")
        assert getattr(wrong.value, "status_code", None) == 400
        assert len(gateway.calls) == 0

    _run(call())


def test_calls_without_tokens_are_counted_as_requests_only(litellm: ModuleType) -> None:
    gateway = Gateway(litellm)
    key = import_module("litellm.proxy._types").UserAPIKeyAuth(team_id="acme")
    data = {"model": "dall-e-3", "prompt": "a canal", "litellm_call_id": "i"}
    hook = gateway.hook("async_pre_call_hook")
    _run(cast("Awaitable[None]", hook(key, None, data, "image_generation")))
    assert gateway.spent("requests") == 1.0
    assert not [
        x for x in gateway.source.usage() if x.dimension == "tokens" and x.admitted
    ]


# What follows needs no library: what may come as usage.

CONTEXT = 1_000.0


def _calls(burst: float = BURST) -> tuple[TokenCalls, Enforcer]:
    source = make(node_limit("tokens", 1e-9, burst), node_limit("requests", 1e-9, 1e6))
    estimates = TokenEstimates(first_answer=100.0)
    calls = TokenCalls(source, estimates=estimates, context_of=lambda _: CONTEXT)
    return calls, source


def _begin(calls: TokenCalls, call_id: str, *teams: str) -> Decision:
    subjects = [{"tenant": team} for team in teams or ("acme",)]
    return calls.begin(call_id, subjects, model="m", characters=400)


def _found(calls: TokenCalls, call_id: str) -> TokenCall:
    call = calls.find(call_id)
    assert call is not None
    return call


def _tokens(source: Enforcer) -> float:
    return sum(x.admitted for x in source.usage() if x.dimension == "tokens")


@pytest.mark.parametrize(
    ("usage", "charged"),
    [
        (TokenUsage(50.0, 30.0), 80.0),
        (None, 200.0),  # the estimate stands
        (TokenUsage(0.0, 0.0), 200.0),
        (TokenUsage(float("nan"), 1.0), 200.0),
        (TokenUsage(float("inf"), 1.0), 200.0),
        (TokenUsage(-5.0, 1.0), 200.0),
        (TokenUsage(900.0, 5_000.0), CONTEXT),  # larger than the context
        (TokenUsage(-5.0, 100.0), 95.0),
    ],
)
def test_odd_usages_have_an_answer(usage: TokenUsage | None, charged: float) -> None:
    calls, source = _calls()
    assert _begin(calls, "a")
    assert _tokens(source) == 200.0
    call = _found(calls, "a")
    calls.succeeded(call, usage)
    assert _tokens(source) == pytest.approx(charged)
    assert len(calls) == 0
    calls.succeeded(call, TokenUsage(5.0, 5.0))  # a repeat is ignored
    assert _tokens(source) == pytest.approx(charged)
    # What was odd was not learnt.
    assert _begin(calls, "b")
    plain = charged == 80.0
    assert _tokens(source) - charged == pytest.approx(188.0 if plain else 200.0)


def test_an_answer_from_a_cache_costs_a_request_and_no_tokens() -> None:
    calls, source = _calls()
    assert _begin(calls, "a")
    calls.succeeded(_found(calls, "a"), TokenUsage(50.0, 30.0), from_cache=True)
    assert _tokens(source) == 0.0


def test_a_call_that_one_of_its_subjects_refuses_charges_none_of_them() -> None:
    calls, source = _calls(burst=100.0)
    assert _begin(calls, "a", "other", "acme")  # into debt
    assert not _begin(calls, "b", "other", "acme")
    assert _tokens(source) == 200.0
    assert len(calls) == 1


def _slots(count: int) -> tuple[TokenCalls, Enforcer]:
    """Return calls of acme, so many of which may be in flight."""
    source = make()
    gold = Group(id=1, name="gold", limits=(), slots=count)
    attached = (Attachment((("tenant", "acme"),), 1),)
    source.configure(
        Configuration(revision=2, groups=(gold,), attachments=attached),
        time.monotonic(),
    )
    assert source.limiter(tenant="acme").has_slots
    source.hold(SetSlots({1: count}, inf))
    return TokenCalls(source), source


def test_calls_in_flight_are_limited_until_they_end() -> None:
    calls, _ = _slots(2)
    assert calls.limited([{"tenant": "acme"}])
    assert _begin(calls, "a")
    assert _begin(calls, "b", "other", "acme")
    refused = _begin(calls, "c", "other", "acme")
    assert not refused
    assert "slots_in_flight of group 'gold'" in str(refused)
    calls.succeeded(_found(calls, "a"), TokenUsage(1.0, 1.0))
    assert _begin(calls, "c")
    assert not _begin(calls, "d")
    calls.failed(_found(calls, "b"))
    assert _begin(calls, "d")
    cancelled = _found(calls, "c")
    calls.cancelled(cancelled)
    calls.cancelled(cancelled)  # a slot comes back once
    assert _begin(calls, "e")
    assert not _begin(calls, "f")
    calls.cut(_found(calls, "d"))
    assert _begin(calls, "f")


def test_a_call_whose_tokens_are_refused_holds_no_slot() -> None:
    calls, source = _slots(1)
    limit = node_limit("tokens", 1e-9, 100.0)
    gold = Group(id=1, name="gold", limits=(limit,), slots=1, may_owe=False)
    attached = (Attachment((("tenant", "acme"),), 1),)
    source.configure(
        Configuration(revision=3, groups=(gold,), attachments=attached),
        time.monotonic(),
    )
    refused = _begin(calls, "a")
    assert refused.limit is not None
    assert refused.limit.dimension == "tokens"
    assert source.metrics()["slots_in_use"] == 0.0


def test_two_calls_of_one_id_are_settled_one_by_one() -> None:
    calls, source = _calls()
    assert _begin(calls, "a")
    assert _begin(calls, "a")
    calls.succeeded(_found(calls, "a"), TokenUsage(10.0, 10.0))
    calls.succeeded(_found(calls, "a"), TokenUsage(20.0, 20.0))
    assert _tokens(source) == pytest.approx(60.0)
    assert len(calls) == 0


def _timed_calls() -> tuple[TokenCalls, Enforcer, list[float]]:
    """Return calls that end after ten seconds of a clock, which is set by hand."""
    now = [0.0]
    source = make(node_limit("tokens", 1e-9, BURST))
    source.clock = lambda: now[0]
    return TokenCalls(source, timeout_s=10.0, clock=lambda: now[0]), source, now


def test_a_call_that_nobody_settles_is_returned_and_forgotten() -> None:
    calls, source, now = _timed_calls()
    assert _begin(calls, "lost")
    spent = _tokens(source)
    assert spent > 0.0
    now[0] = 11.0
    source.counts(now[0])  # what the agent's thread does
    assert _tokens(source) == 0.0
    now[0] = 21.0
    assert _begin(calls, "next")
    assert (len(calls), calls.unsettled) == (1, 1)


def test_calls_of_an_id_that_is_used_all_the_time_hide_no_forgotten_ones() -> None:
    calls, _, now = _timed_calls()
    assert _begin(calls, "busy")
    assert _begin(calls, "lost")
    for step in range(10):
        now[0] = 5.0 * step
        assert _begin(calls, "busy")
        calls.failed(_found(calls, "busy"))
    assert (len(calls), calls.unsettled) == (1, 1)


def test_estimates_are_learnt_by_model_and_bounded_by_the_caller() -> None:
    estimates = TokenEstimates(first_answer=100.0, weight=0.5)
    assert estimates.of("m", 400, None) == TokenUsage(100.0, 100.0)
    assert estimates.of("m", 400, 10.0) == TokenUsage(100.0, 10.0)
    for _ in range(30):
        estimates.note("m", 400, TokenUsage(200.0, 900.0))
    learnt = estimates.of("m", 800, None)
    assert learnt.prompt == pytest.approx(400.0)
    assert learnt.answer == pytest.approx(900.0)
    assert estimates.of("other", 400, None) == TokenUsage(100.0, 100.0)


@pytest.mark.parametrize(
    ("response", "usage"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, TokenUsage(3, 4)),
        ({"usage": {"input_tokens": 3, "output_tokens": 4}}, TokenUsage(3, 4)),
        ({"usage": {"prompt_tokens": 3, "total_tokens": 3}}, TokenUsage(3, 0)),
        (
            {
                "usage": {
                    "prompt_tokens": 3,
                    "completion_tokens": 1,
                    "total_tokens": 9,
                }
            },
            TokenUsage(3, 6),
        ),
        ({"usage": {"total_tokens": 9}}, TokenUsage(9, 0)),
        ({"usage": None}, None),
        ({"usage": {"prompt_tokens": "three"}}, None),
        ({}, None),
        (None, None),
        ("text", None),
    ],
)
def test_usage_is_found_in_every_kind_of_response(
    response: object, usage: TokenUsage | None
) -> None:
    assert usage_of(response) == usage


@pytest.mark.parametrize(
    ("data", "characters"),
    [
        ({"messages": [{"role": "user", "content": "12345"}]}, 5),
        ({"messages": [{"content": [{"type": "text", "text": "123"}]}]}, 3),
        ({"messages": [{"content": [{"image_url": {"url": "x" * 99}}]}]}, 0),
        ({"prompt": ["ab", "cd"]}, 4),
        ({"input": "abc"}, 3),
        ({"messages": 7}, 0),
        ({"messages": [[[[[[[[[[["deep"]]]]]]]]]]]}, 0),
        ({}, 0),
    ],
)
def test_a_prompt_s_characters_are_counted_whatever_its_shape(
    data: dict[str, object], characters: int
) -> None:
    assert characters_of(data) == characters


def test_team_user_key_and_model_are_subjects_by_default() -> None:
    call = GatewayCall(key="k", user="u", team="t", model="openai/gpt-4o")
    source = make()
    for subject in default_subjects(call):
        source.limiter(**subject)  # each can be one
    assert list(default_subjects(call)) == [
        {"tenant": "t"},
        {"user": "u"},
        {"client": "k"},
        {"topic": "litellm/models/openai/gpt-4o"},
    ]
    assert default_subjects(GatewayCall()) == []
