"""What is newer than this package: unknown objects byte for byte, unknown fields as equal JSON."""

import ast
import json
import tracemalloc
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antiphon
from antiphon.spec import (
    Opaque,
    decode_item,
    decode_items,
    decode_output_item,
    decode_request,
    decode_response,
    decode_stored_items,
    encode,
    extras,
)
from antiphon.spec.codec import encoder, extend_struct, to_builtins, without_extra
from antiphon.spec.content import UrlCitation
from antiphon.spec.items import (
    CLIENT_CALLS,
    FunctionCall,
    FunctionCallOutput,
    Message,
    is_call,
    is_valid_extension_type,
    type_of,
    vendor_item,
)
from antiphon.spec.limits import MAX_UNKNOWN_SHAPES
from antiphon.spec.tools import CustomTool, FunctionTool
from tests.spec import samples
from tests.spec.strategies import FIELD_NAMES, JSON, UNKNOWN_FIELDS

ITEMS: list[dict[str, Any]] = [to_builtins(item) for item in samples.output_items()] + [
    {"type": "item_reference", "id": "msg_1"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "f", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
]

# --- vendor items -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("vtcode:file_change", True),
        ("acme:search_result", True),
        ("openai:web_search_call", True),
        ("file_change", False),
        (":file_change", False),
        ("vtcode:", False),
        ("vt-code:file_change", False),
        ("", False),
        ("a:b:c", False),
        ("a:b\n", False),
        ("é:b", False),
    ],
)
def test_extension_types(name: str, valid: bool) -> None:
    assert is_valid_extension_type(name) is valid


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"acme:thing"}',
        b' {"n": 1.50, "big": 123456789012345678901234567890,\n"type" : "acme:thing",\t"e":1E2} ',
        '{"type":"acme:thing","ü":"ü 😀","nested":{"a":[{}, [] ,null]}}'.encode(),
        b'{"type":"acme:thing","a":1,"a":2}',
        b'{"type":"new_item_of_next_year","id":"x_1","status":"failed"}',
    ],
)
def test_an_unknown_item_is_kept_byte_for_byte(raw: bytes) -> None:
    item = decode_item(raw)
    assert isinstance(item, Opaque)
    assert encode(item) == raw
    [again] = decode_items(b"[%b]" % raw)
    assert encode(again) == raw.strip()
    assert encode(decode_output_item(raw)) == raw
    assert encode(decode_stored_items(b"[%b]" % raw)) == b"[%b]" % raw.strip()


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), st.integers(0, 2))
def test_any_unknown_item_survives(fields: dict[str, Any], indent: int) -> None:
    raw = json.dumps(fields | {"type": "acme:thing"}, indent=indent or None).encode()
    item = decode_item(raw)
    assert encode(item) == raw
    assert to_builtins(item) == fields | {"type": "acme:thing"}


def test_a_vendor_item_has_its_type_and_its_data() -> None:
    item = vendor_item("vtcode", "file_change", id="item_1", data={"path": "a.py"})
    assert (item.type, item.id, item.status) == ("vtcode:file_change", "item_1", "completed")
    assert to_builtins(item) == {
        "type": "vtcode:file_change",
        "id": "item_1",
        "status": "completed",
        "data": {"path": "a.py"},
    }
    assert "custom_type" not in item.fields
    with pytest.raises(ValueError, match="'vt-code:x' is no extension type"):
        vendor_item("vt-code", "x", id="", data=None)


def test_what_an_opaque_object_says_of_itself() -> None:
    item = Opaque(b'{"type":"acme:call","id":"x_1","call_id":"c_1","status":"in_progress","n":1}')
    assert (item.type, item.id, item.call_id, item.status) == ("acme:call", "x_1", "c_1", "in_progress")
    changed = item.replace(status="completed")
    assert (changed.status, changed.fields["n"], item.status) == ("completed", 1, "in_progress")
    assert item == Opaque(b'{"n":1,"status":"in_progress","call_id":"c_1","id":"x_1","type":"acme:call"}')
    assert item != changed
    assert item != "acme:call"
    assert len({item, changed, Opaque(item.raw)}) == 2
    assert repr(item) == "Opaque('acme:call', 76 bytes)"
    nameless = Opaque(b'{"type":5}')
    assert (nameless.type, nameless.id, nameless.status) == ("", "", None)


def test_only_wire_data_can_be_encoded() -> None:
    with pytest.raises(TypeError, match="complex is not wire data"):
        encoder.encode(1j)


# --- what agent clients send --------------------------------------------------------------------------------

CLIENT_ITEMS: list[dict[str, Any]] = [
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c",
        "action": {"type": "exec", "command": ["ls"]},
    },
    {"type": "local_shell_call_output", "call_id": "c", "output": "a"},
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    },
    {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}", "output": None},
    {
        "type": "mcp_list_tools",
        "id": "mcpl_1",
        "server_label": "s",
        "tools": [{"name": "t", "input_schema": {}}],
    },
    {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "t", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "q"}},
    {"type": "tool_search_output", "call_id": "c", "tools": []},
    {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]},
    {"type": "compaction_trigger"},
    {"type": "context_compaction", "encrypted_content": "x"},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
    {"type": "agent_message", "content": [{"type": "input_text", "text": "x"}]},
]
CLIENT_TOOLS: list[dict[str, Any]] = [
    {"type": "namespace", "name": "mcp__fs", "tools": [{"type": "function", "name": "read"}]},
    {"type": "mcp", "server_label": "s", "server_url": "https://example.org", "allowed_tools": ["t"]},
    {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}},
    {"type": "tool_search", "execution": "client", "parameters": {}},
    {"type": "local_shell"},
    {"type": "acme:tool", "anything": [1, 2]},
]


@pytest.mark.parametrize("payload", CLIENT_ITEMS, ids=lambda payload: payload["type"])
def test_the_items_of_agent_clients_are_carried(payload: dict[str, Any]) -> None:
    raw = json.dumps(payload).encode()
    [item] = decode_items(b"[%b]" % raw)
    assert isinstance(item, Opaque)
    assert type_of(item) == payload["type"]
    assert encode(item) == raw
    assert is_call(item) == (payload["type"] in CLIENT_CALLS)


@pytest.mark.parametrize("payload", CLIENT_TOOLS, ids=lambda payload: payload["type"])
def test_the_tools_of_agent_clients_are_carried(payload: dict[str, Any]) -> None:
    raw = json.dumps(payload).encode()
    [tool] = decode_request(b'{"tools":[%b]}' % raw).tools
    assert isinstance(tool, Opaque)
    assert encode(tool) == raw


def test_custom_tools_and_their_calls_are_typed() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    body = {
        "tools": [{"type": "custom", "name": "apply_patch", "description": "d", "format": grammar}],
        "tool_choice": {"type": "custom", "name": "apply_patch"},
        "input": [
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
        ],
    }
    request = decode_request(json.dumps(body).encode())
    assert request.tools == [CustomTool("apply_patch", "d", grammar)]
    assert request.tool_choice == Opaque(b'{"type":"custom","name":"apply_patch"}')
    assert to_builtins(request) == body
    assert isinstance(request.input, list)
    assert [is_call(item) for item in request.input] == [True, False]


def test_the_tools_that_are_allowed_may_be_of_any_kind() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "s"}]}
    assert to_builtins(decode_request(json.dumps({"tool_choice": choice}).encode()))["tool_choice"] == choice


def test_a_call_keeps_its_namespace() -> None:
    raw = b'{"type":"function_call","call_id":"c","name":"read","arguments":"{}","namespace":"mcp__fs"}'
    call = decode_item(raw)
    assert isinstance(call, FunctionCall)
    assert call.namespace == "mcp__fs"
    assert encode(call) == raw


def test_unknown_parts_and_annotations_are_carried_byte_for_byte() -> None:
    """`input_audio` is such a part."""
    audio = b'{"type":"input_audio", "input_audio":{"data":"aGk=","format":"wav"}}'
    item = decode_item(b'{"type":"message","role":"user","content":[%b]}' % audio)
    assert isinstance(item, Message)
    assert isinstance(item.content[0], Opaque)
    assert audio in encode(item)
    note = b'{"type":"file_citation", "file_id":"f"}'
    text = b'{"type":"output_text","text":"x","annotations":[%b]}' % note
    item = decode_item(b'{"type":"message","role":"assistant","content":[%b]}' % text)
    assert note in encode(item)


# --- unknown fields -----------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(st.sampled_from(ITEMS), UNKNOWN_FIELDS)
def test_unknown_fields_of_known_items_are_kept(payload: dict[str, Any], unknown: dict[str, Any]) -> None:
    payload = payload | unknown
    item = decode_item(json.dumps(payload).encode())
    assert not isinstance(item, Opaque)
    assert extras(item) == unknown
    assert to_builtins(item) == payload
    [stored] = decode_stored_items(encode([item]))
    assert to_builtins(stored) == payload


def places(value: Any) -> list[dict[str, Any]]:
    """Every object in this JSON that has fields of its own, not entries."""
    if isinstance(value, list):
        return [place for one in value for place in places(one)]
    if not isinstance(value, dict):
        return []
    inner = [
        place
        for name, one in value.items()
        if name not in ("metadata", "parameters")
        for place in places(one)
    ]
    return [value, *inner]


@settings(max_examples=60)
@given(st.data())
def test_unknown_fields_of_anything_in_a_response_are_kept(data: st.DataObject) -> None:
    """Parts, annotations, logprobs, tools, choices, formats, usage and its details, errors."""
    payload = to_builtins(data.draw(st.sampled_from(samples.responses())))
    for place in data.draw(st.lists(st.sampled_from(places(payload)), min_size=1, max_size=3)):
        place.update(data.draw(UNKNOWN_FIELDS))
    expected = deepcopy(payload)
    problems: list[str] = []
    assert to_builtins(decode_response(json.dumps(payload).encode(), problems)) == expected
    assert problems == []


REQUEST = {
    "model": "m",
    "input": [item for item in ITEMS if item.get("type") != "reasoning"],
    "tools": [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None},
        {"type": "custom", "name": "g"},
    ],
    "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}], "mode": "auto"},
    "text": {
        "format": {"type": "json_schema", "name": "n", "description": None, "schema": None, "strict": False},
        "verbosity": "low",
    },
    "reasoning": {"effort": "low"},
    "stream_options": {"include_obfuscation": True},
}


@settings(max_examples=60)
@given(st.data())
def test_unknown_fields_of_anything_in_a_request_are_kept(data: st.DataObject) -> None:
    payload: dict[str, Any] = deepcopy(REQUEST)
    for place in data.draw(st.lists(st.sampled_from(places(payload)), min_size=1, max_size=3)):
        place.update(data.draw(UNKNOWN_FIELDS))
    assert to_builtins(decode_request(json.dumps(payload).encode())) == payload


def test_a_grown_object_is_what_it_was() -> None:
    item = decode_item(b'{"type":"message","role":"user","content":"x","acme:n":[1, 2]}')
    assert isinstance(item, Message)
    assert type_of(item) == "message"
    match item:
        case Message(role="user", content=content):
            assert content == "x"
    changed = msgspec.structs.replace(item, content="y")
    assert encode(changed) == b'{"type":"message","role":"user","content":"y","acme:n":[1, 2]}'
    assert extras(Message(role="user", content="")) == {}


@given(st.lists(FIELD_NAMES, min_size=1, max_size=4, unique=True))
def test_a_grown_class_has_its_fields_under_their_names(names: list[str]) -> None:
    cls = extend_struct(FunctionCallOutput, tuple(names))
    assert issubclass(cls, FunctionCallOutput)
    raw = encode({"type": "function_call_output", "call_id": "c", "output": "", **dict.fromkeys(names, 1)})
    assert extras(msgspec.json.decode(raw, type=cls)) == dict.fromkeys(names, 1)


def test_fields_named_like_our_own_are_kept_apart() -> None:
    raw = b'{"type":"message","role":"user","content":"","extra_1":1,"extra_0":0,"":2,"Role":3}'
    item = decode_item(raw)
    assert isinstance(item, Message)
    assert extras(item) == {"extra_1": 1, "extra_0": 0, "": 2, "Role": 3}


def test_a_carried_value_does_not_keep_the_body_alive() -> None:
    tracemalloc.start()
    try:
        body = b'{"input":[{"role":"user","content":"","acme:n":[1]}]%b}' % (b" " * 5_000_000)
        request = decode_request(body)
        del body
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1_000_000
    assert to_builtins(request)["input"][0]["acme:n"] == [1]


def test_a_stored_chain_may_have_more_kinds_of_unknown_fields_than_one_request() -> None:
    count = MAX_UNKNOWN_SHAPES + 10
    raw = encode([{"type": "message", "role": "user", "content": "", f"acme:{n}": n} for n in range(count)])
    assert encode(decode_stored_items(raw)) == raw


def test_grown_objects_stay_equal_when_their_class_was_forgotten() -> None:
    raw = b'{"type":"message","role":"user","content":"x","acme:n":[1, 2]}'
    one = decode_item(raw)
    extend_struct.cache_clear()
    other = decode_item(raw)
    assert type(one) is not type(other)
    assert (one == other, one != other) == (True, False)
    assert one != decode_item(raw.replace(b"2]", b"3]"))
    assert one != Message(role="user", content="x")
    assert Message(role="user", content="x") != one
    assert one != "x"


def test_known_objects_need_no_carrying() -> None:
    assert to_builtins([FunctionTool("f"), UrlCitation("u", "t", 0, 1)]) == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None},
        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1},
    ]


def test_what_cannot_be_read_is_listed_in_one_place() -> None:
    """To catch `MsgspecError` alone forgets what else reading raises: `UNREADABLE` has all of it."""
    package = Path(antiphon.__file__).parent
    named = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if getattr(node, "id", getattr(node, "attr", "")) == "MsgspecError"
    ]
    assert named == ["spec/codec.py"]


def test_one_unknown_field_can_be_left_out() -> None:
    raw = b'{"type":"function_call_output","call_id":"c","output":"x","is_error":true,"seen":1}'
    item = decode_item(raw)
    assert isinstance(item, FunctionCallOutput)
    assert extras(without_extra(item, "is_error")) == {"seen": 1}
    assert without_extra(item, "other") is item
    assert extras(item) == {"is_error": True, "seen": 1}


def test_a_field_may_have_any_name() -> None:
    """One of a client's named `cls` was a TypeError."""
    assert Opaque.make(type="x", cls=1, self=2).fields == {"type": "x", "cls": 1, "self": 2}
