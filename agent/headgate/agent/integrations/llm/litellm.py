"""LiteLLM: requests, tokens and calls in flight of key, user, team and model.

A module beside the proxy's ``config.yaml``, named there under ``callbacks``::

    limiter = LiteLLMLimiter(headgate.connect("http://127.0.0.1:8080"))

All limits hold across all proxies.  Before a call its estimated tokens are reserved in
the quotas of all its subjects, and a slot in flight is taken from each that limits
them; when it is over, its true usage is settled and the slots are released.  By default
the subjects are the team (a tenant), the user, the key (a client, by its alias, else by
its hash) and the model (the topic ``litellm/models/NAME``); what is attached to no
group is not limited.

In the proxy one reservation spans a call with its retries and fallbacks.  With
LiteLLM's library alone (`litellm.acompletion`, `litellm.Router`), each attempt is a
call; the synchronous functions can't be refused by a callback, and are not limited.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast
from uuid import uuid4

from headgate.agent.errors import InvalidSubject
from headgate.agent.integrations.llm.token_calls import TIMEOUT_S, TokenCalls, refusal
from headgate.agent.integrations.llm.token_estimate import TokenUsage
from headgate.agent.integrations.web.answers import retry_after_s
from headgate.coordinator.config.configuration import IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headgate.agent.decision import Decision
    from headgate.agent.integrations.llm.token_calls import TokenCall
    from headgate.agent.integrations.sources import LimiterSource

Subjects = Sequence[Mapping[str, str | None]]

MODELS = "litellm/models"
"""Namespace of the topics that stand for models."""

WITHOUT_TOKENS = frozenset({"image", "speech", "transcription", "moderation", "video"})
"""Words in the kinds of calls that are counted as requests only."""

LIMIT_TYPES = {"tokens": "tokens", IN_FLIGHT: "concurrent_requests"}
"""What LiteLLM calls a dimension in its refusals; all others are "requests"."""

REFUSED_HERE = "refused_by_headgate"
"""Attribute of the errors that this module raises."""

RECORD = "model_call_details"
"""Attribute of a call's log: its record, which LiteLLM passes to `async_log_…`."""

MARK = "headgate_call:"
"""Key, with the call's id, of the mark in LiteLLM's record of a call: callers choose
ids, so several calls may have the same one."""

_PROXY_MARK: ContextVar[str] = ContextVar("headgate_call", default="")
"""Mark of the proxy's call in this context: the proxy hides the log of one that failed,
and tells of requests that never became a call, whose ids may be those of others."""

GRACE_S = 5.0
"""How long after the end of its request a call is given to report its usage."""

LONGEST_MUTE_S = 30.0
"""Longest that a call is held in mode ``delay``."""


@dataclass(frozen=True, slots=True)
class GatewayCall:
    """The caller and the model; each None if the gateway does not know it.

    Attributes:
        key: Alias of the key, else its hash.
        user: Id of the user.
        team: Id of the team.
        end_user: Whom the caller names as its own user.
        model: As the caller names it.
    """

    key: str | None = None
    user: str | None = None
    team: str | None = None
    end_user: str | None = None
    model: str | None = None


def default_subjects(call: GatewayCall) -> Subjects:
    """Return team, user, key and model as subjects."""
    found: list[Mapping[str, str | None]] = []
    if call.team:
        found.append({"tenant": call.team})
    if call.user:
        found.append({"user": call.user})
    if call.key:
        found.append({"client": call.key})
    if call.model:
        found.append({"topic": f"{MODELS}/{call.model}"})
    return found


class _LiteLLMLimiter:
    """The hooks that LiteLLM calls; made by `LiteLLMLimiter`."""

    def __init__(
        self,
        calls: TokenCalls,
        subjects: Callable[[GatewayCall], Subjects],
        unattached: Literal["admit", "refuse"],
    ) -> None:
        super().__init__()  # LiteLLM's own
        self.calls = calls
        self._subjects = subjects
        self._unattached = unattached

    async def async_pre_call_hook(
        self,
        user_api_key_dict: object,
        cache: object,
        data: MutableMapping[str, object],
        call_type: str,
    ) -> None:
        """Reserve, or refuse with 429: the proxy calls this before it routes."""
        del cache
        caller = GatewayCall(
            key=_text(user_api_key_dict, "key_alias")
            or _text(user_api_key_dict, "api_key"),
            user=_text(user_api_key_dict, "user_id"),
            team=_text(user_api_key_dict, "team_id"),
            end_user=_text(user_api_key_dict, "end_user_id"),
            model=_text(data, "model"),
        )
        await self._begin(caller, data, str(call_type))

    async def async_pre_call_deployment_hook(
        self, kwargs: Mapping[str, object], call_type: object
    ) -> None:
        """Reserve an attempt of the library; the proxy's are reserved already."""
        call = self._call_of(kwargs)
        if call is not None and (_names_of(kwargs)[1] or not call.by_attempt):
            return  # the proxy's, or this very attempt, which LiteLLM wraps twice
        metadata = kwargs.get("metadata")
        caller = GatewayCall(
            key=_text(metadata, "user_api_key_alias")
            or _text(metadata, "user_api_key_hash"),
            user=_text(metadata, "user_api_key_user_id") or _text(kwargs, "user"),
            team=_text(metadata, "user_api_key_team_id"),
            model=_text(metadata, "model_group") or _text(kwargs, "model"),
        )
        kind = str(getattr(call_type, "value", call_type))
        await self._begin(caller, kwargs, kind, by_attempt=True)

    async def async_post_call_success_deployment_hook(
        self, request_data: Mapping[str, object], response: object, call_type: object
    ) -> None:
        """Settle an attempt of the library when it is answered, if that says its usage.

        LiteLLM logs it later, and not at all if its event loop ends before that, as
        where each call has an `asyncio.run` of its own.
        """
        del call_type
        call, usage = self._call_of(request_data), usage_of(response)
        if call is not None and call.by_attempt and usage is not None:
            self.calls.succeeded(call, usage)

    async def async_log_success_event(
        self,
        kwargs: Mapping[str, object],
        response_obj: object,
        start_time: object,
        end_time: object,
    ) -> None:
        """Settle: a call, or a stream to its end or to where it was cut."""
        del start_time, end_time
        call = self._call_of(kwargs)
        if call is not None:
            cached = kwargs.get("cache_hit") is True
            self.calls.succeeded(call, usage_of(response_obj), from_cache=cached)

    async def async_post_call_failure_hook(
        self,
        request_data: Mapping[str, object],
        original_exception: Exception,
        user_api_key_dict: object,
        traceback_str: str | None = None,
    ) -> None:
        """Give back the tokens of a call of the proxy whose last attempt failed.

        One that was refused has none, and clients choose ids: another call of the same
        id may be under way.
        """
        del user_api_key_dict, traceback_str
        mark = _PROXY_MARK.get()
        if not mark or getattr(original_exception, REFUSED_HERE, False):
            return
        call = self.calls.find(_names_of(request_data)[0], mark)
        if call is not None:
            self.calls.failed(call)

    async def async_log_failure_event(
        self,
        kwargs: Mapping[str, object],
        response_obj: object,
        start_time: object,
        end_time: object,
    ) -> None:
        """Give back the tokens of a failed attempt that was reserved by itself.

        In a call of the proxy, another attempt may follow.
        """
        del response_obj, start_time, end_time
        call = self._call_of(kwargs)
        if call is not None and call.by_attempt:
            self.calls.failed(call)

    async def async_post_call_failure_deployment_hook(
        self,
        request_data: Mapping[str, object],
        exception: Exception,
        call_type: object,
        fallback_depth: int | None = None,
    ) -> None:
        """Do the same for an attempt that shares its log with an earlier one.

        LiteLLM logs the first failure only.
        """
        del exception, call_type, fallback_depth
        await self.async_log_failure_event(request_data, None, None, None)

    async def async_post_call_streaming_iterator_hook(
        self,
        user_api_key_dict: object,
        response: AsyncIterator[object],
        request_data: Mapping[str, object],
    ) -> AsyncGenerator[object, None]:
        """Count what is streamed, in case the stream is cut."""
        del user_api_key_dict
        call = self._call_of(request_data)
        async for chunk in response:
            if call is not None:
                call.streamed += _streamed(chunk)
            yield chunk

    async def async_post_call_response_headers_hook(
        self,
        data: Mapping[str, object],
        user_api_key_dict: object,
        response: object,
        request_headers: Mapping[str, str] | None = None,
        litellm_call_info: Mapping[str, object] | None = None,
    ) -> dict[str, str] | None:
        """Return what is left in OpenAI's headers, ``x-ratelimit-remaining-tokens``."""
        del response, request_headers, litellm_call_info
        caller = GatewayCall(
            key=_text(user_api_key_dict, "key_alias")
            or _text(user_api_key_dict, "api_key"),
            user=_text(user_api_key_dict, "user_id"),
            team=_text(user_api_key_dict, "team_id"),
            end_user=_text(user_api_key_dict, "end_user_id"),
            model=_text(data, "model"),
        )
        try:
            return _standing(self.calls, self._subjects(caller)) or None
        except InvalidSubject:
            return None

    async def _begin(
        self,
        caller: GatewayCall,
        data: Mapping[str, object],
        call_type: str,
        *,
        by_attempt: bool = False,
    ) -> None:
        call_id, _ = _names_of(data)
        if not call_id:
            return  # nothing would ever settle it
        mark, log = uuid4().hex, data.get("litellm_logging_obj")
        record = _field(log, RECORD)
        if isinstance(record, dict):
            # LiteLLM's copies of it have it too; so has another limiter's call.
            marks = cast("dict[str, str]", record)
            mark = marks.setdefault(MARK + call_id, mark)
        uses_tokens = not any(word in call_type for word in WITHOUT_TOKENS)
        try:
            subjects = self._subjects(caller)
            if self._unattached == "refuse" and not self.calls.limited(subjects):
                raise _refused(_too_many(refusal("no quota"), caller.model))
            decision = self.calls.begin(
                call_id,
                subjects,
                model=caller.model or "",
                characters=characters_of(data),
                most_answer=_most_answer(data),
                uses_tokens=uses_tokens,
                mark=mark,
            )
        except InvalidSubject as error:
            wrong = _bad_request(f"the caller can't be determined: {error}")
            raise _refused(wrong) from error
        if not decision:
            raise _refused(_too_many(decision, caller.model))
        call = self.calls.find(call_id, mark)
        if call is not None:
            call.by_attempt = by_attempt
            self._watch(call, log)
            if not by_attempt:
                _PROXY_MARK.set(mark)
        if decision.delay_s > 0.0:
            await asyncio.sleep(min(decision.delay_s, LONGEST_MUTE_S))

    def _call_of(self, data: Mapping[str, object]) -> TokenCall | None:
        """Return the call under way of a request, or of LiteLLM's record of one."""
        return self.calls.find(*_names_of(data))

    def _watch(self, call: TokenCall, log: object) -> None:
        """Settle a call that has ended without any hook.

        So end those that are cancelled or timed out, and streams that nobody reads any
        more.  A call of the proxy ends with its task.  With the library alone a task
        outlives a call that it gave up, and a stream may outlive the task that began
        it, but LiteLLM drops its log when it is done with a call.

        Args:
            call: It has just begun.
            log: LiteLLM's own, whose record says when an answer began.
        """
        task = asyncio.current_task()
        if task is None:
            return
        loop, record = task.get_loop(), _field(log, RECORD)

        def begun() -> bool:
            answering = _field(record, "completion_start_time") is not None
            return answering or call.streamed > 0

        def settle() -> None:
            (self.calls.cut if begun() else self.calls.cancelled)(call)

        gone = None
        if call.by_attempt and log is not None:
            # Garbage is found in any thread, within any lock.
            gone = weakref.finalize(log, _call_soon, loop, settle)
            gone.atexit = False

        def ended(ended: asyncio.Task[object]) -> None:
            if ended.cancelled() and not begun():
                self.calls.cancelled(call)
            elif (ended.cancelled() or gone is None) and not loop.is_closed():
                loop.call_later(GRACE_S, self.calls.cut, call)

        def unwatch() -> None:
            task.remove_done_callback(ended)
            if gone is not None:
                gone.detach()

        task.add_done_callback(ended)
        call.on_end = unwatch


def LiteLLMLimiter(  # noqa: N802 RUF100  # used as a class
    source: LimiterSource,
    *,
    subjects: Callable[[GatewayCall], Subjects] = default_subjects,
    timeout_s: float = TIMEOUT_S,
    unattached: Literal["admit", "refuse"] = "admit",
) -> object:
    """Return a custom logger for LiteLLM's ``callbacks``.

    Args:
        source: The agent.
        subjects: Returns the subjects whose quotas apply to a call.
        timeout_s: When a reservation that nobody settled is returned.
        unattached: What happens to a call if none of its subjects is in a group: keys
            and teams that Headgate does not know are not limited, or refused.
    """
    base = cast(
        "type", import_module("litellm.integrations.custom_logger").CustomLogger
    )
    # The proxy calls hooks that a class defines itself, and none that it inherits.
    defined = vars(_LiteLLMLimiter).items()
    hooks = {name: hook for name, hook in defined if name.startswith("async_")}
    kind = type("LiteLLMLimiter", (_LiteLLMLimiter, base), hooks)
    make = cast("Callable[..., object]", kind)
    calls = TokenCalls(source, timeout_s=timeout_s, context_of=_context_of)
    return make(calls, subjects, unattached)


def usage_of(response: object) -> TokenUsage | None:
    """Return the usage of a response of any of LiteLLM's kinds; None without one."""
    usage = _field(response, "usage")
    prompt = _number(usage, "prompt_tokens", "input_tokens")
    answer = _number(usage, "completion_tokens", "output_tokens")
    total = _number(usage, "total_tokens")
    if prompt is None and answer is None:
        return None if total is None else TokenUsage(total, 0.0)
    known = TokenUsage(prompt or 0.0, answer or 0.0)
    if total is not None and total > known.total:  # reasoning, counted nowhere else
        return TokenUsage(known.prompt, total - known.prompt)
    return known


def characters_of(data: Mapping[str, object]) -> int:
    """Return the characters of a prompt, whatever the kind of call."""
    found = [data.get(key) for key in ("messages", "prompt", "input", "contents")]
    return sum(_characters(value, 0) for value in found)


def _characters(value: object, depth: int) -> int:
    if isinstance(value, str):
        return len(value)
    if depth > 8:
        return 0
    if isinstance(value, list):
        return sum(_characters(x, depth + 1) for x in cast("list[object]", value))
    if isinstance(value, dict):
        parts = cast("dict[str, object]", value)
        # The model reads no tokens of a picture's address.
        return sum(
            _characters(parts.get(key), depth + 1)
            for key in ("content", "text", "parts", "arguments", "input")
        )
    return 0


def _most_answer(data: Mapping[str, object]) -> float | None:
    for key in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        value = data.get(key)
        if isinstance(value, int) and value > 0:
            return float(value)
    return None


def _streamed(chunk: object) -> int:
    choices = _field(chunk, "choices")
    if not isinstance(choices, list):
        return 0
    deltas = (_field(choice, "delta") for choice in cast("list[object]", choices))
    return sum(_characters(_field(delta, "content"), 0) for delta in deltas)


def _names_of(data: Mapping[str, object]) -> tuple[str, str]:
    """Return a call's id and mark, from its request or from LiteLLM's record of it.

    The log's id goes first: fallbacks of the library have others, and report its own.
    """
    log = data.get("litellm_logging_obj")
    call_id = _text(log, "litellm_call_id") or _text(data, "litellm_call_id") or ""
    record = data if log is None else _field(log, RECORD)
    return call_id, _text(record, MARK + call_id) or ""


def _call_soon(loop: asyncio.AbstractEventLoop, settle: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(settle)


def _standing(calls: TokenCalls, subjects: Subjects) -> dict[str, str]:
    said: dict[str, str] = {}
    for dimension in ("requests", "tokens"):
        least: float | None = None
        for subject in subjects:
            limiter = calls.limiter(subject)
            now = limiter.clock()
            for link in limiter.links({dimension: 1.0}):
                limit, level = link.local.limit, link.bucket.level_at(now)
                if limit.rate < float("inf") and (least is None or level < least):
                    least = level
                    delay_s = limiter.validate(**{dimension: 1.0}).delay_s
                    said[f"x-ratelimit-limit-{dimension}"] = f"{limit.rate:.0f}"
                    said[f"x-ratelimit-remaining-{dimension}"] = f"{max(level, 0):.0f}"
                    said[f"x-ratelimit-reset-{dimension}"] = f"{delay_s * 1e3:.0f}ms"
    return said


def _too_many(decision: Decision, model: str | None) -> Exception:
    headers = {
        "retry-after": str(retry_after_s(decision)),
        "retry-after-ms": str(decision.throttle_time_ms),
    }
    if decision.never and decision.limit is None:
        headers = {}
    try:
        kind = cast(
            "Callable[..., Exception]",
            import_module(
                "litellm.proxy.common_utils.proxy_rate_limit_error"
            ).ProxyRateLimitError,
        )
    except ImportError:  # the library alone, without FastAPI
        limited = cast(
            "Callable[..., Exception]",
            import_module("litellm.exceptions").RateLimitError,
        )
        return limited(str(decision), "headgate", model or "")
    dimension = "requests" if decision.limit is None else decision.limit.dimension
    return kind(
        detail=str(decision),
        headers=headers,
        rate_limit_type=LIMIT_TYPES.get(dimension, "requests"),
        model=model,
    )


def _refused(error: Exception) -> Exception:
    """Mark an error of a call that was never begun."""
    setattr(error, REFUSED_HERE, True)
    return error


def _bad_request(message: str) -> Exception:
    wrong = cast(
        "Callable[..., Exception]", import_module("litellm.exceptions").BadRequestError
    )
    return wrong(message, "", "headgate")


def _context_of(model: str) -> float | None:
    """Return the tokens that a model reads and writes at most, if known."""
    ask = cast(
        "Callable[[str], Mapping[str, object]]", import_module("litellm").get_model_info
    )
    try:
        info = ask(model)
    except Exception:  # LiteLLM's word for a model that it does not know
        return None
    sizes = [_number(info, "max_input_tokens"), _number(info, "max_output_tokens")]
    return sum(size or 0.0 for size in sizes) or None


def _field(holder: object, name: str) -> object:
    if isinstance(holder, Mapping):
        return cast("Mapping[str, object]", holder).get(name)
    return cast("object", getattr(holder, name, None))


def _text(holder: object, name: str) -> str | None:
    value = _field(holder, name)
    return value if isinstance(value, str) and value else None


def _number(holder: object, *names: str) -> float | None:
    for name in names:
        value = _field(holder, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
