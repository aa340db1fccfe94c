"""Writer: what is sent its own way, what it does not take, and its errors."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Secret
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.writer import BASE_URL, Writer, WriterSettings
from tests.providers.build import build, environment
from tests.providers.compose import answer, batches, make_turn, told
from tests.providers.conformance.said import Called, Script, Text
from tests.providers.fake_server import Received, refusal
from tests.providers.writer.fake import KEY, MODEL, FakeWriter, error

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeWriter]:
    async with FakeWriter() as fake:
        yield fake


@pytest.fixture
def writer(upstream: FakeWriter, http: UpstreamClient) -> Writer:
    return build(Writer, "writer", http, upstream.base_url, api_key=Secret(KEY))


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
async def test_the_choice_of_a_tool_has_a_shape_of_its_own(
    upstream: FakeWriter, writer: Writer, choice: Any, sent: Any
) -> None:
    upstream.plays(Script((Called("f"),), "tool_calls"))
    made = await answer(writer, make_turn({"input": "x", "tools": [FUNCTION], "tool_choice": choice}))
    assert told(made) == [("f", "{}", "call_1")]
    assert upstream.body["tool_choice"] == {"value": sent}
    assert "strict" not in upstream.body["tools"][0]["function"]


async def test_tools_of_its_own_leave_a_receipt(upstream: FakeWriter, writer: Writer) -> None:
    graph = {"type": "graph", "function": {"graph_ids": ["g"], "subqueries": False}}
    turn = make_turn({"input": "x", "tools": [FUNCTION, graph]})
    await answer(writer, turn)
    assert [tool["type"] for tool in upstream.body["tools"]] == ["function"]
    assert [receipt.param for receipt in turn.receipts] == ["tools[1]"]


async def test_a_json_object_is_asked_for_in_words(upstream: FakeWriter, writer: Writer) -> None:
    request = {"input": "x", "instructions": "Be brief.", "text": {"format": {"type": "json_object"}}}
    turn = make_turn(request)
    await answer(writer, turn)
    assert "response_format" not in upstream.body
    assert "JSON object" in upstream.body["messages"][0]["content"]
    assert [(one.param, one.action) for one in turn.receipts] == [("text.format", "rewritten")]


async def test_a_schema_is_sent(upstream: FakeWriter, writer: Writer) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    wanted = {"type": "json_schema", "name": "n", "schema": schema}
    await answer(writer, make_turn({"input": "x", "text": {"format": wanted}}))
    assert upstream.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema},
    }


async def test_only_what_it_takes_is_sent(upstream: FakeWriter, writer: Writer) -> None:
    request = {
        "input": "x",
        "temperature": 0.5,
        "top_p": 0.5,
        "presence_penalty": 1,
        "frequency_penalty": 1,
        "max_output_tokens": 20,
        "top_logprobs": 3,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "high"},
        "safety_identifier": "s",
        "stop": ["END"],
        "seed": 3,
        "tools": [FUNCTION],
    }
    await answer(writer, make_turn(request))
    sent = set(upstream.body) - {"model", "messages", "stream", "stream_options", "tools"}
    assert sent == {"temperature", "top_p", "max_tokens", "logprobs", "stop"}
    taken = writer.capabilities.parameters
    assert {"temperature", "top_p", "max_output_tokens", "stop"} == taken


async def test_how_closely_to_look_leaves_a_receipt(upstream: FakeWriter, writer: Writer) -> None:
    part = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "high"}
    turn = make_turn({"input": [{"role": "user", "content": [part]}]})
    await answer(writer, turn)
    [sent] = upstream.body["messages"][0]["content"]
    assert sent == {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert [receipt.param for receipt in turn.receipts] == ["input[0].content[0].detail"]


@pytest.mark.parametrize(
    ("status", "body", "code", "as_status"),
    [
        (400, error("messages must not be empty"), "upstream_rejected", 400),
        (401, error("Invalid key: writer-very-secret-key", "Unauthorized"), "upstream_auth", 502),
        (404, error("The model palmyra-x9 was not found", "NotFound"), "model_not_found", 404),
        (429, error("Too many requests", "TooManyRequests"), "rate_limit_exceeded", 429),
        (400, error("The input exceeds the context window of the model"), "context_length_exceeded", 400),
        (503, error("Try again later", "ServiceUnavailable"), "model_overloaded", 503),
    ],
)
async def test_errors(
    upstream: FakeWriter, writer: Writer, status: int, body: bytes, code: str, as_status: int
) -> None:
    upstream.says(refusal(status, body, x_request_id="req-9"))
    with pytest.raises(UpstreamError) as caught:
        await batches(writer, make_turn())
    assert (caught.value.payload.code, caught.value.status) == (code, as_status)
    assert caught.value.payload.message.endswith("(upstream request id req-9)")
    assert KEY not in caught.value.payload.message


async def test_an_error_in_the_stream_has_its_words(upstream: FakeWriter, writer: Writer) -> None:
    upstream.plays(Script((Text("Once"),), "error"))
    made = await answer(writer, make_turn())
    assert (made.status, told(made)) == ("failed", ["!Once"])
    assert made.error is not None
    assert "The model crashed." in made.error.message


async def test_models(writer: Writer) -> None:
    assert await writer.models() == [MODEL]


@pytest.mark.parametrize("path", ["", "/", "/chat"])
async def test_made_from_a_configuration(
    upstream: FakeWriter, http: UpstreamClient, tmp_path: Path, path: str
) -> None:
    config = WriterSettings(type="writer", name="w", base_url=upstream.base_url + path, api_key=Secret(KEY))
    assert told(await answer(Writer(config, environment(http, tmp_path)), make_turn("Hi"))) == ["Hi"]
    assert BASE_URL == "https://api.writer.com/v1"


def test_a_bad_body_is_seen() -> None:
    """The check itself: it must see what a lenient one lets through."""
    fake = FakeWriter()
    good: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "stop": ["END"],
        "tool_choice": {"value": "auto"},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    }
    headers = {"authorization": f"Bearer {KEY}"}
    assert fake.mistakes(Received("POST", "/v1/chat", headers, good)) == []
    for bad in (
        {"tool_choice": "auto"},
        {"tool_choice": {"value": "any"}},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "bogus", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
        {"stop": "x", "seed": 1},
        {"stop": [1]},
    ):
        assert len(fake.mistakes(Received("POST", "/v1/chat", headers, good | bad))) >= 1, bad
