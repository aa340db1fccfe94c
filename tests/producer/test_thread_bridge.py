"""Thread events to responses: items, turns, correlation, options."""

import json
from dataclasses import astuple
from itertools import product
from typing import Any

import pytest

from antiphon.producer import BridgeOptions, ThreadEventBridge
from antiphon.spec.codec import Opaque
from antiphon.spec.events import (
    AnyEvent,
    OtherEvent,
    OutputItemAddedEvent,
    OutputTextDeltaEvent,
    ResponseCreatedEvent,
)
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning, type_of
from antiphon.spec.response import Response, Usage
from tests.producer.judging import assert_sound, assert_valid, types

USAGE = {"input_tokens": 1000, "cached_input_tokens": 500, "output_tokens": 200}
THREAD = {"type": "thread.started", "thread_id": "t1"}
TURN = {"type": "turn.started"}
END = {"type": "turn.completed", "usage": USAGE}

Json = dict[str, Any]


def item(event: str, id: str, type: str, /, **fields: Any) -> Json:
    return {"type": f"item.{event}", "item": {"id": id, "type": type, **fields}}


def play(*events: Json, **options: Any) -> tuple[list[AnyEvent], ThreadEventBridge]:
    bridge = ThreadEventBridge("agent", **options)
    return [made for event in events for made in bridge.feed(event)], bridge


def turn(*events: Json, **options: Any) -> Response:
    """The response of one whole turn with these events in it."""
    made, bridge = play(THREAD, TURN, *events, END, **options)
    response = assert_sound(made, bridge.response)
    assert bridge.finished
    return response


def words(items: list[Item]) -> list[str]:
    return [one.get_text() for one in items if isinstance(one, Message)]


def test_a_turn_becomes_a_response() -> None:
    events, bridge = play(
        THREAD,
        TURN,
        item("started", "m1", "agent_message", text=""),
        item("updated", "m1", "agent_message", text="Hel"),
        item("updated", "m1", "agent_message", text="Hello"),
        item("completed", "m1", "agent_message", text="Hello!"),
        END,
    )
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.delta for event in events if isinstance(event, OutputTextDeltaEvent)] == ["Hel", "lo", "!"]
    response = assert_sound(events, bridge.response)
    assert_valid(response)
    assert response.usage == Usage.of(1000, 200, cached=500)


def test_events_come_as_dicts_as_json_and_in_their_envelope() -> None:
    bridge = ThreadEventBridge("agent")
    made = bridge.feed(json.dumps(THREAD))
    made += bridge.feed(json.dumps({"schema_version": "0.11.0", "event": TURN}).encode())
    made += bridge.feed({"schema_version": "0.11.0", "event": END})
    assert_sound(made)


@pytest.mark.parametrize(
    "broken", ["{", "[]", b"\xff", {"type": object()}], ids=["cut", "list", "bytes", "object"]
)
def test_what_is_no_event_is_told(broken: Any) -> None:
    with pytest.raises(ValueError, match="this is no thread event"):
        ThreadEventBridge("agent").feed(broken)


def test_unknown_events_and_items_are_ignored() -> None:
    strange = [
        {"type": "turn.danced"},
        {"type": "item.started"},
        {},
        item("started", "x", "hologram", text="?"),
    ]
    assert turn(*strange).output == []


def test_an_update_starts_its_item_and_so_does_a_completion() -> None:
    response = turn(
        item("updated", "m1", "agent_message", text="one"),
        item("completed", "m2", "agent_message", text="two"),
        item("updated", "m2", "agent_message", text="late"),
        item("completed", "m2", "agent_message", text="late"),
    )
    assert words(response.output) == ["one", "two"]


def test_a_text_that_does_not_go_on_becomes_another_part() -> None:
    response = turn(
        item("started", "m1", "agent_message", text="draft"),
        item("updated", "m1", "agent_message", text="The final text"),
        item("updated", "m1", "agent_message", text=""),
        item("completed", "m1", "agent_message", text="🙂 and more"),
    )
    (message,) = response.output
    assert isinstance(message, Message)
    assert [getattr(part, "text", None) for part in message.content] == [
        "draft",
        "The final text",
        "🙂 and more",
    ]


def test_deltas_are_counted_in_characters() -> None:
    events, _ = play(
        THREAD,
        item("started", "m1", "agent_message", text="né🙂"),
        item("completed", "m1", "agent_message", text="né🙂ø"),
        END,
    )
    assert [event.delta for event in events if isinstance(event, OutputTextDeltaEvent)] == ["né🙂", "ø"]
    assert_sound(events)


def test_items_that_grow_side_by_side_stay_whole() -> None:
    response = turn(
        item("started", "r1", "reasoning", text=""),
        item("started", "m1", "agent_message", text=""),
        item("updated", "r1", "reasoning", text="hm"),
        item("updated", "m1", "agent_message", text="Hel"),
        item("updated", "r1", "reasoning", text="hmm", stage="analysis"),
        item("completed", "m1", "agent_message", text="Hello"),
        item("completed", "r1", "reasoning", text="hmm."),
    )
    reasoning, message = response.output
    assert isinstance(reasoning, Reasoning)
    assert isinstance(message, Message)
    assert (reasoning.get_reasoning_text(), message.get_text()) == ("hmm.", "Hello")


def test_every_kind_of_item() -> None:
    response = turn(
        item("completed", "p1", "plan", text="1. look"),
        item("started", "c1", "command_execution", command="ls", aggregated_output="", status="in_progress"),
        item("updated", "c1", "command_execution", command="ls", aggregated_output="a", status="in_progress"),
        item(
            "completed",
            "c1",
            "command_execution",
            command="ls",
            aggregated_output="a\nb",
            exit_code=1,
            status="failed",
        ),
        item(
            "started", "t1", "tool_invocation", tool_name="read", arguments={"p": "x"}, tool_call_id="call_9"
        ),
        item(
            "completed", "t1", "tool_invocation", tool_name="read", arguments={"p": "y"}, status="completed"
        ),
        item("started", "o1", "tool_output", call_id="t1", output="", status="in_progress"),
        item("completed", "o1", "tool_output", call_id="t1", output="text", status="completed"),
        item("completed", "f1", "file_change", changes=[{"path": "a", "kind": "add"}], status="completed"),
        item("started", "k1", "mcp_tool_call", tool_name="search", arguments={"q": 1}, status="started"),
        item("completed", "k1", "mcp_tool_call", tool_name="search", result={"hits": 2}, status="completed"),
        item("completed", "k2", "mcp_tool_call", tool_name="search", status="failed"),
        item("completed", "w1", "web_search", query="x", results=["y"]),
        item("completed", "h1", "harness", event="verification_started"),
        item("completed", "e1", "error", message="careful"),
    )
    assert [type_of(one) for one in response.output] == [
        "vtcode:plan",
        "vtcode:command_execution",
        "function_call",
        "function_call_output",
        "vtcode:file_change",
        "function_call",
        "function_call_output",
        "function_call",
        "function_call_output",
        "vtcode:web_search",
        "vtcode:harness_event",
        "vtcode:error",
    ]
    command = response.output[1]
    assert isinstance(command, Opaque)
    assert (command.id, command.status) == ("c1", "failed")
    assert command.fields["data"]["aggregated_output"] == "a\nb"
    calls = [one for one in response.output if isinstance(one, FunctionCall)]
    outputs = [one for one in response.output if isinstance(one, FunctionCallOutput)]
    assert (
        [call.call_id for call in calls] == [output.call_id for output in outputs] == ["call_9", "k1", "k2"]
    )
    assert [call.arguments for call in calls] == ['{"p":"y"}', '{"q":1}', "{}"]
    assert [output.output for output in outputs] == ["text", '{"hits":2}', "the tool failed"]


@pytest.mark.parametrize(
    ("output", "call_id"),
    [
        ({"call_id": "t2"}, "t2"),
        ({"call_id": "other", "tool_call_id": "prov"}, "t2"),
        ({"call_id": "prov"}, "t2"),
        ({"call_id": "t1"}, "prov"),
    ],
    ids=["by the harness", "by the provider", "by the provider's in the harness's place", "the first"],
)
def test_an_output_finds_its_call(output: Json, call_id: str) -> None:
    """The provider's id is the call's, unless an earlier call has it; then the harness's own is."""
    response = turn(
        item("completed", "t1", "tool_invocation", tool_name="a", tool_call_id="prov"),
        item("completed", "t2", "tool_invocation", tool_name="b", tool_call_id="prov"),
        item("completed", "o1", "tool_output", output="x", **output),
    )
    first, second, found = response.output
    assert isinstance(first, FunctionCall)
    assert isinstance(second, FunctionCall)
    assert isinstance(found, FunctionCallOutput)
    assert (first.call_id, second.call_id, found.call_id) == ("prov", "t2", call_id)


def test_an_output_ends_a_call_that_nobody_ended() -> None:
    response = turn(
        item("started", "t1", "tool_invocation", tool_name="a", arguments='{"x":1}'),
        item("completed", "o1", "tool_output", call_id="t1", output="", spool_path="out.txt"),
    )
    call, output = response.output
    assert isinstance(call, FunctionCall)
    assert isinstance(output, FunctionCallOutput)
    assert (call.arguments, output.output) == ('{"x":1}', "Output saved to out.txt")


def test_ids_that_do_not_fit_are_replaced() -> None:
    response = turn(
        item("completed", "t" * 70, "tool_invocation", tool_name="", tool_call_id="c" * 70),
        item("completed", "o1", "tool_output", call_id="t" * 70, output="x"),
        item("completed", "o2", "tool_output", call_id="", output="whose?"),
    )
    call, output, orphan = response.output
    assert isinstance(call, FunctionCall)
    assert isinstance(output, FunctionCallOutput)
    assert isinstance(orphan, FunctionCallOutput)
    assert call.name == "unknown"
    assert call.call_id == output.call_id
    assert orphan.call_id not in ("", call.call_id)


def test_nothing_follows_the_end_until_another_turn_opens_a_linked_response() -> None:
    first, bridge = play(THREAD, TURN, item("completed", "m1", "agent_message", text="one"), END)
    late = [
        item("completed", "m2", "agent_message", text="late"),
        {"type": "thread.completed"},
        {"type": "turn.failed", "message": "late"},
        {"type": "error", "message": "late"},
        END,
    ]
    assert [made for event in late for made in bridge.feed(event)] == []
    assert bridge.finish() == []
    one = assert_sound(first)
    second = bridge.feed(TURN)
    assert isinstance(second[0], ResponseCreatedEvent)
    assert second[0].response.previous_response_id == one.id
    second += bridge.feed(item("completed", "m1", "agent_message", text="two")) + bridge.feed(END)
    two = assert_sound(second, bridge.response)
    assert two.id != one.id
    assert words(two.output) == ["two"]


def test_a_turn_that_never_ended_is_cut_when_the_next_begins() -> None:
    events, bridge = play(THREAD, TURN, item("started", "m1", "agent_message", text="half"))
    cut = bridge.feed(TURN)
    (start,) = [n for n, event in enumerate(cut) if isinstance(event, ResponseCreatedEvent)]
    response = assert_sound(events + cut[:start])
    assert response.status == "incomplete"
    assert_sound(cut[start:] + bridge.feed(END))


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "turn.failed", "message": "too long", "usage": USAGE}, "model_error"),
        ({"type": "error", "message": "too long"}, "server_error"),
    ],
    ids=["turn", "thread"],
)
def test_failures_close_what_is_open(event: Json, code: str) -> None:
    events, bridge = play(
        THREAD,
        TURN,
        item("completed", "m0", "agent_message", text="said"),
        item("started", "m1", "agent_message", text="half"),
        item("started", "c1", "command_execution", command="ls", status="in_progress"),
        event,
    )
    response = assert_sound(events, bridge.response)
    assert response.error is not None
    assert (response.error.code, response.error.message) == (code, "too long")
    assert [getattr(one, "status", None) for one in response.output] == [
        "completed",
        "incomplete",
        "incomplete",
    ]


def test_other_events_of_the_thread_become_events_of_the_vendor() -> None:
    names = ["thread.compact_boundary", "context.reset", "plan.approval.requested", "plan.approval.resolved"]
    names += ["permission.requested", "permission.resolved", "interjected", "plan.delta", "thread.completed"]
    told = [{"type": name, "thread_id": "t1"} for name in names]
    events, _ = play(THREAD, *told, END, vendor="acme")
    found = [event for event in events if isinstance(event, OtherEvent)]
    assert [event.type for event in found] == [
        "acme:thread_compact_boundary",
        "acme:context_reset",
        "acme:plan_approval_requested",
        "acme:plan_approval_resolved",
        "acme:permission_requested",
        "acme:permission_resolved",
        "acme:interjected",
        "acme:plan_delta",
        "acme:thread_completed",
    ]
    assert found[0].fields == {"data": {"thread_id": "t1"}}
    assert_sound(events)
    with pytest.raises(ValueError, match="no vendor's slug"):
        ThreadEventBridge("m", vendor="vt-code")


def test_a_delta_of_a_plan_says_which_plan() -> None:
    events, _ = play(
        THREAD,
        item("started", "p1", "plan", text=""),
        {"type": "plan.delta", "item_id": "p1", "delta": "1."},
        item("completed", "p1", "plan", text="1."),
        END,
    )
    (delta,) = [event for event in events if isinstance(event, OtherEvent)]
    assert (delta.fields["item_id"], delta.fields["output_index"]) == ("p1", 0)
    assert_sound(events)


def test_a_bridge_may_start_in_the_middle_and_be_finished() -> None:
    bridge = ThreadEventBridge("agent")
    assert bridge.response is None
    assert bridge.finish() == []
    events = bridge.feed(item("started", "m1", "agent_message", text="Hi"))
    events += bridge.feed(THREAD) + bridge.finish()
    assert words(assert_sound(events, bridge.response).output) == ["Hi"]


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("error", "failed", None),
    ],
)
def test_the_events_of_a_models_stream_drive_the_same_response(
    reason: str, status: str, why: str | None
) -> None:
    bridge = ThreadEventBridge("model")
    told: list[Json] = [
        {"type": "reasoning_delta", "delta": "hm"},
        {"type": "text_delta", "delta": ""},
        {"type": "text_delta", "delta": "Hi"},
        {"type": "tool_call_start", "call_id": "c1", "name": "look"},
        {"type": "tool_call_delta", "call_id": "c1", "delta": '{"a":'},
        {"type": "tool_call_delta", "call_id": "c1", "delta": "1}"},
        {"type": "usage", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
        {"type": "sneeze"},
        {"type": "done", "finish_reason": reason},
        {"type": "text_delta", "delta": "late"},
    ]
    events = [made for event in told for made in bridge.feed_provider(event)]
    response = assert_sound(events, bridge.response)
    assert response.status == status
    assert (response.incomplete_details.reason if response.incomplete_details else None) == why
    assert response.usage == Usage.of(3, 4)
    assert [type_of(one) for one in response.output] == ["reasoning", "message", "function_call"]
    call = response.output[2]
    assert isinstance(call, FunctionCall)
    assert (call.call_id, call.name, call.arguments) == ("c1", "look", '{"a":1}')


NOISE = (
    item("completed", "r1", "reasoning", text="hm"),
    item("completed", "t1", "tool_invocation", tool_name="f", arguments={}),
    item("completed", "c1", "command_execution", command="ls", status="completed"),
    item("completed", "o1", "tool_output", call_id="t1", output="x"),
    item("completed", "m1", "agent_message", text="Hello"),
    {"type": "context.reset"},
)


SIXTEEN = [BridgeOptions(True, *switches) for switches in product((True, False), repeat=4)]


def expected(options: BridgeOptions) -> list[str]:
    """The types of the items that the thread of `NOISE` comes to."""
    reasoning = ["reasoning"] if options.include_reasoning else []
    call, output = (["function_call"], ["function_call_output"]) if options.map_tool_calls else ([], [])
    command = ["vtcode:command_execution"] if options.include_extensions else [*call, *output]
    return [*reasoning, *call, *command, *output, "message"]


@pytest.mark.parametrize(
    "options", SIXTEEN, ids=["".join("+-"[not on] for on in astuple(one)[1:]) for one in SIXTEEN]
)
def test_each_combination_of_the_switches_leaves_no_hole_and_agrees_with_its_response(
    options: BridgeOptions,
) -> None:
    events, bridge = play(THREAD, TURN, *NOISE, END, options=options)
    assert bridge.response is not None
    assert [type_of(one) for one in bridge.response.output] == expected(options)
    assert words(bridge.response.output) == ["Hello"]
    if not options.emit_events:
        assert events == []
        return
    response = assert_sound(events, bridge.response)
    added = [event for event in events if isinstance(event, OutputItemAddedEvent)]
    assert [event.output_index for event in added] == list(range(len(response.output)))
    assert [type_of(event.item) for event in added if event.item] == expected(options)
    assert any(isinstance(event, OtherEvent) for event in events) == options.include_extensions
    assert any("reasoning" in event.type for event in events) == options.include_reasoning
    assert any("function_call" in event.type for event in events) == options.map_tool_calls


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ({"aggregated_output": "a\nb", "exit_code": 0, "status": "completed"}, "a\nb"),
        (
            {"aggregated_output": "no a\n", "exit_code": 2, "status": "failed"},
            "no a\nthe command failed with exit code 2",
        ),
        ({"aggregated_output": "", "status": "failed"}, "the command failed"),
    ],
    ids=["done", "exit code", "failed"],
)
def test_without_extensions_a_command_is_a_call_with_its_output(ending: Json, said: str) -> None:
    command = {"command": "ls", "arguments": ["-l"]}
    response = turn(
        item("started", "c1", "command_execution", **command, status="in_progress"),
        item("updated", "c1", "command_execution", **command, aggregated_output="a"),
        item("completed", "c1", "command_execution", **command, **ending),
        options=BridgeOptions(enabled=True, include_extensions=False),
    )
    assert_valid(response)
    call, output = response.output
    assert isinstance(call, FunctionCall)
    assert isinstance(output, FunctionCallOutput)
    assert (call.name, call.call_id, call.status) == ("command_execution", "c1", "completed")
    assert call.get_arguments_dict() == command
    assert (output.call_id, output.output, output.status) == ("c1", said, "completed")


def test_a_bridge_that_is_not_enabled_does_nothing() -> None:
    events, bridge = play(THREAD, TURN, *NOISE, END, options=BridgeOptions())
    assert (events, bridge.finish(), bridge.response, bridge.finished) == ([], [], None, False)
    assert bridge.feed_provider({"type": "text_delta", "delta": "Hi"}) == []


def test_the_vendor_of_items_is_configurable() -> None:
    (command,) = turn(item("completed", "c1", "command_execution", command="ls"), vendor="acme").output
    assert type_of(command) == "acme:command_execution"
