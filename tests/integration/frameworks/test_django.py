"""Django: one quota over workers, under WSGI and ASGI; settings that can't be."""

from __future__ import annotations

import asyncio
import json
import math
import os
from typing import TYPE_CHECKING

import pytest
from django import conf
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory, override_settings
from django.utils.asyncio import async_unsafe
from tests.integration.frameworks.rigs import (
    EXAMPLES,
    Hammer,
    check_admitted,
    gunicorn,
    start_server,
    until,
)

from headgate.django import HeadgateMiddleware, process_agent

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from tests.integration.frameworks.rigs import Quotas

    from headgate.cli.process.children import Children

UVICORN = ["uvicorn", "limiter_django:asgi", "--port", "0", "--lifespan", "off"]


@pytest.mark.parametrize("kind", ["wsgi", "asgi"])
def test_a_project_keeps_to_the_quota_of_its_settings(
    quotas: Quotas, children: Children, tmp_path: Path, kind: str
) -> None:
    quotas.put("acme", requests=(30.0, 10.0))
    command = gunicorn("limiter_django:application", "--workers", "2")
    if kind == "asgi":
        command = [*UVICORN, "--app-dir", str(EXAMPLES)]
    _, url = start_server(children, kind, command, tmp_path / f"{kind}.log")
    Hammer(url, seconds=2.0, headers={"x-tenant": "acme"})
    hammer = Hammer(url, seconds=3.0, headers={"x-tenant": "acme"})
    assert set(hammer.statuses) == {200, 429}
    check_admitted(
        hammer.statuses[200],
        rate=30.0,
        burst=10.0,
        elapsed_s=hammer.elapsed_s,
        processes=2,
    )


def who(request: HttpRequest) -> str | None:
    """Return the tenant that a request names; the settings below give this path."""
    return request.headers.get("X-Tenant")


@pytest.fixture(scope="module")
def _settings() -> None:
    if not conf.settings.configured:
        conf.settings.configure()


@pytest.fixture
def url(quotas: Quotas, _settings: None) -> str:
    """The API's address, with a tenant that may ask and one that may not."""
    quotas.put("acme", requests=(1_000.0, 1_000.0))
    quotas.put("shut", requests=(0.0, 0.0))
    return quotas.url


def _answer(_: HttpRequest) -> HttpResponse:
    return HttpResponse("hello")


async def _answer_async(_: HttpRequest) -> HttpResponse:
    return HttpResponse("hello")


def _ask(tenant: str, *, asynchronous: bool = False) -> HttpResponseBase:
    limited = HeadgateMiddleware(_answer_async if asynchronous else _answer)
    request = RequestFactory().get("/", headers={"X-Tenant": tenant} if tenant else {})

    async def awaited(answer: Awaitable[HttpResponseBase]) -> HttpResponseBase:
        return await answer

    answer = limited(request)
    if isinstance(answer, HttpResponseBase):
        assert not asynchronous
        return answer
    return asyncio.run(awaited(answer))


@async_unsafe
def _user_of(request: HttpRequest) -> str | None:
    return who(request)  # as `request.user` does, which reads the database


async def _user_later(request: HttpRequest) -> str | None:
    return who(request)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("subject", [_user_of, _user_later])
def test_a_subject_may_come_from_the_database_or_later(
    url: str, asynchronous: bool, subject: object
) -> None:
    settings = {"URL": url, "SUBJECT": subject, "KEEP_SNAPSHOT": False}
    settings["AGENT"] = f"django-{os.getpid()}"
    with override_settings(HEADGATE=settings):
        assert _ask("shut", asynchronous=asynchronous).status_code == 429
        assert _ask("", asynchronous=asynchronous).status_code == 200


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_refusals_and_names_that_can_t_be_are_answered(
    url: str, asynchronous: bool
) -> None:
    with override_settings(
        HEADGATE={
            "URL": url,
            "SUBJECT": f"{__name__}.who",
            "AGENT": f"django-{os.getpid()}",
            "KEEP_SNAPSHOT": False,
        }
    ):
        shut = _ask("shut", asynchronous=asynchronous)
        assert isinstance(shut, HttpResponse)
        assert shut.status_code == 429
        assert shut["Retry-After"] == "3600"
        assert json.loads(shut.content)["reason"] == "never"
        nobody = _ask("", asynchronous=asynchronous)
        assert nobody.status_code == 200
        assert not nobody.has_header("ratelimit")
        misnamed = _ask("a/b", asynchronous=asynchronous)
        assert misnamed.status_code == 400
        answers: list[HttpResponseBase] = []

        def admitted() -> bool:
            # An agent that has just started may have to wait for its share.
            answers.append(_ask("acme", asynchronous=asynchronous))
            return answers[-1].status_code == 200

        until(admitted, "the tenant's first admission")
        assert answers[-1]["ratelimit-policy"].startswith('"acme.requests"')
        assert process_agent() is process_agent()


@pytest.mark.usefixtures("_settings")
@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (None, "HEADGATE: expected a dictionary such as"),
        ({"SUBJECT": who}, r'HEADGATE\["URL"\]: expected the address of the API'),
        (
            {"URL": "http://127.0.0.1:1", "SUBJECTS": who},
            r"HEADGATE\['SUBJECTS'\]: expected one of URL, AGENT",
        ),
        (
            {"URL": "http://127.0.0.1:1", "SUBJECT": "nowhere.who"},
            r"HEADGATE\['SUBJECT'\]: No module named 'nowhere'",
        ),
        (
            {"URL": "http://127.0.0.1:1"},
            r"HEADGATE\['SUBJECT'\]: expected a function of the request",
        ),
        (
            {"URL": "127.0.0.1", "SUBJECT": who},
            "HEADGATE: ",
        ),
        (
            {"URL": "http://127.0.0.1:1", "SUBJECT": who, "LONGEST_WAIT_S": "soon"},
            r'HEADGATE\["LONGEST_WAIT_S"\]: expected seconds from 0 to',
        ),
        (
            {"URL": "http://127.0.0.1:1", "SUBJECT": who, "LONGEST_WAIT_S": math.nan},
            r'HEADGATE\["LONGEST_WAIT_S"\]: expected seconds from 0 to',
        ),
        (
            {"URL": "http://127.0.0.1:1", "SUBJECT": ".."},
            r"HEADGATE\['SUBJECT'\]: ",
        ),
    ],
)
def test_settings_that_can_t_be_say_what_was_expected(
    chosen: dict[str, object] | None, said: str
) -> None:
    with (
        override_settings(HEADGATE=chosen),
        pytest.raises(ImproperlyConfigured, match=said),
    ):
        HeadgateMiddleware(_answer)
