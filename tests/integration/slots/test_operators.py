"""What an operator decides of slots, and sees of them; bad input has an answer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.integration.slots.rigs import PATIENCE_S, until

from headgate.agent import Admin, SlotHolder
from headgate.api.live.snapshot import ClusterSnapshot, InFlight, cut_to

if TYPE_CHECKING:
    from tests.integration.slots.conftest import SlotServer

    from headgate.agent import Agent, Limiter, Slot


def headgate(server: SlotServer, *arguments: str) -> tuple[int, str, str]:
    """Run the command line; return code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate.cli", *arguments, "--url", server.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def take(limiter: Limiter, count: int) -> list[Slot]:
    """Take so many slots, each as soon as one is free."""
    slots: list[Slot] = []

    def taken() -> bool:
        slot = limiter.try_slot()
        if slot:
            slots.append(slot)
        return len(slots) == count

    until(taken, f"{count} slots")
    return slots


@pytest.mark.parametrize("slots", [-1, -3, 0.5, "3", True, 1_000_001, [1]])
def test_a_number_that_can_t_be_is_refused_and_named(
    server: SlotServer, slots: object
) -> None:
    answer = server.rest.put("/groups/gold", json={"slots": slots})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["slots"]
    assert server.rest.get("/groups/gold").status_code == 404


def test_the_number_is_kept_changed_and_taken_away(server: SlotServer) -> None:
    server.set_slots(5)
    assert server.rest.get("/groups/gold").json()["slots"] == 5
    assert server.rest.get("/snapshot").json()["groups"][0]["slots"] == 5
    assert server.rest.patch("/groups/gold", json={"weight": 2}).json()["slots"] == 5
    gone = server.rest.patch("/groups/gold", json={"slots": None}).json()
    assert gone["slots"] is None
    shown = server.rest.get("/groups/gold/slots").json()
    assert shown == {"group": "gold", "slots": None, "in_use": 0, "agents": []}


def test_no_limit_can_have_the_name_under_which_slots_are_told(
    server: SlotServer,
) -> None:
    limit = {"dimension": "slots_in_flight", "rate": 5}
    answer = server.rest.put("/groups/gold", json={"limits": [limit]})
    assert answer.status_code == 422
    assert "use slots" in answer.text


def test_slots_that_are_held_outlive_a_smaller_number(
    server: SlotServer, agent: Agent
) -> None:
    limiter = agent.limiter(tenant="acme")
    held = take(limiter, 3)
    server.set_slots(1)
    until(lambda: agent.metrics()["revision"] > 3, "the agent to follow")
    assert all(slot.held for slot in held)
    until(lambda: server.in_use() == {"only": 3}, "the API to show all three")
    held[0].release()
    held[1].release()
    assert not limiter.try_slot(), "one is held, and one may be"
    held[2].release()
    take(limiter, 1)


def test_a_number_of_zero_lets_nobody_begin(server: SlotServer, agent: Agent) -> None:
    limiter = agent.limiter(tenant="acme")
    (held,) = take(limiter, 1)
    server.set_slots(0)
    until(lambda: limiter.try_slot().decision.never, "the group to be closed")
    assert held.held


def test_the_command_line_sets_and_shows_slots(
    server: SlotServer, agent: Agent
) -> None:
    held = take(agent.limiter(tenant="acme"), 2)
    until(lambda: server.in_use() == {"only": 2}, "the API to show them")
    code, said, _ = headgate(server, "slots", "gold")
    assert code == 0
    assert said.startswith("gold: 2 of 3 slots in use\n")

    def settled() -> bool:
        # What was asked for in vain while the slots came counts as wanted for a while.
        _, said, _ = headgate(server, "slots", "gold")
        return ["only", "3", "2", "2"] in [line.split() for line in said.splitlines()]

    until(settled, "the attempts before to be forgotten")
    code, said, _ = headgate(server, "slots", "gold", "--json")
    assert json.loads(said)["in_use"] == 2
    holder = {"agent": "only", "owned": 3, "in_use": 2, "wanted": 2}
    shown = {"group": "gold", "slots": 3, "in_use": 2, "agents": [holder]}
    assert json.loads(headgate(server, "slots", "gold", "-o", "json")[1]) == shown
    assert yaml.safe_load(headgate(server, "slots", "gold", "-o", "yaml")[1]) == shown
    assert headgate(server, "slots", "gold", "-o", "name")[1] == "only\n"
    _, said, _ = headgate(server, "slots", "gold", "-o", "wide")
    assert said.splitlines()[-1].split() == ["only", "3", "2", "2", "1"]
    with Admin(server.url) as admin:
        seen = admin.slots("gold")
    assert (seen.slots, seen.in_use) == (3, 2)
    assert seen.holders == (SlotHolder(agent="only", owned=3, in_use=2, wanted=2),)
    assert headgate(server, "group", "update", "gold", "--slots", "-1")[0] == 0
    code, said, _ = headgate(server, "slots", "gold", "-o", "json")
    assert json.loads(said) == {
        "group": "gold",
        "slots": None,
        "in_use": 0,
        "agents": [],
    }
    code, said, _ = headgate(server, "slots", "gold")
    assert said == "gold does not limit how many requests are in flight\n"
    code, _, told = headgate(server, "group", "update", "gold", "--slots", "-2")
    assert code == 2
    assert "--slots" in told
    assert len(held) == 2


def test_top_and_the_overview_show_slots_beside_limits(
    server: SlotServer, agent: Agent
) -> None:
    held = take(agent.limiter(tenant="acme"), 2)

    def seen() -> bool:
        rows = server.rest.get("/overview").json()["rows"]
        return [(row["slots"], row["in_flight"]) for row in rows] == [(3, 2)]

    until(seen, "the overview to show two of three slots")
    _, said, _ = headgate(server, "top", "--once")
    assert said.splitlines()[0].split()[-2:] == ["in", "flight"]
    assert said.splitlines()[-1].split()[-1] == "2/3"
    used = server.rest.get("/groups/gold/use").json()
    assert used["slots"]["in_use"] == 2
    assert [row["agent"] for row in used["slots"]["agents"]] == ["only"]
    server.set_slots(None)
    until(
        lambda: server.rest.get("/groups/gold/use").json()["slots"] is None,
        "no slots to be shown",
    )
    (row,) = server.rest.get("/overview").json()["rows"]
    assert (row["slots"], row["in_flight"]) == (None, None)
    assert len(held) == 2


def test_of_slots_only_those_of_visible_groups_are_shown() -> None:
    seen = tuple(
        InFlight(group=name, group_id=n, slots=3) for n, name in enumerate("ab")
    )
    picture = cut_to(ClusterSnapshot(at_s=0.0, in_flight=seen), {"b"})
    assert picture is not None
    assert [one.group for one in picture.in_flight] == ["b"]
