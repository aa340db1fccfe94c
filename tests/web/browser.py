"""A real browser on the web app of a real gateway, and a page that must not complain."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from antiphon.server.routes.web import FOLDER

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parent.parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 180_000.0
ELSEWHERE = "elsewhere.example"
"""A name that leads to this machine, and that a browser does not take for it."""
# The second is what a browser says about every answer that is not 2xx, also where that is what a test wants.
_QUIET = re.compile(r"Failed to load resource")

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or not (FOLDER / "index.html").exists(),
    reason="NOT TESTED IN A BROWSER: chromium or the built web app is missing (scripts/packages, make web)",
)
expect.set_options(timeout=PATIENCE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One for a module; it ends with it, because its event loop would stand in the way of other tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--disable-dev-shm-usage",
                f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
            ],
        )
        yield browser
        browser.close()


class Visit:
    """One person in one browser at one gateway. What the page complains about is in `complaints`."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(
            viewport=options.pop("viewport", {"width": 1280, "height": 800}), **options
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.complaints: list[str] = []
        self.page = self.tab()

    def tab(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self._heard(line.type, line.text))
        return page

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not _QUIET.search(text):
            self.complaints.append(text)

    def open(self, path: str = "/") -> Page:
        self.page.goto(self.url + path)
        self.page.get_by_role("main").wait_for()
        return self.page

    def close(self) -> None:
        self.context.close()


def message(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def say(page: Page, words: str) -> None:
    message(page).fill(words)
    message(page).press("Enter")


def answers(page: Page) -> Locator:
    """Those that are complete: they can be given again."""
    return page.get_by_role("article").filter(has=page.get_by_role("button", name="Retry"))


def ask(page: Page, words: str) -> Locator:
    """Say something and wait for the answer, which is the last."""
    before = answers(page).count()
    say(page, words)
    expect(answers(page)).to_have_count(before + 1)
    return answers(page).last


def violations(page: Page) -> list[str]:
    """What axe finds, after all that moves has come to rest."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations)"
    )
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
