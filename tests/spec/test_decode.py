"""Requests, items and WebSocket messages as clients send them, and what they are read as."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.spec import (
    CompactRequest,
    ErrorPayload,
    Opaque,
    Request,
    SpecError,
    decode_compact_request,
    decode_item,
    decode_request,
    decode_websocket_create,
    encode,
    encode_request,
    extras,
)
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import InputText
from antiphon.spec.items import FunctionCall, FunctionCallOutput, ItemReference, Message, Reasoning
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.spec.tools import FunctionTool
from tests.spec.strategies import valid
from tests.spec.validators import (
    assert_valid,
    assert_valid_input_item,
    assert_valid_request,
)

Payload = dict[str, Any]


def raw(payload: Any) -> bytes:
    return json.dumps(payload).encode()


# --- requests -----------------------------------------------------------------------------------------------


def test_an_empty_request_has_the_defaults() -> None:
    request = decode_request(b"{}")
    assert request == Request()
    assert (request.store, request.stream, request.background, request.tools) == (True, False, False, [])
    assert encode(request) == b"{}"


def test_null_is_the_default_wherever_there_is_one() -> None:
    nothing = dict.fromkeys(Request.__struct_encode_fields__)
    assert decode_request(raw(nothing)) == Request()


def test_a_full_request_is_typed() -> None:
    payload = {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
            {"type": "reasoning", "summary": []},
            {"type": "item_reference", "id": "msg_1"},
        ],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "tool_choice": "required",
        "metadata": {"a": "b"},
        "temperature": 1,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }
    request = decode_request(raw(payload))
    assert request.input == [
        Message(role="user", content=[InputText("Hi")]),
        FunctionCall(call_id="c", name="f", arguments="{}"),
        FunctionCallOutput(call_id="c", output="ok"),
        Reasoning(summary=[]),
        ItemReference(id="msg_1"),
    ]
    assert request.tools == [FunctionTool("f", None, {"type": "object"})]
    assert json.loads(encode_request(request)) == payload


@settings(max_examples=60)
@given(valid("CreateResponseBody"))
def test_whatever_the_schema_calls_a_request_is_one(payload: Payload) -> None:
    request = decode_request(raw(payload))
    again = json.loads(encode_request(request))
    assert_valid_request(again)
    assert decode_request(raw(again)) == request


@given(valid("CreateResponseBody"))
def test_the_short_cut_reads_what_a_reading_field_by_field_would(payload: Payload) -> None:
    slowly = StrictDecoder().struct(Request, raw(payload), "")
    assert decode_request(raw(payload)) == slowly
    assert encode(decode_request(raw(payload))) == encode(slowly)


@pytest.mark.parametrize(
    "fields",
    [
        {"input": [{"type": "message", "role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {
            "input": [
                {"type": "message", "role": "assistant", "content": [{"type": "input_text", "text": ""}]}
            ]
        },
        {"input": [{"type": "reasoning", "summary": [{"type": "output_text", "text": "hm"}]}]},
        {
            "input": [
                {"type": "function_call_output", "call_id": "c", "output": [{"type": "text", "text": ""}]}
            ]
        },
        {"input": [{"type": "vendor:thing", "x": 1}], "tools": [{"type": "vendor:tool"}]},
        {"input": "hi", "maxOutputTokens": 20, "truncation": {"type": "auto"}, "store": None},
        {"input": "hi", "tool_choice": {"type": "function", "function": {"name": "f"}}},
    ],
)
def test_other_words_for_the_same_are_not_lost_on_the_short_cut(fields: Payload) -> None:
    assert decode_request(raw(fields)) == StrictDecoder().struct(Request, raw(fields), "")


_PARTS = st.lists(
    st.sampled_from(["input_text", "output_text", "text", "refusal", "vendor:part"]).map(
        lambda kind: {"type": kind, "refusal" if kind == "refusal" else "text": "hi"}
    ),
    max_size=2,
)
_MESSAGES = st.fixed_dictionaries(
    {"content": st.text(max_size=3) | _PARTS | st.none()},
    optional={
        "type": st.sampled_from(["message", "reasoning", "vendor:thing", None]),
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool", None]),
        "id": st.sampled_from(["msg_1", "", None]),
        "status": st.sampled_from(["completed", "done", None]),
        "name": st.just("Ada"),
    },
)


@settings(max_examples=300)
@given(st.lists(_MESSAGES, max_size=2), st.sampled_from([{}, {"maxOutputTokens": 20}, {"metadata": None}]))
def test_messages_without_a_type_are_read_as_field_by_field(messages: list[Payload], more: Payload) -> None:
    body = raw({"input": messages, **more})
    slowly = _read(lambda: StrictDecoder().struct(Request, body, ""))
    quickly = _read(lambda: decode_request(body))
    assert type(quickly) is type(slowly)
    assert quickly == slowly
    assert encode(quickly) == encode(slowly)


def _read(read: Callable[[], Request]) -> Request | ErrorPayload:
    """A request, or what is wrong with it."""
    try:
        return read()
    except SpecError as refusal:
        return refusal.payload


@given(valid("ItemParam"))
def test_whatever_the_schema_calls_an_item_is_one(payload: Payload) -> None:
    item = decode_item(raw(payload))
    assert not isinstance(item, Opaque)
    assert_valid_input_item(to_builtins(item))
    assert decode_item(encode(item)) == item


@given(valid("CompactResponseMethodPublicBody"))
def test_whatever_the_schema_calls_a_compact_request_is_one(payload: Payload) -> None:
    request = decode_compact_request(raw(payload))
    assert isinstance(request, CompactRequest)
    assert_valid("CompactResponseMethodPublicBody", to_builtins(request))


def test_a_compact_request_needs_its_model() -> None:
    """1.15: compact-missing-model expects 400."""
    for body, message in ((b"{}", "`model` is missing"), (b'{"model":null}', "expected a string, got null")):
        with pytest.raises(SpecError, match=re.escape(message)) as caught:
            decode_compact_request(body)
        assert (caught.value.status, caught.value.payload.param) == (400, "model")


# --- WebSocket ----------------------------------------------------------------------------------------------


def test_a_websocket_message_is_a_request() -> None:
    """1.14"""
    message = decode_websocket_create(
        b'{"type":"response.create","model":"m","input":[{"role":"user","content":""}]}'
    )
    assert (message.model, message.input) == ("m", [Message(role="user", content="")])
    assert message.generate is True
    assert extras(message) == {}
    assert to_builtins(message)["type"] == "response.create"


def test_a_websocket_message_ignores_what_only_http_has() -> None:
    message = decode_websocket_create(
        b'{"type":"response.create","stream":true,"stream_options":5,"background":true,"generate":false}'
    )
    assert (message.stream, message.stream_options, message.background) == (False, None, False)
    assert message.generate is False


def test_aliases_work_in_a_websocket_message_too() -> None:
    message = decode_websocket_create(b'{"type":"response.create","response_format":{"type":"json_object"}}')
    assert message.text is not None


@pytest.mark.parametrize(
    ("body", "param", "came"),
    [
        (b'{"type":"response.cancel"}', "type", "got 'response.cancel'"),
        (b"{}", "type", "got nothing"),
        (b'{"type":5}', "type", "got 5"),
        (b'{"type":"response.create","model":5}', "model", "got 5"),
        (b"[]", None, "got a list of 0"),
    ],
)
def test_another_websocket_message_is_refused(body: bytes, param: str | None, came: str) -> None:
    with pytest.raises(SpecError) as caught:
        decode_websocket_create(body)
    assert caught.value.payload.param == param
    assert caught.value.payload.message.endswith(came)
