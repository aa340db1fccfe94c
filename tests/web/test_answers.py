"""What answers show, the same in both protocols, and what they cannot do to the page."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.servers import Serving
from tests.web.browser import Visit, answers, ask, needs_browser, say

pytestmark = needs_browser
PROTOCOLS = ("ui", "open-responses")
# What is asked, and what the answer shows when all of it is there.
SHOWN = {
    "Show everything.": "strong",
    "Write Markdown.": "math",
    "Please refuse.": "text=The model refused",
    "Too long.": "text=reached the limit",
    "Now fail.": "text=the model is overloaded",
}


def choose(page: Page, protocol: str) -> None:
    page.keyboard.press("Control+,")
    page.get_by_role("combobox", name="Stream protocol").select_option(protocol)
    page.get_by_role("button", name="Close").click()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reasoning_calls_sources_and_usage(page: Page, protocol: str) -> None:
    choose(page, protocol)
    with page.expect_request(lambda request: "/api/v1/chat" in request.url) as asked:
        answer = ask(page, "Show everything.")
    assert asked.value.url.endswith(f"protocol={protocol}")
    expect(answer.locator("strong")).to_have_text("sunny")
    answer.get_by_text("Thought").click()
    expect(answer.get_by_text("First I think about it.")).to_be_visible()
    answer.get_by_text("get_weather").click()
    expect(answer.get_by_text('"Paris"')).to_be_visible()
    expect(answer.get_by_role("link", name="Weather in Paris")).to_have_attribute(
        "href", "https://weather.example/paris"
    )
    expect(answer).to_contain_text("60 in, 12 tokens out")
    expect(answer).to_contain_text("20 cached")
    expect(answer).to_contain_text("first token")


def test_one_answer_reads_the_same_in_both_protocols(browser: Browser, gateway: Serving) -> None:
    """One fixture, two runs: while the words come, and once they are stored."""
    seen: dict[str, list[str]] = {}
    for protocol in PROTOCOLS:
        visit = Visit(browser, gateway.url)
        page = visit.open()
        choose(page, protocol)
        seen[protocol] = [_read(page, words, awaited) for words, awaited in SHOWN.items()]
        visit.close()
        assert visit.complaints == []
    assert seen["ui"] == seen["open-responses"]


def _read(page: Page, words: str, awaited: str) -> str:
    """What is written in the answer once it shows what it should, without what differs by chance."""
    answer = ask(page, words)
    expect(answer.locator(awaited)).to_be_visible()
    texts = answer.locator(".prose, section, details").all_inner_texts()
    return re.sub(r"(resp|req)_\w+|\d+\.\d+ s", "", "\n".join(texts))


def test_markdown_is_drawn(page: Page) -> None:
    answer = ask(page, "Write Markdown.")
    expect(answer.get_by_role("heading", name="A heading")).to_be_visible()
    expect(answer.get_by_role("listitem")).to_have_count(2)
    expect(answer.get_by_role("table")).to_be_visible()
    expect(answer.locator("math")).to_be_visible()
    expect(answer.locator("pre .hljs-keyword").first).to_have_text("def")
    answer.get_by_role("button", name="Copy the code").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("def add(a, b):")


# The words of the cells that stand on more than one line.
BROKEN = """() => [...document.querySelectorAll("th, td")].flatMap((cell) => {
    const text = cell.firstChild, range = document.createRange();
    return [...text.data.matchAll(/\\S+/g)].filter(({0: word, index}) => {
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return range.getClientRects().length > 1;
    }).map(({0: word}) => word);
})"""


@pytest.mark.parametrize(("width", "scrolls"), [(1440, False), (1024, True), (390, True)])
def test_words_in_a_table_stay_whole_and_a_wide_one_scrolls(
    browser: Browser, gateway: Serving, width: int, scrolls: bool
) -> None:
    """A cell was as narrow as a letter, so that no table ever scrolled."""
    visit = Visit(browser, gateway.url, viewport={"width": width, "height": 800})
    page = visit.open()
    answer = ask(page, "wide table")
    if width == 1024:
        page.keyboard.press("Control+.")
        expect(page.get_by_role("complementary", name="Inspector")).to_be_visible()
    assert page.evaluate(BROKEN) == []
    box = answer.locator(".prose div:has(> table)")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth") == scrolls
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()
    assert visit.complaints == []


def test_the_box_of_a_task_stands_before_its_words(page: Page) -> None:
    """In a list with blank lines the box had a line of its own, and its brackets stood in the words."""
    answer = ask(page, "loose tasks")
    items = answer.get_by_role("listitem")
    expect(items).to_have_text(["open", "done"])
    expect(answer.get_by_role("checkbox")).to_have_count(2)
    for n in range(2):
        box, words = (items.nth(n).locator(part).bounding_box() for part in ("input", "p"))
        assert box
        assert words
        assert abs(box["y"] + box["height"] / 2 - words["y"] - words["height"] / 2) < words["height"] / 2


def test_a_formula_asks_for_no_style_that_the_page_refuses(page: Page) -> None:
    """The styles of broken and of framed formulas were refused, each with an error in the console."""
    answer = ask(page, "styled formulas")
    expect(answer.locator(".katex-error")).to_have_count(3)
    expect(answer.locator("math")).to_have_count(1)
    assert answer.locator("[style]").count() == 0


def test_what_a_model_writes_runs_nothing_and_loads_nothing(visit: Visit, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer = ask(page, "attack")
    page.reload()
    expect(answer).to_contain_text("onerror=")  # as words
    expect(answer).to_contain_text("Image from evil.example, not loaded")
    assert "owned" not in page.title()
    assert answer.locator("img, iframe, script").count() == 0
    assert answer.locator("a").all_inner_texts() == ["Open it in a new tab"]
    assert answer.locator("a").get_attribute("rel") == "noopener noreferrer nofollow"
    assert [url for url in asked if not url.startswith(visit.url)] == []


def test_structured_output_is_a_tree(page: Page) -> None:
    answer = ask(page, "Give me JSON.")
    expect(answer.get_by_text("people:")).to_be_visible()
    answer.get_by_role("button", name="As text").click()
    expect(answer.locator("pre")).to_have_text('{"city": "Paris", "people": 2102650}')


def test_a_refusal_an_incomplete_answer_and_a_failure_are_told_as_what_they_are(page: Page) -> None:
    expect(ask(page, "Please refuse.")).to_contain_text("The model refused")
    expect(ask(page, "Too long.")).to_contain_text("reached the limit on output tokens")
    failed = ask(page, "Now fail.")
    expect(failed).to_contain_text("Once upon a")
    expect(failed).to_contain_text("the model is overloaded")
    expect(failed).to_contain_text("code model_overloaded")
    expect(failed).to_contain_text("request req_")
    failed.get_by_role("button", name="Try again").click()
    expect(page.get_by_label("Branch 2 of 2")).to_be_visible()


def test_a_request_that_is_refused_can_be_sent_again(page: Page) -> None:
    say(page, "Are you busy?")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("slow down")
    expect(problem).to_contain_text("rate_limit_exceeded")
    problem.get_by_role("button", name="Try again").click()
    expect(page.get_by_label("Branch 2 of 2")).to_be_visible()


def test_an_approval_is_asked_for_and_given(page: Page) -> None:
    ask(page, "approve this")
    expect(page.get_by_text("Allow delete_file on disk?")).to_be_visible()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_text("It was decided.")).to_be_visible()
    for again in (False, True):
        if again:
            page.reload()
        expect(page.get_by_role("button", name="Allow")).to_be_disabled()
        expect(page.get_by_role("button", name="Deny")).to_be_disabled()


def test_ten_thousand_deltas_and_a_hundred_kilobytes_arrive_whole(page: Page) -> None:
    say(page, "Send a flood.")
    expect(answers(page)).to_have_count(1)
    assert page.locator(".prose li").count() == 1800
    assert len(page.locator(".prose").inner_text()) > 90_000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_names_arguments_and_sources_are_words(page: Page, protocol: str) -> None:
    choose(page, protocol)
    answer = ask(page, "false names")
    answer.get_by_text("<img src=x onerror=alert(1)>").click()
    expect(answer.get_by_text("<b>key</b>:")).to_be_visible()
    expect(answer.get_by_text("<script>alert(1)</script>")).to_be_visible()
    expect(answer.get_by_text("<i>a source</i>")).to_be_visible()
    assert answer.locator("a, img, script, b, i").count() == 0


@pytest.mark.parametrize(("words", "shown"), [("deep quotes", "at the bottom"), ("deep formula", "{{{{{")])
def test_what_is_nested_too_deep_is_shown_as_it_is(page: Page, words: str, shown: str) -> None:
    """It ended the whole page, and again on each reload."""
    expect(ask(page, words)).to_contain_text(shown)
    page.reload()
    expect(answers(page)).to_contain_text(shown)


def test_of_a_tree_only_what_is_open_is_drawn(page: Page) -> None:
    answer = ask(page, "wide list")
    expect(answer.get_by_text("199:", exact=False)).to_be_visible()
    assert answer.locator("*").count() < 2000
    answer.get_by_role("button", name="2801 more").click()
    answer.get_by_role("button", name="801 more").click()
    expect(answer.get_by_text('"inside"')).to_have_count(0)
    for _ in range(2):
        answer.locator("details:not([open]) > summary").click()
    expect(answer.get_by_text('"inside"')).to_be_visible()
