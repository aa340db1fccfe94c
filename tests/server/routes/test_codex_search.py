"""`POST /v1/alpha/search`: what Codex sends when its model searches beside a response, and what it gets."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import Client
from tests.server.test_hosted_mcp import SCRIPTED
from tests.server.test_hosted_web_search import configured
from tests.tools.search_servers import INJECTED, Web, answer, web_of_pages

PATH = "/v1/alpha/search"
Json = dict[str, Any]


def body(**commands: Any) -> Json:
    """A request as Codex 0.166 makes it."""
    return {
        "id": "0199a2f0-0000-7000-8000-000000000000",
        "model": "gpt-5.5",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "How long is the bridge?"},
                    {"type": "input_image", "image_url": "https://pictures.example/bridge.png"},
                ],
            }
        ],
        "commands": commands,
        "settings": {
            "user_location": {"type": "approximate", "country": "GB", "city": "London"},
            "search_context_size": "low",
            "filters": {"blocked_domains": ["spam.example"]},
            "image_settings": {"max_results": 4, "caption": True},
            "allowed_callers": ["direct"],
            "external_web_access": True,
        },
        "max_output_tokens": 2500,
    }


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.fixture
def client(serve: Serve, web: Web) -> Client:
    return serve(configured(web, 'allow = ["127.0.0.1"]')).client()


def told(client: Client, asked: Json) -> str:
    answered = client.ok("POST", PATH, json=asked)
    assert answered["encrypted_output"] is None
    return str(answered["output"])


def test_a_search_then_its_page_then_words_in_it(client: Client, web: Web) -> None:
    url = web.find("/bridge", "The bridge", "It is long.")
    web.find("https://spam.example/", "Spam", "Buy this.")
    asked = body(search_query=[{"q": "tower bridge", "recency": 7}, {"q": "", "domains": []}])
    found = told(client, asked)
    assert f"The bridge\n{url}\nIt is long." in found
    assert "Spam" not in found
    assert "【" not in found  # nobody replaces marks in what the client shows
    assert web.asked[0][1]["language"] == ["en-GB"]
    opened = told(
        client, body(open=[{"ref_id": url, "lineno": 1}], find=[{"ref_id": url, "pattern": "TOWERS"}])
    )
    assert "244 metres long" in opened
    assert INJECTED in opened  # as data, below the note that it is no instruction
    assert opened.startswith("What follows comes from web pages")
    assert "… " in opened
    assert web.opened() == ["/bridge"]  # for both commands
    assert web.queries() == ["tower bridge -site:spam.example"]


def test_a_page_that_nobody_has_found_or_named_is_not_opened(client: Client, web: Web) -> None:
    url = f"{web.url}/bridge"
    opening = body(open=[{"ref_id": url}])
    assert "Failed: only pages are opened that" in told(client, opening)
    assert "Failed: there is no page 'turn0search0'" in told(client, body(open=[{"ref_id": "turn0search0"}]))
    opening["input"][0]["role"] = "assistant"
    opening["input"][0]["content"] = [{"type": "output_text", "text": f"I open {url}"}]
    assert "Failed" in told(client, opening)
    assert web.opened() == []
    opening["input"] = f"Read {url} for me"
    assert "244 metres" in told(client, opening)
    # Another session has found nothing.
    web.find("/bridge", "The bridge")
    told(client, body(search_query=[{"q": "bridge"}]))
    other = {**body(open=[{"ref_id": url}]), "id": "another"}
    assert "Failed" in told(client, other)
    shut = body(open=[{"ref_id": url}])
    shut["settings"]["external_web_access"] = False
    assert "pages are not opened in this session" in told(client, shut)


def test_other_commands_and_what_fails_are_told_in_words(client: Client, web: Web) -> None:
    said = told(client, body(weather=[{"location": "London"}], finance=[{"ticker": "AMD", "type": "equity"}]))
    assert "weather: not available here" in said
    assert "finance: not available here" in said
    assert re.search(r"The time at UTC\+03:00 is \d{4}-", told(client, body(time=[{"utc_offset": "+03:00"}])))
    assert "no offset such as" in told(client, body(time=[{"utc_offset": "noon"}]))
    assert told(client, body()) == "There was nothing to do."
    assert told(client, {"id": "x", "model": "y"}) == "There was nothing to do."
    wrong = told(client, body(search_query=[{"q": "bridge", "domains": ["https://x"]}]))
    assert "expected a domain" in wrong
    web.routes["/search"] = answer(b"no", status=500)
    assert "Failed: the search engine refused" in told(client, body(search_query=[{"q": "bridge"}]))


def test_an_answer_is_no_longer_than_asked_for(client: Client, web: Web) -> None:
    web.find("/bridge", "The bridge", "word " * 500)
    asked = {**body(search_query=[{"q": "bridge"}]), "max_output_tokens": 20}
    assert len(told(client, asked)) <= 100


def test_only_domains_of_both_lists_are_shown(client: Client, web: Web) -> None:
    for host in ("a.example", "b.example", "c.example"):
        web.find(f"https://{host}/page", host)
    asked = body(search_query=[{"q": "x", "domains": ["a.example", "b.example"]}])
    asked["settings"]["filters"] = {"allowed_domains": ["b.example", "c.example"]}
    assert re.findall(r"https://(.)\.example", told(client, asked)) == ["b"]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"commands": {"search_query": "bridge"}}, "commands.search_query"),
        ({"settings": {"search_context_size": "huge"}}, "settings.search_context_size"),
        (
            {"settings": {"filters": {"allowed_domains": ["https://x"]}}},
            "settings.filters.allowed_domains[0]",
        ),
    ],
)
def test_a_wrong_request_is_refused_at_its_place(client: Client, wrong: Json, param: str) -> None:
    assert client.refused(400, "POST", PATH, json={**body(), **wrong})["param"] == param


def test_without_a_search_engine_or_a_permission_the_turn_goes_on(serve: Serve, web: Web) -> None:
    """Codex ends its turn over an error, so the model is told instead."""
    asked = body(search_query=[{"q": "bridge"}])
    said = told(serve(SCRIPTED).client(), asked)
    assert said.startswith("The web cannot be searched here: no search engine is configured")
    keys, keyed = key_table("alice"), configured(web)
    said = told(serve(keyed + keys).client("sk-alice"), asked)
    assert "may not use 'web_search'" in said
    assert web.queries() == []
