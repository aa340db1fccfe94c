"""`web_search` on every wire: the gateway searches and opens a page, in three model turns of one response."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import Json, Transport, gateway, slug
from tests.providers.conformance.said import Called, Script, Text
from tests.tools.search_servers import Web, web_of_pages

TOOL: Json = {"type": "web_search"}


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.mark.parametrize("transport", ["json", "sse"])
@pytest.mark.parametrize("wire", FAKES)
async def test_three_model_turns(wire: str, transport: Transport, tmp_path: Path, web: Web) -> None:
    url = web.find("/bridge", "The bridge", "It is long.")
    settings = {
        "TOOLS__WEB_SEARCH__SEARXNG": web.url,
        "TOOLS__WEB_SEARCH__ALLOW": "127.0.0.1",
        "TOOLS__WEB_SEARCH__RUN": "gateway",
    }
    async with gateway(tmp_path, wire, **settings) as asked:
        fake = asked.fakes[wire]
        searched = Called("web_search", '{"query": "bridge"}', "call_1")
        opened = Called("open_page", json.dumps({"url": url}), "call_2")
        fake.plays(
            Script((searched,), "tool_calls"),
            Script((opened,), "tool_calls"),
            Script((Text("It is long【1】."),)),
        )
        first = await asked.ask(wire, transport, input="How long is it?", tools=[TOOL])
        assert [item["type"] for item in first["output"]] == ["web_search_call"] * 2 + ["message"]
        part = first["output"][-1]["content"][0]
        (note,) = part["annotations"]
        assert (note["url"], note["title"]) == (url, "The bridge")
        assert part["text"][note["start_index"] : note["end_index"]] == f"([127.0.0.1]({url}))"
        assert "244 metres" in json.dumps(fake.requests[-1].body)
        replayed = [{"role": "user", "content": "How long is it?"}, *first["output"]]
        more = {"role": "user", "content": "Sure?"}
        for follow in ({"previous_response_id": first["id"], "input": "Sure?"}, {"input": [*replayed, more]}):
            fake.plays(Script((Text("Yes."),)))
            await asked.ask(wire, transport, tools=[TOOL], **follow)
            assert "244 metres" in json.dumps(fake.requests[-1].body)
    assert web.queries() == ["bridge"]
    assert web.opened() == ["/bridge"]


CLAUDE_CODE: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


@pytest.mark.parametrize("configured", [True, False], ids=["searched", "dropped"])
@pytest.mark.parametrize("wire", FAKES)
async def test_the_search_of_the_messages_api(wire: str, configured: bool, tmp_path: Path, web: Web) -> None:
    """The gateway searches on every wire; without a search engine, a forced search does not end the turn."""
    web.find("/bridge", "The bridge", "It is long.")
    settings = {"TOOLS__WEB_SEARCH__SEARXNG": web.url, "TOOLS__WEB_SEARCH__RUN": "gateway"}
    async with gateway(tmp_path, wire, **(settings if configured else {})) as asked:
        fake = asked.fakes[wire]
        searched = Script((Called("web_search", '{"query": "bridge"}', "call_1"),), "tool_calls")
        fake.plays(*([searched] if configured else []), Script((Text("It is long."),)))
        body = {
            "model": slug(wire),
            "max_tokens": 2000,
            "messages": [{"role": "user", "content": "How long is it?"}],
            "tools": [CLAUDE_CODE],
            "tool_choice": {"type": "tool", "name": "web_search"},
        }
        answer = await asyncio.to_thread(asked.http.post, "/v1/messages", json=body)
        assert answer.status_code == 200, answer.text
        assert [fake.mistakes(request) for request in fake.requests] == [[]] * len(fake.requests)
        blocks = answer.json()["content"]
        kinds = ["server_tool_use", "web_search_tool_result", "text"] if configured else ["text"]
        assert [block["type"] for block in blocks] == kinds
        assert not configured or "It is long." in json.dumps(fake.requests[-1].body)
    assert web.queries() == (["bridge"] if configured else [])
