"""Without a key nobody is heard or speaks for another, and keys can be changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.bus.open import open_bus
from headgate.agent.bus.options import resolved
from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.signed import Signing, signed, split
from headgate.agent.errors import BusUnavailable, MalformedReport
from headgate.agent.wire import checksum
from headgate.agent.wire.signing import Key, Keyring, Signer

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.agent.json_place import Json

CLUSTER, RETIRED = Key.make("hmac"), Key.make("hmac")
WEB, MAIL = Key.make("ed25519-secret"), Key.make("ed25519-secret")
KEYRING = Keyring([CLUSTER, RETIRED], {"web": [WEB.public()], "mail": [MAIL.public()]})

keys = st.sampled_from([CLUSTER, RETIRED, WEB, MAIL])


@given(keys, st.binary(max_size=300), st.booleans())
def test_what_was_signed_is_verified(key: Key, body: bytes, sealed: bool) -> None:
    payload = checksum.sealed(body) if sealed else body
    sent = signed(payload, Signer(key))
    checksum.check(sent)
    parts = split(sent, KEYRING.sizes)
    assert parts is not None
    assert parts[0] == checksum.stripped(payload)
    verdict = KEYRING.verify(*parts)
    assert verdict is not None
    owner = {WEB: "web", MAIL: "mail"}.get(key)
    assert verdict.owner == owner


@given(keys, st.binary(min_size=1, max_size=100), st.data())
def test_one_changed_byte_anywhere_and_it_is_forged(
    key: Key, body: bytes, data: st.DataObject
) -> None:
    sent = bytearray(checksum.stripped(signed(body, Signer(key))))
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    parts = split(bytes(sent), KEYRING.sizes)
    assert parts is None or KEYRING.verify(*parts) is None


@given(st.binary(max_size=300))
def test_what_was_never_signed_is_not_verified(payload: bytes) -> None:
    parts = split(payload, KEYRING.sizes)
    assert parts is None or KEYRING.verify(*parts) is None


def test_a_key_that_is_not_accepted_signs_in_vain() -> None:
    stranger = signed(b"report", Signer(Key.make("hmac")))
    parts = split(stranger, KEYRING.sizes)
    assert parts is not None
    assert KEYRING.verify(*parts) is None


def test_a_signature_moved_to_another_report_is_forged() -> None:
    (_, signature) = split(signed(b"mine", Signer(WEB)), KEYRING.sizes) or (b"", b"")
    assert KEYRING.verify(b"mine", signature) is not None
    assert KEYRING.verify(b"yours", signature) is None


def test_a_key_speaks_for_its_owner_and_who_descends_from_him() -> None:
    parts = split(signed(b"report", Signer(WEB)), KEYRING.sizes)
    assert parts is not None
    verdict = KEYRING.verify(*parts)
    assert verdict is not None
    for agent in ("web", "web-4711", "web~0badcafe"):
        assert verdict.covers(agent)
    for agent in ("mail", "webs", "we", "", "mail-web"):
        assert not verdict.covers(agent)


def test_an_owner_may_not_descend_from_another() -> None:
    with pytest.raises(BusUnavailable, match="owner of 'web' could sign for 'web-1'"):
        Keyring(agents={"web": [WEB.public()], "web-1": [MAIL.public()]})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"report_key": "hmac:short"}, "base64 of 32 bytes"),
        ({"report_key": 7}, "report_key: expected a key as a string"),
        ({"report_key": WEB.public().text()}, "got a public key"),
        ({"report_key": WEB.text()}, "report_keys: expected at least one key"),
        ({"report_keys": [3]}, "report_keys: expected keys as strings"),
        ({"report_keys": []}, "report_keys: expected at least one key"),
        ({"report_key": CLUSTER.text(), "report_unsigned": 1}, "true or false"),
    ],
)
def test_wrong_settings_are_refused_and_no_key_is_shown(
    options: dict[str, Json], says: str
) -> None:
    with pytest.raises(BusUnavailable, match=says) as refused:
        open_bus(BusSettings(kind="memory", options=options))
    assert WEB.text().partition(":")[2] not in str(refused.value)
    assert CLUSTER.text() not in repr(CLUSTER)


def test_secrets_stand_in_files_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(CLUSTER.text() + "\n")
    (tmp_path / "keys.json").write_text(json.dumps({"web": WEB.public().text()}))
    monkeypatch.setenv("RETIRED", RETIRED.text())
    options: dict[str, Json] = {
        "report_key": {"file": str(tmp_path / "key")},
        "report_keys": {"file": str(tmp_path / "keys.json")},
    }
    read = resolved(BusSettings(kind="memory", options=options)).options
    assert read["report_key"] == CLUSTER.text()
    assert read["report_keys"] == {"web": WEB.public().text()}
    several: list[Json] = [{"env": "RETIRED"}, RETIRED.text()]
    several_read = BusSettings(kind="memory", options={"report_keys": several})
    read = resolved(several_read).options
    assert read["report_keys"] == [RETIRED.text()] * 2
    assert Signing.of(read) is not None
    wrongs: list[Json] = [{"file": str(tmp_path / "none")}, {"env": "NOT_SET"}]
    for wrong in wrongs:
        with pytest.raises(BusUnavailable, match="report_key: "):
            resolved(BusSettings(kind="memory", options={"report_key": wrong}))


def test_unsigned_reports_are_heard_only_while_keys_are_handed_out() -> None:
    plain = open_bus(BusSettings(kind="memory", topic="going-over"))
    key: dict[str, Json] = {"report_key": CLUSTER.text()}
    strict = open_bus(BusSettings(kind="memory", topic="going-over", options=key))
    lenient = open_bus(
        BusSettings(
            kind="memory", topic="going-over", options={**key, "report_unsigned": True}
        )
    )
    plain.publish(b"unsigned")
    strict.publish(b"signed")
    assert [m.signer is not None for m in lenient.receive(0)] == [False, True]
    assert [m.signer is not None for m in strict.receive(0)] == [True]
    assert strict.counters["dropped_unsigned"] == 1
    assert lenient.counters["accepted_unsigned"] == 1
    for bus in (plain, strict, lenient):
        bus.close()


def test_a_signed_report_that_was_changed_fails_its_checksum_too() -> None:
    sent = bytearray(signed(checksum.sealed(b"a report"), Signer(CLUSTER)))
    sent[3] ^= 1
    with pytest.raises(MalformedReport, match="checksum"):
        checksum.check(bytes(sent))
