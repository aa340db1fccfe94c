"""Chats in the browser: asked, answered again, edited, stopped, queued, found, named, deleted."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.server.servers import Serving
from tests.web.browser import Visit, answers, ask, message, needs_browser, say

pytestmark = needs_browser


def test_from_the_first_visit_to_an_answer(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    answer = ask(page, "Is anybody there?")
    expect(answer).to_contain_text("Is anybody there?")
    expect(answer).to_contain_text("demo")
    expect(page).to_have_url(re.compile(r"/c/chat_\w+$"))
    expect(page).to_have_title(re.compile("Is anybody there"))
    page.reload()
    expect(answers(page).last).to_contain_text("Is anybody there?")


def test_nothing_is_sent_that_the_store_has(page: Page) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.post_data or ""))
    ask(page, "the first question")
    ask(page, "the second question")
    (body,) = [json.loads(one) for one in sent if "the second question" in one]
    assert "first" not in json.dumps(body)
    assert body["message"]["parts"] == [{"type": "text", "text": "the second question"}]


def test_another_answer_is_a_branch_beside_the_first(page: Page) -> None:
    ask(page, "Say it twice.")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_label("Branch 2 of 2")).to_be_visible()
    page.get_by_role("button", name="Previous branch").click()
    expect(page.get_by_label("Branch 1 of 2")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Branch 1 of 2")).to_be_visible()


def test_an_edited_question_is_a_branch_too(page: Page) -> None:
    ask(page, "a first thought")
    ask(page, "what follows it")
    page.get_by_role("article", name="You").first.hover()
    page.get_by_role("button", name="Edit").first.click()
    page.get_by_role("textbox", name="Edit").fill("a better thought")
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(1)
    expect(answers(page).last).to_contain_text("a better thought")
    page.get_by_role("button", name="Previous branch").click()
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last).to_contain_text("what follows it")


def test_an_answer_is_resumed_after_a_reload_and_can_be_stopped(page: Page) -> None:
    say(page, "Speak for long.")
    expect(page.get_by_text("One word")).to_be_visible()
    page.reload()
    expect(page.get_by_text("One word")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(message(page)).to_be_focused()


def test_a_message_waits_for_the_answer_under_way_and_survives_a_reload(page: Page) -> None:
    say(page, "Speak slowly.")
    expect(page.get_by_text("One word")).to_be_visible()
    say(page, "and then this")
    expect(page.get_by_text("Next", exact=True)).to_be_visible()
    page.reload()
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last).to_contain_text("and then this")


def test_a_message_that_waits_comes_back_when_the_answer_is_stopped(page: Page) -> None:
    say(page, "Speak for long.")
    expect(page.get_by_text("One word")).to_be_visible()
    say(page, "and then this")
    page.locator("input[type=file]").set_input_files(
        FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"notes")
    )
    say(page, "and that")
    expect(page.get_by_text("Next", exact=True)).to_have_count(2)
    message(page).fill("half a word")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(message(page)).to_have_value("and then this\n\nand that\n\nhalf a word")
    expect(page.get_by_text("notes.txt")).to_be_visible()
    expect(page.get_by_text("Next", exact=True)).to_have_count(0)
    expect(answers(page)).to_have_count(1)


def test_a_draft_survives_a_reload(page: Page) -> None:
    message(page).fill("not yet sent")
    page.reload()
    expect(message(page)).to_have_value("not yet sent")
    say(page, "not yet sent")
    expect(answers(page)).to_have_count(1)
    expect(message(page)).to_have_value("")


def test_two_tabs_stay_in_step(visit: Visit, page: Page) -> None:
    ask(page, "seen by both")
    other = visit.tab()
    other.goto(page.url)
    expect(answers(other)).to_have_count(1)
    say(page, "Speak slowly.")
    expect(other.get_by_text("One word")).to_be_visible()
    expect(other.get_by_role("button", name="Stop")).to_be_visible()
    for tab in (page, other):
        expect(answers(tab)).to_have_count(2)


def test_chats_are_found_named_exported_and_deleted(page: Page, gateway: Serving, tmp_path: Path) -> None:
    ask(page, "about zebras")
    chat = page.url.rsplit("/", 1)[1]
    chats = page.get_by_role("navigation", name="Chats")
    chats.get_by_role("button", name="about zebras", exact=True).dblclick()
    page.get_by_role("textbox", name="Title of the chat").fill("Stripes")
    page.keyboard.press("Enter")
    expect(chats.get_by_role("button", name="Stripes", exact=True)).to_be_visible()
    assert gateway.client().ok("GET", f"/v1/antiphon/chats/{chat}")["title"] == "Stripes"
    page.keyboard.press("Control+k")
    page.keyboard.type("zebras")
    expect(chats.get_by_role("listitem")).to_have_count(1)
    page.keyboard.press("Control+a")
    page.keyboard.type("no such words")
    expect(chats.get_by_text("No results for")).to_be_visible()
    page.get_by_role("searchbox").fill("")
    for kind, begins in (("Markdown", "# Stripes\n\n## You\n\nabout zebras\n"), ("JSON", "{")):
        page.get_by_role("button", name="Options of this chat").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=f"Export as {kind}").click()
        download.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_text().startswith(begins)
    assert json.loads((tmp_path / "JSON").read_text())["responses"][0]["status"] == "completed"
    page.get_by_role("button", name="Options of this chat").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{gateway.url}/")
    assert gateway.client().get(f"/v1/antiphon/chats/{chat}").status_code == 404


def test_the_list_loads_more_chats_when_it_is_scrolled_to_its_end(visit: Visit, gateway: Serving) -> None:
    client = gateway.client()
    client.ok("POST", "/v1/antiphon/chats", json={"title": "The first of many"})
    for n in range(41):
        client.ok("POST", "/v1/antiphon/chats", json={"title": f"One of many {n}"})
    page = visit.open()
    chats = page.get_by_role("navigation", name="Chats")
    first = chats.get_by_role("button", name="The first of many", exact=True)
    expect(chats.get_by_role("button", name="One of many 40", exact=True)).to_be_visible()
    expect(first).to_have_count(0)
    chats.get_by_role("button", name="One of many 2", exact=True).scroll_into_view_if_needed()
    chats.get_by_role("button", name="One of many 2", exact=True).hover()
    page.mouse.wheel(0, 10_000)
    expect(first).to_be_visible()


def test_a_chat_that_the_list_does_not_reach_has_its_title_and_can_be_deleted(
    visit: Visit, gateway: Serving
) -> None:
    """The list shows 40; any other was "Untitled", and Delete did nothing."""
    client = gateway.client()
    chat = client.ok("POST", "/v1/antiphon/chats", json={"title": "An old one"})["id"]
    for n in range(41):
        client.ok("POST", "/v1/antiphon/chats", json={"title": f"Newer {n}"})
    page = visit.open(f"/c/{chat}")
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("An old one")
    chats = page.get_by_role("navigation", name="Chats")
    expect(chats.get_by_role("button", name="Newer 40", exact=True)).to_be_visible()
    expect(chats.get_by_role("button", name="An old one", exact=True)).to_have_count(0)
    page.get_by_role("searchbox").fill("no such words")
    expect(chats.get_by_text("No results for")).to_be_visible()
    expect(title).to_have_text("An old one")
    page.get_by_role("button", name="Options of this chat").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("An old one")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{gateway.url}/")
    assert client.get(f"/v1/antiphon/chats/{chat}").status_code == 404


def test_a_chat_that_is_gone_is_told(visit: Visit) -> None:
    page = visit.open("/c/chat_000000000000000000000000")
    expect(page.get_by_text("Chat not found")).to_be_visible()


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf"
    "c00000030101000c7d5f5e0000000049454e44ae426082"
)
# Gives the message files as a paste or a drop does.
GIVE = """([kind, name, type, bytes]) => {
    const given = new DataTransfer();
    given.items.add(new File([new Uint8Array(bytes)], name, {type}));
    const field = document.querySelector("textarea");
    const event = kind === "paste"
        ? new ClipboardEvent("paste", {clipboardData: given, bubbles: true, cancelable: true})
        : new DragEvent(kind, {dataTransfer: given, bubbles: true, cancelable: true});
    return field.dispatchEvent(event);
}"""


def test_files_are_attached_shown_and_sent(page: Page) -> None:
    page.locator("input[type=file]").set_input_files(
        FilePayload(name="dot.png", mimeType="image/png", buffer=PIXEL)
    )
    expect(page.get_by_text("dot.png")).to_be_visible()
    ask(page, "with a picture")
    page.reload()
    expect(page.get_by_role("article", name="You").get_by_role("img")).to_be_visible()


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_files_are_pasted_and_dropped(page: Page, kind: str) -> None:
    name = "<img src=x onerror=alert(1)>.png"
    if kind == "drop":
        page.evaluate(GIVE, ["dragover", name, "image/png", list(PIXEL)])
        expect(page.get_by_text("Drop files to attach them")).to_be_visible()
    is_left_to_the_browser = page.evaluate(GIVE, [kind, name, "image/png", list(PIXEL)])
    assert not is_left_to_the_browser
    expect(page.get_by_text(name)).to_be_visible()
    expect(page.locator("section li img")).to_be_visible()
    ask(page, "with a picture")
    expect(page.get_by_role("article", name="You").get_by_role("img")).to_be_visible()
    expect(page.get_by_text(name)).to_have_count(0)


def test_a_model_that_cannot_take_a_file_says_so_before_it_is_sent(page: Page) -> None:
    page.evaluate(GIVE, ["paste", "dot.png", "image/png", list(PIXEL)])
    page.get_by_role("button", name="Model:").click()
    page.get_by_role("option", name="reader").click()
    message(page).fill("look at this")
    expect(page.get_by_role("alert")).to_contain_text("reader")
    expect(page.get_by_role("alert")).to_contain_text("image")
    message(page).press("Enter")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    expect(message(page)).to_have_value("look at this")
    page.get_by_role("button", name="Remove dot.png").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    ask(page, "without the picture")


def test_a_queued_file_that_the_browser_cannot_keep_is_sent_all_the_same(page: Page) -> None:
    say(page, "Speak for long.")
    expect(page.get_by_text("One word")).to_be_visible()
    page.locator("input[type=file]").set_input_files(
        FilePayload(name="large.txt", mimeType="text/plain", buffer=b"0123456789abcdef" * 400_000)
    )
    expect(page.get_by_text("large.txt")).to_be_visible()
    say(page, "and then this")
    expect(page.get_by_text("Next", exact=True)).to_be_visible()
    expect(message(page)).to_have_value("")
    page.get_by_role("button", name="Remove from the queue").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Retry")).to_be_visible()


@pytest.mark.parametrize("path", ["..%5C..%5Cmodels", "x%3Fsearch=y", "%E0%A4%A"])
def test_an_address_leads_to_no_other_path(visit: Visit, path: str) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url.removeprefix(visit.url)))
    page = visit.open(f"/c/{path}")
    expect(page.get_by_text("Chat not found")).to_be_visible()
    known = ("/c/", "/assets/", "/favicon", "/v1/antiphon/session", "/v1/antiphon/chats?limit=40")
    others = {url for url in asked if not url.startswith(known) and url != "/v1/models"}
    assert others
    assert all(re.match(r"/v1/antiphon/chats/[^/?]+(/responses\?.*)?$", url) for url in others), others


def test_a_chat_that_was_deleted_elsewhere_can_be_looked_at_and_left(page: Page, gateway: Serving) -> None:
    ask(page, "here for a while")
    page.wait_for_load_state("networkidle")
    chat = page.url.rsplit("/", 1)[1]
    response = gateway.client().ok("GET", f"/v1/antiphon/chats/{chat}")["current"]
    gateway.client().ok("DELETE", f"/v1/antiphon/chats/{chat}")
    gateway.client().delete(f"/v1/responses/{response}")
    page.get_by_role("button", name="Inspect", exact=True).click()
    expect(page.get_by_text("The gateway stored no events of this response.")).to_be_visible()
    chats = page.get_by_role("navigation", name="Chats")
    chats.get_by_role("button", name="here for a while", exact=True).dblclick()
    page.get_by_role("textbox", name="Title of the chat").fill("too late")
    page.keyboard.press("Enter")
    expect(chats.get_by_role("button", name="here for a while", exact=True)).to_have_count(0)
    page.reload()
    expect(page.get_by_text("Chat not found")).to_be_visible()


def test_a_browser_without_an_idle_callback_answers_too(visit: Visit) -> None:
    """Safari has none."""
    visit.page.add_init_script("delete window.requestIdleCallback")
    expect(ask(visit.open(), "Are **you** there?").locator("strong")).to_have_text("you")
