"""The inspector: the events of an answer, its request and its verdict, beside the chat."""

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from antiphon.cli import main
from tests.server.servers import Serving, configure
from tests.web.browser import Visit, ask, needs_browser, say

pytestmark = needs_browser


def test_it_follows_the_events_of_an_answer(page: Page, tmp_path: Path) -> None:
    page.keyboard.press("Control+.")
    panel = page.get_by_role("complementary", name="Inspector")
    expect(panel).to_contain_text("The events of an answer")
    say(page, "Speak slowly.")
    expect(panel.get_by_text("live")).to_be_visible()
    expect(panel.get_by_text("completed", exact=True)).to_be_visible()
    expect(panel.get_by_role("button", name="output_text.delta").first).to_contain_text(" s")
    panel.get_by_role("button", name="completed").click()
    expect(panel.get_by_text("sequence_number:")).to_be_visible()
    with page.expect_download() as download:
        panel.get_by_role("button", name="Download").click()
    capture = tmp_path / "capture.sse"
    download.value.save_as(capture)
    assert main(["comply", "--capture", str(capture)]) == 0


def test_it_shows_the_request_the_items_and_the_verdict(page: Page) -> None:
    ask(page, "it's a question")
    page.get_by_role("button", name="Inspect", exact=True).click()
    panel = page.get_by_role("complementary", name="Inspector")
    expect(panel.get_by_text("stored")).to_be_visible()
    panel.get_by_role("tab", name="Items").click()
    expect(panel.get_by_text("output:")).to_be_visible()
    panel.get_by_role("tab", name="Items").press("ArrowRight")
    expect(panel.get_by_role("tab", name="Request")).to_be_focused()
    expect(panel.get_by_text("POST /v1/responses")).to_be_visible()
    panel.get_by_role("button", name="Copy as curl").click()
    assert "it'\\''s a question" in page.evaluate("navigator.clipboard.readText()")
    panel.get_by_role("tab", name="Route").click()
    expect(panel).to_contain_text(re.compile(r"Conforms: its \d+ events break no rule"))
    expect(panel).to_contain_text("antiphon comply http://127.0.0.1")


def test_it_shows_the_newest_answer_of_the_chat_in_view(page: Page) -> None:
    ask(page, "the first question")
    ask(page, "the second question")
    page.keyboard.press("Control+.")
    panel = page.get_by_role("complementary", name="Inspector")
    expect(panel.get_by_role("button", name="completed")).to_be_visible()
    panel.get_by_role("tab", name="Request").click()
    expect(panel).to_contain_text("previous_response_id")
    page.get_by_role("button", name="Inspect", exact=True).first.click()
    expect(panel).to_contain_text("stream: true")
    expect(panel).not_to_contain_text("previous_response_id")
    page.get_by_role("button", name="New chat").click()
    expect(panel).to_contain_text("The events of an answer appear here")
    page.get_by_role("button", name="the first question", exact=True).click()
    expect(panel).to_contain_text("previous_response_id")


FAILOVER = """
default_model = "over"
[providers.down]
type = "script"
file = "down.toml"
[providers.well]
type = "script"
file = "well.toml"
[models]
over = ["down/first", "well/second"]
"""


def test_it_shows_every_attempt_of_a_request_that_failed_over(browser: Browser, tmp_path: Path) -> None:
    """It said "One target, one attempt" of every request."""
    (tmp_path / "down.toml").write_text('[[turns]]\nsteps = [{error = {message = "later", status = 503}}]\n')
    (tmp_path / "well.toml").write_text('[[turns]]\nsteps = [{text = "Good evening."}]\n')
    with Serving(configure(tmp_path, FAILOVER)) as gateway:
        visit = Visit(browser, gateway.url)
        page = visit.open()
        ask(page, "hello")
        page.get_by_role("button", name="Inspect", exact=True).click()
        panel = page.get_by_role("complementary", name="Inspector")
        panel.get_by_role("tab", name="Route").click()
        attempts = panel.get_by_role("listitem")
        expect(attempts).to_have_count(2)
        expect(attempts.first).to_contain_text("down/first")
        expect(attempts.last).to_contain_text(re.compile(r"well/second\s*answered · \d+ ms"))
        expect(panel).not_to_contain_text("one attempt")
        visit.close()
        assert visit.complaints == []


def test_of_one_target_it_says_so(page: Page) -> None:
    ask(page, "a question")
    page.get_by_role("button", name="Inspect", exact=True).click()
    panel = page.get_by_role("complementary", name="Inspector")
    panel.get_by_role("tab", name="Route").click()
    expect(panel).to_contain_text("One target, one attempt.")


def test_it_claims_nothing_of_a_response_whose_receipts_were_not_kept(visit: Visit, gateway: Serving) -> None:
    client = gateway.client()
    chat = client.ok("POST", "/v1/antiphon/chats", json={})["id"]
    client.ok("POST", "/v1/responses", json={"input": "a question", "antiphon:chat": chat})
    page = visit.open(f"/c/{chat}")
    page.get_by_role("button", name="Inspect", exact=True).click()
    panel = page.get_by_role("complementary", name="Inspector")
    panel.get_by_role("tab", name="Route").click()
    expect(panel.get_by_text("The gateway stored no receipts for this response")).to_have_count(2)
    expect(panel).not_to_contain_text("One target, one attempt.")


def test_it_lists_the_rules_that_a_response_breaks(page: Page) -> None:
    broken = {"rule": "sequence.starts", "level": "MUST", "event": 3, "type": "<b>x</b>", "message": "wrong"}
    page.route(
        "**/v1/antiphon/audit/*", lambda route: route.fulfill(json={"events": 4, "violations": [broken]})
    )
    ask(page, "a question")
    page.get_by_role("button", name="Inspect", exact=True).click()
    panel = page.get_by_role("complementary", name="Inspector")
    panel.get_by_role("tab", name="Route").click()
    expect(panel).to_contain_text("It breaks 1 rule:")
    expect(panel).to_contain_text("#3 <b>x</b> · sequence.starts · MUST")


def test_the_request_of_a_late_turn_has_its_own_words(visit: Visit, gateway: Serving) -> None:
    client, previous = gateway.client(), None
    chat = client.ok("POST", "/v1/antiphon/chats", json={})["id"]
    for n in range(60):
        made = client.create(input=f"turn {n}.", previous_response_id=previous, **{"antiphon:chat": chat})
        previous = made["id"]
    page = visit.open(f"/c/{chat}")
    page.get_by_role("button", name="Inspect", exact=True).last.click()
    panel = page.get_by_role("complementary", name="Inspector")
    expect(panel.get_by_text("The gateway stored no events of this response.")).to_be_visible()
    expect(panel.get_by_role("button", name="Copy as curl")).to_be_enabled()
    panel.get_by_role("button", name="Copy as curl").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "turn 59." in copied
    assert "turn 58." not in copied
    panel.get_by_role("tab", name="Route").click()
    expect(panel).to_contain_text("Not checked")
