"""The page on a server that asks who one is."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from headgate.api import (
    Addresses,
    RightsSettings,
    ServerSettings,
    create_token,
    running,
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ServerSettings:
    folder = tmp_path_factory.mktemp("rights")
    return ServerSettings(
        database=str(folder / "headgate.db"),
        port=0,
        bus_ports=(0, 0),
        rights=RightsSettings(required=True),
    )


@pytest.fixture(scope="module")
def viewer(settings: ServerSettings) -> str:
    return create_token(settings, "vera", "viewer")


@pytest.fixture(scope="module")
def operator(settings: ServerSettings) -> str:
    """A token of an operator of one tenant."""
    return create_token(settings, "anna", "operator", tenants=["acme"])


@pytest.fixture(scope="module")
def guarded(
    settings: ServerSettings, viewer: str, operator: str
) -> Iterator[Addresses]:
    assert viewer
    assert operator
    with running(settings) as addresses:
        yield addresses


def test_a_token_is_asked_for_and_a_viewer_is_told_what_is_not_allowed(
    page: Page, guarded: Addresses, viewer: str
) -> None:
    page.goto(guarded.api)
    token = page.get_by_label("Bearer token")
    token.fill("wrong")
    page.keyboard.press("Enter")
    expect(token).to_have_value("")  # asked again
    token.fill(viewer)
    page.keyboard.press("Enter")
    pulse = page.locator("#pulse")
    expect(pulse).to_have_attribute("data-state", "live")
    expect(page.locator("#reader")).to_have_text("vera, viewer")
    page.keyboard.press("n")
    page.get_by_label("Name").fill("gold")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("viewer")
    page.reload()  # the tab keeps the token
    expect(pulse).to_have_attribute("data-state", "live")


def test_a_late_refusal_of_no_token_does_not_ask_for_a_second_one(
    page: Page, guarded: Addresses, viewer: str
) -> None:
    held: list[Route] = []
    page.route(
        "**/api/v1/events*",
        lambda route: route.continue_() if held else held.append(route),
    )
    with page.expect_request("**/api/v1/events*"):
        page.goto(guarded.api)
    page.get_by_label("Bearer token").fill(viewer)
    page.keyboard.press("Enter")
    expect(page.locator("#reader")).to_have_text("vera, viewer")
    held[0].continue_()  # the request that left before the token was known
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    expect(page.locator("dialog")).to_have_count(0)


def test_who_has_no_token_is_asked_once_and_may_enter_one_later(
    page: Page, guarded: Addresses, viewer: str
) -> None:
    page.goto(guarded.api)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#pulse")).to_have_attribute("data-state", "refused")
    expect(page.locator("dialog")).to_have_count(0)
    page.get_by_role("button", name="Enter a token").click()
    page.get_by_label("Bearer token").fill(viewer)
    page.keyboard.press("Enter")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    expect(page.locator("#banner")).to_be_hidden()


def test_a_view_that_a_token_does_not_allow_is_said_to_be_that(
    page: Page, guarded: Addresses, operator: str
) -> None:
    page.goto(f"{guarded.api}/#/agents")
    page.get_by_label("Bearer token").fill(operator)
    page.keyboard.press("Enter")
    banner = page.locator("#banner")
    expect(banner).to_contain_text("Your token does not allow this view.")
    page.get_by_role("link", name="Groups", exact=True).click()
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    expect(banner).to_be_hidden()
