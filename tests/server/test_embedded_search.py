"""The embedded model searches the web: a small model, a real call, and its results in the same response."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.servers import Serving, configure
from tests.tools.search_servers import Web, web_of_pages

pytestmark = pytest.mark.embedded


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.mark.parametrize("stream", [False, True])
def test_a_forced_search(tmp_path: Path, web: Web, stream: bool) -> None:
    url = web.find("/bridge", "The bridge", "The bridge is 244 metres long.")
    settings = {"LOCAL__ENABLED": "true", "TOOLS__WEB_SEARCH__SEARXNG": web.url}
    request = {
        "input": "How long is Tower Bridge? Search for it.",
        "tools": [{"type": "web_search", "external_web_access": False, "search_context_size": "low"}],
        "tool_choice": {"type": "web_search"},
        "include": ["web_search_call.action.sources"],
        "max_output_tokens": 120,
        "max_tool_calls": 1,
        "temperature": 0,
    }
    with Serving(configure(tmp_path, **settings)) as server:
        client = server.client()
        client.timeout = 120
        if stream:
            with client.listen("/v1/responses", stream=True, **request) as events:
                response = list(events)[-1]["response"]
        else:
            response = client.create(**request)
    searched = response["output"][0]
    assert (searched["type"], searched["status"]) == ("web_search_call", "completed")
    assert searched["action"]["sources"] == [{"type": "url", "url": url}]
    assert web.queries() == [searched["action"]["query"]]
