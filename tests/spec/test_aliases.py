"""Other spellings become the specification's, in one place, and what goes on is official."""

import json
from typing import Any

import pytest

from antiphon.spec import (
    Item,
    Request,
    SpecError,
    decode_item,
    decode_output_item,
    decode_request,
    decode_response,
    encode_request,
)
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import InputImage, InputText, OutputText, ReasoningText, SummaryText
from antiphon.spec.errors import ERROR_TYPE_ALIASES, STATUS, ErrorPayload
from antiphon.spec.items import FunctionCall, FunctionCallOutput, ItemReference, Message, Reasoning
from antiphon.spec.request import ReasoningParam
from antiphon.spec.response import Usage
from antiphon.spec.tools import (
    AllowedTools,
    FunctionTool,
    FunctionToolChoice,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
)
from tests.spec.validators import assert_valid_input_item, assert_valid_request


def request(**fields: Any) -> Request:
    decoded = decode_request(json.dumps(fields).encode())
    assert_valid_request(json.loads(encode_request(decoded)))
    return decoded


def item(**fields: Any) -> Item:
    return decode_item(json.dumps(fields).encode())


# --- items without a type -----------------------------------------------------------------------------------


def test_an_item_without_type_is_a_message_if_it_has_a_role() -> None:
    assert item(role="user", content="Hi") == Message(role="user", content="Hi")
    assert item(type=None, role="user", content="Hi") == Message(role="user", content="Hi")
    odd = item(role="user", content=[{"type": "text", "text": "Hi"}], status="sent")
    assert odd == Message(role="user", content=[InputText("Hi")])


def test_an_item_without_type_is_a_reference_if_it_has_only_an_id() -> None:
    assert item(id="msg_1") == ItemReference(id="msg_1")
    assert item(id="msg_1", type=None) == ItemReference(id="msg_1")


@pytest.mark.parametrize("fields", [{}, {"id": "x", "content": "Hi"}, {"content": "Hi"}])
def test_any_other_item_needs_its_type(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="an item without `type` needs a `role`, or only an `id`") as caught:
        decode_item(json.dumps(fields).encode(), path="input[3]")
    assert caught.value.payload.param == "input[3].type"


# --- names --------------------------------------------------------------------------------------------------


def test_camel_case_names_are_read() -> None:
    decoded = request(
        maxOutputTokens=20,
        previousResponseId="resp_1",
        toolChoice={"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]},
        input=[{"type": "function_call_output", "callId": "c", "output": "ok"}],
    )
    assert decoded.max_output_tokens == 20
    assert decoded.previous_response_id == "resp_1"
    assert decoded.tool_choice == AllowedTools([FunctionToolChoice("f")])
    assert decoded.input == [FunctionCallOutput(call_id="c", output="ok")]


def test_the_official_name_wins_over_the_camel_case_one() -> None:
    decoded = request(max_output_tokens=20, maxOutputTokens=30)
    assert decoded.max_output_tokens == 20


# --- statuses and reasoning under other names ---------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "message", "role": "assistant", "content": "x"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
        {"type": "function_call_output", "call_id": "c", "output": ""},
        {"type": "reasoning", "summary": []},
        {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": ""},
        {"type": "custom_tool_call_output", "call_id": "c", "output": ""},
    ],
    ids=lambda fields: fields["type"],
)
def test_a_core_item_that_failed_is_incomplete(fields: dict[str, Any]) -> None:
    assert to_builtins(item(**fields, status="failed"))["status"] == "incomplete"


def test_a_vendor_item_keeps_failed() -> None:
    assert to_builtins(item(type="acme:thing", status="failed"))["status"] == "failed"


def test_a_message_may_come_with_any_status() -> None:
    assert item(type="message", role="user", content="", status="delivered") == Message(
        role="user", content=""
    )
    assert item(type="message", role="user", content="", status=7) == Message(role="user", content="")


def test_reasoning_in_plain_strings_becomes_parts() -> None:
    assert item(type="reasoning", summary="why", content="because") == Reasoning(
        summary=[SummaryText("why")], content=[ReasoningText("because")]
    )
    assert item(type="reasoning", summary="", content=None) == Reasoning(summary=[])
    assert item(type="reasoning") == Reasoning(summary=[])


def test_reasoning_parts_under_other_names_are_read() -> None:
    decoded = item(
        type="reasoning",
        summary=[{"type": "text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        content=[{"type": "output_text", "text": "c"}, {"type": "reasoning_text", "text": "d"}],
    )
    assert decoded == Reasoning(
        summary=[SummaryText("a"), SummaryText("b")], content=[ReasoningText("c"), ReasoningText("d")]
    )


# --- strings that came as objects ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [({"a": [1, "ü"]}, '{"a": [1, "\\u00fc"]}'), ([], "[]"), ({}, "{}"), ("{}", "{}"), ("", "")],
)
def test_arguments_may_be_an_object(given: Any, text: str) -> None:
    """One string on the wire, with no second pair of quotes."""
    call = item(type="function_call", call_id="c", name="f", arguments=given)
    assert isinstance(call, FunctionCall)
    assert call.arguments == text
    assert_valid_input_item(to_builtins(call))


@pytest.mark.parametrize("given", [None, 5, True])
def test_arguments_are_never_another_value(given: Any) -> None:
    with pytest.raises(SpecError) as caught:
        item(type="function_call", call_id="c", name="f", arguments=given)
    assert caught.value.payload.param == "arguments"


def test_a_call_without_call_id_takes_its_id() -> None:
    call = item(type="function_call", id="fc_1", name="f", arguments="{}")
    assert call == FunctionCall(id="fc_1", call_id="fc_1", name="f", arguments="{}")
    assert item(type="function_call", id="fc_1", call_id=None, name="f", arguments="{}") == call


def test_a_call_without_any_id_is_refused() -> None:
    with pytest.raises(SpecError, match="`call_id` is missing"):
        item(type="function_call", name="f", arguments="{}")


def test_tool_choice_may_be_nested() -> None:
    chosen = FunctionToolChoice("f")
    assert request(tool_choice={"type": "function", "function": {"name": "f"}}).tool_choice == chosen
    nested = {"type": "allowed_tools", "tools": [{"type": "function", "function": {"name": "f"}}]}
    assert request(tool_choice=nested).tool_choice == AllowedTools([chosen])


def test_truncation_may_be_an_object() -> None:
    assert request(truncation={"type": "auto"}).truncation == "auto"
    assert request(truncation={"strategy": "disabled"}).truncation == "disabled"
    with pytest.raises(SpecError, match="got an object of 1 fields"):
        request(truncation={"last_messages": 3})


def test_a_tool_may_be_nested_as_in_chat() -> None:
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    decoded = request(tools=[{"type": "function", "function": function}])
    assert decoded.tools == [FunctionTool("f", "d", {"type": "object"}, True)]


def test_a_conversation_may_be_an_object() -> None:
    assert request(conversation={"id": "conv_1"}).conversation == "conv_1"
    assert request(conversation="conv_1").conversation == "conv_1"


def test_efforts_and_details_of_other_servers() -> None:
    assert request(reasoning={"effort": "minimal"}).reasoning == ReasoningParam("low")
    image = {"type": "input_image", "image_url": "u", "detail": "original"}
    assert item(role="user", content=[image]) == Message(role="user", content=[InputImage("u", "high")])


# --- usage and errors ---------------------------------------------------------------------------------------


def test_usage_without_details_is_filled_with_zeros() -> None:
    response = decode_response(b'{"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}')
    assert response.usage == Usage.of(3, 4)
    assert to_builtins(response)["usage"]["input_tokens_details"] == {"cached_tokens": 0}


def test_a_missing_total_is_the_sum() -> None:
    assert decode_response(b'{"usage":{"input_tokens":3,"output_tokens":4}}').usage == Usage.of(3, 4)
    assert decode_response(b'{"usage":{}}').usage == Usage()


def test_extra_counts_are_kept() -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1, "audio_tokens": 5},
        "output_tokens_details": {"reasoning_tokens": 1, "text_tokens": 6},
        "cost": 0.25,
    }
    assert to_builtins(decode_response(json.dumps({"usage": usage}).encode()))["usage"] == usage


@pytest.mark.parametrize(("theirs", "ours"), ERROR_TYPE_ALIASES.items())
def test_other_names_of_error_types_mean_the_same(theirs: str, ours: str) -> None:
    assert ErrorPayload(theirs, "").status == STATUS[ours]


# --- the format of the answer -------------------------------------------------------------------------------

SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "text"}, TextFormat()),
        ({"type": "json_object"}, JsonObjectFormat()),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            JsonSchemaFormat("n", None, SCHEMA, True),
        ),
        (
            {"type": "json_schema", "name": "n", "schema": SCHEMA, "description": "d"},
            JsonSchemaFormat("n", "d", SCHEMA, False),
        ),
        ({"schema": SCHEMA}, JsonSchemaFormat("response", None, SCHEMA, False)),
        (
            {"type": "json_schema", "schema": SCHEMA, "strict": None},
            JsonSchemaFormat("response", None, SCHEMA),
        ),
    ],
)
@pytest.mark.parametrize("place", ["response_format", "text"])
def test_the_format_is_read_from_either_place(given: Any, expected: Any, place: str) -> None:
    payload = {place: given if place == "response_format" else {"format": given}}
    decoded = decode_request(json.dumps(payload).encode())
    assert decoded.text is not None
    assert decoded.text.format == expected


def test_response_format_joins_the_text_options() -> None:
    decoded = decode_request(b'{"text":{"verbosity":"low"},"response_format":{"type":"json_object"}}')
    assert decoded.text is not None
    assert (decoded.text.format, decoded.text.verbosity) == (JsonObjectFormat(), "low")


def test_text_format_wins_over_response_format() -> None:
    decoded = decode_request(b'{"text":{"format":{"type":"text"}},"response_format":{"type":"json_object"}}')
    assert decoded.text is not None
    assert decoded.text.format == TextFormat()


def test_a_broken_response_format_is_reported_where_it_ends_up() -> None:
    with pytest.raises(SpecError, match="expected an object, got 5") as caught:
        decode_request(b'{"text":null,"response_format":5}')
    assert caught.value.payload.param == "text.format"
    with pytest.raises(SpecError, match="expected an object, got 5") as caught:
        decode_request(b'{"text":5,"response_format":{"type":"text"}}')
    assert caught.value.payload.param == "text"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"user": "u-1"}, "u-1"),
        ({"user": "u-1", "safety_identifier": "s-1"}, "s-1"),
        ({"user": "u" * 64}, "u" * 64),
        ({"user": "u" * 65}, None),
        ({"user": ""}, None),
    ],
)
def test_the_older_name_of_the_safety_identifier_is_read(given: Any, expected: str | None) -> None:
    assert decode_request(json.dumps(given).encode()).safety_identifier == expected


@pytest.mark.parametrize(
    ("given", "summary"),
    [
        ({"generate_summary": "concise"}, "concise"),
        ({"generate_summary": "concise", "summary": "auto"}, "auto"),
    ],
)
def test_the_older_name_of_the_reasoning_summary_is_read(given: Any, summary: str) -> None:
    reasoning = decode_request(json.dumps({"reasoning": given}).encode()).reasoning
    assert reasoning is not None
    assert reasoning.summary == summary


# --- content parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["input_text", "text", "output_text"])
def test_an_assistants_text_becomes_output_text(kind: str) -> None:
    decoded = item(type="message", role="assistant", content=[{"type": kind, "text": "Hi"}])
    assert decoded == Message(role="assistant", content=[OutputText("Hi")])
    assert_valid_input_item(to_builtins(decoded))


def test_a_renamed_part_keeps_its_unknown_fields() -> None:
    part = {"type": "input_text", "text": "Hi", "acme:n": [1]}
    decoded = item(type="message", role="assistant", content=[part])
    assert to_builtins(decoded)["content"] == [
        {"type": "output_text", "text": "Hi", "annotations": [], "acme:n": [1]}
    ]


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_chat_style_text_becomes_input_text(role: str) -> None:
    decoded = item(role=role, Content=[{"type": "text", "text": "Hi"}])
    assert_valid_input_item(to_builtins(decoded))


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("user", {"type": "output_text", "text": ""}),
        ("user", {"type": "refusal", "refusal": ""}),
        ("system", {"type": "input_image", "image_url": "u"}),
        ("developer", {"type": "input_file"}),
        ("assistant", {"type": "input_image", "image_url": "u"}),
        ("assistant", {"type": "summary_text", "text": ""}),
    ],
)
def test_a_part_of_another_role_is_refused(role: str, part: dict[str, Any]) -> None:
    fine = {"type": "output_text" if role == "assistant" else "input_text", "text": ""}
    payload = {"input": [{"role": "user", "content": ""}, {"role": role, "content": [fine, part]}]}
    with pytest.raises(SpecError, match=rf"expected '.*', got '{part['type']}'") as caught:
        decode_request(json.dumps(payload).encode())
    assert caught.value.payload.param == "input[1].content[1].type"


def test_the_output_of_a_tool_may_have_chat_style_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]
    decoded = item(type="function_call_output", call_id="c", output=parts)
    assert decoded == FunctionCallOutput(call_id="c", output=[InputText("a"), InputImage("u", "low")])
    with pytest.raises(SpecError) as caught:
        item(type="function_call_output", call_id="c", output=[{"type": "refusal", "refusal": ""}])
    assert caught.value.payload.param == "output[0].type"


def test_an_image_may_be_an_object() -> None:
    image = {"type": "input_image", "image_url": {"url": "u"}}
    assert item(role="user", content=[image]) == Message(role="user", content=[InputImage("u")])
    with pytest.raises(SpecError, match="expected a string or null, got an object of 0 fields") as caught:
        item(role="user", content=[{"type": "image_url", "image_url": {}}])
    assert caught.value.payload.param == "content[0].image_url"


def test_reasoning_content_is_accepted_on_the_way_in() -> None:
    """The schema allows only null there; the AI SDK sends what it got."""
    decoded = item(type="reasoning", summary=[], content=[{"type": "reasoning_text", "text": "because"}])
    assert decoded == Reasoning(summary=[], content=[ReasoningText("because")])


def test_other_parts_are_not_reasoning() -> None:
    with pytest.raises(SpecError) as caught:
        item(type="reasoning", summary=[{"type": "input_image"}])
    assert caught.value.payload.param == "summary[0].type"
    with pytest.raises(SpecError) as caught:
        item(type="reasoning", summary=[], content=[{"type": "refusal", "refusal": ""}])
    assert caught.value.payload.param == "content[0].type"


def test_a_server_may_put_any_part_anywhere() -> None:
    raw = b'{"type":"reasoning","summary":[],"content":[{"type":"output_text","text":"x"}]}'
    decoded = decode_output_item(raw)
    assert isinstance(decoded, Reasoning)
    assert decoded.content == [OutputText("x")]
    assert decoded.get_reasoning_text() == "x"
