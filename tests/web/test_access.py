"""The question for a key, and what a browser remembers of the answer."""

import hashlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.servers import Serving, configure
from tests.web.browser import Visit, answers, ask, needs_browser, violations
from tests.web.conftest import TOML

pytestmark = needs_browser


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    keys = "".join(
        f'[keys.{name}]\nkey_sha256 = "{hashlib.sha256(f"key-{name}".encode()).hexdigest()}"\n'
        for name in ("one", "two")
    )
    with Serving(configure(tmp_path_factory.mktemp("gateway"), TOML + keys)) as server:
        yield server


def enter(page: Page, key: str, *, stay: bool = False) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    if stay:
        page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Sign in").click()


def test_a_key_is_asked_for_and_forgotten_with_the_page(page: Page) -> None:
    expect(page.get_by_role("heading", name="This gateway requires a key")).to_be_visible()
    assert violations(page) == []
    enter(page, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("rejected this key")
    enter(page, "key-one")
    expect(ask(page, "Am I in?")).to_contain_text("Am I in?")
    assert (
        page.evaluate("JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie").count("key-")
        == 0
    )
    page.reload()
    expect(page.get_by_label("Key", exact=True)).to_be_visible()


def test_a_browser_that_stays_signed_in_has_a_cookie_and_no_key(visit: Visit, page: Page) -> None:
    enter(page, "key-one", stay=True)
    ask(page, "Remember me.")
    page.reload()
    expect(answers(page).last).to_contain_text("Remember me.")
    (cookie,) = visit.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.keyboard.press("Control+,")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Key", exact=True)).to_be_visible()
    assert visit.context.cookies() == []


def test_a_session_that_ends_leads_back_and_another_key_sees_nothing(
    visit: Visit, page: Page, gateway: Serving
) -> None:
    enter(page, "key-one", stay=True)
    ask(page, "Only for me.")
    chat = page.url
    visit.context.clear_cookies()
    # Whatever the page asks for next leads back: this click, or something that comes before it.
    page.evaluate("document.querySelector('[aria-label=\"Retry\"]')?.click()")
    enter(page, "key-two")
    expect(page.get_by_text("Chat not found")).to_be_visible()
    assert page.url == chat


def test_no_page_of_another_origin_can_frame_the_app_or_use_its_session(
    browser: Browser, visit: Visit, page: Page, gateway: Serving, tmp_path_factory: pytest.TempPathFactory
) -> None:
    enter(page, "key-one", stay=True)
    ask(page, "Mine.")
    port = gateway.url.rsplit(":", 1)[1]
    tab = visit.context.new_page()  # another site for the browser: another name for the same machine
    tab.goto(f"http://localhost:{port}/favicon.svg")
    status = tab.evaluate(
        "url => fetch(url, {credentials: 'include', mode: 'no-cors'}).then(r => r.type, e => 'refused')",
        f"{gateway.url}/v1/antiphon/chats",
    )
    assert status in ("opaque", "refused")
    tab.goto(f"http://localhost:{port}/docs")
    framed = tab.evaluate(
        """url => new Promise(done => {
            const frame = document.createElement('iframe');
            frame.onload = () => done(frame.contentDocument === null ? 'closed' : 'open');
            frame.src = url;
            document.body.append(frame);
        })""",
        gateway.url,
    )
    assert framed == "closed"
