"""Tool calls in a chat stream: told apart without ids, and under the names that the client gave them."""

import json
from typing import Any

import pytest

from antiphon.stream.deltas import CallDelta
from antiphon.wires.tools.names import DeclaredTool, ToolNames, UpstreamFunction
from tests.providers.chat import wire
from tests.providers.chat.reading import read, response
from tests.providers.compose import compose, plain, told


def whole_call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("index", [{}, {"index": 0}])
@pytest.mark.parametrize("together", [True, False])
def test_whole_calls_without_ids_stay_apart(index: dict[str, int], together: bool) -> None:
    calls = [whole_call("get_weather", json.dumps({"city": city}), **index) for city in ("Paris", "Tokyo")]
    chunks = [calls] if together else [[call] for call in calls]
    body = b"".join(wire.chunk({"tool_calls": one}) for one in chunks) + wire.finish("stop")
    calls_made = plain(response(body))["output"]
    assert [json.loads(call["arguments"])["city"] for call in calls_made] == ["Paris", "Tokyo"]
    assert len({call["call_id"] for call in calls_made}) == 2


def test_pieces_without_an_index_go_by_their_id() -> None:
    pieces = [
        {"id": "a", "function": {"name": "f", "arguments": '{"x":'}},
        {"id": "b", "function": {"name": "g", "arguments": '{"y":'}},
        {"id": "a", "function": {"arguments": "1}"}},
        {"id": "b", "function": {"arguments": "2}"}},
    ]
    body = b"".join(wire.chunk({"tool_calls": [piece]}) for piece in pieces) + wire.finish("tool_calls")
    assert told(response(body)) == [("f", '{"x":1}', "a"), ("g", '{"y":2}', "b")]


def test_arguments_may_be_an_object() -> None:
    body = wire.chunk({"tool_calls": [whole_call("f", {"a": 1}, id="x")]}) + wire.finish("tool_calls")
    assert told(response(body)) == [("f", '{"a":1}', "x")]


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    assert told(response(wire.call(0, "f", "", "x") + wire.finish("tool_calls"))) == [("f", "{}", "x")]


def test_a_call_that_is_never_named_is_not_lost() -> None:
    made = response(wire.call(0, arguments='{"a":1}', id="x") + wire.finish("tool_calls"))
    assert told(made) == [("unknown", '{"a":1}', "x")]


def test_the_legacy_function_call() -> None:
    body = (
        wire.chunk({"function_call": {"name": "f", "arguments": ""}})
        + wire.chunk({"function_call": {"arguments": '{"a":1}'}})
        + wire.finish("function_call")
    )
    [(name, arguments, _)] = told(response(body))
    assert (name, arguments) == ("f", '{"a":1}')


def test_a_later_choice_is_ignored() -> None:
    second = {"index": 1, "delta": {"content": "no"}, "finish_reason": None}
    body = wire.data({"choices": [second]}) + wire.text("yes") + wire.finish()
    assert told(response(body)) == ["yes"]


# --- names of our client's tools --------------------------------------------------------------------------

NAMES = ToolNames(
    [
        UpstreamFunction("apply_patch", None, {}, None, DeclaredTool("apply_patch", kind="custom")),
        UpstreamFunction("mcp__git__log", None, {}, None, DeclaredTool("log", "mcp__git")),
        UpstreamFunction("box__draw", None, {}, None, DeclaredTool("draw", "box", "custom")),
    ]
)


def test_a_custom_tool_is_unwrapped_while_it_streams() -> None:
    body = (
        wire.call(0, "apply_patch", "", "c")
        + wire.call(0, arguments='{"inp')
        + wire.call(0, arguments='ut": "*** Begin\\nπ \\ud83c')
        + wire.call(0, arguments='\\udfbc \\"q\\" \\\\')
        + wire.call(0, arguments=' end"}')
        + wire.finish("tool_calls")
    )
    deltas = read(body, names=NAMES)
    pieces = [delta.arguments for delta in deltas if isinstance(delta, CallDelta)]
    assert pieces == ["", "*** Begin\nπ ", '🎼 "q" \\', " end"]
    made = compose([deltas])
    assert told(made) == [("apply_patch", '*** Begin\nπ 🎼 "q" \\ end', "c")]
    assert plain(made)["output"][0]["type"] == "custom_tool_call"


@pytest.mark.parametrize(
    "arguments",
    ["*** Begin\nraw", '{"patch":"*** Begin\\nraw"}', '"*** Begin\\nraw"', '{"input":"*** Begin\\nraw"}'],
)
def test_a_custom_tool_that_the_model_wrapped_its_own_way(arguments: str) -> None:
    body = wire.call(0, "apply_patch", arguments, "c") + wire.finish("tool_calls")
    assert told(response(body, names=NAMES)) == [("apply_patch", "*** Begin\nraw", "c")]


def test_a_custom_call_that_was_whole_survives_a_cut() -> None:
    whole = wire.call(0, "apply_patch", '{"input":"all of it"}', "c")
    assert told(response(whole + wire.finish("length"), names=NAMES)) == [("apply_patch", "all of it", "c")]
    cut = wire.call(0, "apply_patch", '{"input":"half of', "c")
    assert told(response(cut + wire.finish("length"), names=NAMES)) == [("!apply_patch", "half of", "c")]


def test_namespaces_are_restored() -> None:
    body = (
        wire.call(0, "mcp__git__log", "{}", "a")
        + wire.call(1, "box__draw", '{"input":"o"}', "b")
        + wire.finish("tool_calls")
    )
    first, second = plain(response(body, names=NAMES))["output"]
    assert (first["namespace"], first["name"], first["type"]) == ("mcp__git", "log", "function_call")
    assert (second["namespace"], second["name"], second["type"]) == ("box", "draw", "custom_tool_call")
