"""What `connect` is given, and what a snapshot names, is checked where it is read."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.agent.agent import Options
from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.zeromq.curve import CurveKeys
from headgate.agent.connecting import connect
from headgate.agent.enforcement.enforcer import Enforcer
from headgate.agent.errors import InvalidSetting, InvalidSubject, MalformedSnapshot
from headgate.agent.follow.snapshot import snapshot_from_json
from headgate.agent.runtime import RuntimeOptions
from headgate.agent.settings import check_settings, check_url

GOOD: dict[str, Any] = {
    "agent": "a",
    "token": None,
    "without_configuration": "admit",
    "weight": 1.0,
    "bus_options": None,
    "wait_s": 3.0,
    "strict": False,
}


@pytest.mark.parametrize(
    "url",
    [
        "garbage",
        "",
        "ftp://x",
        None,
        "http://[::1",
        b"http://a",
        "http://",
        "http://\ud800",
        "http://a:99999",
        "http://a b",
    ],
)
def test_what_is_no_address_is_one_clear_error_at_connect(url: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"^url: expected an address such as"):
        connect(url)


def test_threads_that_gevent_has_replaced_are_one_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patched = SimpleNamespace(is_module_patched="threading".__eq__)
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    with pytest.raises(InvalidSetting, match=r"^threading: expected .*thread=False"):
        connect("http://127.0.0.1:9", keep_snapshot=False)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "https://a.b/", "http://[::1]:1"]
)
def test_an_address_that_may_be_away_is_no_error(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("agent", ""),
        ("agent", 5),
        ("agent", "é"),
        ("agent", "a\nb"),
        ("agent", "a" * 201),
        ("token", "geheim\r\nX: y"),
        ("token", "\u20ac"),
        ("token", 7),
        ("without_configuration", "zz"),
        ("without_configuration", []),
        ("weight", 0),
        ("weight", -1.0),
        ("weight", float("nan")),
        ("weight", float("inf")),
        ("weight", 10**400),
        ("weight", "1"),
        ("wait_s", float("inf")),
        ("bus_options", 3),
        ("snapshot_path", 5),
        ("snapshot_path", "a\0b"),
    ],
)
def test_a_wrong_setting_is_one_clear_error_at_connect(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"^{name}: expected") as refusal:
        connect("http://127.0.0.1:9", **{name: wrong})
    assert "geheim" not in str(refusal.value)


def test_settings_that_can_be_are_taken() -> None:
    check_settings(GOOD)
    check_settings({**GOOD, "token": "hg_abc.DEF-1", "weight": 2, "wait_s": 0})


def test_a_mode_of_refusal_that_does_not_exist_is_one_clear_error() -> None:
    limiter = Enforcer(clock=lambda: 0.0).limiter(tenant="acme")
    wrong: Any = "nope"
    with pytest.raises(InvalidSetting, match="mode: expected one of"):
        limiter.refusing(wrong)


@pytest.mark.parametrize("tenant", [b"x", 5, "\ud800", "a/b", "", "x" * 5_000])
def test_what_is_no_name_of_a_tenant_is_one_clear_error(tenant: Any) -> None:
    with pytest.raises(InvalidSubject, match="expected a name"):
        Enforcer(clock=lambda: 0.0).limiter(tenant=tenant)


def test_a_cluster_whose_name_is_no_unicode_is_refused_by_the_reader() -> None:
    with pytest.raises(
        MalformedSnapshot, match=r"^cluster: expected a string of valid Unicode"
    ):
        snapshot_from_json({"revision": 1, "cluster": "\ud800"})


@pytest.mark.parametrize(
    "settings",
    [
        Options(url="u", agent="a", token="hush", bus_options={"report_key": "hush"}),
        RuntimeOptions(agent="a", bus_options={"report_key": "hush"}),
        BusSettings(kind="memory", options={"sasl_plain_password": "hush"}),
        CurveKeys({"curve_secretkey": "hush"}, {}),
    ],
)
def test_settings_that_are_shown_tell_no_secret(settings: object) -> None:
    assert "hush" not in repr(settings)
