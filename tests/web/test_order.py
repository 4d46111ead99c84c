"""Answers that come late or in another order, and changes while a reader is at it."""

import re
import time

import httpx
from playwright.sync_api import APIResponse, Page, Route, expect
from tests.web.rigs import TIMEOUT_S, Server

GOLD = {"limits": [{"dimension": "requests", "rate": 100}]}
SILVER = {"limits": [{"dimension": "requests", "rate": 200}]}

ASKED = """
window.asked = [];
const real = window.fetch;
window.fetch = (url, options) => {
  const { pathname, searchParams } = new URL(url);
  const what = `${pathname.split("/").at(-1)} of '${searchParams.get("search") ?? ""}'`;
  window.asked.push(`begin ${what}`);
  options.signal?.addEventListener("abort", () => window.asked.push(`end ${what}`));
  return real(url, options);
};
"""
"""Keeps in which order the page begins and ends its requests."""


class Held:
    """The first request of an address is held, or every one; others are let through."""

    def __init__(
        self, page: Page, address: re.Pattern[str], *, every: bool = False
    ) -> None:
        """Hold what `page` asks first of an `address` that matches."""
        self.page = page
        self._every = every
        self.route: Route | None = None
        self.old: APIResponse | None = None
        page.route(address, self._came)

    def _came(self, route: Route) -> None:
        if self.route is None:
            self.route = route
        elif not self._every:
            route.continue_()

    def wait(self) -> Route:
        """Return the held request once it was made."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.route is None:
            assert time.monotonic() < deadline, "it is not asked for"
            self.page.wait_for_timeout(20)
        return self.route

    def answer(self) -> None:
        """Let the server answer it, and keep the answer from the page."""
        self.old = self.wait().fetch()

    def give(self) -> None:
        """Give the page the answer: the kept one, else the present one."""
        route = self.wait()
        with self.page.expect_event(
            "requestfinished", lambda request: request == route.request
        ):
            if self.old is None:
                route.continue_()
            else:
                route.fulfill(response=self.old)
        # A whole round trip later the page has done what it does with the answer.
        self.page.evaluate("async () => { await (await fetch('api/v1/live')).text(); }")


def test_an_older_answer_does_not_take_the_place_of_a_newer_one(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    rest.put("/tenants/acme").raise_for_status()
    group = Held(page, re.compile("/api/v1/groups/gold$"))
    attachments = Held(page, re.compile("/api/v1/attachments"))
    page.goto(f"{server.url}/#/group/gold")
    group.answer()
    rest.put("/groups/gold", json=SILVER).raise_for_status()
    limits = page.locator("table.limits")
    expect(limits).to_contain_text("200 / s")
    attachments.answer()
    attachment = {"subject": {"tenant": "acme"}, "group": "gold"}
    rest.put("/attachments", json=attachment).raise_for_status()
    about = page.get_by_label("About the group")
    expect(about).to_contain_text("tenant acme")
    group.give()
    attachments.give()
    assert "200 / s" in limits.inner_text()
    assert "tenant acme" in about.inner_text()


def test_a_change_between_the_answer_and_the_stream_is_seen(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    stream = Held(page, re.compile("/api/v1/events"))
    page.goto(f"{server.url}/#/group/gold")
    limits = page.locator("table.limits")
    expect(limits).to_contain_text("100 / s")
    rest.put("/groups/gold", json=SILVER).raise_for_status()
    stream.wait().continue_()
    expect(limits).to_contain_text("200 / s")


def test_what_was_asked_for_a_page_that_was_left_is_not_shown(
    page: Page, server: Server
) -> None:
    group = Held(page, re.compile("/api/v1/groups/gone$"))
    Held(page, re.compile("/api/v1/events"), every=True)  # it would ask again
    page.goto(f"{server.url}/#/group/gone")
    group.wait()
    page.get_by_role("link", name="Agents").click()
    heading = page.get_by_role("heading", name="Agents")
    expect(heading).to_be_visible()
    group.give()  # 404
    assert heading.is_visible()


def test_what_needs_the_group_waits_for_it(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    group = Held(page, re.compile("/api/v1/groups/gold$"))
    Held(page, re.compile("/api/v1/events"), every=True)  # it would ask again
    page.goto(f"{server.url}/#/group/gold")
    group.wait()
    override = page.get_by_role("button", name="Override")
    expect(override).to_be_disabled()
    group.give()
    override.click()
    expect(page.get_by_label("Which")).to_contain_text("requests")


def test_a_new_filter_ends_the_stream_of_the_old_one_at_once(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    for name in ("bronze", "gold", "silver"):
        rest.put(f"/groups/{name}", json=GOLD).raise_for_status()
    page.add_init_script(ASKED)
    page.goto(server.url)
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    page.get_by_label("Filter groups").fill("l")
    page.wait_for_function("""() => asked.includes("begin events of 'l'")""")
    asked: list[str] = page.evaluate("asked")
    assert asked.index("end events of ''") < asked.index("begin overview of 'l'")
    expect(page.locator(".windowed .row")).to_have_count(2)


def test_a_change_takes_nobody_from_what_they_are_at(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    rest.put("/tenants/acme").raise_for_status()
    attachment = {"subject": {"tenant": "acme"}, "group": "gold"}
    rest.put("/attachments", json=attachment).raise_for_status()
    page.goto(f"{server.url}/#/group/gold")
    detach = page.get_by_role("button", name="Detach tenant acme")
    detach.focus()
    rest.patch("/groups/gold", json={"weight": 3}).raise_for_status()
    expect(page.locator(".changes-list")).to_contain_text("weight: 1 → 3")
    expect(detach).to_be_focused()
    page.get_by_role("link", name="Audit").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(4)
    oldest = page.get_by_role("button", name="Roll back to here").last
    oldest.focus()
    rest.patch("/groups/gold", json={"weight": 2}).raise_for_status()
    expect(rows).to_have_count(5)
    expect(oldest).to_be_focused()


def test_a_group_that_could_not_be_told_is_asked_for_again(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    refused: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route)
        route.fulfill(status=503, json={"detail": "the database is away"})

    address = re.compile("/api/v1/groups/gold$")
    page.route(address, refuse)
    page.goto(f"{server.url}/#/group/gold")
    notice = page.locator(".group-head .notice")
    expect(notice).to_have_text("the database is away")
    deadline = time.monotonic() + TIMEOUT_S
    while len(refused) < 4:  # the page asks twice when it opens
        assert time.monotonic() < deadline, "it is not asked for again"
        page.wait_for_timeout(20)
    page.unroute(address, refuse)
    expect(page.locator("table.limits")).to_contain_text("100 / s")
    expect(notice).to_be_hidden()
