"""Bodies of chat completions as requests: what each field becomes."""

import json
from typing import Any

import pytest

from antiphon.bridges.chat_completions import ReadCompletion, read_completion
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.content import InputFile, InputImage, InputText, OutputText, Refusal
from antiphon.spec.errors import SpecError
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
)
from antiphon.spec.limits import LARGE
from antiphon.spec.tools import AllowedTools, CustomTool, FunctionTool, FunctionToolChoice
from antiphon.stream.pairing import pair_calls

Json = dict[str, Any]
USER = {"role": "user", "content": "Hi"}
PARIS = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
WEATHER = {"type": "function", "function": {"name": "get_weather", "strict": True}}
PDF = "data:application/pdf;base64,JVBERi0="
PNG = "data:image/png;base64,iVBORw0KGgo="


def read(*messages: Json, **more: Any) -> ReadCompletion:
    return read_completion(json.dumps({"messages": messages or [USER], **more}).encode())


def items(*messages: Json, **more: Any) -> list[Any]:
    found = read(*messages, **more).request.input
    assert isinstance(found, list)
    return found


def refused(*messages: Json, **more: Any) -> str | None:
    with pytest.raises(SpecError) as error:
        read(*messages, **more)
    assert error.value.status == 400
    return error.value.payload.param


# --- messages ---------------------------------------------------------------------------------------------


def test_one_text_of_a_user_is_the_short_form() -> None:
    assert read().request.input == "Hi"
    assert read({"role": "user", "name": "al", "content": "Hi"}).request.input != "Hi"


def test_every_role() -> None:
    parts = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBERi0="}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    found = items(
        {"role": "system", "content": "S"},
        {"role": "developer", "content": [{"type": "text", "text": "D"}]},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "A", "refusal": "No."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "Never."}]},
    )
    assert [item.role for item in found] == ["system", "developer", "user", "assistant", "assistant"]
    assert found[0].content == "S"
    assert found[1].content == [InputText("D")]
    assert found[2].content[:3] == [
        InputText("Look."),
        InputImage(PNG, "low"),
        InputFile("a.pdf", "JVBERi0="),
    ]
    assert isinstance(found[2].content[3], Opaque)
    assert found[3].content == [OutputText("A"), Refusal("No.")]
    assert found[4].content == [Refusal("Never.")]


def test_calls_and_results() -> None:
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    found = items(
        USER,
        {"role": "assistant", "content": None, "tool_calls": [PARIS, custom]},
        {"role": "tool", "tool_call_id": "call_2", "content": "1"},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Rain"}]},
    )
    assert found[1:] == [
        FunctionCall(call_id="call_1", name="get_weather", arguments="{}"),
        CustomToolCall(call_id="call_2", name="sql", input="SELECT 1"),
        CustomToolCallOutput(call_id="call_2", output="1"),
        FunctionCallOutput(call_id="call_1", output=[InputText("Rain")]),
    ]


def test_older_calls_are_paired_with_the_results_of_their_name() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "1"}
    asked = read(USER, call, result, call, result, functions=[{"name": "f"}])
    found = asked.request.input
    assert isinstance(found, list)
    assert len({item.call_id for item in found[1:]}) == 2  # type: ignore[union-attr]
    assert pair_calls(found, 0) == found
    assert refused(USER, result) == "messages[1].name"


def test_reasoning_comes_back_where_it_was() -> None:
    sealed = [
        {"type": "reasoning.encrypted", "data": "v1.a", "id": "rs_a", "index": 0, "format": "antiphon-v1"},
        {"type": "reasoning.encrypted", "data": "v1.b", "id": "rs_b", "index": 2},
    ]
    called = {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "Where?",
        "reasoning_details": sealed,
        "tool_calls": [PARIS],
    }
    output = {"role": "tool", "tool_call_id": "call_1", "content": "Rain"}
    first, said, second, call, _ = items(called, output)
    assert (first.encrypted_content, first.get_reasoning_text(), first.id) == ("v1.a", "Where?", "rs_a")
    assert isinstance(said, Message)
    assert (second.encrypted_content, second.content) == ("v1.b", None)
    assert isinstance(call, FunctionCall)


def test_reasoning_without_proofs() -> None:
    words = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    other = {"role": "assistant", "content": "Yes.", "reasoning": "Hm."}
    detailed = {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0}],
    }
    for message in (words, other, detailed):
        thought, said = items(message)
        assert isinstance(thought, Reasoning)
        assert (thought.get_reasoning_text(), said.content) == ("Hm.", "Yes.")


# --- parameters -------------------------------------------------------------------------------------------


def test_parameters() -> None:
    asked = read(
        model="m",
        max_tokens=5,
        logprobs=True,
        top_logprobs=2,
        reasoning_effort="minimal",
        verbosity="low",
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "strict": True}},
        user="u",
        stop=["END"],
        seed=7,
        store=True,
        metadata={"a": "b"},
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": True},
        modalities=["text"],
        n=1,
        chat_template_kwargs={"thinking": False},
    )
    request = asked.request
    assert (request.max_output_tokens, request.top_logprobs, request.safety_identifier) == (5, 2, "u")
    assert request.include == ["message.output_text.logprobs"]
    assert request.reasoning is not None
    assert request.reasoning.effort == "low"
    assert request.text is not None
    assert request.text.format is not None
    assert (request.store, request.stream, request.metadata) == (True, True, {"a": "b"})
    assert request.stream_options is not None
    assert asked.has_usage
    assert extras(request) == {"stop": ["END"], "seed": 7, "chat_template_kwargs": {"thinking": False}}
    assert [one.param for one in asked.receipts] == ["reasoning_effort"]


def test_nothing_is_stored_or_streamed_unasked() -> None:
    request = read().request
    assert (request.store, request.stream, request.tool_choice, request.tools) == (False, False, None, [])


def test_nulls_ask_for_nothing() -> None:
    names = (
        "tools",
        "tool_choice",
        "stop",
        "stream",
        "n",
        "max_tokens",
        "response_format",
        "logit_bias",
        "user",
    )
    assert read(**dict.fromkeys(names)).request == read().request


def test_tools_and_choices() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}}
    sql = {"type": "custom", "custom": {"name": "sql", "format": grammar}}
    search = {"type": "web_search", "search_context_size": "low"}
    request = read(tools=[WEATHER, sql, search]).request
    assert request.tools[0] == FunctionTool("get_weather", strict=True)
    assert request.tools[1] == CustomTool(
        "sql", format={"type": "grammar", "syntax": "lark", "definition": "start: X"}
    )
    assert request.tools[2] == Opaque.make(**search)
    named = {"type": "function", "function": {"name": "get_weather"}}
    other = {"type": "custom", "custom": {"name": "sql"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named, other]}}
    assert read(tools=[WEATHER], tool_choice=named).request.tool_choice == FunctionToolChoice("get_weather")
    assert read(tools=[sql], tool_choice=other).request.tool_choice == Opaque.make(type="custom", name="sql")
    choice = read(tools=[WEATHER, sql], tool_choice=allowed).request.tool_choice
    assert isinstance(choice, AllowedTools)
    assert (choice.mode, len(choice.tools)) == ("required", 2)
    older = read(functions=[{"name": "f"}], function_call={"name": "f"})
    assert older.is_older
    assert older.request.tool_choice == FunctionToolChoice("f")
    assert older.request.parallel_tool_calls is False


def test_what_is_told_twice_leaves_a_receipt() -> None:
    asked = read(max_tokens=5, max_completion_tokens=7, user="a", safety_identifier="b")
    assert (asked.request.max_output_tokens, asked.request.safety_identifier) == (7, "b")
    assert [one.param for one in asked.receipts] == ["max_tokens", "user"]
    assert read(max_tokens=5, max_completion_tokens=5).receipts == []


def test_unknown_fields_of_a_message_leave_a_receipt() -> None:
    (receipt,) = read({**USER, "cache_control": {"type": "ephemeral"}}).receipts
    assert (receipt.param, receipt.action) == ("messages[0].cache_control", "dropped")
    (other,) = read(truncation="auto").receipts
    assert other.param == "truncation"


@pytest.mark.parametrize(
    ("param", "messages", "more"),
    [
        ("n", [USER], {"n": 2}),
        ("messages", [], {"messages": []}),
        ("messages[0].role", [{"role": "robot", "content": "x"}], {}),
        ("messages[0].content", [{"role": "user"}], {}),
        ("messages[0].content", [{"role": "assistant"}], {}),
        ("messages[0].content[0].type", [{"role": "system", "content": [{"type": "image_url"}]}], {}),
        *(
            ("messages[0].content[0].image_url.url", [{"role": "user", "content": [part]}], {})
            for part in (
                {"type": "image_url", "image_url": {}},
                {"type": "image_url", "image_url": {"url": None}},
            )
        ),
        ("messages[0].tool_call_id", [{"role": "tool", "content": "x"}], {}),
        ("messages[0].tool_calls[0].function", [{"role": "assistant", "tool_calls": [{"id": "x"}]}], {}),
        ("tools[0].function", [USER], {"tools": [{"type": "function"}]}),
        ("tool_choice.function", [USER], {"tool_choice": {"type": "function"}}),
        ("response_format.json_schema", [USER], {"response_format": {"type": "json_schema"}}),
        ("modalities", [USER], {"modalities": ["text", "audio"]}),
        ("previous_response_id", [USER], {"previous_response_id": "resp_1"}),
        ("temperature", [USER], {"temperature": "hot"}),
        ("max_tokens", [USER], {"max_tokens": 0}),
    ],
)
def test_mistakes_are_named(param: str, messages: list[Json], more: Json) -> None:
    body = {"messages": messages, **more}
    with pytest.raises(SpecError) as error:
        read_completion(json.dumps(body).encode())
    assert error.value.payload.param == param


def test_a_request_calls_things_otherwise() -> None:
    asked = read(
        USER,
        {"role": "assistant", "content": "A", "tool_calls": [PARIS]},
        {"role": "tool", "tool_call_id": "call_1", "content": "x"},
        max_tokens=5,
    )
    for ours, theirs in {
        "input[0].content[1]": "messages[0].content[1]",
        "input[2].call_id": "messages[1].tool_calls[0].id",
        "input[3].call_id": "messages[2].tool_call_id",
        "input[1].encrypted_content": "messages[1].reasoning_details",
        "input[3].output[0]": "messages[2].content[0]",
        "input": "messages",
        "text.format": "response_format",
        "reasoning.effort": "reasoning_effort",
        "max_output_tokens": "max_tokens",
        "tool_choice.name": "tool_choice.function.name",
        "tools[0]": "tools[0]",
        "temperature": "temperature",
    }.items():
        assert asked.param(ours) == theirs


def test_a_large_body_is_read_alike() -> None:
    long = "x" * LARGE
    parts = [{"type": "text", "text": long}, {"type": "image_url", "image_url": {"url": PNG}}]
    (message,) = items({"role": "user", "content": parts})
    assert message.content == [InputText(long), InputImage(PNG)]
    assert read({"role": "user", "content": long}).request.input == long


def test_settings_are_not_without_limit() -> None:
    schema = {"type": "object", "description": "x" * (4 * 1024 * 1024)}
    assert (
        refused(USER, tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
        == "tools"
    )


def part(written: Json) -> list[Json]:
    return [{"role": "user", "content": [{"type": "text", "text": "Hi"}, written]}]


@pytest.mark.parametrize(
    ("param", "written"),
    [
        ("image_url.detail", {"type": "image_url", "image_url": {"url": PNG, "detail": 5}}),
        ("image_url.url", {"type": "image_url", "image_url": {"url": 5}}),
        ("image_url", {"type": "image_url", "image_url": 5}),
        ("image_url", {"type": "image_url"}),
        ("file.filename", {"type": "file", "file": {"filename": 5, "file_data": PDF}}),
        ("file.file_id", {"type": "file", "file": {"file_id": 5}}),
        ("file", {"type": "file", "file": True}),
        ("file", {"type": "file"}),
        ("filename", {"type": "input_file", "filename": 5}),
    ],
)
def test_a_mistake_in_a_part_is_told_where_this_api_has_the_field(param: str, written: Json) -> None:
    """They were told one level too high, or as a file that came by its address."""
    with pytest.raises(SpecError) as error:
        read(*part(written))
    assert error.value.payload.param == f"messages[0].content[1].{param}"


def test_what_a_run_says_of_a_part_is_told_where_this_api_has_the_field() -> None:
    picture = {"type": "image_url", "image_url": {"url": PNG}}
    for written, ours, theirs in (
        ({"type": "file", "file": {"file_id": "f"}}, "file_id", "file.file_id"),
        (picture, "detail", "image_url.detail"),
        (picture, "image_url", "image_url.url"),
        ({"type": "image_url", "image_url": PNG}, "image_url", "image_url"),
        ({"type": "input_file", "file_id": "f"}, "file_id", "file_id"),
    ):
        asked = read(*part(written))
        assert asked.param(f"input[0].content[1].{ours}") == f"messages[0].content[1].{theirs}"
        assert asked.param("input[0].content[1]") == "messages[0].content[1]"
    assert read().param("text.format.schema.type") == "response_format.json_schema.schema.type"


@pytest.mark.parametrize(
    ("param", "tool"),
    [
        ("", 5),
        (".type", {"type": "x"}),
        (".function.name", {"type": "function", "function": {"name": 5}}),
        (".function.name", {"type": "function", "function": {}}),
    ],
)
def test_a_mistake_among_allowed_tools_is_told_at_its_place(param: str, tool: Any) -> None:
    """Any of them was "a value with a number out of range" at `tool_choice[0]`."""
    with pytest.raises(SpecError) as error:
        read(tool_choice={"type": "allowed_tools", "allowed_tools": {"tools": [tool]}})
    assert error.value.payload.param == f"tool_choice.allowed_tools.tools[0]{param}"
    assert "out of range" not in error.value.payload.message


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("n", {"n": 2}),
        ("audio", {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}),
        ("modalities", {"modalities": ["text", "audio"]}),
    ],
)
def test_several_answers_and_spoken_ones_are_refused_by_their_names(param: str, given: Json) -> None:
    with pytest.raises(SpecError) as refused:
        read(**given)
    payload = refused.value.payload
    assert (payload.param, payload.code) == (param, "unsupported_parameter")
    assert f"leave `{param}` out" in payload.message


def test_tools_and_their_choice_may_be_written_as_mistrals_clients_do() -> None:
    tool = {"function": {"name": "get_weather", "parameters": {}}}
    asked = read(tools=[tool], tool_choice="any").request
    assert (asked.tools, asked.tool_choice) == ([FunctionTool("get_weather", None, {}, None)], "required")
    named = read(tools=[tool], tool_choice={"function": {"name": "get_weather"}}).request
    assert named.tool_choice == FunctionToolChoice("get_weather")
