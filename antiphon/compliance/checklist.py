"""The twelve lines of the server check list, each with the rules that prove it (R002-36)."""

from dataclasses import dataclass
from typing import Final

from antiphon.compliance.results import Outcome, Report


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    says: str
    rules: tuple[str, ...]


SERVER: Final = (
    Line(
        1,
        "takes POST /responses with a key and a JSON body",
        ("basic-response", "content.string", "key.required", "body.not_json"),
    ),
    Line(
        2,
        "answers with JSON, and streams when asked to",
        ("http.json_type", "http.sse_type", "streaming-response"),
    ),
    Line(
        3,
        "names every event by its type, and uses no SSE id",
        ("sse.event_named", "sse.event_matches_type", "sse.no_id"),
    ),
    Line(4, "ends a stream with [DONE]", ("done.required", "done.last", "done.literal")),
    Line(
        5,
        "gives every item an id, a type and a status",
        ("keys.required", "union.item", "id.item_unique"),
    ),
    Line(
        6,
        "moves responses and items through their states, and ends each once",
        ("order.lifecycle", "terminal.exactly_one", "item.done_status", "item.nothing_after_done"),
    ),
    Line(
        7,
        "emits items and parts before their deltas, and closes them",
        ("item.added_first", "part.added_first", "part.done_before_item", "item.done_before_terminal"),
    ),
    Line(8, "numbers events, growing with each", ("seq.increasing", "seq.no_gaps")),
    Line(
        9,
        "takes every form of tool_choice, and enforces allowed_tools",
        ("tools.required", "tools.none", "tools.named", "tools.allowed", "tools.allowed_streamed"),
    ),
    Line(
        10,
        "continues with previous_response_id: its input, its output, then the new input",
        ("state.previous", "state.depth", "state.order", "state.unknown"),
    ),
    Line(
        11,
        "tells errors as objects with a type, in JSON and in streams",
        ("error.object", "error.type_and_status", "error.in_stream", "error.then_failed"),
    ),
    Line(
        12,
        "prefixes what is its own, and takes what it does not know",
        ("union.event", "union.item", "body.unknown_field", "content.vendor_item"),
    ),
)


def lines_of(report: Report) -> list[tuple[Line, Outcome]]:
    """Each line with what became of it; nothing when the run was about other rules."""
    outcomes = {result.rule.id: result.outcome for result in report.results}
    told: list[tuple[Line, Outcome]] = []
    for line in SERVER:
        found = [outcomes[rule] for rule in line.rules if rule in outcomes]
        if len(found) < len(line.rules):
            continue
        told.append((line, "fail" if "fail" in found else "pass" if "pass" in found else "skip"))
    return told
