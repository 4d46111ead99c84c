"""A link shows what its sender saw: each view's state is in its address."""

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from playwright.sync_api import Browser, Page, Playwright, expect
from tests.web.conftest import CHROMIUM, FLAGS
from tests.web.rigs import TIMEOUT_S, Server, at_work

TWO = [{"dimension": "bytes", "rate": 100}, {"dimension": "requests", "rate": 100}]


@pytest.fixture(scope="module")
def gold(filled_server: Server) -> Server:
    """A server with two groups; acme is attached to one of them."""
    configuration: dict[str, object] = {
        "groups": {"gold": {"limits": TWO}, "silver": {"limits": TWO}},
        "tenants": {"acme": {}},
        "namespaces": ["acme/orders", "acme/web"],
        "attachments": [{"subject": {"tenant": "acme"}, "group": "gold"}],
    }
    url = f"{filled_server.url}/api/v1/apply"
    httpx.post(url, json=configuration, timeout=TIMEOUT_S).raise_for_status()
    return filled_server


@pytest.fixture(scope="module")
def elsewhere(playwright: Playwright) -> Iterator[Browser]:
    """Another browser, which has seen nothing yet."""
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM, args=list(FLAGS), timeout=TIMEOUT_S * 1000
    )
    yield browser
    browser.close()


@contextmanager
def opened(browser: Browser, url: str) -> Generator[Page]:
    """The page at `url` for a reader in another zone."""
    context = browser.new_context(timezone_id="Asia/Kolkata")
    context.set_default_timeout(TIMEOUT_S * 1000)
    try:
        other = context.new_page()
        other.goto(url)
        expect(other.locator("#pulse")).to_have_attribute("data-state", "live")
        yield other
    finally:
        context.close()


def filtered(page: Page) -> None:
    page.get_by_label("Filter groups").fill("gold")
    page.get_by_role("button", name="idle").click()
    page.get_by_label("Order").select_option("name")
    expect(page.locator(".row")).to_have_count(2)


def explained(page: Page) -> None:
    page.get_by_role("button", name="requests", exact=True).click()
    page.get_by_role("button", name="2 min").click()
    page.get_by_text("Explain the shares").click()


def narrowed(page: Page) -> None:
    page.get_by_label("Filter namespaces").fill("ord")
    expect(page.locator(".spaces tbody th")).to_have_text(["orders"])


def agents_sorted(page: Page) -> None:
    page.get_by_role("searchbox").fill("web")
    page.get_by_role("button", name="Lag").click()
    page.get_by_role("button", name="Lag").click()


def audited(page: Page) -> None:
    page.get_by_role("searchbox").fill("gold")
    page.get_by_role("button", name="1 day").click()
    expect(page.locator("tbody tr")).to_have_count(2)


STATE = """
() => {
  const all = (what) => [...document.querySelectorAll(`main ${what}`)];
  const every = (what, tell) => all(what).map(tell);
  const text = (each) => each.textContent;
  return {
    inputs: every(":is(input, select)", (each) => each.value),
    pressed: every("[aria-pressed=true]", text),
    sorted: every("[aria-sort]", (each) => each.textContent + each.ariaSort),
    open: every("details[open]", text).length,
    heading: every("h1", text),
    listed: every(":is(.row .name, .spaces tbody th, .audit td:first-child)", text),
  };
}
"""
"""What a reader has chosen, and what is listed because of it."""


@pytest.mark.parametrize(
    ("path", "choose", "address"),
    [
        ("#/", filtered, "#/?search=gold&standing=idle&sort=name"),
        ("#/group/gold", explained, "#/group/gold/requests?span=120&explain=1"),
        ("#/tenant/acme", narrowed, "#/tenant/acme?search=ord"),
        ("#/agents", agents_sorted, "#/agents?search=web&sort=lag_s&down=1"),
        ("#/audit", audited, "#/audit?key=gold&span=86400"),
    ],
    ids=["groups", "group", "tenant", "agents", "audit"],
)
def test_a_link_shows_the_same_in_another_browser(
    page: Page,
    elsewhere: Browser,
    gold: Server,
    path: str,
    choose: Callable[[Page], None],
    address: str,
) -> None:
    page.goto(f"{gold.url}/{path}")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    choose(page)
    expect(page).to_have_url(f"{gold.url}/{address}")
    chosen = page.evaluate(STATE)
    with opened(elsewhere, page.url) as other:
        deadline = time.monotonic() + TIMEOUT_S
        while (seen := other.evaluate(STATE)) != chosen:
            assert time.monotonic() < deadline, (seen, chosen)
            other.wait_for_timeout(50)
        expect(other).to_have_url(f"{gold.url}/{address}")


def test_a_filter_that_is_found_again_is_in_the_address_again(
    page: Page, gold: Server
) -> None:
    page.goto(gold.url)
    page.get_by_label("Filter groups").fill("gold")
    expect(page.locator(".row")).to_have_count(2)
    page.locator(".row").first.click()
    expect(page.get_by_role("heading", name="gold", exact=True)).to_be_visible()
    page.get_by_role("link", name="Groups", exact=True).first.click()
    expect(page).to_have_url(f"{gold.url}/#/?search=gold")
    # A link says all: what was looked at before does not add to it.
    page.evaluate("location.hash = '#/?standing=idle'")
    expect(page.get_by_label("Filter groups")).to_have_value("")
    expect(page.locator(".row")).to_have_count(4)


def test_the_audit_of_a_range_of_time_is_the_api_s(
    page: Page, elsewhere: Browser, gold: Server
) -> None:
    answer = httpx.get(f"{gold.url}/api/v1/audit", timeout=TIMEOUT_S)
    newest = answer.json()["items"]
    at = [datetime.fromtimestamp(item["at_s"], UTC) for item in newest]
    page.goto(f"{gold.url}/#/audit")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(len(newest))
    page.get_by_role("button", name="from … to").click()
    zone = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    assert zone == "UTC"
    # Browsers leave out seconds that are 0.
    after = (at[0] + timedelta(hours=1)).replace(second=1, microsecond=0)
    before = (at[-1] - timedelta(hours=1)).replace(second=1, microsecond=0)
    start, end = page.get_by_label("From"), page.get_by_label("To", exact=True)
    start.fill(after.strftime("%Y-%m-%dT%H:%M:%S"))
    expect(rows).to_have_count(0)
    expect(page.locator("main")).to_contain_text("No change matches.")
    end.fill(before.strftime("%Y-%m-%dT%H:%M:%S"))
    expect(page.get_by_role("alert")).to_contain_text("must be before")
    start.fill("")
    expect(rows).to_have_count(0)
    start.fill(before.strftime("%Y-%m-%dT%H:%M:%S"))
    end.fill(after.strftime("%Y-%m-%dT%H:%M:%S"))
    expect(rows).to_have_count(len(newest))
    said = f"from={before:%Y-%m-%dT%H:%M:%SZ}&to={after:%Y-%m-%dT%H:%M:%SZ}"
    expect(page).to_have_url(f"{gold.url}/#/audit?{said}")
    with opened(elsewhere, page.url) as other:
        expect(other.locator("tbody tr")).to_have_count(len(newest))
        local = before + timedelta(hours=5, minutes=30)
        value = local.strftime("%Y-%m-%dT%H:%M:%S")
        expect(other.get_by_label("From")).to_have_value(value)


def test_charts_show_a_range_of_time_and_a_link_to_it(
    page: Page, elsewhere: Browser, gold: Server
) -> None:
    history = f"{gold.url}/api/v1/groups/gold/history?dimension=requests"

    def points() -> int:
        courses = httpx.get(history, timeout=TIMEOUT_S).json()["dimensions"]
        return len(courses[0]["at_s"]) if courses else 0

    use = page.get_by_role("img", name="attempted per second")
    chart = page.locator(".chart").first
    with at_work(gold.url, {"one": {"acme": 100.0}}):
        page.goto(f"{gold.url}/#/group/gold")
        expect(use).to_be_visible()
        # The limit that is in use was chosen for the reader, and is in the address.
        expect(page).to_have_url(f"{gold.url}/#/group/gold/requests")
        deadline = time.monotonic() + TIMEOUT_S
        while points() < 3:
            assert time.monotonic() < deadline
            page.wait_for_timeout(100)
        # Selecting a part of the chart fixes the range.
        box = page.locator(".u-over").first.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.6, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.98, y, steps=4)
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"requests\?from=[^&]*Z&to=[^&]*Z$"))
        expect(page.get_by_text("the tables show the present")).to_be_visible()
        fixed = page.url
    page.get_by_role("button", name="2 min").click()
    expect(page).to_have_url(f"{gold.url}/#/group/gold/requests?span=120")
    with opened(elsewhere, fixed) as other:
        expect(other.locator(".chart").first).not_to_have_class(re.compile("none"))
        pressed = other.locator(".range [aria-pressed=true]")
        expect(pressed).to_have_text("from … to")
        value = other.get_by_label("From").input_value()
        assert datetime.fromisoformat(value) == _local(fixed.split("from=")[1][:20])
        other.get_by_label("From").fill("2020-01-01T00:00:00")
        other.get_by_label("To", exact=True).fill("2020-01-01T01:00:00")
        empty = other.locator(".chart.none").first
        expect(empty).to_have_attribute(
            "data-none", re.compile("between these moments")
        )
    expect(chart).not_to_have_class(re.compile("none"))


def _local(instant: str) -> datetime:
    """Return an instant as the clock of a reader in India shows it."""
    at = datetime.fromisoformat(instant) + timedelta(hours=5, minutes=30)
    return at.replace(tzinfo=None)


@pytest.mark.parametrize(
    "address",
    [
        "#/group/gold?from=nonsense",
        "#/group/gold?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "#/group/gold?span=-5",
        "#/tenant/acme?offset=-1",
        "#/tenant/acme?offset=1e99",
        "#/audit?span=x&from=99999999999999",
        "#/?sort=colour&standing=none",
        "#/agents?sort=nothing",
        "#/group/%zz?explain",
    ],
)
def test_an_address_that_was_typed_wrongly_breaks_nothing(
    page: Page, gold: Server, address: str
) -> None:
    page.goto(f"{gold.url}/{address}")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    expect(page.locator("main h1").first).to_be_visible()
