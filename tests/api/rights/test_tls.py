"""The API behind TLS: with a certificate that is believed, and with others."""

import datetime
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.api.conftest import TIMEOUT_S

import headgate.agent
from headgate.agent.errors import InvalidSetting
from headgate.agent.follow.certificates import trusting
from headgate.api import Addresses, CannotStart, ServerSettings, run, running

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        own = self._signed(self.name, self.key, (constraints,), NOW + DAY)
        self.file = folder / "ca.pem"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def server(
        self, *, address: str = "127.0.0.1", ends: datetime.datetime = NOW + DAY
    ) -> tuple[Path, Path]:
        """Return the files of a certificate for `address` and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
        subject = x509.Name([])
        certificate = self._signed(subject, key, (names,), ends)
        files = self.folder / "server.pem", self.folder / "server.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: tuple[x509.ExtensionType, ...],
        ends: datetime.datetime,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 3 * DAY)
            .not_valid_after(ends)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        return builder.sign(self.key, hashes.SHA256())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def settings(folder: Path, files: tuple[Path, Path]) -> ServerSettings:
    return ServerSettings(
        database=str(folder / "x.db"),
        port=0,
        bus_ports=(0, 0),
        tls_certificate=files[0],
        tls_key=files[1],
    )


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[Addresses]:
    with running(settings(tmp_path, authority.server())) as addresses:
        yield addresses


def test_an_agent_follows_the_api_over_tls(
    server: Addresses, authority: Authority
) -> None:
    assert server.api.startswith("https://127.0.0.1:")
    with (
        headgate.agent.connect(
            server.api,
            ca_file=authority.file,
            keep_snapshot=False,
            wait_s=TIMEOUT_S,
        ) as agent,
        httpx.Client(
            base_url=server.api, verify=trusting(authority.file), timeout=TIMEOUT_S
        ) as client,
    ):
        assert agent.status().api_reachable
        limits = [{"dimension": "requests", "rate": 0}]
        client.put("/api/v1/groups/closed", json={"limits": limits}).raise_for_status()
        client.put("/api/v1/tenants/acme").raise_for_status()
        attachment = {"subject": {"tenant": "acme"}, "group": "closed"}
        client.put("/api/v1/attachments", json=attachment).raise_for_status()
        deadline = time.monotonic() + TIMEOUT_S
        while agent.status().revision != 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not agent.limiter(tenant="acme").try_acquire(requests=1)


def test_browsers_are_told_to_keep_to_tls(server: Addresses) -> None:
    answer = httpx.get(f"{server.api}/healthz", verify=False, timeout=TIMEOUT_S)
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_who_does_not_speak_tls_is_told_nothing(server: Addresses) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(server.api.replace("https", "http"), timeout=TIMEOUT_S)


def test_an_authority_that_is_not_known_is_not_believed(
    server: Addresses, tmp_path: Path
) -> None:
    other = Authority(tmp_path)
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        httpx.get(server.api, verify=trusting(other.file), timeout=TIMEOUT_S)
    for ca_file in (None, other.file):
        with headgate.agent.connect(
            server.api, ca_file=ca_file, keep_snapshot=False
        ) as agent:
            assert agent.status().source == "none"
            assert not agent.status().api_reachable


@pytest.mark.parametrize("wrong", ["address", "ends"])
def test_a_certificate_of_another_host_or_time_is_not_believed(
    tmp_path: Path, authority: Authority, wrong: str
) -> None:
    files = (
        authority.server(address="127.0.0.2")
        if wrong == "address"
        else authority.server(ends=NOW - DAY)
    )
    with (
        running(settings(tmp_path, files)) as addresses,
        headgate.agent.connect(
            addresses.api, ca_file=authority.file, keep_snapshot=False
        ) as agent,
    ):
        assert agent.status().source == "none"


def test_what_is_no_certificate_is_refused_at_the_start(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.server()
    nothing, text = tmp_path / "nothing.pem", tmp_path / "text.pem"
    text.write_text("hello")
    for files in ((certificate, nothing), (text, key), (key, certificate)):
        with pytest.raises(CannotStart, match=r"^TLS: .*pem") as refusal:
            run(settings(tmp_path, files))
        assert "\n" not in str(refusal.value)
    mixed = (certificate, Authority(tmp_path).server()[1])
    with pytest.raises(CannotStart, match=r"^TLS: "):
        run(settings(tmp_path, mixed))
    alone = ServerSettings(database=str(tmp_path / "x.db"), tls_key=key)
    with pytest.raises(CannotStart, match="both a certificate and its key"):
        run(alone)


def test_a_file_of_authorities_that_is_none_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("hello")
    for ca_file in (text, tmp_path / "nothing.pem", tmp_path, "a\0b"):
        with pytest.raises(InvalidSetting, match="ca_file"):
            headgate.agent.connect("https://127.0.0.1:1", ca_file=ca_file)
