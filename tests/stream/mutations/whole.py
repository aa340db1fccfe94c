"""Streams broken as a whole: what an event is, keys, order, the end, the response, the transport."""

from copy import deepcopy

from tests.stream import streams
from tests.stream.mutations.tape import END, Tape, breaks, rename
from tests.stream.streams import event

CREATED = "response.created"
IN_PROGRESS = "response.in_progress"
COMPLETED = "response.completed"
FAILED = "response.failed"
INCOMPLETE = "response.incomplete"
ADDED = "response.output_item.added"
DONE = "response.output_item.done"
PART = "response.content_part.added"
PART_DONE = "response.content_part.done"
DELTA = "response.output_text.delta"

# --- events, unions, keys -----------------------------------------------------------------------------------


@breaks("event.object", streams.text)
def a_list_instead_of_an_event(tape: Tape) -> None:
    tape.frames.insert(3, ("x", [1, 2]))


@breaks("event.type", streams.text)
def an_event_without_type(tape: Tape) -> None:
    del tape[DELTA]["type"]


@breaks("event.type", streams.text)
def an_event_whose_type_is_a_list(tape: Tape) -> None:
    tape[DELTA]["type"] = []


@breaks("union.event", streams.text)
def a_keepalive_event(tape: Tape) -> None:
    tape.before(DELTA, event("keepalive"))


@breaks("union.event", streams.vendor, "union.item")
def extensions_where_none_are_welcome(tape: Tape) -> None:
    pass


@breaks("union.event", streams.custom_call, "union.item")
def a_custom_call_nobody_asked_for(tape: Tape) -> None:
    pass


@breaks("union.item", streams.hosted)
def an_unprefixed_hosted_item(tape: Tape) -> None:
    for holder in (tape[ADDED, 2], tape[DONE, 2]):
        holder["item"]["type"] = "web_search_call"
    tape[COMPLETED]["response"]["output"][2]["type"] = "web_search_call"


@breaks("union.part", streams.annotations)
def an_unknown_annotation(tape: Tape) -> None:
    for e in tape.each():
        rename(e, "url_citation", "footnote")


@breaks("union.part", streams.text)
def an_echoed_tool_outside_the_schema(tape: Tape) -> None:
    tape[CREATED]["response"]["tools"] = [{"type": "mcp"}]


@breaks("keys.required", streams.text)
def a_response_of_thirty_keys(tape: Tape) -> None:
    del tape[IN_PROGRESS]["response"]["prompt_cache_key"]


@breaks("keys.required", streams.text)
def a_minimal_response(tape: Tape) -> None:
    tape[IN_PROGRESS]["response"] = {"id": "resp_1", "status": "in_progress"}


@breaks("keys.required", streams.text)
def a_text_part_without_annotations(tape: Tape) -> None:
    for holder in (tape[PART]["part"], tape[PART_DONE]["part"], tape[DONE]["item"]["content"][0]):
        del holder["annotations"]
    del tape[COMPLETED]["response"]["output"][0]["content"][0]["annotations"]


@breaks("keys.required", streams.calls)
def usage_without_details(tape: Tape) -> None:
    del tape[COMPLETED]["response"]["usage"]["input_tokens_details"]


@breaks("keys.required", streams.text)
def a_part_without_type(tape: Tape) -> None:
    del tape[PART]["part"]["type"]


@breaks("keys.required", streams.text, renumber=False)
def an_event_without_sequence_number(tape: Tape) -> None:
    del tape[COMPLETED]["sequence_number"]


@breaks("keys.type", streams.text, renumber=False)
def a_text_as_a_sequence_number(tape: Tape) -> None:
    tape[COMPLETED]["sequence_number"] = "12"


@breaks("keys.type", streams.text)
def a_null_model(tape: Tape) -> None:
    tape[CREATED]["response"]["model"] = None


@breaks("keys.type", streams.text)
def a_response_that_is_text(tape: Tape) -> None:
    tape[IN_PROGRESS]["response"] = "resp_1"


@breaks("keys.type", streams.text)
def an_output_that_is_no_list(tape: Tape) -> None:
    tape[COMPLETED]["response"]["output"] = {}


@breaks("keys.type", streams.text)
def a_part_whose_type_is_a_number(tape: Tape) -> None:
    tape[PART]["part"]["type"] = 7


@breaks("keys.type", streams.calls, "item.stable")
def a_name_that_is_a_list(tape: Tape) -> None:
    tape[ADDED]["item"]["name"] = ["weather"]


@breaks("keys.type", streams.text)
def an_effort_that_is_a_number(tape: Tape) -> None:
    tape[CREATED]["response"]["reasoning"]["effort"] = 1


@breaks("keys.value", streams.text)
def an_unknown_truncation(tape: Tape) -> None:
    tape[CREATED]["response"]["truncation"] = "sometimes"


@breaks("keys.value", streams.text)
def an_unknown_tool_choice(tape: Tape) -> None:
    tape[CREATED]["response"]["tool_choice"] = "perhaps"


# --- order and end ------------------------------------------------------------------------------------------


@breaks("order.created_first", streams.text)
def no_created(tape: Tape) -> None:
    tape.drop(CREATED)


@breaks("order.created_first", streams.text)
def nothing_before_the_first_item(tape: Tape) -> None:
    tape.drop(CREATED)
    tape.drop(IN_PROGRESS)


@breaks("order.lifecycle", streams.text)
def created_twice(tape: Tape) -> None:
    # As a router that falls back to a second provider after the first has begun.
    tape.after(CREATED, tape[CREATED])


@breaks("order.lifecycle", streams.text, "response.output_starts_empty")
def in_progress_again(tape: Tape) -> None:
    again = deepcopy(tape[IN_PROGRESS])
    again["response"]["output"] = [tape[DONE]["item"]]
    tape.after(DONE, again)


@breaks("order.lifecycle", streams.text)
def queued_after_work_began(tape: Tape) -> None:
    tape.after(IN_PROGRESS, event("response.queued", response=streams.response("queued")))


@breaks("order.in_progress_first", streams.text)
def no_in_progress(tape: Tape) -> None:
    tape.drop(IN_PROGRESS)


@breaks("order.in_progress_first", streams.no_output)
def created_then_completed(tape: Tape) -> None:
    tape.drop(IN_PROGRESS)


@breaks("order.queued_silent", streams.queued)
def output_while_queued(tape: Tape) -> None:
    tape.drop(IN_PROGRESS)


@breaks("order.nothing_after_terminal", streams.text)
def items_after_the_end(tape: Tape) -> None:
    extra, _ = streams.text_item(1, "and another thing")
    tape.after(COMPLETED, *extra)


@breaks("terminal.exactly_one", streams.text)
def no_end(tape: Tape) -> None:
    tape.drop(COMPLETED)


@breaks("terminal.exactly_one", streams.text)
def two_ends(tape: Tape) -> None:
    tape.after(COMPLETED, streams.lifecycle("incomplete", tape[COMPLETED]["response"]["output"]))


@breaks("terminal.exactly_one", list, "done.required")
def an_empty_stream(tape: Tape) -> None:
    tape.frames.clear()


@breaks("terminal.completed_at", streams.text)
def completed_without_a_time(tape: Tape) -> None:
    tape[COMPLETED]["response"]["completed_at"] = None


@breaks("terminal.completed_at", streams.text)
def a_time_before_the_end(tape: Tape) -> None:
    tape[CREATED]["response"]["completed_at"] = 1_777_000_009


@breaks("terminal.ended_at", streams.failed)
def failed_without_a_time(tape: Tape) -> None:
    tape[FAILED]["response"]["completed_at"] = None


@breaks("terminal.error", streams.failed)
def failed_without_an_error(tape: Tape) -> None:
    tape[FAILED]["response"]["error"] = None


@breaks("terminal.error", streams.text)
def completed_with_an_error(tape: Tape) -> None:
    tape[COMPLETED]["response"]["error"] = {"code": "x", "message": "y"}


@breaks("terminal.incomplete_details", streams.incomplete)
def incomplete_without_details(tape: Tape) -> None:
    tape[INCOMPLETE]["response"]["incomplete_details"] = None


@breaks("terminal.incomplete_details", streams.text)
def completed_with_details(tape: Tape) -> None:
    tape[COMPLETED]["response"]["incomplete_details"] = {"reason": "max_output_tokens"}


@breaks("error.then_failed", streams.failed)
def incomplete_after_an_error(tape: Tape) -> None:
    output = tape[FAILED]["response"]["output"]
    tape.after(FAILED, streams.lifecycle("incomplete", output))
    tape.drop(FAILED)


@breaks("error.then_failed", streams.failed, "terminal.exactly_one")
def nothing_after_an_error(tape: Tape) -> None:
    tape.drop(FAILED)


@breaks("error.then_failed", streams.failed_closing_late)
def more_text_after_an_error(tape: Tape) -> None:
    tape.move("error", tape.where(DELTA))


# --- the response object ------------------------------------------------------------------------------------


@breaks("response.id_constant", streams.text)
def another_id_at_the_end(tape: Tape) -> None:
    tape[COMPLETED]["response"]["id"] = "resp_2"


@breaks("response.status", streams.text)
def still_in_progress_at_the_end(tape: Tape) -> None:
    tape[COMPLETED]["response"]["status"] = "in_progress"


@breaks("response.status", streams.text)
def created_as_completed(tape: Tape) -> None:
    tape[CREATED]["response"]["status"] = "completed"


@breaks("response.status", streams.text)
def a_cancelled_end(tape: Tape) -> None:
    tape[COMPLETED]["response"]["status"] = "cancelled"


@breaks("response.output_starts_empty", streams.text)
def output_in_created(tape: Tape) -> None:
    tape[CREATED]["response"]["output"] = [tape[DONE]["item"]]


@breaks("response.output_final", streams.text)
def an_empty_output_at_the_end(tape: Tape) -> None:
    tape[COMPLETED]["response"]["output"] = []


@breaks("response.output_final", streams.calls)
def output_in_another_order(tape: Tape) -> None:
    tape[COMPLETED]["response"]["output"].reverse()


@breaks("response.output_final", streams.text)
def another_text_at_the_end(tape: Tape) -> None:
    tape[COMPLETED]["response"]["output"][0]["content"][0]["text"] += "!"


# --- sequence numbers and transport -------------------------------------------------------------------------


@breaks("seq.increasing", streams.text, renumber=False)
def numbers_that_stand_still(tape: Tape) -> None:
    for payload in tape.each()[5:]:
        payload["sequence_number"] -= 1


@breaks("seq.increasing", streams.text, renumber=False)
def numbers_that_begin_again(tape: Tape) -> None:
    for n, payload in enumerate(tape.each()[5:]):
        payload["sequence_number"] = n


@breaks("seq.no_gaps", streams.text, renumber=False)
def a_number_left_out(tape: Tape) -> None:
    for payload in tape.each()[5:]:
        payload["sequence_number"] += 1


@breaks("sse.event_named", streams.text)
def no_event_line(tape: Tape) -> None:
    tape.frames[3] = (None, tape.frames[3][1])


@breaks("sse.event_matches_type", streams.text)
def another_event_line(tape: Tape) -> None:
    tape.frames[3] = ("message", tape.frames[3][1])


@breaks("done.required", streams.text)
def no_done(tape: Tape) -> None:
    tape.frames.pop()


@breaks("done.last", streams.text)
def done_twice(tape: Tape) -> None:
    tape.frames.append((None, END))


@breaks("done.last", streams.text)
def done_before_the_end(tape: Tape) -> None:
    tape.frames.insert(-2, tape.frames.pop())


@breaks("done.not_on_websocket", streams.text, transport="websocket")
def done_on_a_websocket(tape: Tape) -> None:
    tape.frames.append((None, END))


ENVELOPE = {"type": "error", "status": 500, "error": {"code": "server_error", "message": "It broke."}}


@breaks("websocket.one_ending", streams.text, transport="websocket")
def an_error_inside_a_websocket_turn(tape: Tape) -> None:
    tape.after(COMPLETED, ENVELOPE)


@breaks("websocket.one_ending", streams.text, transport="websocket")
def a_response_after_a_websocket_error(tape: Tape) -> None:
    tape.insert(0, ENVELOPE)
