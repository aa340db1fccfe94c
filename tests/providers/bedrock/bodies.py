"""Bodies of Converse for tests: made from requests, and held against AWS's own service model."""

import json
from typing import Any

from antiphon.providers.bedrock.models import find
from antiphon.providers.bedrock.request import prepare
from antiphon.spec.codec import encode
from tests.providers.bedrock.service_model import mistakes
from tests.providers.compose import make_turn
from tests.providers.fake_server import Received

CLAUDE_3 = "anthropic.claude-3-5-sonnet-20241022-v2:0"
CLAUDE_4 = "us.anthropic.claude-sonnet-4-20250514-v1:0"
CLAUDE_4_5 = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
CLAUDE_4_6 = "global.anthropic.claude-opus-4-6-v1"
CLAUDE_5_5 = "anthropic.claude-opus-5-5"
NOVA = "amazon.nova-pro-v1:0"
NOVA_2 = "us.amazon.nova-2-lite-v1:0"
GPT_OSS = "openai.gpt-oss-120b-1:0"
GPT = "openai.gpt-5.2"
LLAMA = "meta.llama3-1-8b-instruct-v1:0"
OPAQUE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"

PNG = "iVBORw0KGgoAAAANSUhEUg=="
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Looks out of the window.",
    "parameters": PARAMETERS,
}
CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Rain."}
PROOF = '{"reasoningText":{"text":"Hm.","signature":"c2ln"}}'
THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": PROOF}


def sent(
    request: str | dict[str, Any], model: str = CLAUDE_4_5, **options: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """The body, and the receipts by parameter."""
    turn = make_turn(request)
    body = json.loads(encode(prepare(turn, find(model), **options).body))
    for what in ("converse", "converse-stream"):
        assert mistakes(Received("POST", f"/model/m/{what}", {}, body)) == []
    return body, {receipt.param: receipt.action for receipt in turn.receipts}


def body(request: str | dict[str, Any], model: str = CLAUDE_4_5, **options: Any) -> dict[str, Any]:
    made, receipts = sent(request, model, **options)
    assert receipts == {}
    return made
