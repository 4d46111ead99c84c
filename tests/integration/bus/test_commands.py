"""`headgate bus`: the topic, rights and keys, each used as an operator would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.bus.rigs import connected, hear
from tests.integration.bus.test_kafka_rights import settings_of

from headgate.agent.bus.kafka.acls import revoke
from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.bus.open import open_bus
from headgate.agent.bus.port import BusSettings
from headgate.agent.bus.zeromq.proxy import ZeroMQProxy
from headgate.cli import main
from headgate.cli.options.bus_address import parse_bus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.kafka_broker import Broker

    from headgate.agent.json_place import Json

    Headgate = Callable[..., tuple[int, str, str]]

RECIPE = Path(__file__).parents[3] / "deploy" / "kafka-acls" / "grant.sh"


@pytest.fixture
def headgate(capsys: pytest.CaptureFixture[str]) -> Headgate:
    """Run the command; return exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def section(path: Path, settings: BusSettings, options: Mapping[str, Json]) -> str:
    """Write the section of a Kafka bus; return its path."""
    said: dict[str, object] = {"kind": "kafka", "bootstrap": settings.bootstrap}
    said |= {"topic": settings.topic, "options": dict(options)}
    path.write_text(json.dumps(said))
    return str(path)


def test_init_makes_the_topic_or_says_what_is_wrong_with_it(
    headgate: Headgate, broker: Broker, tmp_path: Path
) -> None:
    settings = BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic="by-init")
    file = section(tmp_path / "bus.json", settings, {"report_partitions": 3})
    assert headgate("bus", "init", file) == (0, "topic by-init created\n", "")
    assert headgate("bus", "init", file) == (0, "topic by-init already exists\n", "")
    code, out, error = headgate("bus", "init", file, "--partitions", "4")
    assert (code, "partitions is 3, expected 4" in out) == (1, True)
    assert "can't carry reports" in error
    code, out, _ = headgate("bus", "init", file, "--retention", "60")
    assert (code, "retention.ms is 10000, expected 60000" in out) == (0, True)

    address = f"kafka://{broker.bootstrap}/by-others"
    others = parse_bus(address)
    assert others is not None
    ensure_topic(others, TopicShape(partitions=2))
    assert headgate("bus", "init", address)[0] == 0, "more partitions do no harm"


def test_what_is_no_section_is_refused(headgate: Headgate, tmp_path: Path) -> None:
    file = tmp_path / "bus.json"
    for text, says in (
        ("{", "bus.json:1: expected JSON: "),
        ("[]", "bus.json: expected a JSON object"),
        ('{"kind": "pigeons"}', "bus.kind: expected one of"),
        ('{"kind": "kafka"}', "bus: kafka: expected `bootstrap` and `topic`"),
    ):
        file.write_text(text)
        code, _, error = headgate("bus", "init", str(file))
        assert (code, says in error) == (1, True), error


def test_the_recipe_gives_an_agent_what_it_needs(
    guarded: Broker, tmp_path: Path
) -> None:
    admin, agent = settings_of(guarded, "admin"), settings_of(guarded, "agent")
    (tmp_path / "password").write_text(str(admin.options["sasl_plain_password"]))
    options = dict(admin.options)
    options["sasl_plain_password"] = {"file": str(tmp_path / "password")}
    file = section(tmp_path / "admin.json", admin, options)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        done = subprocess.run(
            ["sh", str(RECIPE), file, "agent", "intruder"],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "intruder may read headgate-usage" in done.stdout
        bus = connected(agent)
        bus.publish(b"with the rights of the recipe")
        hear(bus, b"with the rights of the recipe")
        bus.close()
    finally:
        revoke(admin, "agent", ("read", "write"))
        revoke(admin, "intruder", ("read",))


def test_keys_are_made_once_and_may_be_changed(
    headgate: Headgate, tmp_path: Path
) -> None:
    code, out, _ = headgate("bus", "keys", "hmac", "--out", str(tmp_path))
    assert code == 0
    options: dict[str, Json] = json.loads(out)["options"]
    assert (tmp_path / "report.key").stat().st_mode & 0o077 == 0
    code, _, error = headgate("bus", "keys", "hmac", "--out", str(tmp_path))
    assert (code, "already exists" in error) == (1, True)
    bus = open_bus(BusSettings(kind="memory", topic="keys", options=options))
    bus.publish(b"signed")
    assert [message.signer is not None for message in bus.receive(1.0)] == [True]
    bus.close()

    arguments = ("bus", "keys", "ed25519", "--out", str(tmp_path))
    owners = ("--owner", "web", "--owner", "mail")
    assert headgate(*arguments, *owners)[0] == 0
    assert headgate(*arguments, *owners)[0] == 1, "keys stay"
    (tmp_path / "web.key").rename(tmp_path / "old.key")
    assert headgate(*arguments, "--owner", "web")[0] == 0
    public = json.loads((tmp_path / "report_keys.json").read_text())
    assert {owner: len(keys) for owner, keys in public.items()} == {"web": 2, "mail": 1}
    for secret in ("old.key", "web.key"):
        own: dict[str, Json] = {
            "report_key": {"file": str(tmp_path / secret)},
            "report_keys": {"file": str(tmp_path / "report_keys.json")},
        }
        bus = open_bus(BusSettings(kind="memory", topic="both", options=own))
        bus.publish(b"signed")
        (message,) = bus.receive(1.0)
        assert message.signer is not None
        assert message.signer.owner == "web"
        bus.close()
    assert headgate(*arguments)[0] == 2
    assert headgate(*arguments, "--owner", "../web")[0] == 2
    code, _, error = headgate(*arguments, "--owner", "web-1")
    assert (code, "could sign for" in error) == (1, True)


def test_a_proxy_with_made_keys_serves_who_has_them(
    headgate: Headgate, tmp_path: Path
) -> None:
    code, out, _ = headgate("bus", "keys", "curve", "--out", str(tmp_path))
    assert code == 0
    server = json.loads((tmp_path / "curve-proxy.json").read_text())
    with ZeroMQProxy(options=server) as proxy:
        bus = connected(
            BusSettings(
                kind="zeromq",
                publish=(proxy.publish_address,),
                subscribe=(proxy.subscribe_address,),
                options=json.loads(out)["options"],
            )
        )
        bus.publish(b"encrypted")
        hear(bus, b"encrypted")
        bus.close()
