"""What limits a tenant: the page's figures are the API's, however many namespaces."""

import time
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.web.rigs import TIMEOUT_S, Server, at_work

SPACES = 120
PAGE_SIZE = 50


def limits(rate: float) -> list[dict[str, object]]:
    return [{"dimension": "requests", "rate": rate}]


@pytest.fixture
def acme(rest: httpx.Client) -> httpx.Client:
    """A client of a server where acme has 120 namespaces, two of them apart."""
    configuration: dict[str, object] = {
        "groups": {
            "platform": {"limits": limits(5000)},
            "gold": {"limits": limits(100), "parent": "platform"},
            "batch": {"limits": limits(20)},
        },
        "tenants": {"acme": {}},
        "namespaces": [f"acme/space-{index:03}" for index in range(SPACES)],
        "attachments": [
            {"subject": {"tenant": "acme"}, "group": "gold"},
            {"subject": {"namespace": "acme/space-007"}, "group": "batch"},
            {"subject": {"namespace": "acme/space-077"}, "group": "batch"},
        ],
    }
    rest.post("/apply", json=configuration).raise_for_status()
    return rest


SHOWN = """
async () => {
  const cells = [...document.querySelectorAll("main tbody tr")]
    .filter((row) => row.querySelector(".chip"))
    .map((row) => [...row.children].slice(-8).map((cell) => cell.textContent));
  return {at_s: Number(document.querySelector("time").getAttribute("datetime")), cells};
}
"""
"""The page's limits, and the moment that their figures describe."""

WRITTEN = """
async (rows) => {
  const { perSecond, percent, rate, short } = await import("./static/js/format.js");
  return rows.map((row) => [
    row.group, row.dimension, row.word, rate(row.rate, row.period_s),
    percent(row.admitted / perSecond(row.rate, row.period_s)),
    short(row.attempted), short(row.admitted), short(row.refused)]);
}
"""
"""The API's rows as the page writes numbers."""

MARKS = {"over": "▲over", "near": "◆near", "calm": "●calm", "idle": "○idle"}


def at_one_moment(page: Page, rest: httpx.Client) -> tuple[Any, Any, Any]:
    """Return the page's rows, the tenant's limits and the overview of one picture."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        whole = rest.get("/overview").json()
        shown = page.evaluate(SHOWN)
        told = rest.get("/tenants/acme/limits").json()
        if shown["at_s"] == told["at_s"] == whole["at_s"]:
            return shown["cells"], told, whole
        assert time.monotonic() < deadline, (shown, told)
        page.wait_for_timeout(50)


def test_the_figures_are_those_of_the_api(
    page: Page, server: Server, acme: httpx.Client
) -> None:
    with at_work(server.url, {"web-1": {"acme": 200.0}, "web-2": {"acme": 200.0}}):
        page.goto(f"{server.url}/#/tenant/acme")
        sentence = page.locator("main section section").first.locator("p")
        expect(sentence).to_contain_text("It is attached to group gold.")
        # The group above counts the same refusals, but it is gold that is used up.
        expect(sentence).to_contain_text("The limit on requests of group gold refuses")
        cells, told, whole = at_one_moment(page, acme)
    of = {row["group"]: row for row in whole["rows"]}
    assert {one["group"]: one["rows"] for one in told["groups"]} == {
        name: [row] for name, row in of.items()
    }
    assert of["gold"]["refused"] > 0
    chain = [of["gold"], of["platform"], of["batch"]]
    rows = [{**row, "word": MARKS[row["standing"]]} for row in chain]
    idle = rows.pop()  # of the namespace that is on this page
    assert cells[:-1] == page.evaluate(WRITTEN, rows)
    assert cells[-1][:4] == ["batch", "requests", MARKS[idle["standing"]], "20 / s"]


def test_ably_a_calendar_limit_is_shown_in_its_unit_with_what_is_used_of_it(
    page: Page, server: Server, acme: httpx.Client
) -> None:
    month = {"dimension": "requests", "rate": 4, "period": "month"}
    body = {"limits": [month], "may_owe": False}
    acme.put("/groups/gold", json=body).raise_for_status()
    with at_work(server.url, {"web-1": {"acme": 20.0}}):
        page.goto(f"{server.url}/#/tenant/acme")
        limit = page.locator("main section section").first.locator("tbody tr").first
        expect(limit).to_contain_text("100 %")
        expect(limit).to_contain_text("4 / calendar month")
        page.goto(f"{server.url}/#/")
        row = page.get_by_role("row").filter(has_text="gold")
        expect(row).to_contain_text("100 %")
        expect(row).to_contain_text("4 / calendar month")
        rows = acme.get("/overview").json()["rows"]
    (told,) = (each for each in rows if each["group"] == "gold")
    assert (told["period"], told["used"]) == ("month", pytest.approx(4.0, abs=1.0))


def test_namespaces_are_paged_and_searched_by_the_server(
    page: Page, server: Server, acme: httpx.Client
) -> None:
    def told(**query: object) -> Any:
        asked = {name: str(value) for name, value in query.items()}
        return acme.get("/tenants/acme/limits", params=asked).json()

    first = told()
    assert (first["total"], first["matching"]) == (SPACES, SPACES)
    assert len(first["namespaces"]) == PAGE_SIZE
    names = [one["name"] for one in told(limit=500)["namespaces"]]
    assert names == [f"acme/space-{index:03}" for index in range(SPACES)]
    assert [one["name"] for one in told(offset=100)["namespaces"]] == names[100:]
    assert [one["name"] for one in told(search="SPACE-07")["namespaces"]] == names[
        70:80
    ]
    assert told(search="_")["matching"] == told(search="%")["matching"] == 0

    page.goto(f"{server.url}/#/tenant/acme")
    heads = page.locator(".spaces tbody th")
    expect(heads).to_have_count(PAGE_SIZE)
    row = page.locator(".spaces tbody", has_text="space-007")
    expect(row).to_contain_text("batch")
    page.get_by_role("button", name="Next").click()
    expect(heads.first).to_have_text("space-050")
    expect(page).to_have_url(f"{server.url}/#/tenant/acme?offset=50")
    page.get_by_role("button", name="Next").click()
    expect(heads).to_have_count(SPACES - 2 * PAGE_SIZE)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_label("Filter namespaces").fill("-07")
    expect(heads).to_have_count(10)
    expect(page).to_have_url(f"{server.url}/#/tenant/acme?search=-07")


def test_one_stream_brings_all_that_changes(
    page: Page, server: Server, acme: httpx.Client
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}/#/tenant/acme")
    heads = page.locator(".spaces tbody th")
    expect(heads).to_have_count(PAGE_SIZE)
    link = page.locator(".spaces a", has_text="batch")
    link.focus()
    page.wait_for_function("() => performance.getEntriesByName(location.href)")
    before = page.evaluate(SHOWN)["at_s"]
    for _ in range(3):
        page.wait_for_function(
            "at => document.querySelector('time').getAttribute('datetime') != at",
            arg=str(before),
        )
        before = page.evaluate(SHOWN)["at_s"]
    of_api = [url.split("/api/v1/")[1] for url in asked if "/api/v1/" in url]
    assert len([path for path in of_api if path.startswith("events")]) == 1
    assert len([path for path in of_api if path.startswith("tenants/acme")]) == 1
    expect(link).to_be_focused()
    acme.put(
        "/attachments",
        json={"subject": {"namespace": "acme/space-001"}, "group": "batch"},
    ).raise_for_status()
    expect(page.locator(".spaces a", has_text="batch")).to_have_count(2)


def test_a_tenant_that_is_deleted_meanwhile_is_said_to_be_gone(
    page: Page, server: Server, rest: httpx.Client
) -> None:
    rest.put("/tenants/brief").raise_for_status()
    page.goto(f"{server.url}/#/tenant/brief")
    main = page.locator("main")
    expect(main).to_contain_text("Nothing limits it")
    rest.delete("/tenants/brief").raise_for_status()
    expect(main).to_contain_text("tenant 'brief' does not exist")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
