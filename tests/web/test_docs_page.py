"""The API page at /docs, drawn by a browser."""

import httpx
from playwright.sync_api import expect

from tests.server.servers import Serving
from tests.web.browser import Visit, needs_browser

pytestmark = needs_browser


def test_every_operation_and_object_is_drawn_and_can_be_tried(visit: Visit, gateway: Serving) -> None:
    description = httpx.get(f"{gateway.url}/openapi.json").json()
    count = sum(len(methods.keys() & {"get", "post", "delete"}) for methods in description["paths"].values())
    page = visit.page
    page.goto(f"{gateway.url}/docs")
    expect(page.locator(".schema")).to_have_count(len(description["components"]["schemas"]))
    expect(page.locator("details.operation")).to_have_count(count)
    page.get_by_role("link", name="Create a response").click()
    shown = page.locator("details.operation[open]")
    for language, said in (("Python", "import"), ("JavaScript", "fetch"), ("curl", "curl")):
        shown.get_by_text(language, exact=True).click()
        expect(shown.locator("pre:visible").first).to_contain_text(said)
    shown.get_by_text("Try it", exact=True).click()
    shown.get_by_role("button", name="Send").click()
    expect(shown).to_contain_text("200 in ")
