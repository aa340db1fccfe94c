"""What is sent to a server of `/responses`: the context without our ids, and what its quirks demand."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_create_params import (
    ResponseCreateParamsStreaming,
)

from antiphon.providers.base import UpstreamError
from antiphon.providers.responses import ResponsesSettings
from antiphon.providers.responses.quirks import OPEN_RESPONSES, OPENAI, QUIRKS, choose
from antiphon.providers.responses.request import Proof, prepare
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.error_paths import literals
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Reasoning
from tests.providers.compose import make_turn
from tests.providers.conformance.scenarios import GIT, SQL, WEATHER
from tests.providers.responses.building import Json, body, build, receipts, sent
from tests.providers.typed_dicts import mistakes
from tests.spec.validators import objections

AI_GATEWAY, LMSTUDIO, VLLM, OLLAMA = (QUIRKS[name] for name in ("ai_gateway", "lmstudio", "vllm", "ollama"))


# --- the frame --------------------------------------------------------------------------------------------


def test_the_whole_context_is_sent_and_nothing_is_stored_upstream() -> None:
    request = {
        "input": "Hi",
        "previous_response_id": "resp_1",
        "store": True,
        "background": True,
        "metadata": {"a": "b"},
    }
    assert body(request, OPEN_RESPONSES) == {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
    }


def test_a_plain_request_is_asked_for_whole_and_a_padded_stream_without_padding() -> None:
    assert body("Hi")["stream_options"] == {"include_obfuscation": False}
    whole, _ = build("Hi", stream=False)
    assert "stream" not in whole
    assert "stream_options" not in whole


def test_what_the_specification_allows_fits_its_schema() -> None:
    request = {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "One."}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "blob"},
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": "fine"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Two.", "annotations": []}]},
            {"role": "user", "content": "Three."},
        ],
        "instructions": "Count.",
        "temperature": 0.5,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "top_logprobs": 2,
        "max_output_tokens": 100,
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "truncation": "auto",
        "service_tier": "standard",
        "safety_identifier": "u",
        "prompt_cache_key": "k",
        "tools": [WEATHER, {"type": "function", "name": "bare"}],
        "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "bare"}]},
        "reasoning": {"effort": "xhigh", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    }
    made = body(request, OPEN_RESPONSES)
    assert objections("CreateResponseBody", made) == []
    assert made["tools"][1] == {"type": "function", "name": "bare"}
    assert made["service_tier"] == "default"
    assert made["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]


def test_a_bad_body_is_caught() -> None:
    """The check of the official types is one: a wrong role, an unknown key and a wrong type are seen."""
    good = body({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]})
    spoiled: list[tuple[str, Any]] = [
        ("input.0.role", "bogus"),
        ("input.0.colour", "red"),
        ("input.0.content.0.text", 7),
        ("stop", ["END"]),
        ("tools", [{"type": "function", "name": "f"}]),
    ]
    for path, value in spoiled:
        bad: Any = json.loads(json.dumps(good))
        *way, last = path.split(".")
        place = bad
        for step in way:
            place = place[int(step) if step.isdecimal() else step]
        place[last] = value
        assert mistakes(bad, ResponseCreateParamsStreaming) != [], path


# --- items ------------------------------------------------------------------------------------------------


def test_items_lose_their_ids_and_states() -> None:
    items: list[Json] = [
        {"type": "message", "id": "msg_1", "role": "user", "content": "Hi", "status": "completed"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "log",
            "arguments": "{}",
            "namespace": "mcp__git",
            "status": "completed",
        },
        {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "x"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "c", "input": "SELECT"},
        {"type": "custom_tool_call_output", "id": "cto_1", "call_id": "call_2", "output": "y"},
    ]
    assert sent(items) == [{k: v for k, v in item.items() if k not in ("id", "status")} for item in items]


def test_assistant_texts_are_strings_and_keep_their_phase() -> None:
    parts = [
        {"type": "output_text", "text": "One. ", "annotations": []},
        {"type": "output_text", "text": "Two.", "annotations": []},
    ]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": parts, "phase": "commentary"}
    assert sent([message]) == [
        {"type": "message", "role": "assistant", "content": "One. Two.", "phase": "commentary"}
    ]
    assert sent([message], AI_GATEWAY) == [{"type": "message", "role": "assistant", "content": "One. Two."}]


def test_a_refusal_stays_one_where_it_can() -> None:
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": "No."}],
    }
    assert sent([message]) == [message]
    assert sent([message], VLLM) == [{"type": "message", "role": "assistant", "content": "No."}]


def test_unknown_items_and_parts_go_byte_for_byte() -> None:
    raw = b'{"type":"web_search_call", "id":"ws_1","status":"completed","x":[1.0, 2e3 ,"\\u00e9"]}'
    turn = make_turn("Hi", items=[Opaque(raw)])
    assert raw in encode(prepare(turn, OPENAI, "up").body)
    part = {"type": "acme:thing", "x": 1}
    assert sent([{"role": "user", "content": [part]}], OPEN_RESPONSES)[0]["content"] == [part]


def test_unknown_items_are_left_out_where_they_would_be_refused() -> None:
    made, turn = build(
        {"input": [{"type": "web_search_call", "id": "ws_1"}, {"role": "user", "content": "Hi"}]}, VLLM
    )
    assert [item["type"] for item in made["input"]] == ["message"]
    assert receipts(turn) == [("input[0]", "dropped")]


def test_unknown_fields_of_the_client_are_kept() -> None:
    message = {"type": "message", "role": "user", "content": "Hi", "acme:cache": True}
    assert sent([message], OPEN_RESPONSES) == [message]


# --- reasoning --------------------------------------------------------------------------------------------


def test_a_proof_goes_back_with_its_own_id() -> None:
    blob = Proof("rs_up", "gAAAA=").to_blob()
    item = {
        "type": "reasoning",
        "id": "rs_ours",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [{"type": "reasoning_text", "text": "Raw."}],
        "encrypted_content": blob,
    }
    assert sent([item]) == [
        {
            "type": "reasoning",
            "id": "rs_up",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAAA=",
        }
    ]


def test_a_blob_that_the_client_got_from_the_server_itself_is_passed_on() -> None:
    item: Json = {"type": "reasoning", "id": "rs_up", "summary": [], "encrypted_content": "gAAAA="}
    assert sent([item]) == [item]


@pytest.mark.parametrize("blob", [None, '[{"type":"reasoning.text"}]', '{"id":"x"}', '{"thinking":1}'])
def test_reasoning_without_a_proof_for_this_wire_is_left_out(blob: str | None) -> None:
    item: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": blob}
    made, turn = build({"input": [item]})
    assert made["input"] == []
    assert receipts(turn) == [("input[0]", "suppressed")]


def test_a_server_without_proofs_gets_the_words() -> None:
    item: Json = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    assert sent([item | {"encrypted_content": "x"}], VLLM) == [item]
    assert "include" not in body("Hi", VLLM)
    assert sent([item | {"content": None}], VLLM) == []


@given(st.text(), st.text())
def test_a_proof_survives_its_blob(id: str, encrypted: str) -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    turn = make_turn({"input": [item]})
    [reasoning] = turn.items
    assert isinstance(reasoning, Reasoning)
    reasoning.encrypted_content = Proof(id, encrypted).to_blob()
    [sent] = json.loads(encode(prepare(turn, OPENAI, "up").body))["input"]
    assert sent.get("encrypted_content", "") == encrypted
    assert sent.get("id", "") == id


# --- tools ------------------------------------------------------------------------------------------------


def test_tools_go_as_they_are() -> None:
    hosted = {"type": "web_search", "filters": {"allowed_domains": ["e.com"]}}
    made = body({"input": "Hi", "tools": [WEATHER, SQL, GIT, hosted]}, OPEN_RESPONSES)
    assert made["tools"] == [WEATHER, SQL, GIT, hosted]


def test_openai_wants_every_key_of_a_function() -> None:
    made = body({"input": "Hi", "tools": [{"type": "function", "name": "f"}]})
    assert made["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}
    ]


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "none",
        "required",
        {"type": "function", "name": "get_weather"},
        {"type": "custom", "name": "run_sql"},
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "s", "name": "t"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
    ],
)
def test_every_choice_is_passed_on(choice: Any) -> None:
    assert body({"input": "Hi", "tools": [WEATHER, SQL], "tool_choice": choice})["tool_choice"] == choice


def test_a_server_with_only_functions_gets_functions() -> None:
    request = {
        "input": [
            {"type": "custom_tool_call", "call_id": "c1", "name": "run_sql", "input": "SELECT"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "x"},
            {
                "type": "function_call",
                "call_id": "c2",
                "name": "log",
                "arguments": "",
                "namespace": "mcp__git",
            },
            {"type": "function_call_output", "call_id": "c2", "output": "y"},
        ],
        "tools": [SQL, GIT, {"type": "mcp", "server_label": "s"}],
        "tool_choice": {"type": "custom", "name": "run_sql"},
    }
    made = body(request, LMSTUDIO)
    assert [(tool["type"], tool.get("name")) for tool in made["tools"]] == [
        ("function", "run_sql"),
        ("function", "mcp__git__log"),
        ("mcp", None),
    ]
    assert made["tool_choice"] == {"type": "function", "name": "run_sql"}
    assert made["input"] == [
        {"type": "function_call", "call_id": "c1", "name": "run_sql", "arguments": '{"input": "SELECT"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "function_call", "call_id": "c2", "name": "mcp__git__log", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "y"},
    ]


def test_choices_for_a_server_with_only_functions() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}
    request = {"input": "Hi", "tools": [{"type": "function", "name": "f"}], "tool_choice": allowed}
    assert body(request, VLLM)["tool_choice"] == "required"
    made, turn = build(request | {"tool_choice": {"type": "custom", "name": "gone"}}, VLLM)
    assert made["tool_choice"] == "auto"
    assert receipts(turn) == [("tool_choice", "dropped")]
    hosted = {"type": "mcp", "server_label": "s"}
    assert body(request | {"tool_choice": hosted}, LMSTUDIO)["tool_choice"] == hosted


def test_ollama_has_no_choice_and_no_hosted_tools() -> None:
    request: Json = {"input": "Hi", "tools": [WEATHER, {"type": "web_search"}]}
    made, turn = build(request | {"tool_choice": "required"}, OLLAMA)
    assert [tool["name"] for tool in made["tools"]] == ["get_weather"]
    assert "tool_choice" not in made
    assert receipts(turn) == [("tools[1]", "dropped"), ("tool_choice", "dropped")]
    assert "tools" not in body(request | {"tool_choice": "none"}, OLLAMA)


# --- parameters -------------------------------------------------------------------------------------------


def test_fields_outside_the_specification_are_passed_on() -> None:
    request = {
        "input": "Hi",
        "prompt_cache_retention": "24h",
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "user": "u",
        "client_metadata": {"a": "b"},
    }
    made = body(request)
    assert made["prompt_cache_retention"] == "24h"
    assert made["context_management"] == request["context_management"]
    assert made["safety_identifier"] == "u"
    assert "client_metadata" not in made
    assert body({"input": "Hi", "stop": ["END"], "top_k": 5}, OPEN_RESPONSES)["top_k"] == 5


def test_what_openai_refuses_is_told() -> None:
    made, turn = build({"input": "Hi", "stop": ["END"], "acme:note": 1})
    assert not {"stop", "acme:note"} & made.keys()
    assert receipts(turn) == [("acme:note", "dropped"), ("stop", "dropped")]
    assert body({"input": "Hi", "acme:note": 1}, OPEN_RESPONSES)["acme:note"] == 1
    strict = make_turn({"input": "Hi", "stop": ["END"]})
    strict.strict = True
    with pytest.raises(SpecError):
        prepare(strict, OPENAI, "up")


def test_what_can_be_included_is_asked_for() -> None:
    asked = ["web_search_call.action.sources", "reasoning.encrypted_content"]
    assert body({"input": "Hi", "include": asked})["include"] == asked
    assert body({"input": "Hi", "include": asked}, AI_GATEWAY)["include"] == ["reasoning.encrypted_content"]
    assert body({"input": "Hi", "top_logprobs": 3}, VLLM)["include"] == ["message.output_text.logprobs"]


def test_efforts_and_summaries() -> None:
    request: Json = {"input": "Hi", "reasoning": {"effort": "xhigh", "summary": "auto"}}
    assert body(request)["reasoning"] == {"effort": "xhigh", "summary": "auto"}
    made, turn = build(request, OLLAMA)
    assert made["reasoning"] == {"effort": "high"}
    assert receipts(turn) == [("reasoning.effort", "rewritten"), ("reasoning.summary", "dropped")]


def test_a_tier_that_is_none_for_single_requests() -> None:
    made, turn = build({"input": "Hi", "service_tier": "batch"})
    assert "service_tier" not in made
    assert receipts(turn) == [("service_tier", "dropped")]


def test_formats() -> None:
    text: Json = {"format": {"type": "json_object"}, "verbosity": "low"}
    assert body({"input": "Hi", "text": text})["text"] == text
    made, turn = build({"input": "Hi", "text": text}, OLLAMA)
    assert made["text"]["format"]["type"] == "json_schema"
    assert "verbosity" not in made["text"]
    assert receipts(turn) == [("text.format", "rewritten")]
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    assert body({"input": "Hi", "text": {"format": schema}})["text"] == {"format": schema}


# --- quirks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("native", {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}),
        (
            "text",
            {"type": "message", "role": "assistant", "content": '[Tool Call: f({"a":1}) -> call_id: call_1]'},
        ),
        (
            "comment",
            {
                "type": "message",
                "role": "assistant",
                "content": '<!-- prior-tool: f | id: call_1 | args: {"a":1} -->',
            },
        ),
        ("drop", None),
    ],
)
def test_how_calls_of_earlier_turns_are_told(mode: Any, expected: Json | None) -> None:
    items: list[Json] = [
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "fine"},
    ]
    quirks = choose("https://gateway.example", "ai_gateway", tool_history=mode)
    assert sent(items, quirks) == [*([expected] if expected else []), items[1]]


def test_the_source_form_needs_the_explicit_profile() -> None:
    assert choose("https://x.example", "ai_gateway").tool_history == "text"
    assert {quirks.tool_history for name, quirks in QUIRKS.items() if name != "ai_gateway"} == {"native"}


@pytest.mark.parametrize(
    ("mode", "instructions", "first"),
    [
        ("instructions", "Be brief.", "user"),
        ("developer", None, "developer"),
        ("both", "Be brief.", "developer"),
    ],
)
def test_where_the_system_prompt_goes(mode: Any, instructions: str | None, first: str) -> None:
    quirks = choose("https://x.example", system_prompt=mode)
    made = body({"input": "Hi", "instructions": "Be brief."}, quirks)
    assert made.get("instructions") == instructions
    assert made["input"][0]["role"] == first


def test_quirks_are_found_by_host_or_name() -> None:
    assert choose("https://api.openai.com/v1").name == "openai"
    assert choose("http://127.0.0.1:1234/v1").name == "open_responses"
    assert choose("https://api.openai.com/v1", "vllm").name == "vllm"


def test_the_configuration_knows_every_quirk() -> None:
    [field] = [one for one in msgspec.structs.fields(ResponsesSettings) if one.name == "quirks"]
    assert set(literals(field.type)) == set(QUIRKS)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "input_image", "image_url": "https://e.com/a.png"}, "data URLs"),
        ({"type": "input_file", "filename": "a.pdf", "file_data": "JVBERg=="}, "no files"),
    ],
)
def test_media_that_a_server_cannot_take_is_refused_with_its_place(part: Json, why: str) -> None:
    content = [{"type": "input_text", "text": "What?"}, part]
    with pytest.raises(UpstreamError, match=why) as caught:
        build({"input": [{"role": "user", "content": content}]}, OLLAMA)
    assert caught.value.payload.param == "input[0].content[1]"
    assert caught.value.payload.code == "unsupported_content"


# --- other forms of the same ------------------------------------------------------------------------------


def test_a_message_over_a_websocket() -> None:
    message = json.loads(encode(prepare(make_turn("Hi"), OPENAI, "up").message()))
    assert message["type"] == "response.create"
    assert message.keys().isdisjoint({"stream", "stream_options", "background"})
    assert message["store"] is False


def test_only_what_counts_is_counted() -> None:
    request = {"input": "Hi", "instructions": "Be brief.", "tools": [WEATHER], "temperature": 0.5}
    counted = json.loads(encode(prepare(make_turn(request), OPENAI, "up").build_count_body()))
    assert counted.keys() == {"model", "input", "instructions", "tools"}


def test_an_image_goes_back_under_the_name_that_the_server_knows() -> None:
    image = {"type": "antiphon:image", "id": "i", "status": "completed", "result": "eA=="}
    made = body({"input": [{"role": "user", "content": "Hi"}, image]}, OPEN_RESPONSES)
    assert made["input"][1] == {**image, "type": "image_generation_call"}
