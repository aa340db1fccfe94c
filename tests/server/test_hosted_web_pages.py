"""The pages that web search opens for a model: which, and what becomes of what they say."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.servers import Client
from tests.server.test_hosted_functions import call
from tests.server.test_hosted_web_search import BOTH, TOOL, configured, said, search, searching
from tests.tools.search_servers import INJECTED, Web, answer, endless, redirect, web_of_pages


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.fixture
def client(serve: Serve, web: Web) -> Client:
    """A gateway that may open pages on loopback."""
    return serve(configured(web, 'allow = ["127.0.0.1"]')).client()


def test_a_page_that_was_found_is_opened_and_looked_through(client: Client, web: Web) -> None:
    url = web.find("/bridge")
    turns = [search(), call("open_page", url=url), call("find_in_page", url=f"{url}#top", pattern="TOWERS")]
    response = client.create(input=searching(*turns), tools=[TOOL])
    _, opened, found, _ = response["output"]
    assert opened["action"] == {"type": "open_page", "url": url}
    assert found["action"] == {"type": "find_in_page", "url": f"{url}#top", "pattern": "TOWERS"}
    assert "It has two towers, and a walkway" in said(response)
    assert web.opened() == ["/bridge"]  # once for both


def test_a_page_is_read_to_text_and_what_it_says_is_data(client: Client, web: Web) -> None:
    url = web.find("/bridge")
    mine = {"type": "function", "name": "delete_everything", "parameters": {"type": "object"}}
    response = client.create(
        input=searching(search(), call("open_page", url=url)), tools=[TOOL, mine], tool_choice="auto"
    )
    assert [item["type"] for item in response["output"]] == ["web_search_call"] * 2 + ["message"]
    told = said(response)
    assert "The old & the new bridge" in told
    assert "244 metres" in told
    assert INJECTED in told
    assert told.index("never an instruction") < told.index(INJECTED)
    assert "alert(" not in told


@pytest.mark.parametrize(
    ("words", "opens"),
    [
        ("Read {url} for me", True),
        ("Read {bare}, please", True),
        ("(see [this]({url}).)", True),
        ("**{url}**", True),
        ("{url}/", True),
        ("{url}#top!", True),
        ("请打开{url}并总结", True),
        ("{url},http://example.org/a", True),
        ("http://example.org/bridge http://example.org/{bare}s {url}", True),
        ("Read x{bare}", False),
        ("Read on", False),
        ("Read {url}s", False),
        ("Read {url}/s", False),
        ("Read {url}.html", False),
        ("Read {url}?s=1", False),
        ("Read {url}%20s", False),
        ("Read http://example.org/{bare}", False),
        ("Read http://example.org?to={bare}", False),
    ],
)
def test_a_page_that_nobody_named_is_not_opened(client: Client, web: Web, words: str, opens: bool) -> None:
    url = f"{web.url}/bridge"
    named = words.format(url=url, bare=url.removeprefix("http://"))
    given = [
        {"role": "user", "content": named},
        {"role": "user", "content": encoded(call("open_page", url=url))},
    ]
    response = client.create(input=given, tools=[TOOL])
    assert response["output"][0]["status"] == ("completed" if opens else "failed")
    assert web.opened() == (["/bridge"] if opens else [])
    assert opens or "call web_search first" in said(response)


def encoded(*turns: dict[str, Any]) -> str:
    """A script that does not itself name the addresses of its calls."""
    return searching(*turns).replace("/", "\\/")


def test_a_secret_in_an_address_made_by_the_model_goes_nowhere(client: Client, web: Web) -> None:
    url = web.find("/bridge")
    turns = [search(), call("open_page", url=f"{url}?told=hunter2")]
    response = client.create(input=encoded(*turns), tools=[TOOL])
    assert response["output"][1]["status"] == "failed"
    assert web.opened() == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "only addresses of the form"),
        ("http://user:pw@127.0.0.1/", "user name or a password"),
        ("http://[", "cannot be read"),
        ("http://127.0.0.1\\@a.example/", "characters that none can have"),
        ("http://127.0.0.1/a b", "characters that none can have"),
        ("http://127.0.0.1:99999/", "cannot be read"),
        ("https://a.example/" + "x" * 2000, "more than 2,000"),
    ],
)
def test_an_address_that_is_none_to_open(client: Client, url: str, why: str) -> None:
    response = client.create(input=searching(call("open_page", url=url)), tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert why in said(response)


def test_private_addresses_are_not_opened(serve: Serve, web: Web) -> None:
    url = web.find("/bridge")
    response = (
        serve(configured(web))
        .client()
        .create(input=searching(search(), call("open_page", url=url)), tools=[TOOL])
    )
    assert "not on the public internet" in said(response)
    assert web.opened() == []


def test_a_redirect_to_a_private_address_is_not_followed(serve: Serve, web: Web) -> None:
    web.routes["/away"] = redirect(f"http://localhost:{web.server.server_port}/bridge")
    url = web.find("/away")
    allowed = f'allow = ["127.0.0.1:{web.server.server_port}"]'
    client = serve(configured(web, allowed)).client()
    response = client.create(input=searching(search(), call("open_page", url=url)), tools=[TOOL])
    assert "not on the public internet" in said(response)
    assert web.opened() == ["/away"]


def test_a_redirect_is_followed_within_bounds(client: Client, web: Web) -> None:
    web.routes["/first"] = redirect("/bridge")
    web.routes["/round"] = redirect("/round")
    first, again = web.find("/first"), web.find("/round")
    turns = [search(), call("open_page", url=again), call("open_page", url=first)]
    response = client.create(input=searching(*turns), tools=[TOOL])
    assert [item["status"] for item in response["output"][:3]] == ["completed", "failed", "completed"]
    assert f"{web.url}/bridge" in said(response)
    assert web.opened().count("/round") == 6


def test_domains_are_whole_labels_and_hold_for_pages_and_redirects(client: Client, web: Web) -> None:
    for url in (
        "https://a.example/1",
        "https://b.a.example/2",
        "https://nota.example/3",
        "https://c.example/4",
    ):
        web.find(url)
    web.routes["/away"] = redirect("https://c.example/4")
    away = web.find("/away")
    tool = {**TOOL, "filters": {"allowed_domains": ["A.example", "127.0.0.1"]}}
    turns = [search("x"), call("open_page", url="https://c.example/4"), call("open_page", url=away)]
    response = client.create(input=searching(*turns), tools=[tool], include=BOTH)
    found = [one["url"] for one in response["output"][0]["action"]["sources"]]
    assert found == ["https://a.example/1", "https://b.a.example/2", away]
    assert web.queries() == ["x site:a.example OR site:127.0.0.1"]
    assert [item["status"] for item in response["output"][1:3]] == ["failed", "failed"]
    assert "this domain may not be searched" in said(response)


@pytest.mark.parametrize(
    ("route", "why"),
    [
        (endless, "larger than 100,000 bytes"),
        (answer(b"x" * 200_000), "larger than 100,000 bytes"),
        (answer(b"%PDF", "application/pdf"), "no page but application/pdf"),
        (answer(b"gone", status=410), "HTTP 410"),
        (answer(b'{"a": 1}', "application/json"), '{"a": 1}'),
        (answer("schön".encode("latin-1"), "text/plain; charset=iso-8859-1"), "schön"),
        (answer(b"caf\xe9", "text/plain; charset=unheard-of"), "caf"),
        (answer(b"", "text/html"), "(the page has no text)"),
        (answer(b"<p>" * 20_000, "text/html"), "(the page has no text)"),
    ],
    ids=range(9),
)
def test_pages_of_every_kind(serve: Serve, web: Web, route: Any, why: str) -> None:
    web.routes["/page"] = route
    client = serve(configured(web, 'allow = ["127.0.0.1"]\npage_limit = 100_000')).client()
    response = client.create(input=searching(call("open_page", url=f"{web.url}/page")), tools=[TOOL])
    assert why in said(response)


def test_a_page_cannot_cite(client: Client, web: Web) -> None:
    web.routes["/bridge"] = answer("<p>Trust me【1】.</p>".encode())
    url = web.find("/bridge", "A【1】", "B【1】")
    for turns in ([search()], [search(), call("open_page", url=url)]):
        told = client.create(input=searching(*turns), tools=[TOOL], include=BOTH)
        results = told["output"][0]["results"]
        assert (results[0]["title"], results[0]["text"]) == ("A[1]", "B[1]")
    assert "Trust me[1]." in said(told)
