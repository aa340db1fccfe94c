"""What is no request is refused: where it is wrong, and what came there."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.spec import (
    ErrorPayload,
    Request,
    SpecError,
    decode_item,
    decode_items,
    decode_request,
    encode,
)
from tests.spec.strategies import JSON, locations, valid
from tests.spec.test_decode import raw

Payload = dict[str, Any]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty; expected a JSON object"),
        (b" \n", "the body is empty; expected a JSON object"),
        (b"{", "the body is not valid JSON: it is cut off"),
        (b'{"a":1', "the body is not valid JSON: it is cut off"),
        (b"{} {}", "the body is not valid JSON: trailing characters (byte 4)"),
        (
            b"{'a':1}",
            "the body is not valid JSON: object keys must be strings (byte 1); "
            "names and texts stand in double quotes",
        ),
        (
            b"""{"input": 'hi'}""",
            "the body is not valid JSON: invalid character (byte 10); names and texts stand in double quotes",
        ),
        (
            b'{"stream": True}',
            "the body is not valid JSON: invalid character (byte 11); JSON writes true, false and null",
        ),
        (
            b"input=hi",
            "the body is not valid JSON: invalid character (byte 0); "
            'expected an object, such as {"input": "…"}',
        ),
        (
            b" What is new?",
            "the body is not valid JSON: invalid character (byte 1); "
            'expected an object, such as {"input": "…"}',
        ),
        (b'\xef\xbb\xbf{"a":1}', "the body is not valid JSON: invalid character (byte 0)"),
        (b"[]", "the body: expected an object, got a list of 0"),
        (b'"Hi"', "the body: expected an object, got 'Hi'"),
        (b"null", "the body: expected an object, got null"),
        (b"true", "the body: expected an object, got true"),
        (b"12", "the body: expected an object, got 12"),
    ],
)
def test_what_is_no_object_is_refused_as_a_whole(body: bytes, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(body)
    payload = caught.value.payload
    assert (payload.type, payload.param, payload.message) == ("invalid_request", None, message)
    assert payload.code in ("invalid_json", "invalid_value")


@pytest.mark.parametrize(
    "bad",
    [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf", b"x" * 65535 + b"\xf0\x9f\x98"],
)
@pytest.mark.parametrize(
    "place", [b'{"input":"%b"}', b'{"acme:x":"%b"}', b'{"%b":1}', b'{"input":[{"type":"%b"}]}']
)
def test_invalid_utf8_is_refused_wherever_it_stands(place: bytes, bad: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(place % bad)
    assert caught.value.payload.code == "invalid_utf8"
    assert caught.value.payload.message == "the body is not valid UTF-8"


def test_utf8_is_checked_across_the_pieces() -> None:
    text = "x" * 65535 + "😀" + "y" * 65533 + "é"
    assert decode_request(raw_utf8({"input": text})).input == text


def raw_utf8(payload: Any) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode()


HALF = ", half of a surrogate pair, which is not a character"


@pytest.mark.parametrize(
    "half", ["\\ud83d", "\\uDC00", "\\ud83d\\u0041", "\\ud83d\\ud83d", "\\ud83d some words"]
)
@pytest.mark.parametrize(
    ("place", "param"),
    [
        ('{"input":"%s"}', "input"),
        (
            '{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"%s"}]}',
            "input[1].content",
        ),
        ('{"input":[{"type":"acme:x","y":[[1],"%s"]}]}', "input[0].y[1]"),
        ('{"input":"%s","input":"x"}', "input"),
        ('{"metadata":{"a":"\\ud83d\\ude00 \\\\ud83d","b":"%s"}}', "metadata.b"),
    ],
)
def test_half_of_a_surrogate_pair_is_named(place: str, param: str, half: str) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request((place % half).encode())
    payload = caught.value.payload
    assert (payload.code, payload.param) == ("invalid_utf8", param)
    assert payload.message == f"a string holds {half[:6].lower()}{HALF}"


def test_half_of_a_surrogate_pair_in_a_name_is_found_where_the_object_is() -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(b'{"metadata":{"a":"","\\ud83d":""}}')
    payload = caught.value.payload
    assert (payload.code, payload.param) == ("invalid_utf8", "metadata")
    assert payload.message == f"a field name holds \\ud83d{HALF}"


@pytest.mark.parametrize(
    "body", [b'{"input":"\\ud83d', b'{"input":"\\ud83d","x":NaN}', b'{"input":"\\ud83d"} {}']
)
def test_what_is_malformed_in_another_way_too_is_no_json(body: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(body)
    assert caught.value.payload.code == "invalid_json"


@pytest.mark.parametrize("escape", ["\\uZZZZ", "\\x41"])
def test_broken_escapes_are_no_json(escape: str) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(f'{{"input":[{{"type":"acme:thing","x":"{escape}      "}}]}}'.encode())
    assert caught.value.payload.code == "invalid_json"


IMAGE = {"type": "input_image", "image_url": 5}
MISTAKES: list[tuple[Payload, str, str]] = [
    ({"model": 5}, "model", "expected a string or null, got 5"),
    ({"stream": "yes"}, "stream", "expected true or false, got 'yes'"),
    ({"temperature": "hot"}, "temperature", "expected a number or null, got 'hot'"),
    ({"max_output_tokens": 16.5}, "max_output_tokens", "expected an integer or null, got 16.5"),
    ({"input": {}}, "input", "expected a string or a list of items, got an object of 0 fields"),
    ({"input": [[]]}, "input[0]", "expected an object, got a list of 0"),
    ({"input": [{"type": 5}]}, "input[0].type", "expected a type such as 'message', got 5"),
    (
        {"input": [{"type": [1e300]}]},
        "input[0].type",
        "expected a type such as 'message', got a list of 1",
    ),
    ({"input": [{"type": ""}]}, "input[0].type", "expected a type such as 'message', got ''"),
    ({"input": [{"type": "item_reference"}]}, "input[0].id", "`id` is missing"),
    ({"input": [{"role": "user"}]}, "input[0].content", "`content` is missing"),
    (
        {"input": [{"role": "user", "content": None}]},
        "input[0].content",
        "expected a string or a list of parts, got null",
    ),
    (
        {"input": [{"role": "user", "content": [{"text": "Hi"}]}]},
        "input[0].content[0].type",
        "expected a type such as 'input_text', got nothing",
    ),
    (
        {"input": [{"role": "user", "content": "x"}] * 2 + [{"role": "user", "content": [IMAGE]}]},
        "input[2].content[0].image_url",
        "expected a string or null, got 5",
    ),
    (
        {"input": [{"type": "reasoning", "summary": 5}]},
        "input[0].summary",
        "expected a list of parts, got 5",
    ),
    ({"tools": "f"}, "tools", "expected a list of tools, got 'f'"),
    ({"tools": [{"name": "f"}]}, "tools[0].type", "expected a type such as 'function', got nothing"),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "`name` is missing"),
    (
        {"tools": [{"type": "function", "name": "f", "parameters": []}]},
        "tools[0].parameters",
        "expected an object or null, got a list of 0",
    ),
    ({"tool_choice": 5}, "tool_choice", "expected a string, got 5"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.name", "`name` is missing"),
    ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.tools", "`tools` is missing"),
    (
        {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "function"}]}},
        "tool_choice.tools[0].name",
        "`name` is missing",
    ),
    ({"text": []}, "text", "expected an object, got a list of 0"),
    (
        {"text": {"format": {"type": "yaml"}}},
        "text.format.type",
        "expected one of 'text', 'json_object', 'json_schema', got 'yaml'",
    ),
    ({"reasoning": "high"}, "reasoning", "expected an object, got 'high'"),
    ({"metadata": {"a": "b", "n": 5}}, "metadata.n", "expected a string, got 5"),
    ({"metadata": {"a": {"b": 1}}}, "metadata.a", "expected a string, got an object of 1 fields"),
    ({"metadata": "x"}, "metadata", "expected an object or null, got 'x'"),
    ({"include": "all"}, "include", "expected a list, got 'all'"),
    ({"include": [5]}, "include[0]", "expected a string, got 5"),
    ({"model": "x" * 61, "store": [1, 2]}, "store", "expected true or false, got a list of 2"),
    ({"previous_response_id": True}, "previous_response_id", "expected a string or null, got true"),
]


@pytest.mark.parametrize(
    ("payload", "param", "message"), MISTAKES, ids=[f"{n}-{one[1]}" for n, one in enumerate(MISTAKES)]
)
def test_a_mistake_is_named_exactly(payload: Payload, param: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(raw(payload))
    error = caught.value.payload
    assert (error.param, error.message) == (param, message)
    assert error.code == ("missing_field" if "missing" in message else "invalid_value")
    assert caught.value.status == 400


def test_the_path_of_an_item_can_start_anywhere() -> None:
    with pytest.raises(SpecError) as caught:
        decode_items(b'[{"role":"user","content":5}]', path="items")
    assert caught.value.payload.param == "items[0].content"
    with pytest.raises(SpecError) as caught:
        decode_item(b'{"role":"user","content":5}', path="item")
    assert caught.value.payload.param == "item.content"


@given(JSON)
def test_any_json_is_a_request_or_an_error(payload: Any) -> None:
    outcome(raw(payload))


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_request_or_an_error(body: bytes) -> None:
    outcome(body)


@settings(max_examples=120)
@given(st.data())
def test_a_mutated_request_is_a_request_or_an_error_that_points_into_it(data: st.DataObject) -> None:
    payload = data.draw(valid("CreateResponseBody"))
    places = locations(payload)
    if places:
        parent, key = data.draw(st.sampled_from(places))
        parent[key] = data.draw(JSON)
    error = outcome(raw(payload))
    if error is not None and error.param is not None:
        rest = follow(payload, error.param)
        assert rest == "" or error.code == "missing_field" or rest == ".type", error


@settings(max_examples=60)
@given(st.data())
def test_a_request_cut_or_garbled_anywhere_is_a_request_or_an_error(data: st.DataObject) -> None:
    body = bytearray(raw(data.draw(valid("CreateResponseBody"))))
    position = data.draw(st.integers(0, len(body) - 1))
    if data.draw(st.booleans()):
        del body[position:]
    else:
        body[position] = data.draw(st.integers(0, 255))
    outcome(bytes(body))


def outcome(body: bytes) -> ErrorPayload | None:
    try:
        request = decode_request(body)
    except SpecError as error:
        refused = error
    else:
        assert isinstance(request, Request)
        return None
    assert refused.status == 400
    assert refused.payload.type == "invalid_request"
    assert refused.payload.message
    assert refused.payload.code
    assert len(encode(refused.payload)) < 2000
    return refused.payload


def follow(value: Any, param: str) -> str:
    """Walk the path as far as it goes; what is left of it. The last key may itself have dots and brackets."""
    while param:
        if isinstance(value, dict) and param.removeprefix(".") in value:
            return ""
        step = re.match(r"\[(\d+)\]|\.?([^.\[]+)|\.", param)
        assert step is not None
        try:
            value = value[int(step[1])] if step[1] else value[step[2] or ""]
        except (LookupError, TypeError):
            return param
        param = param[step.end() :]
    return ""
