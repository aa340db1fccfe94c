"""Calls of agent clients as items, and the tools that items bring."""

import json
from typing import Any

import pytest

from antiphon.spec.codec import Opaque, to_builtins
from antiphon.spec.decode import decode_items
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit
from antiphon.stream.client_calls import call_item, declared_tools, is_deferred, tools_in
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, CallDelta, Finish, ItemEnd, TextDelta

FUNCTION = {"type": "function", "name": "lookup", "parameters": {"type": "object"}, "defer_loading": True}


@pytest.mark.parametrize(
    ("kind", "arguments", "field", "value"),
    [
        ("tool_search", '{"query": "plums"}', "arguments", {"query": "plums"}),
        ("tool_search", "plums", "arguments", {"query": "plums"}),
        ("tool_search", "", "arguments", {}),
        ("local_shell", '{"command": ["ls"]}', "action", {"type": "exec", "command": ["ls"], "env": {}}),
        (
            "local_shell",
            '{"command": "ls | wc", "timeout_ms": 5, "user": null}',
            "action",
            {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}, "timeout_ms": 5},
        ),
        ("local_shell", "ls", "action", {"type": "exec", "command": ["bash", "-lc", "ls"], "env": {}}),
        ("local_shell", "", "action", {"type": "exec", "command": [], "env": {}}),
    ],
)
def test_a_function_becomes_the_item_of_its_kind(kind: str, arguments: str, field: str, value: Any) -> None:
    item = call_item(kind, "item_1", "call_1", arguments, "completed")
    assert item.type == f"{kind}_call"
    assert (item.id, item.call_id, item.status) == ("item_1", "call_1", "completed")
    assert item.fields[field] == value


def test_such_a_call_is_announced_and_told_at_its_end() -> None:
    composer = Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0)
    pieces: list[AnyDelta] = [
        CallDelta("a", name="tool_search", call_id="call_1", kind="tool_search"),
        CallDelta("a", '{"query":'),
        CallDelta("a", ' "plums"}'),
        ItemEnd("a", "completed"),
        TextDelta("And more."),
        CallDelta("b", '{"command": ["l', name="local_shell", kind="local_shell"),
        Finish("length"),
    ]
    events = [json.loads(event.to_json()) for event in composer.feed(pieces)]
    assert audit(events, solicited={"tool_search_call", "local_shell_call"}) == []
    search, _, shell = composer.response.output
    assert to_builtins(search)["arguments"] == {"query": "plums"}
    assert to_builtins(shell)["status"] == "incomplete"


def test_items_bring_tools_and_a_search_finds_them() -> None:
    namespace = {"type": "namespace", "name": "mcp__facts", "description": "", "tools": [FUNCTION]}
    items = decode_items(
        json.dumps(
            [
                {"type": "additional_tools", "role": "developer", "tools": [FUNCTION, {"type": "custom"}]},
                {"type": "tool_search_output", "call_id": "c", "tools": [FUNCTION, namespace]},
                {"type": "tool_search_output", "call_id": "d", "tools": "none"},
                {"role": "user", "content": "hi"},
            ]
        ).encode()
    )
    declared, alone, found = declared_tools([], items)
    assert is_deferred(declared)
    assert isinstance(alone, Opaque)
    assert isinstance(found, Opaque)
    assert (alone.type, alone.fields["name"]) == ("namespace", "lookup")
    assert not any(is_deferred(tool) for one in (alone, found) for tool in one.fields["tools"])


def test_a_request_without_such_items_keeps_its_list() -> None:
    tools = tools_in(Opaque.make(tools=[FUNCTION]))
    assert declared_tools(tools, decode_items(b'[{"role": "user", "content": "hi"}]')) is tools
