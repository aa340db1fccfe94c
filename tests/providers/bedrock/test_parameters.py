"""What a Converse body has beside its conversation, by what each model takes."""

import json
from typing import Any

import pytest

from antiphon.providers.bedrock.models import OTHER, find
from tests.providers.bedrock.bodies import (
    CALL,
    CLAUDE_3,
    CLAUDE_4,
    CLAUDE_4_5,
    CLAUDE_4_6,
    CLAUDE_5_5,
    GPT,
    GPT_OSS,
    LLAMA,
    NOVA,
    NOVA_2,
    OPAQUE,
    OUTPUT,
    THOUGHT,
    WEATHER,
    body,
    sent,
)


def test_sampling() -> None:
    request = {"input": "Hi", "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 20, "stop": "END"}
    assert body({**request, "top_k": 5}, CLAUDE_3) == {
        "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
        "inferenceConfig": {"maxTokens": 20, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 5},
    }


@pytest.mark.parametrize(
    ("model", "request_", "inference", "receipts"),
    [
        (CLAUDE_3, {"temperature": 1.5}, {"temperature": 1}, {"temperature": "rewritten"}),
        (CLAUDE_4_5, {"temperature": 1, "top_p": 1}, {"temperature": 1}, {"top_p": "dropped"}),
        (CLAUDE_4_5, {"top_p": 0.5}, {"topP": 0.5}, {}),
        (CLAUDE_5_5, {"temperature": 1, "top_k": 3}, None, {"temperature": "dropped", "top_k": "dropped"}),
        (LLAMA, {"top_k": 3}, None, {"top_k": "dropped"}),
        (LLAMA, {"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}, {}),
    ],
)
def test_what_a_model_does_not_take(
    model: str, request_: dict[str, Any], inference: Any, receipts: dict[str, str]
) -> None:
    made, left = sent({"input": "Hi", **request_}, model)
    assert made.get("inferenceConfig") == inference
    assert left == receipts


@pytest.mark.parametrize(
    ("model", "own"),
    [(NOVA, {"inferenceConfig": {"topK": 3}}), ("cohere.command-r-v1:0", {"k": 3})],
)
def test_where_top_k_goes(model: str, own: dict[str, Any]) -> None:
    assert body({"input": "Hi", "top_k": 3}, model)["additionalModelRequestFields"] == own


@pytest.mark.parametrize(
    ("model", "effort", "own", "effort_sent"),
    [
        (CLAUDE_4, "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}, None),
        (CLAUDE_4_5, "xhigh", {"thinking": {"type": "enabled", "budget_tokens": 32768}}, None),
        (CLAUDE_4_6, "high", {"thinking": {"type": "adaptive"}}, "high"),
        (CLAUDE_4_6, "none", None, None),
        ("anthropic.claude-opus-5", "none", {"thinking": {"type": "disabled"}}, None),
        (NOVA_2, "low", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}, None),
        (GPT_OSS, "medium", {"reasoning_effort": "medium"}, None),
        ("qwen.qwen3-32b-v1:0", "high", {"reasoning_config": "high"}, None),
        (GPT, "xhigh", {"reasoning": {"effort": "xhigh"}}, None),
        (GPT, "none", {"reasoning": {"effort": "none"}}, None),
    ],
)
def test_effort(model: str, effort: str, own: Any, effort_sent: str | None) -> None:
    made = body({"input": "Hi", "reasoning": {"effort": effort}}, model)
    assert made.get("additionalModelRequestFields") == own
    assert made.get("outputConfig", {}).get("effort") == effort_sent
    if own and "budget_tokens" in own.get("thinking", {}):
        assert made["inferenceConfig"]["maxTokens"] > own["thinking"]["budget_tokens"]


@pytest.mark.parametrize(
    ("model", "request_", "receipts"),
    [
        (CLAUDE_3, {}, {"reasoning": "dropped"}),
        (LLAMA, {}, {"reasoning": "dropped"}),
        (CLAUDE_4, {"max_output_tokens": 1024}, {"reasoning": "dropped"}),
        (CLAUDE_4, {"tools": [WEATHER], "tool_choice": "required"}, {"reasoning": "dropped"}),
        (CLAUDE_4, {"temperature": 0.5}, {"temperature": "dropped"}),
        (CLAUDE_4_6, {"top_k": 2}, {"top_k": "dropped"}),
        (CLAUDE_4_6, {"reasoning": {"effort": "xhigh"}}, {"reasoning.effort": "rewritten"}),
        (CLAUDE_5_5, {"reasoning": {"effort": "none"}}, {"reasoning.effort": "rewritten"}),
        (NOVA_2, {"max_output_tokens": 100}, {"max_output_tokens": "dropped"}),
        (NOVA_2, {"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning.summary": "dropped"}),
        (GPT_OSS, {"reasoning": {"effort": "xhigh"}}, {"reasoning.effort": "rewritten"}),
        (GPT_OSS, {"reasoning": {"effort": "none"}}, {"reasoning.effort": "rewritten"}),
    ],
)
def test_thinking_has_its_conditions(model: str, request_: dict[str, Any], receipts: dict[str, str]) -> None:
    _, left = sent({"input": "Hi", "reasoning": {"effort": "high"}, **request_}, model)
    assert left == receipts


def test_a_summary_is_asked_for() -> None:
    made = body({"input": "Hi", "reasoning": {"effort": "low", "summary": "auto"}}, CLAUDE_4_6)
    assert made["additionalModelRequestFields"]["thinking"] == {"type": "adaptive", "display": "summarized"}


def test_thinking_cannot_begin_between_a_call_and_its_result() -> None:
    request = {"tools": [WEATHER], "reasoning": {"effort": "low"}}
    asked = {"role": "user", "content": "Hi"}
    made, receipts = sent({"input": [asked, CALL, OUTPUT], **request}, CLAUDE_4)
    assert "additionalModelRequestFields" not in made
    assert receipts == {"reasoning": "suppressed"}
    second = [{**CALL, "call_id": "call_2"}, {**OUTPUT, "call_id": "call_2"}]
    for items in ([asked, THOUGHT, CALL, OUTPUT, *second], [asked, CALL, OUTPUT, asked]):
        assert "additionalModelRequestFields" in body({"input": items, **request}, CLAUDE_4)


@pytest.mark.parametrize(
    ("tier", "sent_as", "receipts"),
    [
        ("auto", None, {}),
        ("default", None, {}),
        ("flex", {"type": "flex"}, {}),
        ("priority", {"type": "priority"}, {}),
        ("batch", None, {"service_tier": "dropped"}),
    ],
)
def test_service_tier(tier: str, sent_as: Any, receipts: dict[str, str]) -> None:
    made, left = sent({"input": "Hi", "service_tier": tier})
    assert (made.get("serviceTier"), left) == (sent_as, receipts)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}


def formatted(schema: dict[str, Any] | None, model: str) -> tuple[dict[str, Any], dict[str, str]]:
    kind: dict[str, Any] = {"type": "json_object"}
    if schema is not None:
        kind = {"type": "json_schema", "name": "n", "description": "d", "schema": schema}
    return sent({"input": "Hi", "text": {"format": kind}}, model)


def test_a_schema_that_bedrock_enforces() -> None:
    made, receipts = formatted(SCHEMA, CLAUDE_4_5)
    wanted = made["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert (wanted["name"], wanted["description"]) == ("n", "d")
    assert json.loads(wanted["schema"])["additionalProperties"] is False
    assert receipts == {"text.format": "suppressed"}


@pytest.mark.parametrize(
    ("schema", "model"),
    [(SCHEMA, LLAMA), ({"type": "object", "additionalProperties": True}, CLAUDE_4_5), (None, CLAUDE_4_5)],
)
def test_a_format_that_the_model_is_told(schema: dict[str, Any] | None, model: str) -> None:
    made, receipts = formatted(schema, model)
    assert "JSON" in made["system"][-1]["text"]
    assert "outputConfig" not in made
    assert receipts == {"text.format": "rewritten"}


def test_cache_points() -> None:
    request = {"input": "Hi", "instructions": "Be brief.", "tools": [WEATHER]}
    point = {"cachePoint": {"type": "default"}}
    claude = body(request, CLAUDE_4_5, cache=True)
    assert [claude["system"][-1], claude["messages"][-1]["content"][-1]] == [point, point]
    assert claude["toolConfig"]["tools"][-1] == point
    nova = body(request, NOVA, cache=True)
    assert [nova["system"][-1], nova["messages"][-1]["content"][-1]] == [point, point]
    assert point not in nova["toolConfig"]["tools"]
    for model in (LLAMA, CLAUDE_3, OPAQUE):
        assert "cachePoint" not in json.dumps(body(request, model, cache=True))


def test_a_guardrail() -> None:
    guardrail = {"guardrailIdentifier": "abc", "guardrailVersion": "1"}
    assert body("Hi", guardrail=guardrail)["guardrailConfig"] == guardrail


# --- models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["qwen.qwen3-32b-v1:0", "zai.glm-4.7-flash"])
def test_models_that_bedrock_holds_to_a_schema(model: str) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object", "properties": {}}}
    made = body({"input": "Hi", "text": {"format": form}}, model)
    assert made["outputConfig"]["textFormat"]["type"] == "json_schema"


def test_a_model_is_known_by_its_name_or_by_what_it_is_like() -> None:
    assert find(f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{CLAUDE_4_6}") == find(CLAUDE_4_6)
    assert find(CLAUDE_4_6).thinking == "adaptive"
    assert find(CLAUDE_3).thinking is None
    assert find(OPAQUE) == find(LLAMA) == OTHER
    assert find(OPAQUE, NOVA_2) == find(NOVA_2)
