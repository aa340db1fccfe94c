"""The catalogue of what a stream must do: every rule the Auditor judges by, with its stable id.

`docs/rules.md` is written from this list by `python -m antiphon.stream.diagrams`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SPECIFICATION = "2026-04-24"

Level = Literal["MUST", "SHOULD"]


@dataclass(frozen=True, slots=True)
class StreamRule:
    """One rule. `area` says where it comes from: the part of the specification, or our requirement."""

    id: str
    level: Level
    summary: str
    area: str


_OF_STREAMS = (
    # what an event is
    StreamRule(
        "event.object", "MUST", "The data of every event is a JSON object.", "Streaming HTTP responses"
    ),
    StreamRule("event.type", "MUST", "Every event has a `type`, and it is a string.", "Streaming events"),
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
        "Extending items; 1.7, C02",
    ),
    StreamRule(
        "union.part",
        "MUST",
        "Parts, annotations, tools, tool choices and text formats have a type that their schema names.",
        "Schema; 1.8",
    ),
    # keys
    StreamRule(
        "keys.required", "MUST", "Every key that the schema requires is there.", "Schema; 1.4 to 1.8, C01"
    ),
    StreamRule(
        "keys.type", "MUST", "Values have the JSON type of the schema; null only where it may be.", "Schema"
    ),
    StreamRule("keys.value", "MUST", "Values of an enumeration are members of it.", "Schema"),
    # order
    StreamRule("order.created_first", "MUST", "The first event is `response.created`.", "R000-16, R001-54"),
    StreamRule(
        "order.lifecycle",
        "MUST",
        "`response.created` comes once, `response.queued` only before work begins, "
        "`response.in_progress` once.",
        "State machines; R002-11",
    ),
    StreamRule(
        "order.in_progress_first",
        "SHOULD",
        "`response.in_progress` comes before any output and before completion.",
        "R000-16, C14",
    ),
    StreamRule(
        "order.queued_silent",
        "MUST",
        "A queued response has no output until `response.in_progress`.",
        "State machine events; R002-14",
    ),
    StreamRule(
        "order.nothing_after_terminal",
        "MUST",
        "No event follows the terminal event.",
        "R002-14, R000-34",
    ),
    # the end
    StreamRule("terminal.exactly_one", "MUST", "A stream has exactly one terminal event.", "R000-16, A5"),
    StreamRule(
        "terminal.completed_at",
        "MUST",
        "`completed_at` is set on a completed response and null on one that still runs.",
        "Schema; R000-06",
    ),
    StreamRule(
        "terminal.ended_at",
        "SHOULD",
        "`completed_at` is also set on a failed or incomplete response.",
        "R000-06",
    ),
    StreamRule(
        "terminal.error", "MUST", "`error` is set on a failed response and on no other.", "Errors; R000-06"
    ),
    StreamRule(
        "terminal.incomplete_details",
        "MUST",
        "`incomplete_details` is set on an incomplete response and on no other.",
        "Schema; R000-06",
    ),
    StreamRule(
        "error.then_failed",
        "MUST",
        "After an `error` event output may only be closed, and `response.failed` follows.",
        "Errors; 1.11, C11",
    ),
    # the response object
    StreamRule("response.id_constant", "MUST", "Every response object in a stream has the same id.", "1.5"),
    StreamRule(
        "response.status",
        "MUST",
        "The status of a response object is the one its event tells.",
        "State machine events; C14",
    ),
    StreamRule(
        "response.output_starts_empty",
        "SHOULD",
        "Response objects before the terminal event have an empty output: the stream itself tells it.",
        "R000-16",
    ),
    StreamRule(
        "response.output_final",
        "MUST",
        "The terminal response's output is exactly the items that were done, in their order.",
        "A2",
    ),
    # sequence numbers
    StreamRule("seq.increasing", "MUST", "`sequence_number` grows with every event.", "R002-17, R001-54"),
    StreamRule(
        "seq.no_gaps", "SHOULD", "`sequence_number` grows by one, so that a loss shows.", "R002-17, C12"
    ),
    # transport
    StreamRule(
        "sse.event_named", "MUST", "Every event has an `event:` line.", "Streaming HTTP responses; 1.3"
    ),
    StreamRule(
        "sse.event_matches_type",
        "MUST",
        "The `event:` line equals the `type` in the data.",
        "Streaming HTTP responses; 1.3",
    ),
    StreamRule("done.required", "MUST", "A stream of server-sent events ends with `[DONE]`.", "1.3"),
    StreamRule("done.last", "MUST", "`[DONE]` comes once and nothing follows it.", "1.3, R002-14"),
    StreamRule("done.not_on_websocket", "MUST", "`[DONE]` is never sent on a WebSocket.", "1.16 d"),
    StreamRule(
        "websocket.one_ending",
        "MUST",
        "On a WebSocket one message ends a failed turn: an error before `response.created`, "
        "else `response.failed` alone.",
        "1.14, C11",
    ),
    # items
    StreamRule(
        "item.added_first", "MUST", "An item is added before anything is said of it.", "Items are streamable"
    ),
    StreamRule("item.starts_in_progress", "SHOULD", "A message or a call is added in progress.", "R000-17"),
    StreamRule(
        "item.starts_empty",
        "SHOULD",
        "An item added in progress has no text yet: no parts, empty arguments.",
        "C07, 8.4",
    ),
    StreamRule(
        "item.nothing_after_done",
        "MUST",
        "Nothing is said of an item after it is done.",
        "Items are state machines; R000-03, R002-12",
    ),
    StreamRule(
        "item.done_status",
        "MUST",
        "An item is done as completed or incomplete; an extension item may also fail.",
        "Items are state machines; C03",
    ),
    StreamRule(
        "item.stable",
        "MUST",
        "An item keeps its type, role, name and call id from added to done.",
        "Items are streamable; R000-32",
    ),
    StreamRule(
        "item.done_before_terminal",
        "MUST",
        "Every item of the specification's kinds is done before the terminal event.",
        "R000-35",
    ),
    # indexes
    StreamRule(
        "index.output",
        "MUST",
        "Each new item takes the next `output_index`, from 0, and shares it with no other.",
        "R003-29, R000-50",
    ),
    StreamRule(
        "index.part",
        "MUST",
        "Each new part of an item takes the next `content_index` or `summary_index`, from 0.",
        "1.4, R003-28",
    ),
    StreamRule(
        "index.annotation",
        "MUST",
        "Each new annotation of a part takes the next `annotation_index`, from 0.",
        "1.4",
    ),
    # ids
    StreamRule(
        "id.item_matches", "MUST", "`item_id` is the id of the item at that `output_index`.", "1.4, R002-16"
    ),
    StreamRule("id.item_unique", "MUST", "No two items have the same id.", "Required item fields"),
    StreamRule("id.call_unique", "MUST", "No two calls have the same `call_id`.", "R000-32, R002-25"),
    # kinds
    StreamRule(
        "kind.event", "MUST", "Events inside an item fit its kind and its part's type.", "R002-15, C27"
    ),
    StreamRule("kind.part", "MUST", "A part is of a type that its item can have.", "R002-15, C04"),
    # parts
    StreamRule(
        "part.added_first",
        "MUST",
        "A part is added before anything is said of it.",
        "Items are streamable; C13",
    ),
    StreamRule("part.starts_empty", "SHOULD", "A part is added without text and annotations.", "C07"),
    StreamRule(
        "part.text_done_first",
        "MUST",
        "The text of a part is done before the part is.",
        "Items are streamable; R000-16",
    ),
    StreamRule(
        "part.nothing_after_done",
        "MUST",
        "No delta follows the done of a text or of a call's arguments; nothing follows the done of a part.",
        "Items are streamable; R002-12",
    ),
    StreamRule("part.stable", "MUST", "A part keeps its type from added to done.", "Items are streamable"),
    StreamRule(
        "part.done_before_item",
        "MUST",
        "The parts and the arguments of an item are done before the item is.",
        "Items are streamable; R001-23 c, d",
    ),
    # text
    StreamRule(
        "text.deltas_equal_done",
        "MUST",
        "Joined deltas are the text of the done event, after what was there when it was added.",
        "Delta events; C07",
    ),
    StreamRule("text.done_equals_part", "MUST", "The done text is the text of the part that is done.", "C07"),
    StreamRule(
        "text.part_equals_item",
        "MUST",
        "A done item holds exactly the parts, or the arguments, that were streamed.",
        "A2, C07",
    ),
    StreamRule("text.no_empty_delta", "SHOULD", "A delta is not empty.", "C22, R000-37"),
    StreamRule(
        "annotation.kept", "MUST", "An announced annotation stands in the done part, at its index.", "1.8, A2"
    ),
    StreamRule("annotation.announced", "SHOULD", "Annotations of a done part were announced.", "1.8, A2"),
    # response against items
    StreamRule(
        "status.completed_items",
        "MUST",
        "All items of a completed response are completed.",
        "Items are state machines; 1.12, R002-13",
    ),
    StreamRule(
        "status.incomplete_last",
        "MUST",
        "An incomplete item is followed by nothing but incomplete items.",
        "Items are state machines; 1.12, C03",
    ),
)

_OF_RESPONSES = (
    StreamRule(
        "usage.adds_up",
        "SHOULD",
        "The total of the usage is its input and its output, and no detail is more than its whole.",
        "Schema of Usage; 1.6",
    ),
    StreamRule(
        "response.times",
        "SHOULD",
        "`created_at` and `completed_at` are in seconds, and the end is not before the beginning.",
        "Schema of ResponseResource; 1.5, R000-05",
    ),
    StreamRule(
        "response.consistent",
        "MUST",
        "What a whole response says of itself fits its status: `completed_at`, `error`, "
        "`incomplete_details`, and the statuses of its items.",
        "State machines; 1.5, 1.12, R000-06",
    ),
)

RULES: Mapping[str, StreamRule] = {rule.id: rule for rule in _OF_STREAMS}
RESPONSE_RULES: Mapping[str, StreamRule] = {rule.id: rule for rule in _OF_RESPONSES}
"""What a response that was not streamed is held to, besides its keys."""
