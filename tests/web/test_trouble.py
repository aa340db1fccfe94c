"""What does not work is told, and nothing is shown that did not happen."""

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from tests.server.servers import Serving, configure
from tests.web.browser import ELSEWHERE, Visit, answers, ask, message, needs_browser, say
from tests.web.conftest import TOML

pytestmark = needs_browser


def refuse(route: Route) -> None:
    """As a gateway whose disk is full, for changes alone."""
    if route.request.method == "GET":
        route.fallback()
    else:
        error = {"type": "server_error", "code": "store_failed", "message": "The disk is full."}
        route.fulfill(status=507, json={"error": error})


def test_a_change_of_the_list_that_fails_is_told_and_not_shown(page: Page, gateway: Serving) -> None:
    ask(page, "about herons")
    chat = page.url.rsplit("/", 1)[1]
    chats = page.get_by_role("navigation", name="Chats")
    row = chats.get_by_role("button", name="about herons", exact=True)
    page.route(f"**/v1/antiphon/chats/{chat}", refuse)
    row.dblclick()
    page.get_by_role("textbox", name="Title of the chat").fill("Storks")
    page.keyboard.press("Enter")
    expect(chats.get_by_role("alert")).to_have_text("The change was not saved. The disk is full.")
    expect(row).to_be_visible()
    expect(chats.get_by_text("Storks")).to_have_count(0)
    page.get_by_role("button", name="Options of this chat").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(row).to_be_visible()
    assert page.url.endswith(chat)
    expect(answers(page).last).to_contain_text("about herons")
    page.unroute(f"**/v1/antiphon/chats/{chat}")
    assert gateway.client().ok("GET", f"/v1/antiphon/chats/{chat}")["title"] == "about herons"
    row.dblclick()
    page.get_by_role("textbox", name="Title of the chat").fill("Storks")
    page.keyboard.press("Enter")
    expect(chats.get_by_role("button", name="Storks", exact=True)).to_be_visible()
    expect(chats.get_by_role("alert")).to_have_count(0)


def test_a_change_while_the_gateway_is_away_is_told(page: Page) -> None:
    ask(page, "about cranes")
    chats = page.get_by_role("navigation", name="Chats")
    page.route("**/v1/antiphon/chats/*", lambda route: route.abort())
    chats.get_by_role("button", name="about cranes", exact=True).dblclick()
    page.get_by_role("textbox", name="Title of the chat").fill("Geese")
    page.keyboard.press("Enter")
    expect(chats.get_by_role("alert")).to_have_text("The change was not saved. The gateway does not answer")
    page.unroute("**/v1/antiphon/chats/*")


def test_what_is_said_while_the_gateway_is_away_comes_back(page: Page) -> None:
    ask(page, "the first question")
    page.context.set_offline(True)
    say(page, "are you there?")
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_text("The gateway does not answer")).to_be_hidden()
    expect(message(page)).to_have_value("are you there?")
    message(page).press("Enter")
    expect(answers(page)).to_have_count(2)
    expect(message(page)).to_have_value("")


def test_it_comes_back_to_a_page_that_has_not_read_the_answer_before(page: Page) -> None:
    """The page has seen the answer come, and went off line before it could read what is stored of it."""
    page.route("**/v1/antiphon/chats/*/responses?*", lambda route: route.abort())
    say(page, "the first question")
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    page.context.set_offline(True)
    say(page, "are you there?")
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    page.unroute("**/v1/antiphon/chats/*/responses?*")
    page.context.set_offline(False)
    expect(message(page)).to_have_value("are you there?")
    expect(answers(page)).to_have_count(1)


def test_the_list_says_what_happened_while_the_gateway_was_away(page: Page, gateway: Serving) -> None:
    """It went on saying that an answer was under way which had ended long before."""
    say(page, "Speak for long.")
    expect(page.get_by_text("One word")).to_be_visible()
    chats = page.get_by_role("navigation", name="Chats")
    expect(chats.get_by_text("answering")).to_be_visible()
    client, chat = gateway.client(), page.url.rsplit("/", 1)[1]
    running = client.ok("GET", f"/v1/antiphon/chats/{chat}")["running"]
    page.context.set_offline(True)
    client.ok("POST", f"/v1/responses/{running}/cancel")
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_text("The gateway does not answer")).to_be_hidden()
    expect(chats.get_by_text("answering")).to_have_count(0)


def test_a_reload_does_not_lose_what_is_said_while_the_gateway_is_away(page: Page) -> None:
    ask(page, "the first question")
    page.route("**/api/v1/chat?*", lambda route: route.abort())
    page.route("**/v1/antiphon/chats/*", lambda route: route.abort())
    say(page, "are you there?")
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    page.unroute("**/api/v1/chat?*")
    page.unroute("**/v1/antiphon/chats/*")
    page.reload()
    expect(message(page)).to_have_value("are you there?")
    expect(answers(page)).to_have_count(1)


def test_what_came_to_the_chat_before_the_gateway_went_away_does_not_come_back(page: Page) -> None:
    """The gateway has taken the message, and the page has not heard of it."""

    def take_and_break_off(route: Route) -> None:
        route.fetch()
        route.abort()

    ask(page, "the first question")
    page.route("**/api/v1/chat?*", take_and_break_off)
    say(page, "are you there?")
    expect(answers(page)).to_have_count(2)
    expect(message(page)).to_have_value("")
    page.unroute("**/api/v1/chat?*")


def test_other_words_for_a_question_come_back_when_the_gateway_is_away(page: Page) -> None:
    ask(page, "the first question")
    page.route("**/api/v1/chat?*", lambda route: route.abort())
    page.get_by_role("article").first.hover()
    page.get_by_role("button", name="Edit").first.click()
    editor = page.get_by_role("textbox", name="Edit")
    editor.fill("the same in other words")
    editor.press("Enter")
    expect(message(page)).to_have_value("the same in other words")
    page.unroute("**/api/v1/chat?*")


def test_a_message_that_is_stopped_before_the_gateway_took_it_comes_back(page: Page) -> None:
    ask(page, "the first question")
    page.route("**/api/v1/chat?*", lambda route: None)
    say(page, "are you there?")
    page.get_by_role("button", name="Stop").click()
    expect(message(page)).to_have_value("are you there?")
    page.unroute("**/api/v1/chat?*")


def test_the_first_words_of_a_chat_come_back_when_the_gateway_is_away(visit: Visit) -> None:
    """Also where it went away before the page had all of its parts."""
    visit.page.route("**/assets/markdown-*.js", lambda route: route.abort())
    page = visit.open()
    page.context.set_offline(True)
    say(page, "are you there?")
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    expect(message(page)).to_have_value("are you there?")
    page.context.set_offline(False)
    message(page).press("Enter")
    expect(answers(page)).to_have_count(1)
    expect(message(page)).to_have_value("")
    expect(answers(page)).to_contain_text("are you there?")


def test_copying_over_plain_http(browser: Browser, tmp_path: Path) -> None:
    """Browsers give a page of another machine a clipboard over https alone."""
    with Serving(configure(tmp_path, f'{TOML}[server]\nhosts = ["{ELSEWHERE}"]\n')) as gateway:
        visit = Visit(browser, gateway.url.replace("127.0.0.1", ELSEWHERE))
        page = visit.open()
        assert page.evaluate("[isSecureContext, typeof navigator.clipboard]") == [False, "undefined"]
        ask(page, "Copy these words.").get_by_role("button", name="Copy", exact=True).click()
        message(page).press("Control+v")
        expect(message(page)).to_have_value("Copy these words.")
        message(page).fill("")
        ask(page, "Write Markdown.").get_by_role("button", name="Copy the code").click()
        message(page).press("Control+v")
        expect(message(page)).to_have_value(re.compile(r"^def add\(a, b\):"))
        visit.close()
        # What a browser says of every page that comes so.
        assert all("Cross-Origin-Opener-Policy" in one for one in visit.complaints), visit.complaints


def test_tools_are_offered_where_the_gateway_announces_them(visit: Visit) -> None:
    page = visit.page
    announced: list[str] = []

    def announce(route: Route) -> None:
        listed = route.fetch().json()
        for model in listed["data"]:
            model["antiphon:tools"] = announced if model["id"] == "demo" else []
        route.fulfill(json=listed)

    page.route("**/v1/models", announce)
    visit.open()
    page.keyboard.press("Control+,")
    expect(page.get_by_role("dialog", name="Settings")).to_be_visible()
    expect(page.get_by_role("group", name="Tools")).to_have_count(0)
    announced.append("web_search")
    visit.open()
    page.keyboard.press("Control+,")
    page.get_by_role("group", name="Tools").get_by_role("checkbox", name="web_search").check()
    page.keyboard.press("Escape")
    for model, tools in (("demo", [{"type": "web_search"}]), ("reader", None)):
        page.get_by_role("button", name="Model:").click()
        page.get_by_role("option", name=model).first.click()
        with page.expect_request(lambda request: "/api/v1/chat" in request.url) as asked:
            say(page, "Use a tool.")
        assert json.loads(asked.value.post_data or "").get("tools") == tools
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_an_answer_that_is_resumed_tells_when_its_first_word_came(visit: Visit, page: Page) -> None:
    say(page, "Speak slowly.")
    expect(page.get_by_text("One word")).to_be_visible()
    page.reload()
    expect(answers(page)).to_have_count(1)
    for again in (False, True):  # while the page saw its end, and once more from the store alone
        if again:
            page.reload()
        told = answers(page).last.inner_text()
        first, speed = re.search(r"first token ([\d.]+) (m?s)", told), re.search(r"([\d.]+) tokens/s", told)
        assert first, told
        assert speed, told
        assert 0 < float(speed[1]) < 1000, told


def test_the_end_of_a_long_answer_stays_in_sight_until_somebody_scrolls_back(page: Page) -> None:
    ask(page, "flood")
    log = page.get_by_role("log")
    left = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight"
    expect(page.get_by_role("button", name="Go to the latest")).to_have_count(0)
    assert log.evaluate(left) < 100
    log.evaluate("(box) => { box.scrollTop = 0 }")
    say(page, "Speak slowly.")
    expect(page.get_by_text("One word")).to_be_attached()
    assert log.evaluate("(box) => box.scrollTop") < 100
