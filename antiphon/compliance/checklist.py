"""The twelve lines of the server check list, each with the rules that prove it."""

from dataclasses import dataclass
from typing import Final

from antiphon.compliance.catalog import OBSERVED
from antiphon.compliance.results import Report, RuleOutcome


@dataclass(frozen=True, slots=True)
class ChecklistLine:
    number: int
    says: str
    rules: tuple[str, ...]


SERVER: Final = (
    ChecklistLine(1, "takes POST /responses, with a key", ("basic-response", "key.required", "key.wrong")),
    ChecklistLine(
        2,
        "gives every output item an id, a type and a status, and takes each input item as its type requires",
        ("keys.required", "union.item", "id.item_unique", "content.own_output", "limit.message_content"),
    ),
    ChecklistLine(
        3,
        "moves an item from in progress to completed or incomplete, and no further",
        ("item.starts_in_progress", "item.done_status", "item.nothing_after_done"),
    ),
    ChecklistLine(
        4,
        "moves a response through its states to one end",
        ("order.lifecycle", "response.status", "terminal.exactly_one", "order.nothing_after_terminal"),
    ),
    ChecklistLine(
        5,
        "announces each state of a response by its event",
        (
            "order.created_first",
            "order.in_progress_first",
            "order.queued_silent",
            "streaming-response",
            "stream.cut_off",
            "error.then_failed",
        ),
    ),
    ChecklistLine(
        6,
        "ends a response as incomplete when an item is",
        ("status.completed_items", "status.incomplete_last", "response.cut_off", "response.consistent"),
    ),
    ChecklistLine(
        7,
        "answers with JSON, or with server-sent events that are named by their type",
        ("http.json_type", "http.sse_type", "sse.event_named", "sse.event_matches_type", "sse.no_id"),
    ),
    ChecklistLine(8, "ends a stream with [DONE]", ("done.required", "done.last", "done.literal")),
    ChecklistLine(
        9,
        "lets the model call functions, and takes their outputs back",
        ("tool-calling", "tools.required", "tools.result", "state.calls"),
    ),
    ChecklistLine(
        10,
        "continues with previous_response_id: its input, its output, then the new input",
        ("state.previous", "state.depth", "state.order", "state.unknown"),
    ),
    ChecklistLine(
        11,
        "reports errors with type, code, param and message, and the status that fits",
        ("error.object", "error.full", "error.type_and_status", "error.in_stream"),
    ),
    ChecklistLine(
        12,
        "prefixes what is its own, and takes what it does not know",
        ("union.event", "union.item", "body.unknown_field", "content.vendor_item"),
    ),
)


@dataclass(frozen=True, slots=True)
class LineVerdict:
    """The verdict on a line. It holds only if every rule of it that concerns a server was tested."""

    line: ChecklistLine
    outcome: RuleOutcome
    unchecked: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = f" (not checked: {', '.join(self.unchecked)})" if self.unchecked else ""
        return f"{self.line.says}{missing}"


def lines_of(report: Report) -> list[LineVerdict]:
    """Each line with what became of it; nothing when the run was about other rules."""
    outcomes = {result.rule.id: result.outcome for result in report.results}
    told: list[LineVerdict] = []
    for line in SERVER:
        found = {rule: outcomes[rule] for rule in line.rules if rule in outcomes}
        if len(found) < len(line.rules):
            continue
        kinds = found.values()
        unchecked = tuple(rule for rule, kind in found.items() if kind == "skip" and rule not in OBSERVED)
        passed = "pass" in kinds and not unchecked
        told.append(LineVerdict(line, "fail" if "fail" in kinds else "pass" if passed else "skip", unchecked))
    return told
