"""Streams with broken items: their order, indexes, ids, kinds, and the response against them."""

from tests.stream import streams
from tests.stream.mutations.tape import Tape, breaks, rename
from tests.stream.streams import event

COMPLETED = "response.completed"
FAILED = "response.failed"
INCOMPLETE = "response.incomplete"
ADDED = "response.output_item.added"
DONE = "response.output_item.done"
PART_DONE = "response.content_part.done"
DELTA = "response.output_text.delta"
TEXT_DONE = "response.output_text.done"
NOTE = "response.output_text.annotation.added"
ARGUMENTS = "response.function_call_arguments.delta"
ARGUMENTS_DONE = "response.function_call_arguments.done"

# --- items --------------------------------------------------------------------------------------------------


@breaks("item.added_first", streams.text)
def an_item_never_added(tape: Tape) -> None:
    tape.drop(ADDED)


@breaks("item.added_first", streams.hosted)
def an_item_done_that_was_never_added(tape: Tape) -> None:
    # As a builder that closes a function call it never announced.
    tape.drop(ADDED, 1)


@breaks("item.starts_in_progress", streams.text)
def a_message_added_completed(tape: Tape) -> None:
    tape[ADDED]["item"]["status"] = "completed"


@breaks("item.starts_empty", streams.calls)
def a_call_added_with_arguments(tape: Tape) -> None:
    tape[ADDED]["item"]["arguments"] = '{"city":"Paris"}'


@breaks("item.starts_empty", streams.text)
def a_message_added_with_content(tape: Tape) -> None:
    tape[ADDED]["item"]["content"] = [streams.output_text("Hello")]


@breaks("item.nothing_after_done", streams.text)
def a_delta_after_the_item(tape: Tape) -> None:
    tape.after(DONE, tape[DELTA])


@breaks("item.nothing_after_done", streams.text)
def an_item_done_twice(tape: Tape) -> None:
    tape.after(DONE, tape[DONE])


@breaks("item.done_status", streams.text, "status.completed_items")
def an_item_done_in_progress(tape: Tape) -> None:
    tape[DONE]["item"]["status"] = "in_progress"
    tape[COMPLETED]["response"]["output"][0]["status"] = "in_progress"


@breaks("item.done_status", streams.failed, "keys.value")
def a_core_item_that_failed(tape: Tape) -> None:
    tape[DONE]["item"]["status"] = "failed"
    tape[FAILED]["response"]["output"][0]["status"] = "failed"


@breaks("item.done_status", streams.vendor, options={"extensions": True})
def an_extension_item_done_in_progress(tape: Tape) -> None:
    tape[DONE]["item"]["status"] = "in_progress"
    tape[COMPLETED]["response"]["output"][0]["status"] = "in_progress"


@breaks("item.stable", streams.calls)
def a_call_renamed(tape: Tape) -> None:
    tape[ADDED]["item"]["name"] = "wea"


@breaks("item.stable", streams.calls)
def another_call_id_at_the_end(tape: Tape) -> None:
    tape[DONE]["item"]["call_id"] = "call_x"
    tape[COMPLETED]["response"]["output"][0]["call_id"] = "call_x"


@breaks("item.done_before_terminal", streams.text)
def an_item_never_done(tape: Tape) -> None:
    tape.drop(DONE)


@breaks("item.done_before_terminal", streams.failed)
def an_item_left_open_by_a_failure(tape: Tape) -> None:
    tape.drop(DONE)
    tape.drop(PART_DONE)
    tape.drop(TEXT_DONE)


# --- indexes, ids, kinds ------------------------------------------------------------------------------------


@breaks("index.output", streams.text)
def a_first_item_at_one(tape: Tape) -> None:
    for e in tape.each():
        if "output_index" in e:
            e["output_index"] = 1


@breaks("index.output", streams.thinking)
def two_items_at_one_index(tape: Tape) -> None:
    for e in tape.each():
        if e.get("output_index") == 1:
            e["output_index"] = 0


@breaks("index.output", streams.thinking)
def a_hole_in_the_indexes(tape: Tape) -> None:
    # As a filter that drops an item and leaves the numbers of the others.
    for e in tape.each():
        if e.get("output_index") == 1:
            e["output_index"] = 2


@breaks("index.part", streams.annotations, "text.part_equals_item")
def two_parts_at_one_index(tape: Tape) -> None:
    for e in tape.each():
        if e.get("content_index") == 1:
            e["content_index"] = 0


@breaks("index.part", streams.text)
def a_first_part_at_one(tape: Tape) -> None:
    for e in tape.each():
        if "content_index" in e:
            e["content_index"] = 1


@breaks("index.part", streams.thinking)
def a_first_summary_at_one(tape: Tape) -> None:
    for e in tape.each():
        if "summary_index" in e:
            e["summary_index"] = 1


@breaks("index.annotation", streams.annotations)
def two_annotations_at_one_index(tape: Tape) -> None:
    tape[NOTE, 1]["annotation_index"] = 0


@breaks("id.item_matches", streams.calls)
def a_delta_with_the_other_calls_id(tape: Tape) -> None:
    tape[ARGUMENTS]["item_id"] = "fc_1"


@breaks("id.item_matches", streams.calls)
def an_index_that_belongs_to_nobody(tape: Tape) -> None:
    tape[ARGUMENTS]["output_index"] = 7


@breaks("id.item_matches", streams.text)
def another_id_when_done(tape: Tape) -> None:
    tape[DONE]["item"]["id"] = "msg_x"
    tape[COMPLETED]["response"]["output"][0]["id"] = "msg_x"


@breaks("id.item_unique", streams.calls)
def one_id_for_two_items(tape: Tape) -> None:
    for e in tape.each():
        rename(e, "fc_1", "fc_0")


@breaks("id.call_unique", streams.calls)
def one_call_id_for_two_calls(tape: Tape) -> None:
    for e in tape.each():
        rename(e, "call_fc_1", "call_fc_0")


@breaks("kind.event", streams.calls)
def text_inside_a_call(tape: Tape) -> None:
    tape.before(ARGUMENTS_DONE, event(DELTA, **streams.at("fc_0", 0), delta="x"))


@breaks("kind.event", streams.hosted)
def text_inside_a_tool_output(tape: Tape) -> None:
    output = tape[DONE, 1]["item"]["id"]
    position = tape.where(DONE, 1)
    tape.insert(position, event(DELTA, **streams.at(output, 1), delta="rain"))


@breaks("kind.event", streams.text)
def a_refusal_inside_a_text(tape: Tape) -> None:
    tape.before(TEXT_DONE, event("response.refusal.delta", **streams.at("msg_0", 0), delta="No"))


@breaks("kind.part", streams.text)
def a_reasoning_part_inside_a_message(tape: Tape) -> None:
    for e in tape.each():
        rename(e, "output_text", "reasoning_text")


@breaks("kind.part", streams.thinking)
def a_content_part_of_summary(tape: Tape) -> None:
    for e in tape.each():
        rename(e, "reasoning_text", "summary_text")


# --- the response against its items -------------------------------------------------------------------------


@breaks("status.completed_items", streams.incomplete)
def completed_after_truncation(tape: Tape) -> None:
    output = tape[INCOMPLETE]["response"]["output"]
    tape.after(INCOMPLETE, streams.lifecycle("completed", output))
    tape.drop(INCOMPLETE)


@breaks("status.incomplete_last", streams.incomplete)
def a_completed_call_after_a_cut_message(tape: Tape) -> None:
    tape[DONE, 1]["item"]["status"] = "completed"
    tape[INCOMPLETE]["response"]["output"][1]["status"] = "completed"
