"""Tools, thinking, formats and limits in the body of `/v1/messages`, model by model."""

import json
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import AnthropicBetaParam, ToolUnionParam
from anthropic.types.beta import BetaToolUnionParam

from antiphon.providers.anthropic.parameters import _BETAS
from antiphon.providers.anthropic.request import AnthropicOptions, prepare
from antiphon.providers.base import Turn
from antiphon.spec.errors import SpecError
from tests.providers.anthropic.bodies import (
    OLD,
    SAMPLING,
    WEATHER,
    body,
    build,
    call,
    output,
    receipts,
    thought,
    types,
    user,
)
from tests.providers.compose import make_turn

# --- tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"type": "function", "name": "get_weather"}, {"type": "tool", "name": "get_weather"}),
        ({"type": "custom", "name": "sql"}, {"type": "tool", "name": "sql"}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "sql"}]},
            {"type": "any"},
        ),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    request = {"input": "Hi", "tools": [WEATHER, {"type": "custom", "name": "sql"}]}
    if choice is not None:
        request["tool_choice"] = choice
    assert body(request).get("tool_choice") == sent
    alone = body({**request, "parallel_tool_calls": False})["tool_choice"]
    if choice == "none":
        assert alone == {"type": "none"}
    else:
        assert alone == {"type": "auto", **(sent or {}), "disable_parallel_tool_use": True}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1"])
def test_a_model_that_cannot_be_made_to_call(model: str) -> None:
    request = {"input": "Hi", "tools": [WEATHER], "tool_choice": "required"}
    made, turn = build(request, model=model)
    assert made["tool_choice"] == {"type": "auto"}
    assert receipts(turn) == {"tool_choice": "rewritten"}
    with pytest.raises(SpecError, match="cannot be made to call"):
        build(request, model=model, strict=True)
    assert body(request, model="claude-opus-5")["tool_choice"] == {"type": "any"}


def test_tools_that_anthropic_runs_itself_are_passed_on() -> None:
    search = {"type": "anthropic:web_search_20250305", "name": "web_search", "max_uses": 2}
    request = {"input": "Hi", "tools": [search, WEATHER], "tool_choice": {**search}}
    made, turn = build(request)
    assert made["tools"][0] == {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    assert made["tool_choice"] == {"type": "tool", "name": "web_search"}
    assert receipts(turn) == {}


def test_blocks_of_such_tools_go_back() -> None:
    use: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "a"},
    }
    result: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    items = [
        user(),
        *(
            {"type": f"anthropic:{block['type']}", "id": f"i{n}", "status": "completed", "data": block}
            for n, block in enumerate((use, result))
        ),
        {"role": "assistant", "content": "Nothing."},
        {"type": "anthropic:odd", "id": "i9", "data": {"type": "text", "text": "no"}},
        user("Again"),
    ]
    made, turn = build({"input": items})
    assert made["messages"][1]["content"] == [use, result, {"type": "text", "text": "Nothing."}]
    assert receipts(turn) == {"input[4]": "dropped"}


def test_a_history_with_calls_declares_them() -> None:
    """Without any tool such a history is refused, and a compaction has none."""
    made = body({"input": [user(), call("a"), output("a")]})
    assert made["tools"] == [{"name": "get_weather", "input_schema": {"type": "object"}}]
    assert made["tool_choice"] == {"type": "none"}


def test_strict_tools() -> None:
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    exact = {"type": "function", "name": "f", "parameters": closed, "strict": True}
    loose = {"type": "function", "name": "g", "parameters": {"type": "object"}, "strict": True}
    made, turn = build({"input": "Hi", "tools": [exact, loose]})
    assert [tool.get("strict") for tool in made["tools"]] == [True, None]
    assert receipts(turn) == {"tools[1].strict": "suppressed"}
    assert "strict" not in body({"input": "Hi", "tools": [exact]}, model="claude-sonnet-4-0")["tools"][0]


def strict_tool(name: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "parameters": schema, "strict": True}


TEXT: dict[str, Any] = {"type": "string"}
SOME_TYPES: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
OPTIONAL = {f"p{n}": TEXT for n in range(12)}
NESTED = {"type": "array", "items": strict_tool("", OPTIONAL)["parameters"]}
UNIONS = {f"p{n}": SOME_TYPES if n % 2 else {"type": ["string", "null"]} for n in range(8)}


@pytest.mark.parametrize(
    ("tools", "strict", "limit"),
    [
        ([strict_tool(f"f{n}", {}) for n in range(22)], [True] * 20 + [None] * 2, "0 more strict tools"),
        (
            [strict_tool("a", OPTIONAL), strict_tool("b", OPTIONAL), strict_tool("c", {"x": TEXT})],
            [True, True, None],
            "0 more optional properties",
        ),
        (
            [
                strict_tool("a", {"x": NESTED}),
                strict_tool("b", OPTIONAL),
                strict_tool("c", {"x": TEXT}, ("x",)),
            ],
            [True, None, True],
            "11 more optional properties",
        ),
        (
            [strict_tool(name, UNIONS, tuple(UNIONS)) for name in "abc"],
            [True, True, None],
            "0 more properties of several types",
        ),
    ],
    ids=["tools", "optional", "nested", "unions"],
)
def test_a_tool_beyond_the_limits_is_less_strict_instead_of_refused(
    tools: list[dict[str, Any]], strict: list[bool | None], limit: str
) -> None:
    made, turn = build({"input": "Hi", "tools": tools})
    assert [tool.get("strict") for tool in made["tools"]] == strict
    lost = [f"tools[{n}].strict" for n, kept in enumerate(strict) if kept is None]
    assert [receipt.param for receipt in turn.receipts if receipt.param in lost] == lost
    assert all(limit in receipt.reason for receipt in turn.receipts if receipt.param in lost)


def test_a_format_shares_the_limits_with_the_tools() -> None:
    schema = strict_tool("", OPTIONAL | {"more": TEXT})["parameters"]
    format = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    tools = [strict_tool("a", OPTIONAL)]
    made, turn = build({"input": "Hi", "tools": tools, "text": {"format": format}})
    assert made["output_config"]["format"]["type"] == "json_schema"
    assert receipts(turn)["tools[0].strict"] == "suppressed"
    assert "strict" not in made["tools"][0]


def test_a_format_beyond_the_limits_is_asked_for_in_words() -> None:
    schema = strict_tool("", {f"p{n}": TEXT for n in range(25)})["parameters"]
    format = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    made, turn = build({"input": "Hi", "text": {"format": format}})
    assert "output_config" not in made
    assert receipts(turn)["text.format"] == "rewritten"


# --- thinking ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking", "effort"),
    [
        ("claude-haiku-4-5", {"effort": "low"}, {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-haiku-4-5", {"effort": "xhigh"}, {"type": "enabled", "budget_tokens": 32768}, None),
        ("claude-haiku-4-5", {"effort": "none"}, None, None),
        ("claude-opus-4-5", {"effort": "high"}, {"type": "enabled", "budget_tokens": 24576}, "high"),
        ("claude-opus-4-6", {"effort": "medium"}, {"type": "adaptive"}, "medium"),
        ("claude-opus-4-6", {"effort": "xhigh"}, {"type": "adaptive"}, "high"),
        ("claude-opus-4-7", {"effort": "xhigh"}, {"type": "adaptive"}, "xhigh"),
        ("claude-opus-4-7", {"effort": "none"}, None, None),
        ("claude-opus-5", {"effort": "none"}, {"type": "disabled"}, None),
        ("claude-sonnet-5", {"summary": "auto"}, {"type": "adaptive", "display": "summarized"}, None),
        ("claude-sonnet-5-5", {"effort": "none"}, {"type": "between_tools"}, None),
        ("claude-opus-5-5", {"effort": "none"}, None, "low"),
        ("claude-fable-5-2", {"effort": "low"}, {"type": "adaptive"}, "low"),
        ("claude-3-5-haiku-latest", {"effort": "low"}, None, None),
        ("claude-opus-5-5", None, None, None),
        ("some-imitation", {"effort": "low"}, {"type": "enabled", "budget_tokens": 2048}, None),
    ],
)
def test_effort(model: str, reasoning: Any, thinking: Any, effort: str | None) -> None:
    made = body({"input": "Hi", **({"reasoning": reasoning} if reasoning else {})}, model=model)
    assert made.get("thinking") == thinking
    assert made.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize(
    ("model", "reasoning", "told"),
    [
        ("claude-opus-4-6", {"effort": "xhigh"}, {"reasoning.effort": "rewritten"}),
        ("claude-opus-5-5", {"effort": "none"}, {"reasoning.effort": "rewritten"}),
        ("claude-3-5-haiku-latest", {"effort": "low"}, {"reasoning": "dropped"}),
        ("claude-opus-5", {"effort": "low", "summary": "concise"}, {"reasoning.summary": "rewritten"}),
        ("claude-opus-5", {"effort": "low", "summary": "auto"}, {}),
        ("some-imitation", {"effort": "low", "summary": "auto"}, {"reasoning.summary": "dropped"}),
    ],
)
def test_what_becomes_of_effort_is_told(model: str, reasoning: Any, told: dict[str, str]) -> None:
    assert receipts(build({"input": "Hi", "reasoning": reasoning}, model=model)[1]) == told


def test_a_budget_leaves_room_for_the_answer() -> None:
    request = {"input": "Hi", "reasoning": {"effort": "high"}, "max_output_tokens": 2000}
    assert body(request)["thinking"] == {"type": "enabled", "budget_tokens": 1600}
    made, turn = build({**request, "max_output_tokens": 1024})
    assert "thinking" not in made
    assert receipts(turn) == {"reasoning": "dropped"}


def test_a_forced_call_and_a_budget_exclude_each_other() -> None:
    request = {
        "input": "Hi",
        "tools": [WEATHER],
        "tool_choice": "required",
        "reasoning": {"effort": "low"},
    }
    made, turn = build(request)
    assert made["tool_choice"] == {"type": "any"}
    assert "thinking" not in made
    assert receipts(turn) == {"reasoning": "dropped"}
    adaptive = body(request, model="claude-opus-5")
    assert (adaptive["tool_choice"], adaptive["thinking"]) == ({"type": "any"}, {"type": "adaptive"})


def test_a_budget_does_not_begin_in_the_middle_of_a_tool_loop() -> None:
    request = {"input": [user(), call("a"), output("a")], "tools": [WEATHER], "reasoning": {"effort": "low"}}
    made, turn = build(request)
    assert "thinking" not in made
    assert receipts(turn) == {"reasoning": "suppressed"}
    signed = [user(), thought("Hm"), call("a"), output("a"), call("b"), output("b")]
    assert "thinking" in body({**request, "input": signed})
    assert "thinking" in body(
        {**request, "input": [*request["input"], {"role": "assistant", "content": "It rains."}, user()]}
    )
    assert body(request, model="claude-opus-4-6")["thinking"] == {"type": "adaptive"}


def test_thinking_that_no_longer_fits_its_conversation_is_dropped_there() -> None:
    """Newer models refuse a whole request for that, unless they are told to drop it."""
    items = [user(), thought("Hm"), call("a"), output("a")]
    request = {"input": items, "tools": [WEATHER]}
    binding = {"prefix_mismatch_behavior": "drop_block"}
    turn = make_turn(request, model="claude-opus-5-5")
    prepared = prepare(turn, AnthropicOptions())
    assert prepared.betas == ("thinking-binding-controls-2026-08-01",)
    assert prepared.body["thinking"] == {"type": "adaptive", "block_binding": binding}
    made = body({**request, "reasoning": {"effort": "high", "summary": "auto"}}, model="claude-haiku-5-5")
    assert made["thinking"] == {"type": "adaptive", "display": "summarized", "block_binding": binding}
    assert "thinking" not in body("Hi", model="claude-opus-5-5")
    assert "thinking" not in body(request, model="claude-opus-5")


def test_a_model_that_does_not_think_gets_no_thinking_back() -> None:
    items = [user(), thought("Hm"), call("a"), output("a")]
    request = {"input": items, "tools": [WEATHER], "reasoning": {"effort": "none"}}
    made, turn = build(request, model="claude-haiku-5-5")
    assert made["thinking"] == {"type": "disabled"}
    assert types(made["messages"][1]) == ["tool_use"]
    assert receipts(turn) == {"input.reasoning": "suppressed"}
    assert types(body(request)["messages"][1]) == ["thinking", "tool_use"]


# --- formats ----------------------------------------------------------------------------------------------


def wants(schema: dict[str, Any], **options: Any) -> tuple[dict[str, Any], Turn]:
    format = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    return build({"input": "Hi", "text": {"format": format}}, **options)


def test_a_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    made, turn = wants(schema)
    assert made["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
    }
    assert receipts(turn) == {"text.format": "suppressed"}


@pytest.mark.parametrize(
    ("schema", "model"),
    [
        ({"type": "object", "properties": {}}, "claude-sonnet-4-0"),
        ({"type": "object", "properties": {}}, "some-imitation"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "claude-haiku-4-5"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "claude-haiku-4-5"),
    ],
)
def test_a_schema_that_cannot_be_sent_is_told(schema: dict[str, Any], model: str) -> None:
    made, turn = wants(schema, model=model)
    assert "output_config" not in made
    assert json.dumps(schema, separators=(",", ":")) in made["system"][-1]["text"]
    assert receipts(turn) == {"text.format": "rewritten"}


def test_json_without_a_schema_is_asked_for() -> None:
    made, turn = build(
        {"input": "Hi", "instructions": "Be brief.", "text": {"format": {"type": "json_object"}}}
    )
    assert len(made["system"]) == 2
    assert "JSON object" in made["system"][1]["text"]
    assert receipts(turn) == {"text.format": "rewritten"}


# --- the rest ---------------------------------------------------------------------------------------------


def test_the_limit() -> None:
    assert body({"input": "Hi", "max_output_tokens": 50}, max_tokens=100)["max_tokens"] == 50
    made, turn = build("Hi", max_tokens=100)
    assert made["max_tokens"] == 100
    assert turn.receipts == []
    made, turn = build("Hi", model="some-imitation", strict=True)
    assert made["max_tokens"] == 8192
    assert "guess" in turn.receipts[0].reason


def test_stop_tier_and_identity() -> None:
    made = body({"input": "Hi", "stop": "END", "service_tier": "default", "safety_identifier": "u1"})
    assert made["stop_sequences"] == ["END"]
    assert made["service_tier"] == "standard_only"
    assert made["metadata"] == {"user_id": "u1"}
    assert body({"input": "Hi", "stop": ["A", "B"]})["stop_sequences"] == ["A", "B"]
    assert body({"input": "Hi", "service_tier": "priority"})["service_tier"] == "auto"
    assert "service_tier" not in body({"input": "Hi", "service_tier": "auto"})
    assert receipts(build({"input": "Hi", "service_tier": "flex"})[1]) == {"service_tier": "dropped"}


def test_sampling_is_only_for_the_older_version() -> None:
    request = {"input": "Hi", "temperature": 0.5, "top_p": 0.9, "top_k": 5}
    assert not set(SAMPLING) & body(request).keys()
    assert {name: body(request, version=OLD, model="some-imitation")[name] for name in SAMPLING} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
    }
    made, turn = build(request, version=OLD)
    assert (made["temperature"], made["top_k"]) == (0.5, 5)
    assert receipts(turn) == {"top_p": "dropped"}
    assert set(receipts(build(request, version=OLD, model="claude-opus-5")[1])) == set(SAMPLING)
    thinking = build({**request, "reasoning": {"effort": "low"}}, version=OLD)
    assert set(receipts(thinking[1])) == set(SAMPLING)
    hot, turn = build({"input": "Hi", "temperature": 1.5}, version=OLD)
    assert hot["temperature"] == 1
    assert receipts(turn) == {"temperature": "rewritten"}
    assert body({"input": "Hi", "temperature": 0}, version=OLD)["temperature"] == 0


def test_what_is_cached() -> None:
    request = {
        "instructions": "Be brief.",
        "tools": [WEATHER, {"type": "custom", "name": "sql"}],
        "input": [user("1"), *_turn("a"), *_turn("b"), user("2")],
    }
    made = body(request, cache=True)
    mark = {"type": "ephemeral"}
    assert [tool.get("cache_control") for tool in made["tools"]] == [None, mark]
    assert made["system"][-1]["cache_control"] == mark
    spoken = [message["content"] for message in made["messages"] if message["role"] == "user"]
    assert [content[-1].get("cache_control") for content in spoken] == [None, mark, mark]
    assert "cache_control" not in json.dumps(body(request))


def _turn(id: str) -> list[dict[str, Any]]:
    return [thought(f"For {id}"), call(id), output(id)]


def test_the_betas_that_tools_need_are_named() -> None:
    def betas(*types: str) -> tuple[str, ...]:
        tools = [{"type": f"anthropic:{one}", "name": "a"} for one in types]
        return prepare(
            make_turn({"input": "Hi", "tools": tools}, model="claude-opus-5"), AnthropicOptions()
        ).betas

    assert betas("web_search_20250305", "code_execution_20260120") == ()
    assert betas("advisor_20260301", "computer_20251124") == (
        "advisor-tool-2026-03-01",
        "computer-use-2025-11-24",
    )


def test_every_tool_that_only_a_beta_has_names_it() -> None:
    """As Anthropic's library knows them: what its plain types lack, and the names that a beta may have."""

    def kinds(union: Any) -> set[str]:
        return {
            kind
            for tool in get_args(union)
            for asked in get_args(get_type_hints(tool).get("type"))
            for kind in get_args(asked) or (asked,)
            if isinstance(kind, str)
        }

    assert kinds(BetaToolUnionParam) - kinds(ToolUnionParam) <= _BETAS.keys()
    assert set(_BETAS.values()) <= set(get_args(get_args(AnthropicBetaParam)[1]))
