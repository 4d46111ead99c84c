"""Rights that a server can not start with."""

import os
from pathlib import Path

import httpx
import pytest

from headgate.api import (
    CannotStart,
    RightsSettings,
    ServerSettings,
    create_token,
    run,
    running,
)


def test_without_rights_only_this_machine_is_served(tmp_path: Path) -> None:
    settings = ServerSettings(
        host="0.0.0.0", port=0, bus_ports=(0, 0), database=str(tmp_path / "x.db")
    )
    with pytest.raises(
        CannotStart, match=r"rights are off, so anyone who can reach 0\.0\.0\.0"
    ):
        run(settings)


def test_rights_without_any_token_can_not_be_turned_on(tmp_path: Path) -> None:
    settings = ServerSettings(
        port=0,
        bus_ports=(0, 0),
        database=str(tmp_path / "x.db"),
        rights=RightsSettings(required=True),
    )
    with pytest.raises(CannotStart, match="create a token with `headgate token create"):
        run(settings)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"keys": []}', "\x00"])
def test_a_key_set_that_is_none_is_an_error(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "keys.json"
    if text is not None:
        path.write_text(text)
    settings = ServerSettings(
        port=0,
        bus_ports=(0, 0),
        database=str(tmp_path / "x.db"),
        rights=RightsSettings(required=True, key_set=str(path)),
    )
    with pytest.raises(CannotStart, match="key set"):
        run(settings)


@pytest.mark.parametrize(
    "rights",
    [
        RightsSettings(key_set="keys.json"),
        RightsSettings(issuer="me"),
        RightsSettings(audience="headgate"),
    ],
)
def test_settings_of_tokens_are_refused_while_none_is_asked_for(
    tmp_path: Path, rights: RightsSettings
) -> None:
    settings = ServerSettings(port=0, database=str(tmp_path / "x.db"), rights=rights)
    with pytest.raises(CannotStart, match="but rights are off"):
        run(settings)


def test_a_trusted_proxy_that_is_no_address_is_refused(tmp_path: Path) -> None:
    settings = ServerSettings(
        port=0, database=str(tmp_path / "x.db"), trusted_proxies=("proxy.example",)
    )
    with pytest.raises(CannotStart, match=r"trusted proxy proxy\.example: expected"):
        run(settings)


def test_a_user_without_a_name_makes_the_first_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    number = 2**31 - 5  # as containers are given by `docker run --user`
    monkeypatch.setattr(os, "getuid", lambda: number)
    settings = ServerSettings(
        database=str(tmp_path / "x.db"),
        port=0,
        bus_ports=(0, 0),
        rights=RightsSettings(required=True),
    )
    token = create_token(settings, "ada", "admin")
    headers = {"Authorization": f"Bearer {token}"}
    with running(settings) as addresses:
        audit = httpx.get(f"{addresses.api}/api/v1/audit", headers=headers).json()
    assert audit["items"][0]["author"] == f"user {number} (local)"
