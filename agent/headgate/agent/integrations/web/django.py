"""Django: limits by settings.

::

    MIDDLEWARE = ["headgate.django.HeadgateMiddleware", ...]
    HEADGATE = {
        "URL": "http://127.0.0.1:8080",
        "SUBJECT": "shop.limits.who",   # from a request to a tenant's name
    }

Works under WSGI and ASGI.  The agent is made when the middleware is first built, one
for each process and setting; `process_agent` gives it to views.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from asgiref.sync import (
    async_to_sync,
    iscoroutinefunction,
    markcoroutinefunction,
    sync_to_async,
)
from django import conf  # not its `settings`, which doctest would unwrap
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.http import HttpResponse
from django.utils.module_loading import import_string

from headgate.agent.errors import InvalidSetting, InvalidSubject
from headgate.agent.integrations import process_agents
from headgate.agent.integrations.sources import limiter_cache
from headgate.agent.integrations.web.answers import (
    BAD_REQUEST,
    ONE_REQUEST,
    PROBLEM_JSON,
    TOO_MANY_REQUESTS,
    admit,
    admit_async,
    refusal_body,
    retry_after_s,
    subject_of,
    unusable_subject_body,
)
from headgate.agent.integrations.web.wsgi import LONGEST_MUTE_S, LONGEST_WAIT_S
from headgate.agent.limiter.ratelimit_headers import ratelimit_headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from headgate.agent.agent import Agent
    from headgate.agent.decision import Decision
    from headgate.agent.integrations.web.answers import Asker
    from headgate.agent.limiter.limiter import Limiter

Answer = TypeVar("Answer")

CONNECTING = {
    "URL": "url",
    "AGENT": "agent",
    "TOKEN": "token",
    "CA_FILE": "ca_file",
    "WITHOUT_CONFIGURATION": "without_configuration",
    "SNAPSHOT_PATH": "snapshot_path",
    "KEEP_SNAPSHOT": "keep_snapshot",
    "WEIGHT": "weight",
    "BUS_OPTIONS": "bus_options",
    "WAIT_S": "wait_s",
    "STRICT": "strict",
}
"""Settings that `headgate.connect` takes, and what it calls them."""

MOST_SECONDS = 1_000_000_000
"""A longer wait is a mistake."""

LIMITING = ("SUBJECT", "COSTS", "LONGEST_WAIT_S", "HEADERS")
"""Settings of the middleware itself."""


def process_agent() -> Agent:
    """Return this process's agent, made from ``settings.HEADGATE`` when first asked.

    Raises:
        ImproperlyConfigured: A setting is missing, unknown or impossible.
    """
    chosen = _settings()
    options = {CONNECTING[key]: chosen[key] for key in CONNECTING if key in chosen}
    try:
        return process_agents.process_agent(options)
    except InvalidSetting as error:
        raise ImproperlyConfigured(f"HEADGATE: {error}") from error


class HeadgateMiddleware:
    """Admits, refuses or delays requests, as ``settings.HEADGATE`` says."""

    sync_capable = True
    async_capable = True

    def __init__(
        self,
        get_response: Callable[
            [HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]
        ],
    ) -> None:
        """Read the settings; Django calls this once when it starts.

        Raises:
            ImproperlyConfigured: A setting is missing, unknown or impossible.
        """
        chosen = _settings()
        self._get_response = get_response
        self._subject = cast(
            "Callable[[HttpRequest], Asker]", _function(chosen, "SUBJECT")
        )
        self._costs = (
            cast(
                "Callable[[HttpRequest], Mapping[str, float]]",
                _function(chosen, "COSTS"),
            )
            if "COSTS" in chosen
            else None
        )
        self._longest_wait_s = _seconds(chosen)
        self._headers = bool(chosen.get("HEADERS", True))
        self._limiters = limiter_cache(process_agent())
        # inspect knows the mark only from Python 3.12 on.
        self._is_async = bool(iscoroutinefunction(get_response))  # pyright: ignore[reportDeprecated]
        if self._is_async:
            markcoroutinefunction(self)
        self._reads_database: set[Callable[[HttpRequest], object]] = set()

    def __call__(
        self, request: HttpRequest
    ) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Serve one request."""
        if self._is_async:
            return self._serve_async(request)
        asked = self._ask(request)
        if not isinstance(asked, tuple):
            return asked or cast("HttpResponseBase", self._get_response(request))
        limiter, costs = asked
        decision = admit(limiter, costs, self._longest_wait_s)
        if not decision:
            return self._mark(_refused(decision), limiter, costs, decision)
        response = cast("HttpResponseBase", self._get_response(request))
        if decision.delay_s > 0.0:
            time.sleep(min(decision.delay_s, LONGEST_MUTE_S))
        return self._mark(response, limiter, costs, decision)

    async def _serve_async(self, request: HttpRequest) -> HttpResponseBase:
        get = cast(
            "Callable[[HttpRequest], Awaitable[HttpResponseBase]]", self._get_response
        )
        asked = await self._ask_async(request)
        if not isinstance(asked, tuple):
            return asked or await get(request)
        limiter, costs = asked
        decision = await admit_async(limiter, costs, self._longest_wait_s)
        if not decision:
            return self._mark(_refused(decision), limiter, costs, decision)
        response = await get(request)
        if decision.delay_s > 0.0:
            await asyncio.sleep(min(decision.delay_s, LONGEST_MUTE_S))
        return self._mark(response, limiter, costs, decision)

    def _ask(
        self, request: HttpRequest
    ) -> tuple[Limiter, Mapping[str, float]] | HttpResponse | None:
        """Return whose limits apply and what is asked for.

        None if no limit applies, a response if no caller can be determined.
        """
        found = self._find(_call(self._subject, request))
        if found is None or isinstance(found, HttpResponse):
            return found
        costs = ONE_REQUEST if self._costs is None else _call(self._costs, request)
        return found, costs

    async def _ask_async(
        self, request: HttpRequest
    ) -> tuple[Limiter, Mapping[str, float]] | HttpResponse | None:
        """Return the same; functions that read the database run in Django's thread."""
        found = self._find(await self._call_async(self._subject, request))
        if found is None or isinstance(found, HttpResponse):
            return found
        if self._costs is None:
            return found, ONE_REQUEST
        return found, await self._call_async(self._costs, request)

    async def _call_async(
        self, function: Callable[[HttpRequest], Answer], request: HttpRequest
    ) -> Answer:
        if iscoroutinefunction(function):  # pyright: ignore[reportDeprecated]
            return await cast("Awaitable[Answer]", function(request))
        if function not in self._reads_database:
            try:
                return function(request)
            except SynchronousOnlyOperation:  # such as from `request.user`
                self._reads_database.add(function)
        return await sync_to_async(function)(request)

    def _find(self, asker: Asker) -> Limiter | HttpResponse | None:
        if asker is None:
            return None
        try:
            return self._limiters.get(subject_of(asker))
        except InvalidSubject as error:
            return HttpResponse(
                unusable_subject_body(error),
                status=BAD_REQUEST,
                content_type=PROBLEM_JSON,
            )

    def _mark(
        self,
        response: HttpResponseBase,
        limiter: Limiter,
        costs: Mapping[str, float],
        decision: Decision,
    ) -> HttpResponseBase:
        if self._headers or not decision:
            marks = ratelimit_headers(limiter.links(costs), limiter.clock())
            for name, value in marks:
                response[name.decode("latin-1")] = value.decode("latin-1")
            if decision.delay_s > 0.0:
                response["Retry-After"] = str(retry_after_s(decision))
        return response


def _call(function: Callable[[HttpRequest], Answer], request: HttpRequest) -> Answer:
    if iscoroutinefunction(function):  # pyright: ignore[reportDeprecated]
        return cast("Answer", async_to_sync(cast("Any", function))(request))
    return function(request)


def _refused(decision: Decision) -> HttpResponse:
    body = refusal_body(decision)
    return HttpResponse(body, status=TOO_MANY_REQUESTS, content_type=PROBLEM_JSON)


def _settings() -> Mapping[str, object]:
    chosen: object = getattr(conf.settings, "HEADGATE", None)
    if not isinstance(chosen, dict):
        raise ImproperlyConfigured(
            'HEADGATE: expected a dictionary such as {"URL": "http://127.0.0.1:8080",'
            ' "SUBJECT": "shop.limits.who"}'
        )
    chosen = cast("dict[str, object]", chosen)
    known = (*CONNECTING, *LIMITING)
    for key in chosen:
        if key not in known:
            raise ImproperlyConfigured(
                f"HEADGATE[{key!r}]: expected one of {', '.join(known)}"
            )
    if not isinstance(chosen.get("URL"), str):
        raise ImproperlyConfigured(
            'HEADGATE["URL"]: expected the address of the API, such as'
            f' "http://127.0.0.1:8080", got {chosen.get("URL")!r:.40}'
        )
    return chosen


def _function(chosen: Mapping[str, object], key: str) -> Callable[..., object]:
    given = chosen.get(key)
    if isinstance(given, str):
        try:
            given = cast("object", import_string(given))
        except (ImportError, TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"HEADGATE[{key!r}]: {error}") from error
    if not callable(given):
        raise ImproperlyConfigured(
            f"HEADGATE[{key!r}]: expected a function of the request or its dotted"
            f" path, got {given!r:.40}"
        )
    return given


def _seconds(chosen: Mapping[str, object]) -> float:
    given = chosen.get("LONGEST_WAIT_S", LONGEST_WAIT_S)
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not 0 <= cast("float", given) <= MOST_SECONDS:
        raise ImproperlyConfigured(
            'HEADGATE["LONGEST_WAIT_S"]: expected seconds from 0 to'
            f" {MOST_SECONDS:,}, got {given!r:.40}"
        )
    return float(cast("float", given))
