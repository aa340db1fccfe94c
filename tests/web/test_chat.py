"""Chats in the browser: asked, answered again, edited, stopped, queued, found, named, deleted."""

import json
import re
from pathlib import Path

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
    page.get_by_role("button", name="Answer again").click()
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
    say(page, "Speak slowly.")
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
    expect(chats.get_by_text("No chat has")).to_be_visible()
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


def test_a_chat_that_is_gone_is_told(visit: Visit) -> None:
    page = visit.open("/c/chat_000000000000000000000000")
    expect(page.get_by_text("This chat is not here.")).to_be_visible()


def test_files_are_attached_shown_and_sent(page: Page) -> None:
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf"
        "c00000030101000c7d5f5e0000000049454e44ae426082"
    )
    page.locator("input[type=file]").set_input_files(
        FilePayload(name="dot.png", mimeType="image/png", buffer=pixel)
    )
    expect(page.get_by_text("dot.png")).to_be_visible()
    ask(page, "with a picture")
    page.reload()
    expect(page.get_by_role("article", name="You").get_by_role("img")).to_be_visible()
