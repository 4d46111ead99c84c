"""`headgate up` with CURVE keys: who has one shares a quota, who has none is alone."""

from __future__ import annotations

import json
import stat
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
import zmq
from tests.integration.agent.rigs import Load, settle, until

from headgate.agent import Agent, connect
from headgate.cli import main
from headgate.cli.client.rest import Rest
from headgate.cli.process.children import Child, Children

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headgate.agent.json_place import Json
    from headgate.cli.client.rest import JsonObject

START_TIMEOUT_S = 60.0
"""For a server, on a machine that may be busy."""

QUOTA_PER_S = 300.0

SNAPSHOT = "/api/v1/snapshot"


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as children:
        yield children


def started(children: Children, home: Path, *options: str) -> Child:
    """Start `headgate up`."""
    command = [sys.executable, "-m", "headgate.cli", "up", "--port", "0", *options]
    command += ["--bus-ports", "0,0", "--database", str(home / "headgate.db")]
    command += ["--ready-file", str(home / "ready.json")]
    return children.start("headgate up", command, log=home / "log", talks=False)


def configured(url: str) -> None:
    """Make a group and attach a tenant."""
    limit = {"dimension": "requests", "rate": QUOTA_PER_S, "burst": QUOTA_PER_S}
    with Rest(url) as rest:
        rest.call("POST", "/api/v1/groups", body={"name": "g", "limits": [limit]})
        rest.call("PUT", "/api/v1/tenants/acme", body={})
        attachment = {"subject": {"tenant": "acme"}, "group": "g"}
        rest.call("PUT", "/api/v1/attachments", body=attachment)


def known_to(agent: Agent) -> set[str]:
    """Return the ids of all whom an agent hears."""
    return {member.agent for member in agent.status().members}


def said(caplog: pytest.LogCaptureFixture, says: str) -> bool:
    """Return whether this was logged."""
    return says in caplog.text


def check_secrets(keys: Path, told: str) -> None:
    """Check that agents are told the proxy's public key, and no secret."""
    proxy = json.loads((keys / "curve-proxy.json").read_text())["curve_secretkey"]
    assert json.dumps(zmq.curve_public(proxy.encode()).decode()) in told
    for secret in (proxy, (keys / "curve.key").read_text().strip()):
        assert json.dumps(secret) not in told
    for file in ("curve-proxy.json", "curve.key"):
        assert stat.S_IMODE((keys / file).stat().st_mode) == 0o600


def test_two_with_the_key_share_a_quota_and_who_has_none_says_so(
    children: Children, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["bus", "keys", "curve", "--out", str(tmp_path / "keys")]) == 0
    server = started(children, tmp_path, "--bus-keys", str(tmp_path / "keys"))
    ready = json.loads(server.file(tmp_path / "ready.json", START_TIMEOUT_S))
    configured(ready["api"])
    other, secret = (key.decode() for key in zmq.curve_keypair())
    strangers: dict[str, dict[str, Json]] = {
        "no-key": {"curve_secretkey": {"file": str(tmp_path / "nowhere.key")}},
        "wrong-key": {"curve_secretkey": secret},
        "wrong-proxy": {"curve_serverkey": other},
    }
    with ExitStack() as stack:

        def join(agent: str) -> Agent:
            options = strangers.get(agent)
            joined = connect(
                ready["api"], agent=agent, keep_snapshot=False, bus_options=options
            )
            return stack.enter_context(joined)

        agents = [join(agent) for agent in ("one", "two")]
        alone = [join(agent) for agent in strangers]
        loads = [
            stack.enter_context(Load(agent.limiter(tenant="acme"), QUOTA_PER_S))
            for agent in agents
        ]
        until(lambda: all(known_to(a) == {"one", "two"} for a in agents), "the other")
        settle(loads, least=0.9 * QUOTA_PER_S, most=1.1 * QUOTA_PER_S)
        for agent in alone:
            assert known_to(agent) <= {agent.id}
        assert known_to(agents[0]) == {"one", "two"}
        with Rest(ready["api"]) as rest:  # which listens with the key, too

            def seen() -> bool:
                told = rest.call("GET", "/api/v1/agents")["agents"]
                rows = cast("list[JsonObject]", told)
                return {str(row["agent"]) for row in rows} == {"one", "two"}

            until(seen, "the API to hear both")
            check_secrets(tmp_path / "keys", json.dumps(rest.call("GET", SNAPSHOT)))
        shown = zmq.curve_public(secret.encode()).decode()
        missing = f"curve_secretkey: {tmp_path / 'nowhere.key'}"
        for says in (
            f"no bus, so this agent does not hear the others: {missing}",
            f"it does not know this agent's CURVE key {shown}",
            "curve_serverkey does not seem to be its public key",
        ):
            until(partial(said, caplog, says), says)
            assert caplog.text.count(says) == 1


def test_keys_that_are_not_there_or_not_meant_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = ("--database", str(tmp_path / "x.db"), "--port", "0")
    nowhere = str(tmp_path / "nowhere")
    assert main(["up", *database, "--bus-keys", nowhere]) == 1
    said = capsys.readouterr().err
    assert f"bus: {nowhere}/curve-proxy.json: No such file or directory" in said
    bus = ("--bus", "zeromq://127.0.0.1:1/2")
    assert main(["up", *database, *bus, "--bus-keys", nowhere]) == 2
    assert "--bus-keys: only for the embedded bus" in capsys.readouterr().err
    assert main(["bus", "keys", "curve", "--out", str(tmp_path)]) == 0
    (tmp_path / "curve.key").write_text(zmq.curve_keypair()[1].decode())
    assert main(["up", *database, "--bus-keys", str(tmp_path)]) == 1
    assert "expected a key listed in curve_clients" in capsys.readouterr().err
