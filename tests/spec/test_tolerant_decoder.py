"""What other servers send: read as far as it can be, and never a reason to stop."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.spec import (
    Item,
    Opaque,
    Response,
    SpecError,
    Usage,
    decode_compact_resource,
    decode_output_item,
    decode_request,
    decode_response,
    decode_stored_items,
    decode_websocket_create,
    encode,
    extras,
)
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import InputText, OutputText
from antiphon.spec.errors import ResponseError
from antiphon.spec.items import FunctionCall, FunctionCallOutput, ItemReference, Message, Reasoning
from antiphon.spec.limits import LARGE, MAX_PROBLEMS
from antiphon.spec.response import IncompleteDetails
from antiphon.spec.tools import FunctionTool, TextFormat
from tests.spec import samples
from tests.spec.strategies import JSON, locations, valid
from tests.spec.validators import assert_valid_response

Payload = dict[str, Any]


def raw(payload: Any) -> bytes:
    return json.dumps(payload).encode()


@pytest.mark.parametrize("response", samples.responses(), ids=lambda response: response.id)
def test_a_response_always_has_all_its_keys(response: Response) -> None:
    """All 31 keys, in every state."""
    payload = to_builtins(response)
    assert_valid_response(payload)
    assert len(payload) == 31
    problems: list[str] = []
    assert decode_response(encode(response), problems) == response
    assert problems == []


@settings(max_examples=40)
@given(valid("ResponseResource"))
def test_whatever_the_schema_calls_a_response_comes_back_equal(payload: Payload) -> None:
    problems: list[str] = []
    response = decode_response(raw(payload), problems)
    assert problems == []
    assert to_builtins(response) == payload


@given(valid("CompactResource"))
def test_whatever_the_schema_calls_a_compaction_comes_back_equal(payload: Payload) -> None:
    problems: list[str] = []
    assert to_builtins(decode_compact_resource(raw(payload), problems)) == payload
    assert problems == []


def test_a_partial_response_is_filled_in() -> None:
    problems: list[str] = []
    response = decode_response(b'{"id":"resp_1","status":"in_progress"}', problems)
    assert response == Response(id="resp_1", created_at=0, model="")
    assert problems == []
    assert_valid_response(to_builtins(response))
    assert decode_response(b"{}").id == ""
    assert decode_compact_resource(b'{"output":null}').usage == Usage()


def test_what_cannot_be_read_in_a_response_is_left_out_and_named() -> None:
    payload = {
        "id": 5,
        "created_at": 1741476542.75,
        "model": "m",
        "status": "cancelled",
        "temperature": None,
        "top_p": "high",
        "truncation": "sometimes",
        "instructions": [{"role": "user"}],
        "usage": {"input_tokens": "3", "output_tokens": 4},
        "incomplete_details": {},
        "tool_choice": "sometimes",
        "tools": [{"type": "function", "name": "a.b"}, 5, {"name": "x"}],
        "text": {"format": {"type": "yaml"}},
        "metadata": 5,
        "output": [
            {"type": "message", "role": "narrator", "content": [{"type": "output_text", "text": "Hi"}, 7]},
            None,
            {"type": "function_call", "name": "n" * 100, "arguments": {"a": 1}},
            {"no": "type"},
        ],
    }
    problems: list[str] = []
    response = decode_response(raw(payload), problems)
    assert (response.id, response.created_at, response.status) == ("", 1741476542, "cancelled")
    assert (response.temperature, response.top_p, response.truncation) == (1.0, 1.0, "disabled")
    assert (response.instructions, response.tool_choice, response.metadata) == (None, "auto", {})
    assert response.usage == Usage(output_tokens=4)
    assert response.incomplete_details == IncompleteDetails("")
    assert response.tools == [FunctionTool("a.b"), Opaque(b'{"name":"x"}')]
    assert response.text.format == TextFormat()
    assert response.output == [
        Message(role="assistant", content=[OutputText("Hi")]),
        FunctionCall(call_id="", name="n" * 100, arguments='{"a": 1}'),
        Opaque(b'{"no":"type"}'),
    ]
    assert problems == [
        "id: expected a string, got 5",
        "top_p: expected a number, got 'high'",
        "truncation: expected one of 'auto', 'disabled', got 'sometimes'",
        "instructions: expected a string or null, got a list of 1",
        "usage.input_tokens: expected an integer, got '3'",
        "tool_choice: expected one of 'none', 'auto', 'required', got 'sometimes'",
        "tools[1]: expected an object, got 5",
        "tools[2].type: expected a type such as 'function', got nothing",
        "text.format.type: expected one of 'text', 'json_object', 'json_schema', got 'yaml'",
        "metadata: expected an object or null, got 5",
        "output[0].role: expected one of 'user', 'assistant', 'system', 'developer', got 'narrator'",
        "output[0].content[1]: expected an object, got 7",
        "output[1]: expected an object, got null",
        "output[3].type: an item without `type` needs a `role`, or only an `id`",
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "c", "message": "m"}, ResponseError("c", "m")),
        ({"message": "m"}, ResponseError("server_error", "m")),
        ("it broke", ResponseError("server_error", "it broke")),
        ({"code": None, "message": "m"}, ResponseError("server_error", "m")),
    ],
)
def test_the_error_of_a_response_has_many_forms(error: Any, expected: ResponseError) -> None:
    assert decode_response(raw({"error": error})).error == expected


def test_the_type_of_an_error_is_its_code_when_it_has_none() -> None:
    """`response.error{type, message}`; the extra type is kept."""
    error = decode_response(b'{"error":{"type":"model_error","message":"m"}}').error
    assert error is not None
    assert (error.code, error.message, extras(error)) == ("model_error", "m", {"type": "model_error"})


@settings(max_examples=60)
@given(st.data())
def test_no_object_is_refused_as_a_response(data: st.DataObject) -> None:
    payload = data.draw(valid("ResponseResource"))
    for _ in range(3):
        parent, key = data.draw(st.sampled_from(locations(payload)))
        parent[key] = data.draw(JSON)
    problems: list[str] = []
    response = decode_response(raw(payload), problems)
    assert isinstance(response, Response)
    assert to_builtins(decode_response(encode(response))) == to_builtins(response)
    assert all(problems)


@given(st.dictionaries(st.sampled_from(["type", "role", "id", "content", "summary", "output"]), JSON))
def test_no_object_is_refused_as_an_output_item(payload: Payload) -> None:
    problems: list[str] = []
    item = decode_output_item(raw(payload), problems)
    assert isinstance(to_builtins(item), dict)
    assert all(problems)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param({"type": "message"}, Message(role="assistant", content=[]), id="message"),
        pytest.param({"type": "function_call"}, FunctionCall(call_id="", name="", arguments=""), id="call"),
        pytest.param(
            {"type": "function_call_output", "call_id": 5},
            FunctionCallOutput(call_id="", output=[]),
            id="output",
        ),
        pytest.param({"type": "reasoning", "summary": 5}, Reasoning(summary=[]), id="reasoning"),
        pytest.param({"type": "item_reference"}, ItemReference(), id="reference"),
    ],
)
def test_an_output_item_is_filled_in(payload: Payload, expected: Item) -> None:
    assert decode_output_item(raw(payload)) == expected


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'"x"', b"5", b"{", b"\xff", b'{"a":"\xff"}', b"[" * 100_000],
    ids=["empty", "list", "null", "string", "number", "cut", "bytes", "inside", "deep"],
)
def test_what_is_no_object_is_no_response_and_no_item(body: bytes) -> None:
    for decode in (decode_response, decode_output_item, decode_compact_resource):
        with pytest.raises(SpecError) as caught:
            decode(body)
        assert caught.value.payload.message


def test_a_raw_field_of_another_object_can_be_decoded() -> None:
    """A reader that has split an event into its fields need not copy them."""
    body = b'{"response":{"id":"r"},"item":{"type":"message"}}'
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    assert decode_response(fields["response"]).id == "r"
    assert decode_output_item(fields["item"]) == Message(role="assistant", content=[])


def test_unknown_fields_over_the_limit_are_left_out_of_a_response() -> None:
    problems: list[str] = []
    many = {f"acme:{n:03}": n for n in range(70)} | {'a"b': 1, "n": 1}
    response = decode_response(raw({"id": "r"} | many), problems)
    assert response.id == "r"
    assert len(extras(response)) == 64
    name = "the body: expected field names without quotes, backslashes and control characters, got 'a\"b'"
    assert problems == [name] + ["the body: expected at most 64 unknown fields in one object, got 72"] * 7


def test_an_object_whose_unknown_fields_are_all_left_out_is_a_plain_one() -> None:
    assert decode_output_item(b'{"type":"message","role":"user","content":[],"x":1e999}') == Message(
        role="user", content=[]
    )


def test_unknown_sets_over_the_limit_are_left_out_of_a_response() -> None:
    problems: list[str] = []
    items = [{"type": "message", "role": "user", "content": [], f"acme:{n}": n} for n in range(260)]
    response = decode_response(raw({"output": items}), problems)
    assert len(response.output) == 260
    assert [problem.split(":")[0] for problem in problems] == [f"output[{n}]" for n in range(256, 260)]


def test_what_was_stored_is_read_back_without_a_second_look() -> None:
    items = samples.output_items()
    assert decode_stored_items(encode(items)) == items
    odd = b'[{"type":"message","role":"assistant","content":[{"type":"input_text","text":"x"}]}]'
    assert decode_stored_items(odd) == [Message(role="assistant", content=[InputText("x")])]


def test_a_hostile_response_has_a_limited_number_of_problems() -> None:
    problems: list[str] = []
    decode_response(raw({"output": [5] * 10_000}), problems)
    assert len(problems) == MAX_PROBLEMS
    assert problems[-1].startswith(f"output[{MAX_PROBLEMS - 1}]: ")


# --- texts among the items of a history --------------------------------------------------------------------

_TURN = {"type": "message", "role": "user", "content": "hi"}


def test_texts_among_the_items_of_an_input_are_passed_over_with_their_places() -> None:
    for padding in ("", "x" * 2 * LARGE):  # a large body is read in another way
        skipped: list[str] = []
        body = raw({"input": ["stray", _TURN, "more"], "instructions": padding})
        items = decode_request(body, skipped=skipped).input
        assert isinstance(items, list)
        assert [type(item) for item in items] == [Message]
        assert skipped == ["input[0]", "input[2]"]


def test_an_input_of_texts_alone_is_refused_also_where_texts_are_passed_over() -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(raw({"input": ["stray", "more"]}), skipped=[])
    assert caught.value.payload.param == "input[0]"


def test_texts_among_items_are_refused_where_no_list_for_them_is_given() -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(raw({"input": [_TURN, "stray"]}))
    assert caught.value.payload.param == "input[1]"


def test_texts_are_passed_over_in_a_websocket_message_too() -> None:
    skipped: list[str] = []
    decode_websocket_create(raw({"type": "response.create", "input": [_TURN, "stray"]}), skipped=skipped)
    assert skipped == ["input[1]"]
