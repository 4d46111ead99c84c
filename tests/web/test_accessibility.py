"""Every view, on a telephone and on a desk, light and dark: axe finds nothing."""

import json
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect
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
    "audit of a range": "#/audit?from=2026-01-01T00:00:00Z",
    "group over a range": "#/group/gold?from=2026-01-01T00:00:00Z&explain=1",
    "many namespaces": "#/tenant/big?offset=50",
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
        spaces = [f"big/space-{index:03}" for index in range(120)]
        client.apply(json.dumps({"tenants": {"big": {}}, "namespaces": spaces}))
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
            expect(page.locator("main")).to_contain_text(LONG)
        if name == "many namespaces":
            expect(page.locator("main")).to_contain_text("space-099")
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
def test_a_long_name_keeps_its_end(page: Page, filled_server: Server) -> None:
    page.set_viewport_size({"width": TELEPHONE, "height": 800})
    page.goto(filled_server.url)
    row = page.locator(".row", has_text=LONG)
    expect(row.locator("a")).to_have_text(LONG)
    expect(row.locator(".cut-tail")).to_be_in_viewport(ratio=1)


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
