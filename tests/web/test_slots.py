"""Requests in flight on a group's page, in a real browser."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect
from tests.web.rigs import TIMEOUT_S, Server

import headgate.agent

if TYPE_CHECKING:
    import httpx

    from headgate.agent import Limiter, Slot

SLOTS = {"slots": 3}


def taken(limiter: Limiter) -> Slot:
    """Take a slot as soon as one is free: the first ones come after some seconds."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (slot := limiter.try_slot()):
        assert time.monotonic() < deadline_s, "no slot came"
        time.sleep(0.02)
    return slot


def test_a_group_s_page_shows_who_holds_slots_and_sees_them_come_back(
    server: Server, rest: httpx.Client, page: Page
) -> None:
    rest.put("/groups/models", json=SLOTS).raise_for_status()
    rest.put("/tenants/acme", json={}).raise_for_status()
    body = {"subject": {"tenant": "acme"}, "group": "models"}
    rest.put("/attachments", json=body).raise_for_status()
    page.goto(f"{server.url}/#/group/models")
    expect(page.get_by_role("heading", name="In flight: 0 of 3")).to_be_visible()
    with headgate.agent.connect(
        server.url, agent="only", keep_snapshot=False, wait_s=TIMEOUT_S
    ) as agent:
        limiter = agent.limiter(tenant="acme")
        held = [taken(limiter), taken(limiter)]
        expect(page.get_by_role("heading", name="In flight: 2 of 3")).to_be_visible()
        row = page.get_by_role("row", name=re.compile("^only"))
        expect(row.get_by_role("cell").first).to_have_text("2")
        held[0].release()
        expect(page.get_by_role("heading", name="In flight: 1 of 3")).to_be_visible()
        rest.patch("/groups/models", json={"slots": 2000}).raise_for_status()
        heading = page.get_by_role("heading", name="In flight: 1 of 2,000")
        expect(heading).to_be_visible()
        rest.patch("/groups/models", json={"slots": None}).raise_for_status()
        expect(page.get_by_role("heading", name="In flight")).to_be_hidden()
        assert held[1].decision


def test_slots_are_set_and_a_number_that_can_t_be_is_shown_at_its_field(
    server: Server, rest: httpx.Client, page: Page
) -> None:
    rest.put("/groups/models", json=SLOTS).raise_for_status()
    page.goto(f"{server.url}/#/group/models")
    expect(page.get_by_role("heading", name="In flight: 0 of 3")).to_be_visible()
    page.keyboard.press("e")
    field = page.get_by_label("Requests in flight at once")
    expect(field).to_have_value("3")
    field.fill("-4")
    page.keyboard.press("Enter")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert rest.get("/groups/models").json()["slots"] == 3
    field.fill("20")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="In flight: 0 of 20")).to_be_visible()
    assert rest.get("/groups/models").json()["slots"] == 20
