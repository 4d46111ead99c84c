"""Every view, on a telephone and on a desk, light and dark: axe finds nothing."""

import json
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.web.rigs import TIMEOUT_S, Server
from tools.npm_parts import AXE, fetch

from headgate.agent import Admin, LimitSpec

TELEPHONE, DESK = 375, 1280
LONG = "batch-jobs-of-the-payments-team-in-region-europe-west-4-production"

VIEWS = {
    "overview": "#/",
    "group": "#/group/gold",
    "a group without use": f"#/group/{LONG}",
    "no such group": "#/group/nobody",
    "tenants": "#/tenant",
    "tenant": "#/tenant/acme",
    "agents": "#/agents",
    "audit": "#/audit",
}

VIOLATIONS = """
() => axe.run(document, {resultTypes: ["violations"]}).then((found) =>
  found.violations.map((each) => `${each.id}: ${each.nodes[0].html}`))
"""

OFF_SCREEN = """
() => [...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.closest(".scroll, .visually-hidden, .skip"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 120))
"""


@pytest.fixture(scope="module")
def admin(filled_server: Server) -> Iterator[Admin]:
    with Admin(filled_server.url) as client:
        client.put_group(LONG, [LimitSpec("requests", rate=5)], parent="gold")
        client.put_tenant("acme")
        client.put_namespace("acme", "orders")
        client.attach("gold", tenant="acme")
        client.attach(LONG, namespace="acme/orders")
        bulk = {f"bulk-{index}": {"parent": "gold"} for index in range(30)}
        client.apply(json.dumps({"groups": bulk}))
        yield client


@pytest.fixture(scope="module")
def axe() -> str:
    return fetch(AXE).read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [TELEPHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.usefixtures("admin")
def test_no_view_violates_a_rule_or_leaves_the_screen(
    page: Page, filled_server: Server, axe: str, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(filled_server.url)
    page.evaluate(axe)
    found: dict[str, object] = {}
    for name, path in VIEWS.items():
        page.evaluate("hash => { location.hash = hash }", path)
        expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
        expect(page.locator("main h1").first).to_be_attached()
        if name == "tenant":
            expect(page.locator("main")).to_contain_text(f"attached to group {LONG}")
        wrong = [*page.evaluate(VIOLATIONS), *page.evaluate(OFF_SCREEN)]
        if wrong:
            found[name] = wrong
    page.evaluate("location.hash = '#/'")
    page.locator("#new-group").click()
    expect(page.locator("dialog")).to_be_visible()
    if wrong := [*page.evaluate(VIOLATIONS), *page.evaluate(OFF_SCREEN)]:
        found["dialog"] = wrong
    assert found == {}


@pytest.mark.usefixtures("admin")
def test_the_audit_gives_date_and_zone_and_folds_a_bulk_change(
    page: Page, filled_server: Server
) -> None:
    page.goto(f"{filled_server.url}/#/audit")
    newest = page.locator("tbody tr").first
    expect(newest.locator("time")).to_contain_text("UTC")
    expect(newest.locator("summary")).to_have_text("30 changes: 30 groups")
    expect(newest.get_by_text("bulk-7", exact=True)).to_be_hidden()
    newest.locator("summary").click()
    expect(newest.get_by_text("bulk-7", exact=True)).to_be_visible()
    page.get_by_role("searchbox").fill("acme")
    expect(page).to_have_url(f"{filled_server.url}/#/audit?key=acme")


@pytest.mark.usefixtures("admin")
def test_a_link_shows_the_same_limit_over_the_same_span(
    page: Page, browser: BrowserContext, filled_server: Server
) -> None:
    page.goto(f"{filled_server.url}/#/group/gold")
    page.get_by_role("button", name="2 min").click()
    expect(page).to_have_url(f"{filled_server.url}/#/group/gold?span=120")
    other = browser.new_page()
    other.goto(page.url)
    button = other.get_by_role("button", name="2 min")
    expect(button).to_have_attribute("aria-pressed", "true")
    other.close()


@pytest.mark.usefixtures("admin")
def test_a_long_name_keeps_its_end(page: Page, filled_server: Server) -> None:
    page.set_viewport_size({"width": TELEPHONE, "height": 800})
    page.goto(filled_server.url)
    row = page.locator(".row", has_text=LONG)
    expect(row.locator("a")).to_have_text(LONG)
    expect(row.locator(".cut-tail")).to_be_in_viewport(ratio=1)


def test_agents_are_found_sorted_and_summed(page: Page, filled_server: Server) -> None:
    agents = [_agent("web-2", lag_s=0.01), _agent("web-10", lag_s=0.03)]
    agents.append({**_agent("batch-1", lag_s=0.02), "state": "silent"})
    shown = {"at_s": 1.0, "revision": 3, "total": 3, "agents": agents}
    told = f"event: agents\ndata: {json.dumps(shown)}\n\n"
    page.route(
        "**/events?view=agents*",
        lambda route: route.fulfill(content_type="text/event-stream", body=told),
    )
    page.goto(f"{filled_server.url}/#/agents")
    names = page.locator("tbody th")
    expect(names).to_have_text(["batch-1", "web-2", "web-10"])
    page.get_by_role("button", name="Lag").click()
    expect(names).to_have_text(["web-2", "batch-1", "web-10"])
    page.get_by_role("button", name="Lag").click()
    expect(names).to_have_text(["web-10", "batch-1", "web-2"])
    page.get_by_role("searchbox").fill("web")
    expect(names).to_have_text(["web-10", "web-2"])
    total = page.locator("tfoot")
    expect(total).to_contain_text("2 agents")
    expect(total).to_contain_text("at most 30 ms")


def _agent(name: str, *, lag_s: float) -> dict[str, object]:
    return {
        "agent": name,
        "state": "present",
        "age_s": 0.5,
        "lag_s": lag_s,
        "loss": 0.0,
        "revision": 3,
        "limits": 2,
        "incarnation": 1,
    }


def test_a_dialog_says_that_the_server_is_gone(page: Page, server: Server) -> None:
    page.goto(server.url)
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    page.keyboard.press("n")
    save = page.locator("dialog button.primary")
    expect(save).to_be_enabled()
    server.stop()
    expect(page.locator("dialog")).to_contain_text("Nothing can be saved until it does")
    expect(save).to_be_disabled()
    server.start()
    expect(save).to_be_enabled()
    httpx.get(f"{server.url}/healthz", timeout=TIMEOUT_S).raise_for_status()
