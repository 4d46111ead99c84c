"""Whom the audit names behind a proxy, and what headers every answer has."""

from dataclasses import replace

import httpx
import pytest
from tests.api.conftest import TIMEOUT_S

from headgate.api import ServerSettings, running

FORWARDED = {"X-Forwarded-For": "203.0.113.9"}


@pytest.mark.parametrize(
    ("proxies", "address"),
    [
        ((), "127.0.0.1"),
        (("10.0.0.0/8",), "127.0.0.1"),
        (("127.0.0.1",), "203.0.113.9"),
    ],
)
def test_x_forwarded_for_is_believed_only_from_a_trusted_proxy(
    settings: ServerSettings, proxies: tuple[str, ...], address: str
) -> None:
    with (
        running(replace(settings, trusted_proxies=proxies)) as addresses,
        httpx.Client(base_url=addresses.api, timeout=TIMEOUT_S) as client,
    ):
        client.put("/api/v1/groups/gold", json={}, headers=FORWARDED)
        entry = client.get("/api/v1/audit").json()["items"][0]
    assert entry["address"] == address


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("203.0.113.9:4711", "203.0.113.9"),
        ("10.9.9.9, 2001:db8::1", "2001:db8::1"),
        ("<script>alert(1)</script>", "unknown"),
        ("9" * 5000, "unknown"),
    ],
)
def test_the_audit_takes_only_an_address_for_one(
    settings: ServerSettings, said: str, address: str
) -> None:
    with (
        running(replace(settings, trusted_proxies=("127.0.0.1",))) as addresses,
        httpx.Client(base_url=addresses.api, timeout=TIMEOUT_S) as client,
    ):
        headers = {"X-Forwarded-For": said}
        client.put("/api/v1/groups/gold", json={}, headers=headers)
        entry = client.get("/api/v1/audit").json()["items"][0]
    assert entry["address"] == address


def test_no_cache_keeps_an_answer(rest: httpx.Client) -> None:
    for path in ("/groups", "/snapshot", "/groups/none"):
        assert rest.get(path).headers["Cache-Control"] == "no-store"
