"""A gateway that is killed in the middle of an answer and goes on with it; one with the embedded model."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from antiphon.embedded.catalogue import DEFAULT
from antiphon.embedded.weights import models_folder
from tests.server.servers import Serving, Spawned, configure
from tests.web.browser import Visit, answers, ask, message, needs_browser, say
from tests.web.conftest import TOML

pytestmark = needs_browser


def test_a_page_goes_on_when_the_gateway_is_back(browser: Browser, tmp_path: Path) -> None:
    settings = {"STORE__PATH": str(tmp_path / "data"), "stale": 0.5}
    with Spawned(tmp_path / "first", TOML, **settings) as first:  # type: ignore[arg-type]
        visit = Visit(browser, first.url)
        page = visit.open()
        page.keyboard.press("Control+.")
        events = page.get_by_role("complementary", name="Inspector").get_by_role("button")
        say(page, "Speak slowly.")
        expect(page.get_by_text("One word")).to_be_visible()
        expect(events.filter(has_text="output_text.delta").first).to_be_visible()
        first.kill()
        expect(page.get_by_text("The gateway does not answer")).to_be_visible()
        port = first.url.rsplit(":", 1)[1]
        with Spawned(tmp_path / "second", TOML, SERVER__PORT=port, **settings):  # type: ignore[arg-type]
            expect(page.get_by_text("The gateway does not answer")).to_be_hidden()
            expect(answers(page)).to_have_count(1)
            expect(events.filter(has_text="completed").last).to_be_visible()
            expect(ask(page, "Are you back?")).to_contain_text("Are you back?")
        visit.close()


def test_what_is_said_while_the_gateway_is_dead_is_not_lost(browser: Browser, tmp_path: Path) -> None:
    """In the middle of an answer: what waits for its end is sent then, what is sent meanwhile comes back."""
    settings = {"STORE__PATH": str(tmp_path / "data"), "stale": 0.5}
    with Spawned(tmp_path / "first", TOML, **settings) as first:  # type: ignore[arg-type]
        visit = Visit(browser, first.url)
        visit.open()
        begun = visit.tab()
        begun.goto(first.url)
        ask(begun, "A first turn.")
        pages = [visit.page, begun]
        for page in pages:
            say(page, "Speak slowly.")
            expect(page.get_by_text("One word")).to_be_visible()
            say(page, "This waits.")
            expect(page.get_by_text("Next")).to_be_visible()
        first.kill()
        for page in pages:
            expect(page.get_by_text("The gateway does not answer")).to_be_visible()
            say(page, "Is nobody there?")
            expect(page.get_by_text("The gateway does not answer")).to_be_visible()
            say(page, "Really nobody?")
            expect(page.get_by_text("The gateway does not answer")).to_be_visible()
        port = first.url.rsplit(":", 1)[1]
        with Spawned(tmp_path / "second", TOML, SERVER__PORT=port, **settings):  # type: ignore[arg-type]
            for page, complete in zip(pages, (2, 3), strict=True):
                expect(message(page)).to_have_value("Is nobody there?\n\nReally nobody?")
                expect(answers(page)).to_have_count(complete)
                expect(answers(page).last).to_contain_text("This waits.")
                expect(page.get_by_role("article").filter(has_text="nobody")).to_have_count(0)
        visit.close()


@pytest.mark.embedded
def test_the_first_answer_of_the_embedded_model(browser: Browser, tmp_path: Path) -> None:
    """As a newcomer meets it: no configuration, no key."""
    if not (models_folder() / f"{DEFAULT}.gguf").exists():
        pytest.skip("the weights are not there; fetch them with: make model")
    config = configure(tmp_path, LOCAL__ENABLED="true", MODELS_DIR=str(models_folder()))
    with Serving(config) as gateway:
        visit = Visit(browser, gateway.url)
        page = visit.open()
        answer = ask(page, "Say hello in five words.")
        expect(answer.locator(".prose")).to_have_text(re.compile(r"\w+"))
        expect(answer).to_contain_text("tokens/s")
        visit.close()
        assert visit.complaints == []
