"""Sampling, formats and thinking in the bodies of `generateContent`."""

from typing import Any

import pytest

from tests.providers.gemini.bodies import OLD, TIME, body, build, receipts


def test_sampling() -> None:
    made = body(
        {
            "temperature": 0.5,
            "top_p": 0.9,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
            "max_output_tokens": 100,
            "top_logprobs": 3,
            "seed": 7,
            "top_k": 40,
            "stop": "END",
            "service_tier": "flex",
            "store": False,
            "metadata": {"a": "b"},
        }
    )
    assert made["serviceTier"] == "flex"
    assert made["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "maxOutputTokens": 100,
        "responseLogprobs": True,
        "logprobs": 3,
        "seed": 7,
        "topK": 40,
        "stopSequences": ["END"],
    }


def test_more_sampling() -> None:
    made = body({"stop": ["A", "B"], "include": ["message.output_text.logprobs"], "service_tier": "auto"})
    assert made["generationConfig"] == {"stopSequences": ["A", "B"], "responseLogprobs": True}
    assert "serviceTier" not in made
    made, turn = build({"service_tier": "batch"})
    assert "serviceTier" not in made
    assert receipts(turn) == {"service_tier": "dropped"}


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}


def test_formats() -> None:
    def made(format: dict[str, Any], **more: Any) -> Any:
        return body({"text": {"format": format}, **more}).get("generationConfig")

    wanted = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
    assert made({"type": "text"}) is None
    assert made({"type": "json_object"}) == {"responseMimeType": "application/json"}
    assert made(wanted) == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert made(wanted | {"schema": {"const": "a"}}) == {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "STRING", "enum": ["a"]},
    }
    assert made(wanted, tools=[TIME])["responseJsonSchema"] == SCHEMA


def test_older_models_have_no_format_beside_functions() -> None:
    wanted = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    made, turn = build({"text": {"format": wanted}, "tools": [TIME]}, OLD)
    assert "generationConfig" not in made
    [part] = made["systemInstruction"]["parts"]
    assert '"additionalProperties":false' in part["text"]
    assert receipts(turn) == {"text.format": "rewritten"}


@pytest.mark.parametrize(
    ("name", "effort", "config", "is_rewritten"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}, False),
        ("gemini-2.5-flash", "low", {"thinkingBudget": 1024}, False),
        ("gemini-2.5-flash", "medium", {"thinkingBudget": 8192}, False),
        ("gemini-2.5-flash", "high", {"thinkingBudget": 24576}, False),
        ("gemini-2.5-flash", "xhigh", {"thinkingBudget": 24576}, True),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}, True),
        ("gemini-2.5-pro", "xhigh", {"thinkingBudget": 32768}, False),
        ("gemini-3-flash-preview", "none", {"thinkingLevel": "MINIMAL"}, True),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}, True),
        ("gemini-3.1-pro-preview", "low", {"thinkingLevel": "LOW"}, False),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}, False),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH"}, True),
        ("gemini-4-argon", "high", {"thinkingLevel": "HIGH"}, False),
        ("gemini-flash-latest", "xhigh", {"thinkingLevel": "HIGH"}, True),
        ("publishers/google/models/gemini-3.5-flash", "low", {"thinkingLevel": "LOW"}, False),
    ],
)
def test_efforts(name: str, effort: str, config: dict[str, Any], is_rewritten: bool) -> None:
    made, turn = build({"reasoning": {"effort": effort}}, name)
    assert made["generationConfig"] == {"thinkingConfig": config}
    assert receipts(turn) == ({"reasoning.effort": "rewritten"} if is_rewritten else {})


def test_summaries_are_thoughts() -> None:
    made, turn = build({"reasoning": {"summary": "auto"}})
    assert made["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}
    assert turn.receipts == []
    made, turn = build({"reasoning": {"summary": "detailed", "effort": "low"}})
    assert made["generationConfig"] == {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"}}
    assert receipts(turn) == {"reasoning.summary": "unmet"}
    made = body({"reasoning": {"summary": "auto", "effort": "none"}}, OLD)
    assert made["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}}


@pytest.mark.parametrize("name", ["gemini-2.0-flash", "gemma-3-27b-it", "endpoints/123"])
def test_models_that_are_not_known_to_think(name: str) -> None:
    made, turn = build({"reasoning": {"effort": "low"}}, name)
    assert "generationConfig" not in made
    assert receipts(turn) == {"reasoning": "dropped"}
