"""How the page looks and reads: dark and light, contrast, names, many groups."""

from typing import cast

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.web.rigs import Server

GROUPS = 5_000
MOST_ROWS = 80
"""Rows in the document at once, whatever the number of groups."""

LEAST_CONTRAST = 4.5
"""WCAG 2.2, level AA, for text of usual size."""

CONTRAST = """
([text, ground]) => {
  const canvas = document.createElement("canvas").getContext("2d");
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (colour) => {
    const [r, g, b] = parse(colour).map((each) => {
      const c = each / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const probe = document.createElement("i");
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const [a, b] = [luminance(colour(text)), luminance(colour(ground))];
  probe.remove();
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
"""

NAMELESS = """
() => [...document.querySelectorAll("button, a[href], input, select")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.ariaLabel || each.labels?.length || each.textContent.trim()))
  .map((each) => each.outerHTML)
"""

PAIRS = [
    (text, ground)
    for text in ("--ink", "--ink-soft", "--accent", "--over", "--near", "--calm")
    for ground in ("--sheet", "--ground", "--raised")
] + [
    ("--over", "--over-soft"),
    ("--near", "--near-soft"),
    ("--calm", "--calm-soft"),
    ("--accent", "--accent-soft"),
    ("--accent-ink", "--accent"),
    ("--idle", "--sheet"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(
    page: Page, filled_server: Server, scheme: str
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(filled_server.url)
    weak = {
        pair: contrast
        for pair in PAIRS
        if (contrast := page.evaluate(CONTRAST, list(pair))) < LEAST_CONTRAST
    }
    assert weak == {}


def test_the_theme_follows_the_system_until_it_is_chosen(
    page: Page, filled_server: Server
) -> None:
    def ground() -> str:
        return cast("str", page.evaluate("getComputedStyle(document.body).background"))

    page.goto(filled_server.url)
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert dark != light
    page.keyboard.press("t")
    assert ground() == light
    page.reload()
    assert ground() == light
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("path", ["", "#/group/gold", "#/audit", "#/agents"])
def test_all_that_can_be_used_has_a_name(
    page: Page, filled_server: Server, path: str
) -> None:
    page.goto(f"{filled_server.url}/{path}")
    expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
    assert page.evaluate(NAMELESS) == []
    page.keyboard.press("n")
    expect(page.locator("dialog")).to_be_visible()
    assert page.evaluate(NAMELESS) == []


def test_five_thousand_groups_are_walked_and_filtered_without_a_large_document(
    page: Page, server: Server
) -> None:
    limits = [{"dimension": "requests", "rate": 10}]
    groups = {f"tenant-{number:04d}": {"limits": limits} for number in range(GROUPS)}
    body = {"groups": groups}
    answer = httpx.post(f"{server.url}/api/v1/apply", json=body, timeout=120)
    assert answer.is_success, answer.text
    page.goto(server.url)
    rows = page.locator(".windowed .row")
    expect(rows.first).to_contain_text("tenant-0000")
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "5001")
    assert rows.count() < MOST_ROWS
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    expect(rows.last).to_contain_text("tenant-4999")
    assert rows.count() < MOST_ROWS
    page.keyboard.press("/")
    page.keyboard.type("-377")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("tenant-3770")
