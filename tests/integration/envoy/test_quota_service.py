"""Two real Envoys share one limit through RLQS, each enforcing its part by itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import httpx
from tests.integration.envoy.conftest import (
    Limited,
    Upstream,
    headgate_envoy,
    listening,
    start_envoy,
)
from tests.integration.frameworks.rigs import PATIENCE_S, Quotas, until
from tools.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headgate.api import Addresses
    from headgate.cli.process.children import Children

RATE = 20.0
MEASURED_S = 12.0
"""Two reports of an Envoy, and some time with what they said."""


class Callers:
    """Two callers, one for each Envoy, who ask as fast as they are answered."""

    def __init__(self, urls: list[str]) -> None:
        self.answered: list[Counter[int]] = [Counter() for _ in urls]
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._call, args=(url, answered))
            for url, answered in zip(urls, self.answered, strict=True)
        ]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def admitted(self) -> int:
        return sum(answered[200] for answered in self.answered)

    def _call(self, url: str, answered: Counter[int]) -> None:
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            while not self._stopping.wait(0.01):
                answered[client.get(url, headers=WHO).status_code] += 1


WHO = {"x-tenant": "egret"}


def test_two_envoys_share_a_limit_and_go_by_it_when_the_server_was_killed(
    quotas: Quotas,
    server: Addresses,
    upstream: Upstream,
    children: Children,
    tmp_path: Path,
) -> None:
    quotas.put("egret", requests=(RATE, RATE))
    port = free_port()
    served, _ = headgate_envoy(children, server, tmp_path, port=port)
    fronts = [free_port() for _ in range(2)]
    for front in fronts:
        ports: dict[int, str | int]
        ports = {10002: front, 8000: upstream.server_port, 8081: port}
        start_envoy(children, tmp_path / str(front), "envoy-quota.yaml", ports)
    urls = [f"http://127.0.0.1:{front}" for front in fronts]
    with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
        for url in urls:
            listening(client, url)
    with Callers(urls) as callers:
        until(
            lambda: all(answered[429] > 20 for answered in callers.answered),
            "both to be limited",
        )
        until(lambda: demand(quotas) > 2.0 * RATE, "the cluster to hear of it")
        children.forget(served)
        again, _ = headgate_envoy(children, server, tmp_path, port=port)
        until(lambda: demand(quotas) > 2.0 * RATE, "the new server to hear of it")
        # What was let through without a server is told with the second report; from
        # then on both go by a part of the limit.
        keeps_to_the_limit(callers)
        children.forget(again)


def keeps_to_the_limit(callers: Callers) -> None:
    begun_s, before = time.monotonic(), callers.admitted()
    until(
        lambda: (
            callers.admitted() - before > RATE * MEASURED_S / 2
            and time.monotonic() - begun_s > MEASURED_S
        ),
        "half of the limit at least",
    )
    elapsed_s = time.monotonic() - begun_s
    admitted = callers.admitted() - before
    # Each with the whole limit for itself would admit twice as much.
    assert admitted <= 1.2 * RATE * elapsed_s + 2.0 * RATE


def demand(quotas: Quotas) -> float:
    """Return the hits/s that the API hears are attempted."""
    answer = quotas.use("egret")
    if not answer.is_success:
        return 0.0
    uses = cast("list[dict[str, float | None]]", answer.json()["uses"])
    return sum(use["demand"] or 0.0 for use in uses)


class _Call(Protocol):
    def __next__(self) -> object: ...
    def cancel(self) -> bool: ...


class _QuotaStub(Protocol):
    def StreamRateLimitQuotas(  # Envoy's name
        self, reports: Iterator[object], timeout: float
    ) -> _Call: ...


class _Quotas(Protocol):
    def RateLimitQuotaServiceStub(self, channel: object) -> _QuotaStub: ...
    def RateLimitQuotaUsageReports(self, **fields: object) -> object: ...


class _Grpc(Protocol):
    def insecure_channel(self, address: str) -> AbstractContextManager[object]: ...


def test_each_value_of_a_rule_has_a_limit_of_its_own_by_a_template(
    quotas: Quotas, limited: Limited
) -> None:
    grpc = cast("_Grpc", import_module("grpc"))
    service = "envoy.service.rate_limit_quota.v3"
    stubs = cast("_Quotas", import_module(f"{service}.rlqs_pb2_grpc"))
    messages = cast("_Quotas", import_module(f"{service}.rlqs_pb2"))
    bucket = {"user": "zoe", "plan": "free"}  # in any order
    usage = {"bucket_id": {"bucket": bucket}, "num_requests_allowed": 1}
    ended = threading.Event()

    def reports() -> Iterator[object]:
        yield messages.RateLimitQuotaUsageReports(
            domain="apis", bucket_quota_usages=[usage]
        )
        ended.wait(PATIENCE_S)

    with grpc.insecure_channel(limited.grpc) as channel:
        stub = stubs.RateLimitQuotaServiceStub(channel)
        call = stub.StreamRateLimitQuotas(reports(), timeout=PATIENCE_S)
        told = str(next(call)).split()
        until(
            lambda: "limits:10 in 3600 s" in quotas.groups(),
            "the template of the rule's limit",
        )
        ended.set()
        call.cancel()
    # Ten an hour is one in 360 seconds.
    assert "token_bucket" in told
    assert told[told.index("tokens_per_fill") + 2 :][:2] == ["value:", "1"]
    assert told[told.index("fill_interval") + 2 :][:2] == ["seconds:", "360"]
