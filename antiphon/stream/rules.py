"""The rules that the Auditor checks a stream against, each with a stable id.

`docs/rules.md` is written from this list by `python -m scripts.stream_pages`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SPECIFICATION = "2026-04-24"

RuleLevel = Literal["MUST", "SHOULD"]


@dataclass(frozen=True, slots=True)
class StreamRule:
    """One rule. `area` is where the specification asks for it: the title of a section, or a schema of its
    OpenAPI document."""

    id: str
    level: RuleLevel
    summary: str
    area: str


_OF_STREAMS = (
    # what an event is
    StreamRule(
        "event.object", "MUST", "The data of every event is a JSON object.", "Streaming HTTP Responses"
    ),
    StreamRule("event.type", "MUST", "Every event has a `type`, and it is a string.", "Streaming"),
    # closed unions
    StreamRule(
        "union.event",
        "MUST",
        "An event type is one of the specification's 24, or an allowed `slug:name` extension.",
        "Extending streaming events",
    ),
    StreamRule(
        "union.item",
        "MUST",
        "An item type is one of the specification's five, or an allowed `slug:name` extension.",
        "Extending Items",
    ),
    StreamRule(
        "union.part",
        "MUST",
        "Parts, annotations, tools, tool choices and text formats have a type that their schema names.",
        "Schema",
    ),
    # keys
    StreamRule("keys.required", "MUST", "Every key that the schema requires is there.", "Schema"),
    StreamRule(
        "keys.type", "MUST", "Values have the JSON type of the schema; null only where it may be.", "Schema"
    ),
    StreamRule("keys.value", "MUST", "Values of an enumeration are members of it.", "Schema"),
    # order
    StreamRule(
        "order.created_first", "MUST", "The first event is `response.created`.", "State Machine events"
    ),
    StreamRule(
        "order.lifecycle",
        "MUST",
        "`response.created` comes once, `response.queued` only before work begins, "
        "`response.in_progress` once.",
        "State machines",
    ),
    StreamRule(
        "order.in_progress_first",
        "SHOULD",
        "`response.in_progress` comes before any output and before completion.",
        "State Machine events",
    ),
    StreamRule(
        "order.queued_silent",
        "MUST",
        "A queued response has no output until `response.in_progress`.",
        "State Machine events",
    ),
    StreamRule(
        "order.nothing_after_terminal", "MUST", "No event follows the terminal event.", "State Machine events"
    ),
    # the end
    StreamRule(
        "terminal.exactly_one", "MUST", "A stream has exactly one terminal event.", "State Machine events"
    ),
    StreamRule(
        "terminal.completed_at",
        "MUST",
        "`completed_at` is set on a completed response and null on one that still runs.",
        "Schema of ResponseResource",
    ),
    StreamRule(
        "terminal.ended_at",
        "SHOULD",
        "`completed_at` is also set on a failed or incomplete response.",
        "Our requirement",
    ),
    StreamRule(
        "terminal.error",
        "MUST",
        "`error` is set on a failed response and on no other.",
        "Errors; Schema of ResponseResource",
    ),
    StreamRule(
        "terminal.incomplete_details",
        "MUST",
        "`incomplete_details` is set on an incomplete response and on no other.",
        "Schema of ResponseResource",
    ),
    StreamRule(
        "error.then_failed",
        "MUST",
        "After an `error` event output may only be closed, and `response.failed` follows.",
        "Errors",
    ),
    # the response object
    StreamRule(
        "response.id_constant",
        "MUST",
        "Every response object in a stream has the same id.",
        "Schema of ResponseResource",
    ),
    StreamRule(
        "response.status",
        "MUST",
        "The status of a response object is the one its event announces.",
        "State Machine events",
    ),
    StreamRule(
        "response.output_starts_empty",
        "SHOULD",
        "Response objects before the terminal event have an empty output: the stream itself carries it.",
        "Delta Events",
    ),
    StreamRule(
        "response.output_final",
        "MUST",
        "The terminal response's output is exactly the items that were done, in their order.",
        "Delta Events; Schema of ResponseResource",
    ),
    # sequence numbers
    StreamRule(
        "seq.increasing",
        "MUST",
        "`sequence_number` grows with every event.",
        "Required fields for extended streaming events",
    ),
    StreamRule(
        "seq.no_gaps",
        "SHOULD",
        "`sequence_number` grows by one, so that a loss shows.",
        "Required fields for extended streaming events",
    ),
    # transport
    StreamRule("sse.event_named", "MUST", "Every event has an `event:` line.", "Streaming HTTP Responses"),
    StreamRule(
        "sse.event_matches_type",
        "MUST",
        "The `event:` line equals the `type` in the data.",
        "Streaming HTTP Responses",
    ),
    StreamRule(
        "done.required",
        "MUST",
        "A stream of server-sent events ends with `[DONE]`.",
        "Streaming HTTP Responses",
    ),
    StreamRule(
        "done.last", "MUST", "`[DONE]` comes once and nothing follows it.", "Streaming HTTP Responses"
    ),
    StreamRule(
        "done.not_on_websocket",
        "MUST",
        "`[DONE]` is never sent on a WebSocket.",
        "OpenAPI: WebSocket /responses",
    ),
    StreamRule(
        "websocket.one_ending",
        "MUST",
        "On a WebSocket one message ends a failed turn: an error before `response.created`, "
        "else `response.failed` alone.",
        "OpenAPI: WebSocket /responses",
    ),
    # items
    StreamRule(
        "item.added_first",
        "MUST",
        "An item is added before any other event about it.",
        "Items are streamable",
    ),
    StreamRule(
        "item.starts_in_progress",
        "SHOULD",
        "A message or a call is added in progress.",
        "Items are state machines",
    ),
    StreamRule(
        "item.starts_empty",
        "SHOULD",
        "An item added in progress has no text yet: no parts, empty arguments.",
        "Items are streamable",
    ),
    StreamRule(
        "item.nothing_after_done",
        "MUST",
        "No event about an item follows its done event.",
        "Items are state machines",
    ),
    StreamRule(
        "item.done_status",
        "MUST",
        "An item is done as completed or incomplete; an extension item may also fail.",
        "Items are state machines",
    ),
    StreamRule(
        "item.stable",
        "MUST",
        "An item keeps its type, role, name and call id from added to done.",
        "Items are streamable",
    ),
    StreamRule(
        "item.done_before_terminal",
        "MUST",
        "Every item of the specification's kinds is done before the terminal event.",
        "Items are streamable",
    ),
    # indexes
    StreamRule(
        "index.output",
        "MUST",
        "Each new item takes the next `output_index`, from 0, and shares it with no other.",
        "Schema of ResponseOutputItemAddedStreamingEvent",
    ),
    StreamRule(
        "index.part",
        "MUST",
        "Each new part of an item takes the next `content_index` or `summary_index`, from 0.",
        "Schema of ResponseContentPartAddedStreamingEvent",
    ),
    StreamRule(
        "index.annotation",
        "MUST",
        "Each new annotation of a part takes the next `annotation_index`, from 0.",
        "Schema of ResponseOutputTextAnnotationAddedStreamingEvent",
    ),
    # ids
    StreamRule(
        "id.item_matches",
        "MUST",
        "`item_id` is the id of the item at that `output_index`.",
        "Schema of ResponseContentPartAddedStreamingEvent",
    ),
    StreamRule("id.item_unique", "MUST", "No two items have the same id.", "Required item fields"),
    StreamRule("id.call_unique", "MUST", "No two calls have the same `call_id`.", "Schema of FunctionCall"),
    # kinds
    StreamRule(
        "kind.event",
        "MUST",
        "Events inside an item fit its kind and its part's type.",
        "Items are streamable",
    ),
    StreamRule("kind.part", "MUST", "A part is of a type that its item can have.", "Items are streamable"),
    # parts
    StreamRule(
        "part.added_first", "MUST", "A part is added before any other event about it.", "Items are streamable"
    ),
    StreamRule(
        "part.starts_empty", "SHOULD", "A part is added without text and annotations.", "Items are streamable"
    ),
    StreamRule(
        "part.text_done_first",
        "MUST",
        "The text of a part is done before the part is.",
        "Items are streamable",
    ),
    StreamRule(
        "part.nothing_after_done",
        "MUST",
        "No delta follows the done of a text or of a call's arguments; nothing follows the done of a part.",
        "Items are streamable",
    ),
    StreamRule("part.stable", "MUST", "A part keeps its type from added to done.", "Items are streamable"),
    StreamRule(
        "part.done_before_item",
        "MUST",
        "The parts and the arguments of an item are done before the item is.",
        "Items are streamable",
    ),
    # text
    StreamRule(
        "text.deltas_equal_done",
        "MUST",
        "Joined deltas are the text of the done event, after what was there when it was added.",
        "Delta Events",
    ),
    StreamRule(
        "text.done_equals_part", "MUST", "The done text is the text of the part that is done.", "Delta Events"
    ),
    StreamRule(
        "text.part_equals_item",
        "MUST",
        "A done item holds exactly the parts, or the arguments, that were streamed.",
        "Delta Events",
    ),
    StreamRule("text.no_empty_delta", "SHOULD", "A delta is not empty.", "Delta Events"),
    StreamRule(
        "annotation.kept",
        "MUST",
        "An announced annotation stands in the done part, at its index.",
        "Schema of ResponseOutputTextAnnotationAddedStreamingEvent",
    ),
    StreamRule(
        "annotation.announced",
        "SHOULD",
        "Annotations of a done part were announced.",
        "Schema of ResponseOutputTextAnnotationAddedStreamingEvent",
    ),
    # response against items
    StreamRule(
        "status.completed_items",
        "MUST",
        "All items of a completed response are completed.",
        "Items are state machines",
    ),
    StreamRule(
        "status.incomplete_last",
        "MUST",
        "An incomplete item is followed by nothing but incomplete items.",
        "Items are state machines",
    ),
    # hosted tools, where the client has asked for them
    StreamRule(
        "hosted.item_keys",
        "MUST",
        "An item of a hosted tool has what its kind needs: an `mcp_call` its name, arguments and server.",
        "Extending Items",
    ),
    StreamRule(
        "hosted.event_place",
        "MUST",
        "An event of a hosted tool names an open item of its kind, by id and index.",
        "Extending streaming events",
    ),
    StreamRule(
        "hosted.event_order",
        "MUST",
        "Of a hosted tool's events `in_progress` comes first, and nothing follows `completed` or `failed`.",
        "Extending streaming events",
    ),
    StreamRule(
        "hosted.event_end",
        "MUST",
        "The item of a hosted tool ends as its events have said, and events that began end with it.",
        "Extending streaming events",
    ),
    StreamRule(
        "hosted.text",
        "MUST",
        "Arguments and code of a hosted call are the same in deltas, in the done event and in the item.",
        "Extending streaming events",
    ),
)

_OF_RESPONSES = (
    StreamRule(
        "usage.adds_up",
        "SHOULD",
        "The total of the usage is its input and its output, and no detail is more than its whole.",
        "Schema of Usage",
    ),
    StreamRule(
        "response.times",
        "SHOULD",
        "`created_at` and `completed_at` are in seconds, and the end is not before the beginning.",
        "Schema of ResponseResource",
    ),
    StreamRule(
        "response.consistent",
        "MUST",
        "The fields of a whole response fit its status: `completed_at`, `error`, "
        "`incomplete_details`, and the statuses of its items.",
        "State machines",
    ),
)

RULES: Mapping[str, StreamRule] = {rule.id: rule for rule in _OF_STREAMS}
RESPONSE_RULES: Mapping[str, StreamRule] = {rule.id: rule for rule in _OF_RESPONSES}
"""What a response that was not streamed is held to, besides its keys."""
