"""The chat route as Vértice's own end-to-end tests ask for it: one variable chooses the protocol."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from antiphon.stream.sse import Decoder
from tests.bridges.scripts import TOML
from tests.server.conftest import Serve
from tests.server.servers import Client

CHAT = "/api/v1/chat"
FLAG = "VERTICE_USE_OPEN_RESPONSES"
HELLO = {"messages": [{"role": "user", "content": "Say hello"}], "stream": True}
HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-store, must-revalidate",
    "connection": "keep-alive",
    "x-vertice-protocol": "open-responses",
}


Flagged = Callable[[str | None], Client]


@pytest.fixture
def flagged(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Flagged:
    """A client of a gateway that was started with this value of the variable."""

    def start(flag: str | None) -> Client:
        if flag is None:
            monkeypatch.delenv(FLAG, raising=False)
        else:
            monkeypatch.setenv(FLAG, flag)
        return serve(TOML).client()

    return start


def post(client: Client, path: str = CHAT, **headers: str) -> httpx.Response:
    answer = client.post(path, json=HELLO, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture(params=["vercel_ai_sdk", "open_responses"])
def stream_protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_chat_streaming(stream_protocol: str, flagged: Flagged) -> None:
    answer = post(flagged("true" if stream_protocol == "open_responses" else "false"))
    if stream_protocol == "open_responses":
        for event in ("created", "output_text.delta", "completed"):
            assert f"event: response.{event}\n" in answer.text
        assert answer.text.endswith("data: [DONE]\n\n")
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    else:
        assert '0:"' in answer.text
        assert 'd:{"finishReason"' in answer.text
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["x-vercel-ai-data-stream"] == "v1"
        assert "x-vertice-protocol" not in answer.headers


def test_open_responses_event_sequence(flagged: Flagged) -> None:
    decoded = Decoder().feed(post(flagged("true")).content)
    events: list[dict[str, Any]] = [json.loads(event.data) for event in decoded if not event.is_done]
    types = [event["type"] for event in events]
    assert types[:2] == ["response.created", "response.in_progress"]
    assert "response.output_item.added" in types
    assert "response.output_text.delta" in types
    assert types[-1] == "response.completed"
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))


def test_without_the_variable_the_default_is_as_ever(flagged: Flagged) -> None:
    answer = post(flagged(None))
    assert answer.text.startswith('data: {"type":"start",')
    assert "x-vertice-protocol" not in answer.headers


@pytest.mark.parametrize("flag", ["true", "false"])
def test_a_request_that_names_its_protocol_wins(flagged: Flagged, flag: str) -> None:
    client = flagged(flag)
    for answer in (post(client, f"{CHAT}?protocol=ui"), post(client, **{"X-Antiphon-Protocol": "ui"})):
        assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert "x-vertice-protocol" not in answer.headers
    assert post(client, f"{CHAT}?protocol=vercel").headers["x-vercel-ai-data-stream"] == "v1"
    named = post(client, f"{CHAT}?protocol=open_responses")
    assert named.text.startswith("event: response.created\n")
    assert named.headers.get("x-vertice-protocol") == ("open-responses" if flag == "true" else None)
