"""What removes a limit is confirmed at a terminal, or with --yes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from headgate.api import Addresses


class Headgate(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


@pytest.fixture
def limited(headgate: Headgate) -> None:
    """Tenant lim has gold's limits, and its namespace has a policy."""
    for command in (
        "group create lim.gold --limit requests=5 --limit tokens=7",
        "group create lim.free",
        "tenant create lim",
        "attach lim.gold --tenant lim --yes",
    ):
        headgate(*command.split())


LIFTING = [
    (
        "attach lim.free --tenant lim",
        "tenant lim will move from group lim.gold to lim.free",
    ),
    ("detach --tenant lim", "tenant lim will be detached from group lim.gold"),
    ("tenant delete lim", "tenant lim will be detached from group lim.gold"),
    (
        "group update lim.gold --remove-limit tokens",
        "lim.gold will no longer limit tokens",
    ),
    (
        "group update lim.gold --limit tokens=unlimited",
        "lim.gold will no longer limit tok",
    ),
]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(("command", "told"), LIFTING)
def test_a_script_has_to_say_that_it_means_to_lift_a_limit(
    headgate: Headgate, command: str, told: str
) -> None:
    before = headgate("export")[1]
    code, said, error = headgate(*command.split())
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert told in error
    assert error.endswith("; pass --yes to confirm\n")
    assert headgate("export")[1] == before
    assert headgate(*command.split(), "--yes")[0] == 0
    assert headgate("export")[1] != before


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("yes", [(), ("--yes",)])
@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("--tenant nosuch", "tenant nosuch"),
        ("--tenant *", "tenant *"),
        ("--user lim --client *", "user lim, client *"),
    ],
)
def test_who_is_attached_to_no_group_is_not_asked_about(
    headgate: Headgate, subject: str, shown: str, yes: tuple[str, ...]
) -> None:
    headgate("attach", "lim.gold", "--user", "lim", "--client", "c", "--yes")
    told = (1, "", f"headgate: {shown} is attached to no group\n")
    assert headgate("detach", *subject.split(), *yes) == told
    assert headgate("detach", "--user", "lim", "--client", "c", "--yes")[0] == 0


@pytest.mark.usefixtures("limited")
def test_a_topic_is_detached_by_either_of_its_names(headgate: Headgate) -> None:
    topic, subscription = "lim/orders/new", ("--subscription", "eu")
    for name in (topic, f"persistent://{topic}"):
        for more in ((), subscription):
            assert headgate("attach", "lim.gold", "--topic", topic, *more)[0] == 0
            assert headgate("detach", "--topic", name, *more, "--yes")[0] == 0
    assert "new" not in headgate("attachments")[1]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_a_person_is_asked(
    server: Addresses, headgate: Headgate, answer: str, code: int
) -> None:
    master, slave = pty.openpty()
    os.write(master, f"{answer}\n".encode())
    command = [sys.executable, "-m", "headgate.cli", "detach", "--tenant", "lim"]
    done = subprocess.run(
        [*command, "--url", server.api, "--json"],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        timeout=60,
        check=False,
    )
    asked = os.read(master, 65536).decode()
    os.close(master)
    os.close(slave)
    assert done.returncode == code
    assert "tenant lim will be detached from group lim.gold" in asked
    assert "Continue? [y/N]" in asked
    if code == 0:
        assert json.loads(done.stdout) == {"detached": {"tenant": "lim"}}
    left = json.loads(headgate("group", "show", "lim.gold", "--json")[1])
    assert len(left["attachments"]) == code


@pytest.mark.usefixtures("limited")
def test_what_lifts_nothing_is_done_at_once(headgate: Headgate) -> None:
    for command in (
        "attach lim.gold --tenant lim",
        "tenant create lim2",
        "tenant delete lim2",
        "group update lim.gold --limit requests=9",
        "group delete lim.free",
    ):
        assert headgate(*command.split())[0] == 0


@pytest.mark.usefixtures("limited")
def test_a_group_is_shown_with_what_is_attached_and_what_overrides_it(
    headgate: Headgate,
) -> None:
    override = ("--by", "+50%", "--for", "1h", "--reason", "a sale")
    headgate("override", "create", "lim.gold", *override)
    code, said, _ = headgate("group", "show", "lim.gold")
    assert code == 0
    assert "  attached: tenant lim\n" in said
    assert "  override in force: all limits × 1.5 (+50 %) until 20" in said
    assert "(a sale)\n" in said
    whole = json.loads(headgate("group", "show", "lim.gold", "-o", "json")[1])
    assert [one["subject"] for one in whole["attachments"]] == [{"tenant": "lim"}]
    assert [one["factor"] for one in whole["overrides"]] == [1.5]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    "command",
    [
        "group list",
        "group show lim.gold",
        "tenant list",
        "namespace list lim",
        "attachments",
        "policy list",
        "policy get publish --topic lim/a/b",
        "override list",
        "setting list",
        "token list",
        "audit",
        "audit 1",
        "status --once",
        "explain lim.gold",
    ],
)
def test_every_command_that_reads_takes_every_format(
    headgate: Headgate, command: str
) -> None:
    import yaml

    said: dict[str, str] = {}
    for chosen in ("json", "yaml", "wide", "name"):
        code, said[chosen], error = headgate(*command.split(), "-o", chosen)
        assert (command, chosen, code, error) == (command, chosen, 0, "")
    assert json.loads(said["json"]) == yaml.safe_load(said["yaml"])
    assert headgate(*command.split(), "--json", "-o", "wide")[0] == 2
