"""The command line's connections: rights, TLS, shells, and what is no API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.api import (
    Addresses,
    RightsSettings,
    ServerSettings,
    create_token,
    running,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Headgate(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, dict[str, str]]]:
    """A server that asks for tokens; its URL, and a token of each role."""
    database = str(tmp_path_factory.mktemp("guarded") / "headgate.db")
    settings = ServerSettings(
        port=0,
        bus_ports=(0, 0),
        database=database,
        rights=RightsSettings(required=True),
    )
    tokens = {role: create_token(settings, role, role) for role in ("admin", "viewer")}
    with running(settings) as addresses:
        yield addresses.api, tokens


def test_no_right_and_no_token_are_told_apart(
    headgate: Headgate, guarded: tuple[str, dict[str, str]]
) -> None:
    url, tokens = guarded
    change = ("group", "create", "g", "--url", url)
    asked = "headgate: expected a valid bearer token: pass it with --token or "
    for token in ((), ("--token", "hg_wrong")):
        code, said, error = headgate(*change, *token)
        assert (code, said, error) == (1, "", f"{asked}HEADGATE_TOKEN\n")
    code, _, error = headgate(*change, "--token", tokens["viewer"])
    assert (code, error) == (1, "headgate: viewer (viewer) may not do this\n")
    assert headgate(*change, "--token", tokens["admin"])[0] == 0
    assert headgate("top", "--url", url)[0] == 1


def test_tokens_are_listed_without_their_text_and_deleted(
    headgate: Headgate, guarded: tuple[str, dict[str, str]]
) -> None:
    url, tokens = guarded
    by_admin = ("--url", url, "--token", tokens["admin"])
    said = headgate("token", "list", *by_admin)[1]
    assert "viewer" in said
    assert all(text not in said for text in tokens.values())
    listed = json.loads(headgate("token", "list", "--json", *by_admin)[1])
    number = next(str(one["id"]) for one in listed if one["name"] == "viewer")
    assert headgate("token", "delete", number, *by_admin)[0] == 0
    by_viewer = ("--url", url, "--token", tokens["viewer"])
    assert "expected a valid bearer token" in headgate("group", "list", *by_viewer)[2]


def test_tokens_of_a_database_are_listed_and_deleted_without_a_server(
    headgate: Headgate, tmp_path: Path
) -> None:
    of = ("--database", str(tmp_path / "headgate.db"))
    for name in ("ada", "eve"):
        headgate("token", "create", name, "--role", "admin", *of)
    listed = json.loads(headgate("token", "list", "--json", *of)[1])
    assert [(one["name"], one["role"]) for one in listed] == [
        ("ada", "admin"),
        ("eve", "admin"),
    ]
    number = str(listed[0]["id"])
    told = headgate("token", "delete", number, *of)
    assert told == (0, f"token {number} deleted\n", "")
    assert headgate("token", "list", "-o", "name", *of)[1] == f"{listed[1]['id']}\n"
    for gone in (number, "9" * 30):
        code, said, error = headgate("token", "delete", gone, *of)
        assert (code, said) == (1, "")
        assert error.startswith("headgate: token '")
        assert error.endswith("' does not exist\n")
    for wrong, why in (
        ("mysql://x", "expected an SQLite file"),
        (str(tmp_path / "typo.db"), "typo.db: no such file"),
    ):
        code, _, error = headgate("token", "list", "--database", wrong)
        assert code == 1
        assert why in error
    assert not (tmp_path / "typo.db").exists()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1, and its key."""
    home = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "headgate")])
    now = datetime.now(UTC)
    address = x509.IPAddress(IPv4Address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (home / "certificate.pem").write_bytes(made.public_bytes(pem))
    (home / "key.pem").write_bytes(
        key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return home / "certificate.pem", home / "key.pem"


def test_a_private_authority_is_named_and_any_other_is_not_trusted(
    headgate: Headgate, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    file, key = certificate
    settings = ServerSettings(
        port=0,
        bus_ports=(0, 0),
        database=str(tmp_path / "headgate.db"),
        tls_certificate=file,
        tls_key=key,
    )
    with running(settings) as addresses:
        url = addresses.api
        trusted = headgate("group", "list", "--url", url, "--ca-file", str(file))
        assert (trusted[0], trusted[2]) == (0, "")
        code, _, error = headgate("group", "list", "--url", url)
        assert (code, error.count("\n")) == (1, 1)
        assert "is not trusted (self-signed certificate); name the auth" in error
        code, _, error = headgate(
            "group", "list", "--url", url.replace("https", "http")
        )
        assert (code, error.count("\n")) == (1, 1)
    for wrong in (key, tmp_path / "none.pem"):
        code, _, error = headgate("group", "list", "--ca-file", str(wrong))
        assert (code, error.count("\n")) == (2, 1)


def test_tls_where_there_is_none_is_told(headgate: Headgate, server: Addresses) -> None:
    url = server.api.replace("http:", "https:")
    code, _, error = headgate("group", "list", "--url", url)
    assert (code, error.count("\n")) == (1, 1)
    assert "is it a plain http:// server?" in error


def test_bash_completes_commands_options_and_groups(
    headgate: Headgate, server: Addresses
) -> None:
    headgate("group", "create", "completed")
    script = headgate("completion", "bash")[1]
    asking = """
    complete_words() {
        COMPREPLY=(); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _headgate_completion headgate; echo "${COMPREPLY[@]}"
    }
    complete_words headgate ov
    complete_words headgate policy set subs
    complete_words headgate top --so
    complete_words headgate group show comp
    """
    bin_folder = os.path.dirname(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "HEADGATE_URL": server.api,
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script + asking],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "override",
        "subscription-dispatch subscribe",
        "--sort",
        "completed",
    ]


def test_zsh_and_fish_have_their_scripts(headgate: Headgate) -> None:
    zsh = headgate("completion", "zsh")[1]
    assert zsh.startswith("#compdef headgate\n")
    # Loaded from fpath it is called at the first Tab, and has to answer that, too.
    assert (
        'if [[ $funcstack[1] == _headgate ]]; then\n  _headgate_completion "$@"' in zsh
    )
    assert "complete --command headgate" in headgate("completion", "fish")[1]
    assert headgate("completion", "tcsh")[0] == 2


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[1, 2]", b'{"items": [', b"[" * 100_000, b"\xff\xfe"],
    ids=["nothing", "a page", "a list", "a part", "a nest", "no text"],
)
def test_what_answers_without_a_json_object_is_no_api(
    headgate: Headgate, answer: bytes
) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{other.server_port}"
        told = [
            headgate(*command, "--url", url)
            for command in (("group", "list"), ("audit",), ("top",), ("explain", "x"))
        ]
        other.shutdown()
        thread.join()
    for code, said, error in told:
        assert (code, said, error.count("\n")) == (1, "", 1)
        assert "is not a Headgate API" in error
