"""Citations over a whole conversation: the model sees earlier results with their marks, and may cite them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.conftest import Serve, Spawn
from tests.server.servers import Client
from tests.server.test_hosted_functions import call
from tests.server.test_hosted_web_search import TOOL, configured, said, search, searching
from tests.server.upstream import Upstream
from tests.tools.search_servers import Web, web_of_pages


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.fixture
def client(serve: Serve, web: Web) -> Client:
    return serve(configured(web)).client()


def later(*steps: list[dict[str, Any]]) -> str:
    """What the model says after its two first turns."""
    turns = [{"when": {"turn": n}, "steps": each} for n, each in enumerate(steps, 3)]
    return f"```script\n{json.dumps({'turns': turns})}\n```"


def cited(response: dict[str, Any]) -> list[tuple[str, str]]:
    """The addresses of the annotations, and the text that each stands on."""
    notes, text = response["output"][-1]["content"][0]["annotations"], said(response)
    return [(note["url"], text[note["start_index"] : note["end_index"]]) for note in notes]


@pytest.mark.parametrize("is_replayed", [False, True])
@pytest.mark.parametrize("searches_again", [False, True])
def test_a_source_of_an_earlier_response_is_cited(
    client: Client, web: Web, searches_again: bool, is_replayed: bool
) -> None:
    bridge = web.find("/bridge", "The bridge")
    asked = searching(search(), last="It is long【1】.")
    first = client.create(input=asked, tools=[TOOL])
    tower = web.find("/tower", "The tower")
    marks = "【1】【3】" if searches_again else "【1】"
    again = [[call("web_search", query="tower")]] if searches_again else []
    more = later(*again, [{"text": f"As I said{marks}."}])
    request: dict[str, Any] = {"input": more, "previous_response_id": first["id"]}
    if is_replayed:
        items = [{"role": "user", "content": asked}, *first["output"], {"role": "user", "content": more}]
        request = {"input": items}
    second = client.create(tools=[TOOL], **request)
    links = [(bridge, f"([127.0.0.1]({bridge}))"), (tower, f"([127.0.0.1]({tower}))")]
    assert cited(second) == (links if searches_again else links[:1])


def test_after_kill_9_the_sources_found_before_are_cited_at_their_places(
    spawn: Spawn, upstream: Upstream, web: Web
) -> None:
    bridge = web.find("/bridge", "The bridge")
    toml = f'{upstream.toml}[tools.web_search]\nsearxng = "{web.url}"\n'
    first = spawn(toml, stale=1.0)
    request = {"input": "How long?", "background": True, "stream": True, "tools": [TOOL]}
    with first.client().listen("/v1/responses", **request) as stream:
        told = upstream.next()
        told.begin_call("web_search", '{"query": "bridge"}')
        told.finish(reason="tool_calls")
        upstream.next().say("The bridge is")
        seen = stream.until("response.output_text.delta")
        first.kill()
    client = spawn(toml, stale=1.0).client()
    upstream.next().finish(" long【1】.")
    response = client.ended(seen[0]["response"]["id"])
    link = f"([127.0.0.1]({bridge}))"
    assert said(response) == f"The bridge is long {link}."
    assert cited(response) == [(bridge, link)]
