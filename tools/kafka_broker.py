"""A real single-node Kafka broker for tests and the demo, without Docker.

::

    python tools/kafka_broker.py fetch                  jars from Maven Central, once
    python tools/kafka_broker.py start  --dir D         prints {"bootstrap": …} as JSON
    python tools/kafka_broker.py run    --dir D         in the foreground, one process
    python tools/kafka_broker.py status --dir D         exit code 1 when it is down
    python tools/kafka_broker.py stop   --dir D

    with Broker(directory) as broker:                   the same from Python
        broker.bootstrap

Apache Kafka in KRaft mode, one process that is broker and controller, on loopback.
``--auth scram`` requires SCRAM-SHA-512 and turns the standard authorizer on;
``--tls`` encrypts.  Needs Java 17 or newer, and Maven for `fetch`; 44 jars, 45 MB,
kept in ``.headgate/kafka``.  Starting takes about a second, and memory is 150 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal, NoReturn, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # if run as a script

from tools.maven_jars import FetchFailed, fetched  # path
from tools.ports import free_port  # path

Auth = Literal["none", "scram"]

KAFKA_VERSION = "4.4.0"
"""As in kafka/pom.xml; each version has a folder of its own."""

FILES = Path(__file__).resolve().parent / "kafka"
JARS = FILES.parents[1] / ".headgate" / "kafka" / KAFKA_VERSION
CLUSTER_ID = "aGVhZGdhdGUtdGVzdC0wMQ"  # any 16 bytes in URL-safe base64

PASSWORDS = {
    "admin": "admin-secret",
    "agent": "agent-secret",
    "intruder": "intruder-secret",
}
"""Users with ``auth="scram"``; ``admin`` may do anything (kafka/scram.properties)."""

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.05


class BrokerFailed(Exception):
    """The broker can't be fetched or started; the message says what to do."""


class Broker:
    """A broker process; its data survive `stop` and are deleted on exit.

    Attributes:
        port: Port of the client listener; it stays the same across restarts.
        pid: Id of the process, while it runs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        auth: Auth = "none",
        tls: bool = False,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.port = port or free_port()
        self.auth, self.tls = auth, tls
        self.pid: int | None = None
        self._properties = dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        """The authority that signed the broker's certificate, with ``tls``."""
        return self.directory / "ca.pem"

    def start(self) -> Self:
        """Start the broker, and wait until it serves clients.

        Raises:
            BrokerFailed: Java is missing, or the broker ended or did not answer.
        """
        command = self._prepare()
        with (self.directory / "broker.log").open("ab") as log:
            offset = log.tell()
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self._process.pid
        self._await(offset)
        self._state().write_text(
            json.dumps({"pid": self.pid, "bootstrap": self.bootstrap})
        )
        return self

    def become(self) -> NoReturn:
        """Turn this process into the broker, so that its owner owns the broker.

        Raises:
            BrokerFailed: Java is missing, or the broker can't be configured.
        """
        command = self._prepare()
        os.execvp(command[0], command)

    def stop(self, *, kill: bool = False) -> None:
        """Stop or kill the broker; its data stay, and `start` goes on with them."""
        if self.pid is not None:
            stop(self.pid, kill=kill)
        if self._process is not None:
            self._process.wait(STOP_TIMEOUT_S)
        self.pid = self._process = None

    def advertise(self, port: int) -> None:
        """Send clients to another port, from which something forwards to this one.

        Takes effect at the next `start`.
        """
        self._properties["advertised.listeners"] = f"CLIENT://127.0.0.1:{port}"

    def freeze(self) -> None:
        """Hang, like a machine that swaps: connections stay open, nobody answers."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory / "data", ignore_errors=True)

    def _prepare(self) -> list[str]:
        """Create everything that a broker needs; return its command."""
        fetch()
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.tls and not self.certificate.exists():
            _make_certificates(self.directory)
        configuration = self._configure()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(configuration)
        return _java("256m", "kafka.Kafka", str(configuration))

    def _state(self) -> Path:
        """The file by which `status` and `stop` on the command line find a broker."""
        return self.directory / "broker.json"

    def _configure(self) -> Path:
        """Write server.properties; return its path."""
        controller = free_port()
        secured = "SASL_" if self.auth == "scram" else ""
        client = secured + ("SSL" if self.tls else "PLAINTEXT")
        properties = {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"CLIENT://{self.bootstrap},CTRL://127.0.0.1:{controller}",
            "advertised.listeners": f"CLIENT://{self.bootstrap}",
            "listener.security.protocol.map": (
                f"CLIENT:{client},CTRL:{secured}PLAINTEXT"
            ),
            "log.dirs": str(self.directory / "data"),
        }
        if self.tls:
            prefix = "listener.name.client.ssl."
            properties |= {
                prefix + "keystore.type": "PEM",
                prefix + "keystore.location": str(self.directory / "server.pem"),
                prefix + "truststore.type": "PEM",
                prefix + "truststore.location": str(self.certificate),
                "ssl.endpoint.identification.algorithm": "",
            }
        properties |= self._properties
        parts = [(FILES / "server.properties").read_text()]
        if self.auth == "scram":
            parts.append((FILES / "scram.properties").read_text())
        parts += [f"{name}={value}\n" for name, value in properties.items()]
        path = self.directory / "server.properties"
        path.write_text("".join(parts))
        path.chmod(0o600)
        return path

    def _format(self, configuration: Path) -> None:
        """Prepare an empty data directory, with the users if there are any."""
        arguments = ["format", "--cluster-id", CLUSTER_ID]
        arguments += ["--config", str(configuration)]
        if self.auth == "scram":
            for user, password in PASSWORDS.items():
                arguments += ["--add-scram"]
                arguments += [f"SCRAM-SHA-512=[name={user},password={password}]"]
        command = _java("128m", "kafka.tools.StorageTool", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"formatting failed: {done.stdout}{done.stderr}")

    def _await(self, log_offset: int) -> None:
        """Wait until the broker serves clients."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        log = self.directory / "broker.log"
        process = self._process
        while not self._ready(log, log_offset):
            if process is None or process.poll() is not None:
                raise BrokerFailed(f"the broker ended; its log is {log}")
            if time.monotonic() > deadline_s:
                self.stop(kill=True)
                raise BrokerFailed(f"no answer in {START_TIMEOUT_S:g} s; see {log}")
            time.sleep(POLL_S)

    def _ready(self, log: Path, log_offset: int) -> bool:
        """Return whether clients are served, and by this process."""
        started = b"Kafka Server started" in log.read_bytes()[log_offset:]
        # A plain request can't pass over TLS, so the broker's log has to do.
        return started and (self.tls or answers(self.port))


def fetch() -> Path:
    """Return the folder with the jars, fetched from Maven Central if missing.

    Raises:
        BrokerFailed: Java or Maven is missing, or the download failed.
    """
    _require("java", "Java 17 or newer")
    try:
        return fetched((FILES / "pom.xml").read_text(encoding="utf-8"), JARS)
    except FetchFailed as error:
        raise BrokerFailed(f"no jars of Kafka: {error}") from None


def stop(pid: int, *, kill: bool = False) -> None:
    """Stop the broker with this process id; do nothing if it is another process's."""
    if not _is_broker(pid):
        return
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while _is_broker(pid):
        if time.monotonic() > deadline_s:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(POLL_S)


def answers(port: int) -> bool:
    """Return whether a broker answers one ApiVersions request."""
    name = b"headgate"
    body = struct.pack(">hhih", 18, 0, 7, len(name)) + name
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            connection.settimeout(1.0)
            connection.sendall(struct.pack(">i", len(body)) + body)
            header = connection.recv(8)
    except OSError:
        return False
    return len(header) == 8 and struct.unpack(">ii", header)[1] == 7


def _require(command: str, what: str) -> None:
    """Refuse to go on without `command`."""
    if shutil.which(command) is None:
        raise BrokerFailed(
            f"{what} is missing: `{command}` is not on the path; "
            "on Debian: apt-get install openjdk-17-jre-headless maven"
        )


def _java(heap: str, main: str, *arguments: str) -> list[str]:
    """Return the command of a small JVM that starts quickly."""
    classpath = ":".join(sorted(str(jar) for jar in JARS.glob("*.jar")))
    options = ["-Xms64m", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options += ["-XX:-UsePerfData", "-Djava.awt.headless=true"]
    options += [f"-Dlog4j2.configurationFile=file:{FILES}/log4j2.properties"]
    return ["java", *options, "-cp", classpath, main, *arguments]


def _make_certificates(directory: Path) -> None:
    """Write ca.pem and server.pem (key and certificate) for loopback."""
    _require("openssl", "OpenSSL")
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    request = "req -newkey rsa:2048 -nodes"
    sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial"
    for arguments in (
        f"{request} -x509 -days 2 -subj /CN=headgate-test -keyout ca.key -out ca.pem",
        f"{request} -subj /CN=localhost -keyout server.key -out server.csr",
        f"{sign} -days 2 -extfile names -out server.crt",
    ):
        command = ["openssl", *arguments.split()]
        subprocess.run(command, check=True, cwd=directory, capture_output=True)
    pair = [(directory / name).read_text() for name in ("server.key", "server.crt")]
    (directory / "server.pem").write_text("".join(pair))
    (directory / "server.pem").chmod(0o600)


def _is_broker(pid: int) -> bool:
    """Return whether `pid` is a running broker, because ids are reused."""
    command = ["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)]  # -ww: unshortened
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return "kafka.Kafka" in said and not said.startswith("Z")


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("fetch")
    for verb in ("start", "run", "stop", "status"):
        verbs.add_parser(verb).add_argument("--dir", type=Path, required=True)
    for start in (verbs.choices["start"], verbs.choices["run"]):
        start.add_argument("--port", type=int, default=0)
        start.add_argument("--auth", choices=("none", "scram"), default="none")
        start.add_argument("--tls", action="store_true")
    arguments = parser.parse_args()
    try:
        return _run(arguments)
    except BrokerFailed as error:
        print(f"kafka_broker: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    """Do what the command line says."""
    if arguments.verb == "fetch":
        print(fetch())
        return 0
    directory: Path = arguments.dir
    if arguments.verb in {"start", "run"}:
        broker = Broker(
            directory, port=arguments.port, auth=arguments.auth, tls=arguments.tls
        )
        if arguments.verb == "run":
            broker.become()
        broker.start()
        print(json.dumps({"pid": broker.pid, "bootstrap": broker.bootstrap}))
        return 0
    try:
        state = json.loads((directory / "broker.json").read_text())
    except OSError:
        raise BrokerFailed(f"no broker was started in {directory}") from None
    if arguments.verb == "stop":
        stop(state["pid"])
        shutil.rmtree(directory / "data", ignore_errors=True)
        return 0
    up = _is_broker(state["pid"])
    print(json.dumps(state | {"up": up}))
    return 0 if up else 1


if __name__ == "__main__":
    sys.exit(main())
