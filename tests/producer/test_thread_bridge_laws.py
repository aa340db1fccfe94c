"""The law of the bridge: any events whatever give streams in which nothing is wrong."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.producer import BridgeOptions, ThreadEventBridge
from antiphon.spec.events import AnyEvent, ResponseCreatedEvent
from antiphon.spec.response import Response
from tests.producer.judging import assert_sound

USAGE = {"input_tokens": 1000, "cached_input_tokens": 500, "output_tokens": 200}

Json = dict[str, Any]

texts = st.sampled_from(["", "a", "ab", "abc", "b", "🙂", "🙂é", "a\nb"])
identifiers = st.sampled_from(["i1", "i2", "i3", "", "x" * 70])
statuses = st.sampled_from(["in_progress", "completed", "failed", "started", "odd"])
values = st.sampled_from([None, {}, {"a": 1}, '{"a":1}', "words", 3, [1]])
details = st.fixed_dictionaries(
    {"id": identifiers},
    optional={
        "text": texts | st.just(None),
        "command": texts,
        "aggregated_output": texts,
        "tool_name": st.sampled_from(["f", "g", "", None]),
        "arguments": values,
        "tool_call_id": identifiers,
        "call_id": identifiers,
        "output": texts,
        "spool_path": st.sampled_from(["", "p"]),
        "status": statuses,
        "result": values,
        "changes": st.just([{"path": "a", "kind": "add"}]),
        "query": texts,
        "event": texts,
        "message": texts,
        "data": values,
    },
)
item_types = st.sampled_from(
    [
        "agent_message",
        "plan",
        "reasoning",
        "command_execution",
        "tool_invocation",
        "tool_output",
        "file_change",
        "mcp_tool_call",
        "web_search",
        "harness",
        "error",
        "hologram",
    ]
)
item_events = st.builds(
    lambda event, kind, fields: {"type": f"item.{event}", "item": {**fields, "type": kind}},
    st.sampled_from(["started", "updated", "completed"]),
    item_types,
    details,
)
other_events = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(
        [
            "thread.started",
            "thread.completed",
            "thread.compact_boundary",
            "context.reset",
            "turn.started",
            "turn.completed",
            "turn.failed",
            "permission.requested",
            "permission.resolved",
            "interjected",
            "plan.delta",
            "plan.approval.requested",
            "plan.approval.resolved",
            "error",
            "unknown",
        ]
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "message": texts,
            "item_id": identifiers,
            "usage": st.just(USAGE) | st.just({"input_tokens": -1, "output_tokens": "x"}),
        },
    ),
)
provider_events = st.builds(
    lambda kind, text, id, reason: {
        "type": kind,
        "delta": text,
        "call_id": id,
        "name": text,
        "finish_reason": reason,
    },
    st.sampled_from(["text_delta", "reasoning_delta", "tool_call_start", "tool_call_delta", "usage", "done"]),
    texts,
    identifiers,
    st.sampled_from(["stop", "length", "error", "content_filter"]),
)
steps = st.one_of(
    st.tuples(st.just(False), item_events),
    st.tuples(st.just(False), item_events),
    st.tuples(st.just(False), other_events),
    st.tuples(st.just(True), provider_events),
)
switches = st.builds(BridgeOptions, st.just(True), st.booleans(), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(steps, max_size=30), switches)
def test_any_events_give_sound_streams(steps: list[tuple[bool, Json]], options: BridgeOptions) -> None:
    bridge = ThreadEventBridge("agent", options=options)
    events: list[AnyEvent] = []
    for is_provider, event in steps:
        events += bridge.feed_provider(event) if is_provider else bridge.feed(event)
    events += bridge.finish()
    streams: list[list[AnyEvent]] = []
    for made in events:
        if isinstance(made, ResponseCreatedEvent):
            streams.append([])
        streams[-1].append(made)
    previous: Response | None = None
    for stream in streams:
        response = assert_sound(stream)
        if response.previous_response_id is not None:
            assert previous is not None
            assert response.previous_response_id == previous.id
        previous = response
    if streams:
        assert_sound(streams[-1], bridge.response)
