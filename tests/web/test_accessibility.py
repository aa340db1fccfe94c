"""Every screen by axe, by keyboard, in both colours, on a phone, and without motion."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.servers import Serving
from tests.web.browser import AXE, Visit, ask, message, needs_browser, violations

pytestmark = [needs_browser, pytest.mark.skipif(not AXE.exists(), reason="axe-core is missing: make web")]
PHONE = {"width": 390, "height": 780}


@pytest.fixture(params=["light", "dark"])
def coloured(browser: Browser, gateway: Serving, request: pytest.FixtureRequest) -> Iterator[Page]:
    visit = Visit(browser, gateway.url, color_scheme=request.param, reduced_motion="reduce")
    yield visit.open()
    visit.close()
    assert visit.complaints == []


def test_axe_finds_nothing_on_any_screen(coloured: Page) -> None:
    page = coloured
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert violations(page) == []
    for words in ("Show everything.", "Write Markdown.", "Give me JSON.", "Now fail."):
        ask(page, words)
    for toggle in page.locator("article summary").all():
        toggle.click()
    page.get_by_role("button", name="Inspect", exact=True).last.click()
    expect(page.get_by_role("complementary").get_by_text("created")).to_be_visible()
    assert violations(page) == []
    for view in ("Items", "Request", "Route"):
        page.get_by_role("tab", name=view).click()
        assert violations(page) == []
    for keys, title in (("Control+,", "Settings"), ("Control+/", "Keyboard shortcuts")):
        page.keyboard.press(keys)
        expect(page.get_by_role("dialog", name=title)).to_be_visible()
        assert violations(page) == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Model:").click()
    expect(page.get_by_role("listbox")).to_be_visible()
    assert violations(page) == []


def test_on_a_narrow_screen_the_search_opens_with_its_list(browser: Browser, gateway: Serving) -> None:
    visit = Visit(browser, gateway.url, viewport={"width": 320, "height": 560})
    page = visit.open()
    ask(page, "AVeryLongWordThatNoScreenOfThisWidthCanHoldInOneLine" * 3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox")).to_be_focused()
    visit.close()
    assert visit.complaints == []


def test_it_can_be_used_with_the_keyboard_alone(page: Page) -> None:
    expect(message(page)).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("textbox", name="Edit")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Retry").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Branch 2 of 2")).to_be_visible()
    page.keyboard.press("Control+b")
    expect(page.get_by_role("navigation")).to_be_hidden()
    page.keyboard.press("Control+Shift+o")
    expect(message(page)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1920, "height": 1080}], ids=["phone", "wide"])
def test_it_fits(browser: Browser, gateway: Serving, viewport: Any) -> None:
    visit = Visit(browser, gateway.url, viewport=viewport)
    page = visit.open()
    expect(ask(page, "Write Markdown.").get_by_role("table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    column = page.locator(".prose").bounding_box()
    assert column is not None
    assert column["width"] <= 700
    visit.close()


def test_nothing_moves_where_that_is_wished(browser: Browser, gateway: Serving) -> None:
    visit = Visit(browser, gateway.url, reduced_motion="reduce")
    page = visit.open()
    message(page).fill("Speak slowly.")
    message(page).press("Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    moving = "[...document.querySelectorAll('*')].filter(e => e.getAnimations().length > 0).length"
    assert page.evaluate(moving) == 0
    visit.close()
