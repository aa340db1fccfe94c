"""Every limit of 1.9 and 1.10, from both sides, and what a hostile body may cost."""

import tracemalloc
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from antiphon.spec import SpecError, decode_item, decode_items, decode_request
from antiphon.spec.decode import decode_compact_request
from antiphon.spec.items import FunctionCall
from antiphon.spec.limits import (
    MAX_BODY,
    MAX_DEPTH,
    MAX_ESCAPES,
    MAX_INTEGER,
)
from antiphon.spec.tools import FunctionTool
from tests.spec.refusals import Payload, accepted, refusal

MB = 1024 * 1024
TEXT, IMAGE, FILE = 10_485_760, 20_971_520, 33_554_432

NOTE = "input[1].content[0].annotations[0]"


def item(**fields: Any) -> Payload:
    return {"input": [{"type": "message", "role": "user", "content": "first"}, fields]}


def user(*parts: Any) -> Payload:
    return item(type="message", role="user", content=list(parts))


def call(**changes: Any) -> Payload:
    return item(**{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **changes})


def output(**changes: Any) -> Payload:
    return item(**{"type": "function_call_output", "call_id": "c", "output": "", **changes})


def tool(**changes: Any) -> Payload:
    return {"tools": [{"type": "function", "name": "f", **changes}]}


def allowed(count: int) -> Payload:
    return {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}] * count}}


def citation(**changes: Any) -> Payload:
    note = {"type": "url_citation", "url": "", "title": "", "start_index": 0, "end_index": 0, **changes}
    part = {"type": "output_text", "text": "", "annotations": [note]}
    return item(type="message", role="assistant", content=[part])


# where, the payload that a value makes, the last value that is fine, the first that is not, what is said
EDGES: list[tuple[str, Callable[[Any], Payload], Any, Any, str]] = [
    ("max_output_tokens", lambda v: {"max_output_tokens": v}, 16, 15, "an integer of at least 16, got 15"),
    (
        "max_output_tokens",
        lambda v: {"max_output_tokens": v},
        MAX_INTEGER,
        MAX_INTEGER + 1,
        "an integer of at most 9,007,199,254,740,991, got 9007199254740992",
    ),
    ("max_tool_calls", lambda v: {"max_tool_calls": v}, 1, 0, "an integer of at least 1, got 0"),
    ("top_logprobs", lambda v: {"top_logprobs": v}, 0, -1, "an integer of at least 0, got -1"),
    ("top_logprobs", lambda v: {"top_logprobs": v}, 20, 21, "an integer of at most 20, got 21"),
    (
        "safety_identifier",
        lambda n: {"safety_identifier": "x" * n},
        128,
        129,
        "a string of at most 128 characters, got a string of 129 characters",
    ),
    (
        "prompt_cache_key",
        lambda n: {"prompt_cache_key": "é" * n},
        64,
        65,
        "a string of at most 64 characters, got a string of 65 characters",
    ),
    (
        "metadata",
        lambda n: {"metadata": {str(k): "" for k in range(n)}},
        16,
        17,
        "an object of at most 16 entries, got an object of 17 fields",
    ),
    (
        "metadata",
        lambda n: {"metadata": {"a": "b", "k" * n: ""}},
        64,
        65,
        "each key to be a string of at most 64 characters, got a string of 65 characters",
    ),
    (
        "metadata.foo",
        lambda n: {"metadata": {"a": "b", "foo": "x" * n}},
        512,
        513,
        "a string of at most 512 characters, got a string of 513 characters",
    ),
    ("tool_choice.tools", allowed, 1, 0, "1 to 128 tools, got 0"),
    ("tool_choice.tools", allowed, 128, 129, "1 to 128 tools, got 129"),
    ("input[1].call_id", lambda v: call(call_id=v), "c", "", "a string of at least 1 characters, got ''"),
    (
        "input[1].call_id",
        lambda n: call(call_id="c" * n),
        64,
        65,
        "a string of at most 64 characters, got a string of 65 characters",
    ),
    ("input[1].call_id", lambda v: output(call_id=v), "c", "", "a string of at least 1 characters, got ''"),
    (
        "input[1].name",
        lambda n: call(name="f" * n),
        64,
        65,
        "a string of at most 64 characters, got a string of 65 characters",
    ),
    ("input[1].name", lambda v: call(name=v), "f", "", "a string of at least 1 characters, got ''"),
    (
        "input[1].name",
        lambda v: call(name=v),
        "get-weather_2",
        "get.weather",
        "a string that matches ^[a-zA-Z0-9_-]+$, got 'get.weather'",
    ),
    (
        "tools[0].name",
        lambda v: tool(name=v),
        "f",
        "f\n",
        "a string that matches ^[a-zA-Z0-9_-]+$, got 'f\\n'",
    ),
    (
        "tools[0].name",
        lambda n: tool(name="f" * n),
        64,
        65,
        "a string of at most 64 characters, got a string of 65 characters",
    ),
    (
        "input[1].content[0].annotations[0].start_index",
        lambda v: citation(start_index=v),
        0,
        -1,
        "at least 0",
    ),
    ("input[1].content[0].annotations[0].end_index", lambda v: citation(end_index=v), 0, -1, "at least 0"),
    ("input", lambda n: {"input": "x" * n}, TEXT, TEXT + 1, "at most 10,485,760 characters, got a string of"),
    (
        "input[1].content",
        lambda n: item(type="message", role="user", content="x" * n),
        TEXT,
        TEXT + 1,
        "at most 10,485,760 characters, got a string of 10,485,761 characters",
    ),
    (
        "input[1].content[0].text",
        lambda n: user({"type": "input_text", "text": "x" * n}),
        TEXT,
        TEXT + 1,
        "at most 10,485,760 characters, got a string of 10,485,761 characters",
    ),
    ("input[1].output", lambda n: output(output="x" * n), TEXT, TEXT + 1, "at most 10,485,760 characters"),
    (
        "input[1].encrypted_content",
        lambda n: item(type="compaction", encrypted_content="x" * n),
        TEXT,
        TEXT + 1,
        "at most 10,485,760 characters",
    ),
    (
        "input[1].content[1].image_url",
        lambda n: user({"type": "input_text", "text": ""}, {"type": "input_image", "image_url": "x" * n}),
        IMAGE,
        IMAGE + 1,
        "at most 20,971,520 characters, got a string of 20,971,521 characters",
    ),
    (
        "input[1].content[0].file_data",
        lambda n: user({"type": "input_file", "file_data": "x" * n}),
        FILE,
        FILE + 1,
        "at most 33,554,432 characters, got a string of 33,554,433 characters",
    ),
]


@pytest.mark.parametrize(
    ("param", "make", "fine", "wrong", "message"),
    EDGES,
    ids=[f"{n}-{edge[0]}" for n, edge in enumerate(EDGES)],
)
def test_the_edge_of_each_limit(
    param: str, make: Callable[[Any], Payload], fine: Any, wrong: Any, message: str
) -> None:
    accepted(make(fine))
    error = refusal(make(wrong))
    assert error.status == 400
    assert (error.payload.type, error.payload.code) == ("invalid_request", "invalid_value")
    assert error.payload.param == param
    assert message in error.payload.message


@pytest.mark.parametrize(
    ("param", "payload"),
    [
        ("reasoning.effort", {"reasoning": {"effort": "huge"}}),
        ("reasoning.summary", {"reasoning": {"summary": "long"}}),
        ("service_tier", {"service_tier": "gold"}),
        ("truncation", {"truncation": "maybe"}),
        ("include[1]", {"include": ["reasoning.encrypted_content", "everything"]}),
        ("text.verbosity", {"text": {"verbosity": "loud"}}),
        ("tool_choice", {"tool_choice": "sometimes"}),
        ("tool_choice.mode", {"tool_choice": {**allowed(1)["tool_choice"], "mode": "sometimes"}}),
        ("input[1].role", item(type="message", role="narrator", content="")),
        ("input[1].phase", item(type="message", role="assistant", content="", phase="middle")),
        ("input[1].status", call(status="sleeping")),
        ("input[1].content[0].detail", user({"type": "input_image", "detail": "tiny"})),
    ],
)
def test_a_value_outside_its_enum_names_the_values(param: str, payload: Payload) -> None:
    error = refusal(payload)
    assert error.payload.param == param
    assert error.payload.message.startswith("expected one of '")
    assert ", got '" in error.payload.message


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity", b"+1", b"01", b".5", b"0x10", b"1e"])
@pytest.mark.parametrize(
    "place", [b'{"temperature":%b}', b'{"acme:x":[%b]}', b'{"input":[{"type":"a:b","x":%b}]}']
)
def test_what_is_no_json_number_is_no_json(word: bytes, place: bytes) -> None:
    error = refusal(place % word)
    assert error.payload.code == "invalid_json"
    assert error.payload.message.startswith("the body is not valid JSON: ")


@pytest.mark.parametrize(
    ("param", "place"),
    [
        ("temperature", b'{"temperature":%b}'),
        ("max_output_tokens", b'{"max_output_tokens":%b}'),
        ("acme:x", b'{"acme:x":%b}'),
        ("metadata.a", b'{"metadata":{"a":%b}}'),
        ("tools[0].parameters.a", b'{"tools":[{"type":"function","name":"f","parameters":{"a":%b}}]}'),
        ("tools[0].x", b'{"tools":[{"type":"web_search","x":%b}]}'),
        ("input[0].x", b'{"input":[{"type":"acme:thing","x":%b}]}'),
        ("text.format.schema.a", b'{"text":{"format":{"type":"json_schema","schema":{"a":%b}}}}'),
    ],
)
@pytest.mark.parametrize(
    ("number", "came"), [(b"1e999", "1e999"), (b"-1e999", "-1e999"), (b"9" * 5000, "a very long number")]
)
def test_a_number_out_of_range_is_refused_wherever_it_stands(
    param: str, place: bytes, number: bytes, came: str
) -> None:
    error = refusal(place % number)
    assert error.payload.param == param
    assert error.payload.message.startswith("expected a")
    assert error.payload.message.endswith(f", got {came}")


def test_a_number_out_of_range_far_down_is_reported_where_the_free_json_begins() -> None:
    error = refusal(b'{"acme:x":{"y":[1e999]}}')
    assert error.payload.param == "acme:x"
    assert error.payload.message.endswith("got a value with a number out of range")


def test_a_large_number_that_python_can_hold_is_carried() -> None:
    big = 10**40
    assert accepted(tool(parameters={"maximum": big})).tools == [FunctionTool("f", None, {"maximum": big})]


# --- depth --------------------------------------------------------------------------------------------------

PLACES = {
    "acme:x": b'{"acme:x":%b}',
    "tools[0].parameters": b'{"tools":[{"type":"function","name":"f","parameters":{"a":%b}}]}',
    "tools[0]": b'{"tools":[{"type":"acme:tool","a":%b}]}',
    "tool_choice": b'{"tool_choice":{"type":"acme:choice","a":%b}}',
    "text.format.schema": b'{"text":{"format":{"type":"json_schema","schema":{"a":%b}}}}',
    "input[0]": b'{"input":[{"type":"acme:item","a":%b}]}',
    "input[0].acme:x": b'{"input":[{"type":"message","role":"user","content":"","acme:x":%b}]}',
    "input[0].content[0]": b'{"input":[{"role":"user","content":[{"type":"acme:part","a":%b}]}]}',
}


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    "bomb", [nested(100_000), b"[" * 100_000, b'{"a":' * 100_000], ids=["closed", "open", "objects"]
)
def test_a_depth_bomb_is_an_error_wherever_it_stands(place: bytes, bomb: bytes) -> None:
    error = refusal(place % bomb)
    assert error.payload.code in ("too_deep", "invalid_json")
    assert error.payload.message


@pytest.mark.parametrize("param", PLACES)
def test_the_depth_of_free_json_is_limited_long_before_the_stack_is(param: str) -> None:
    inside = 0 if param.endswith("acme:x") else 1
    accepted(PLACES[param] % nested(MAX_DEPTH - inside))
    error = refusal(PLACES[param] % nested(MAX_DEPTH - inside + 1))
    assert (error.payload.param, error.payload.code) == (param, "too_deep")
    assert str(MAX_DEPTH) in error.payload.message


def test_many_brackets_are_not_depth() -> None:
    wide = {"acme:x": [[n] for n in range(1000)], "acme:y": "[" * 1000}
    accepted(wide)


def test_arguments_that_arrive_as_an_object_are_text_however_deep() -> None:
    body = b'[{"type":"function_call","call_id":"c","name":"f","arguments":%b}]' % nested(300)
    [call] = decode_items(body)
    assert isinstance(call, FunctionCall)
    assert len(call.arguments) == 600


# --- size ---------------------------------------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_unread() -> None:
    error = refusal(b"x" * 100, max_bytes=99)
    assert (error.status, error.payload.code) == (413, "body_too_large")
    assert error.payload.message == "the body has 100 bytes; the limit is 99"
    with pytest.raises(SpecError) as caught:
        decode_item(b" " * (MAX_BODY + 1))
    assert caught.value.status == 413


# what stands before and after the string, where the error is, and how many MB the string has
HUGE: dict[str, tuple[bytes, bytes, str | None, int]] = {
    "input": (b'{"input":"', b'"}', "input", 100),
    "field name": (b'{"', b'":1}', None, 100),
    "enum": (b'{"truncation":"', b'"}', "truncation", 100),
    "cut off": (b'{"input":"', b"", None, 100),
    "image": (
        b'{"input":[{"role":"user","content":[{"type":"input_image","image_url":"',
        b'"}]}]}',
        "input[0].content[0].image_url",
        30,
    ),
    "metadata": (b'{"metadata":{"a":"', b'"}}', "metadata", 30),
    "metadata key": (b'{"metadata":{"', b'":""}}', None, 30),
    "role": (b'{"input":[{"content":"","role":"', b'"}]}', "input[0].role", 30),
    "format": (b'{"text":{"format":{"type":"', b'"}}}', "text", 30),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_string_is_an_error_in_bounded_time_and_memory(name: str) -> None:
    before, after, param, size = HUGE[name]
    body = before + b"x" * (size * MB) + after
    started = process_time()
    tracemalloc.start()
    try:
        error = refusal(body, max_bytes=200 * MB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.payload.param == param
    assert len(error.payload.message) < 300
    assert peak < 4 * len(body)
    assert process_time() - started < 60


def test_more_escapes_than_a_body_may_have_are_refused_unread() -> None:
    """A text of escapes is read at a tenth of the speed of a plain one, in one call."""
    text = b"\\u00e9" * MAX_ESCAPES
    assert decode_request(b'{"input": "%b"}' % text).input == "é" * MAX_ESCAPES
    with pytest.raises(SpecError, match="2,000,000 escapes") as caught:
        decode_request(b'{"input": "%b\\n"}' % text)
    assert caught.value.payload.code == "too_many_escapes"


@pytest.mark.parametrize("decode", [decode_request, decode_compact_request])
def test_instructions_have_the_limit_of_all_but_the_input(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(SpecError, match="4,194,304 bytes without its `input`") as caught:
        decode(b'{"model": "m", "instructions": "%b"}' % (b"x" * 4_194_304))
    assert caught.value.payload.param == "instructions"


def test_a_body_of_100_mb_is_refused_unread_by_default() -> None:
    body = b'{"input":"' + b"x" * (100 * MB) + b'"}'
    tracemalloc.start()
    try:
        error = refusal(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (error.status, error.payload.code) == (413, "body_too_large")
    assert peak < MB


def test_a_huge_string_in_the_widest_encoding() -> None:
    body = '{"input":"é😀'.encode() + b"x" * (50 * MB) + b'"}'
    tracemalloc.start()
    try:
        error = refusal(body, max_bytes=200 * MB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.payload.param == "input"
    assert peak < 10 * len(body)


def test_the_limit_on_text_counts_characters_not_bytes() -> None:
    accepted({"input": "é" * TEXT})
    assert refusal({"input": "é" * (TEXT + 1)}).payload.param == "input"
