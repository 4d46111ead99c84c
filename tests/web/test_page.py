"""What an operator does with the page, in a real browser on a real server."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import httpx
from playwright.sync_api import Page, expect
from tests.web.rigs import TIMEOUT_S, Server, at_work

GOLD = {"limits": [{"dimension": "requests", "rate": 100}]}


def opened(page: Page, server: Server, path: str = "") -> None:
    page.goto(f"{server.url}/{path}")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")


def test_the_page_asks_no_other_host_and_breaks_no_policy(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    opened(page, server)
    opened(page, server, "#/group/gold")
    expect(page.locator(".uplot").first).to_be_attached()
    expect(page.locator(".chart.none").first).to_be_visible()  # nobody uses it
    assert [url for url in asked if not url.startswith(server.url)] == []
    assert complaints == []
    policy = httpx.get(server.url, timeout=TIMEOUT_S).headers["Content-Security-Policy"]
    assert "unsafe" not in policy


def test_the_documentation_is_served_from_here_alone(
    page: Page, server: Server
) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{server.url}/docs")
    operation = page.locator(".opblock", has_text="List attachments")
    expect(page.get_by_text("attachments", exact=True).first).to_be_visible()
    page.locator(".opblock-tag", has_text="attachments").first.click()
    expect(operation).to_be_visible()
    outside = [url for url in asked if not url.startswith((server.url, "data:"))]
    assert outside == []
    assert complaints == []


def test_of_a_limit_per_node_the_page_says_that_nothing_is_reported(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    limit = {"dimension": "requests", "rate": 100, "scope": "node"}
    rest.put("/groups/gold", json={"limits": [limit]}).raise_for_status()
    opened(page, server)
    row = page.get_by_role("row").filter(has_text="requests per node")
    expect(row).to_contain_text("not reported")
    opened(page, server, "#/group/gold")
    expect(page.get_by_text("Each process enforces it on its own")).to_be_visible()
    answer = rest.get("/groups/gold/explain", params={"dimension": "requests"})
    assert answer.status_code == 404
    assert "agents report no usage" in answer.json()["detail"]


def test_a_group_is_made_with_the_keyboard_alone(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    opened(page, server)
    page.keyboard.press("n")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("gold")
    page.keyboard.press("Tab")  # what it counts: requests
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("2.5k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="gold", exact=True)).to_be_visible()
    assert rest.get("/groups/gold").json()["limits"][0]["rate"] == 2500


def test_the_list_is_walked_with_the_keyboard(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    for name in ("bronze", "gold", "silver"):
        rest.put(f"/groups/{name}", json=GOLD).raise_for_status()
    opened(page, server)
    page.keyboard.press("/")
    page.keyboard.type("l")  # gold and silver
    expect(page.locator(".windowed .row")).to_have_count(2)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("grid")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="silver", exact=True)).to_be_visible()


def test_a_refused_value_is_shown_at_its_field_and_can_be_mended(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    opened(page, server, "#/group/gold")
    expect(page.get_by_role("button", name="requests")).to_be_visible()
    page.keyboard.press("e")
    rate = page.get_by_label("Rate", exact=True)
    rate.fill("-5")
    page.get_by_role("button", name="Preview").click()
    expect(rate).to_have_attribute("aria-invalid", "true")
    page.keyboard.press("Enter")
    expect(rate).to_have_attribute("aria-invalid", "true")
    expect(rate).to_be_focused()
    why = page.locator(f"#{rate.get_attribute('aria-describedby')}")
    expect(why).to_contain_text("expected a number ≥ 0")
    rate.fill("250")
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert rest.get("/groups/gold").json()["limits"][0]["rate"] == 250
    expect(page.locator("table.limits")).to_contain_text("250 / s")
    expect(page.locator(".changes-list")).to_contain_text("rate: 100 → 250")


def test_saving_the_form_sets_a_calendar_month_and_keeps_what_it_has_no_field_for(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/tenants/acme", json={}).raise_for_status()
    owned = {**GOLD, "owner": "acme", "split": "even"}
    rest.put("/groups/gold", json=owned).raise_for_status()
    opened(page, server, "#/group/gold")
    expect(page.get_by_role("button", name="requests")).to_be_visible()
    page.keyboard.press("e")
    page.get_by_label("Period", exact=True).select_option("calendar month")
    page.get_by_text("Time zone; minimum and maximum").click()
    page.get_by_label("Time zone of calendar periods").fill("Europe/Zurich")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    group = rest.get("/groups/gold").json()
    assert (group["owner"], group["split"]) == ("acme", "even")
    (limit,) = group["limits"]
    assert (limit["period"], limit["time_zone"]) == ("month", "Europe/Zurich")


def test_pip82_the_form_sets_and_ends_the_split_among_topics(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    opened(page, server, "#/group/gold")
    for word, split in (
        ("evenly", "even"),
        ("in proportion", "proportional"),
        ("no:", None),
    ):
        expect(page.get_by_role("button", name="requests")).to_be_visible()
        page.keyboard.press("e")
        page.get_by_text("Tree, refusal, isolation").click()
        field = page.get_by_label("Divide a process's share among its topics")
        choice = field.locator("option", has_text=word)
        field.select_option(choice.get_attribute("value"))
        page.get_by_role("button", name="Save").click()
        expect(page.locator("dialog")).to_have_count(0)
        assert rest.get("/groups/gold").json()["split"] == split


def test_a_change_that_came_between_is_not_overwritten(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    opened(page, server, "#/group/gold")
    expect(page.get_by_role("button", name="requests")).to_be_visible()
    page.keyboard.press("e")
    page.get_by_label("Rate", exact=True).fill("7")
    rest.patch("/groups/gold", json={"weight": 3}).raise_for_status()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else changed")
    group = rest.get("/groups/gold").json()
    assert (group["weight"], group["limits"][0]["rate"]) == (3, 100)


def test_a_subject_is_attached_and_detached(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    opened(page, server, "#/group/gold")
    page.keyboard.press("a")
    name = page.get_by_label("tenant", exact=True)
    name.fill("acme")
    page.keyboard.press("Enter")
    expect(name).to_have_attribute("aria-invalid", "true")  # there is no such tenant
    page.get_by_label("create the tenant").check()
    page.get_by_role("button", name="Attach").last.click()
    attached = page.get_by_label("About the group")
    expect(attached).to_contain_text("tenant acme")
    assert rest.get("/attachments").json()["items"][0]["group"] == "gold"
    page.get_by_role("button", name="Detach tenant acme").click()
    page.get_by_role("button", name="Detach", exact=True).click()
    expect(attached).to_contain_text("Nothing is attached yet")
    assert rest.get("/attachments").json()["items"] == []


def test_a_preview_says_who_would_be_refused_and_use_appears(
    page: Page,
    server: Server,
    rest: httpx.Client,
    working_agents: Callable[..., AbstractContextManager[None]],
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    rest.put("/tenants/acme").raise_for_status()
    attachment = {"subject": {"tenant": "acme"}, "group": "gold"}
    rest.put("/attachments", json=attachment).raise_for_status()
    opened(page, server)
    with working_agents(tenant="acme", per_s=300):
        row = page.locator(".row[data-standing=over]")
        expect(row).to_contain_text("gold")
        row.click()
        agents = page.locator("tbody.live", has=page.get_by_text("one", exact=True))
        expect(agents).to_contain_text("two")
        chart = page.get_by_role("img", name="attempted per second")
        expect(chart).to_be_visible()
        page.keyboard.press("e")
        page.get_by_label("Rate", exact=True).fill("50")
        preview = page.locator(".preview")
        deadline = time.monotonic() + TIMEOUT_S
        told = ""  # a moment's figures: after a pause the cluster may refuse nearly all
        while not ("refuses more" in told and "shares of 2 agents" in told):
            assert time.monotonic() < deadline, told
            page.get_by_role("button", name="Preview").click()
            expect(preview).to_contain_text("What would change")
            page.wait_for_timeout(500)
            told = preview.inner_text()
        page.keyboard.press("Escape")
        page.get_by_text("Explain the shares").click()
        expect(page.locator(".formula")).to_contain_text("Q' = max(0,")
        page.reload()  # the history is the server's, not the page's
        expect(page.get_by_role("img", name="Shares of 2 agents")).to_be_visible()
        assert rest.get("/groups/gold/history").json()["dimensions"]


def test_an_override_is_made_shown_and_ended(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    opened(page, server, "#/group/gold")
    page.get_by_role("button", name="Override").click()
    page.get_by_label("Per cent").fill("200")
    page.get_by_label("Why").fill("sale")
    page.keyboard.press("Enter")
    about = page.get_by_label("About the group")
    expect(about).to_contain_text("all limits × 2 until")
    expect(about).to_contain_text("(sale)")
    assert rest.get("/overrides").json()["items"][0]["factor"] == 2
    page.get_by_role("button", name="end now").click()
    expect(about).not_to_contain_text("(sale)")
    assert rest.get("/overrides").json()["items"] == []


def test_the_audit_shows_changes_and_rolls_them_back(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    rest.put("/groups/gold", json={"limits": []}).raise_for_status()
    opened(page, server, "#/audit")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Roll back to here").last.click()
    expect(page.locator("dialog")).to_contain_text("added requests")
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(3)
    assert rest.get("/groups/gold").json()["limits"][0]["rate"] == 100


def test_the_audit_names_what_changed_in_words_and_in_view(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    long = "x" * 256
    rest.put(f"/groups/{long}", json=GOLD).raise_for_status()
    for path in ("/tenants/acme", "/namespaces/acme/orders"):
        rest.put(path).raise_for_status()
    policy = {"level": "namespace", "target": "acme/orders", "kind": "publish"}
    rest.put("/policies", json={**policy, "policy": {}}).raise_for_status()
    override = {"group": long, "dimension": "requests", "factor": 2, "for_s": 900}
    rest.put("/overrides", json=override).raise_for_status()
    opened(page, server, "#/audit")
    changed = page.locator("tbody td:nth-child(6)")
    expect(changed.nth(0)).to_contain_text(f"override {long} requests")
    expect(changed.nth(1)).to_contain_text("policy namespace acme/orders publish")
    for button in page.get_by_role("button", name="Roll back to here").all():
        expect(button).to_be_in_viewport(ratio=1)


def test_nothing_leads_to_more_where_there_is_no_more(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/tenants/acme").raise_for_status()
    opened(page, server, "#/audit")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Older changes")).to_be_hidden()
    page.goto(f"{server.url}/#/tenant/acme")
    expect(page.locator(".empty")).to_have_text("This tenant has no namespaces.")
    for name in ("Previous", "Next"):
        expect(page.get_by_role("button", name=name)).to_be_hidden()


def test_a_restart_of_the_server_is_said_and_mended(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/groups/gold", json=GOLD).raise_for_status()
    opened(page, server)
    expect(page.locator(".windowed")).to_contain_text("gold")
    server.stop()
    banner = page.locator("#banner")
    expect(banner).to_contain_text("does not answer")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "lost")
    server.start()
    expect(banner).to_contain_text("Connected again")
    httpx.put(
        f"{server.url}/api/v1/groups/silver", json=GOLD, timeout=TIMEOUT_S
    ).raise_for_status()
    expect(page.locator(".windowed")).to_contain_text("silver")


LIMITED = {"limits": [{"dimension": "requests", "rate": 1000}]}
TENANTS = ("acme", "beta", "gamma")

WANTED: dict[str, dict[str, float]] = {
    "web-2": {"acme": 40.0},
    "batch-1": {"acme": 40.0, "beta": 40.0},
    "web-10": {"acme": 40.0, "beta": 40.0, "gamma": 40.0},
}
"""Tenants that each agent serves: so many limits it uses."""


def test_agents_are_found_sorted_and_summed(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    for tenant in TENANTS:
        rest.put(f"/groups/of-{tenant}", json=LIMITED).raise_for_status()
        rest.put(f"/tenants/{tenant}").raise_for_status()
        body = {"subject": {"tenant": tenant}, "group": f"of-{tenant}"}
        rest.put("/attachments", json=body).raise_for_status()
    names = page.locator("tbody th")
    limits = page.locator("tbody td:nth-child(7)")
    total = page.locator("tfoot")
    with at_work(server.url, WANTED):
        page.goto(f"{server.url}/#/agents")
        expect(names).to_have_text(["batch-1", "web-2", "web-10"])
        expect(limits).to_have_text(["2", "1", "3"])
        expect(total).to_contain_text("3 agents")
        expect(total.locator("td").nth(5)).to_have_text("6")
        page.get_by_role("button", name="Limits in use").click()
        expect(names).to_have_text(["web-2", "batch-1", "web-10"])
        page.get_by_role("button", name="Limits in use").click()
        expect(names).to_have_text(["web-10", "batch-1", "web-2"])
        page.get_by_role("searchbox").fill("web")
        expect(names).to_have_text(["web-10", "web-2"])
        expect(total).to_contain_text("2 agents")
        expect(total).to_contain_text("2 present")
        expect(total).to_contain_text("all current")
        expect(total.locator("td").nth(5)).to_have_text("4")
    expect(page.locator("main")).to_contain_text("No agent is reporting on the bus")
