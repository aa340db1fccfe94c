"""Bodies for the Messages API, each checked against the official SDK's own request types."""

import json
from typing import Any

import pytest

from antiphon.providers.anthropic.request import LATEST, AnthropicOptions, prepare
from antiphon.providers.base import Turn, UpstreamError
from antiphon.spec.codec import encode
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.compose import make_turn
from tests.providers.fake_server import Received

OLD = "2023-06-01"
PNG = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SAMPLING = ("temperature", "top_p", "top_k")


def build(
    request: str | dict[str, Any] = "Hi",
    *,
    model: str = "claude-haiku-4-5",
    stream: bool = False,
    strict: bool = False,
    **shape: Any,
) -> tuple[dict[str, Any], Turn]:
    """The body as it goes out; the SDK's types must have nothing to say about it."""
    turn = make_turn(request, model=model, stream=stream)
    turn.strict = strict
    prepared = prepare(turn, AnthropicOptions("up", **{"cache": False, **shape}))
    body = json.loads(encode(prepared.body))
    known = body
    if shape.get("version", LATEST) < LATEST:
        known = {key: value for key, value in body.items() if key not in SAMPLING}
    headers = {"anthropic-beta": ",".join(prepared.betas)} if prepared.betas else {}
    assert FakeAnthropic().mistakes(Received("POST", "/v1/messages", headers, known)) == []
    counted = json.loads(encode(prepared.build_count_body()))
    assert FakeAnthropic().mistakes(Received("POST", "/v1/messages/count_tokens", headers, counted)) == []
    return body, turn


def body(request: str | dict[str, Any] = "Hi", **options: Any) -> dict[str, Any]:
    return build(request, **options)[0]


def receipts(turn: Turn) -> dict[str, str]:
    return {one.param: one.action for one in turn.receipts if one.action != "added"}


def refused(part: dict[str, Any]) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        body({"input": [{"role": "user", "content": [part]}]})
    assert caught.value.payload.param == "input[0].content[0]"
    assert caught.value.payload.code == "unsupported_content"
    return caught.value


def content(part: dict[str, Any]) -> Any:
    made = body({"input": [{"role": "user", "content": [part]}]})
    return made["messages"][0]["content"]


def call(id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": "get_weather", "arguments": arguments}


def output(id: str, text: Any = "rain", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": text, **fields}


def thought(text: str, signature: str = "sig") -> dict[str, Any]:
    block = {"type": "thinking", "thinking": text, "signature": signature}
    return {"type": "reasoning", "summary": [], "encrypted_content": json.dumps(block, ensure_ascii=False)}


def user(text: str = "Hi") -> dict[str, Any]:
    return {"role": "user", "content": text}


def roles(made: dict[str, Any]) -> list[str]:
    return [message["role"] for message in made["messages"]]


def types(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]
