"""Streams with broken parts, texts and annotations."""

from tests.stream import streams
from tests.stream.mutations.tape import Tape, breaks
from tests.stream.streams import CITATION

COMPLETED = "response.completed"
DONE = "response.output_item.done"
PART = "response.content_part.added"
PART_DONE = "response.content_part.done"
DELTA = "response.output_text.delta"
TEXT_DONE = "response.output_text.done"
NOTE = "response.output_text.annotation.added"
ARGUMENTS = "response.function_call_arguments.delta"
ARGUMENTS_DONE = "response.function_call_arguments.done"
SUMMARY_PART = "response.reasoning_summary_part.added"


@breaks("part.added_first", streams.text)
def no_part_added(tape: Tape) -> None:
    tape.drop(PART)


@breaks("part.added_first", streams.thinking)
def no_summary_part_added(tape: Tape) -> None:
    tape.drop(SUMMARY_PART)


@breaks("part.starts_empty", streams.text)
def a_part_added_with_text(tape: Tape) -> None:
    tape[PART]["part"]["text"] = "Hel"


@breaks("part.starts_empty", streams.annotations)
def a_part_added_with_annotations(tape: Tape) -> None:
    tape[PART]["part"]["annotations"] = [CITATION]


@breaks("part.text_done_first", streams.text)
def no_text_done(tape: Tape) -> None:
    tape.drop(TEXT_DONE)


@breaks("part.nothing_after_done", streams.text)
def a_delta_after_the_text(tape: Tape) -> None:
    tape.after(TEXT_DONE, tape[DELTA])


@breaks("part.nothing_after_done", streams.text)
def a_part_done_twice(tape: Tape) -> None:
    tape.after(PART_DONE, tape[PART_DONE])


@breaks("part.nothing_after_done", streams.calls)
def arguments_after_done(tape: Tape) -> None:
    tape.after(ARGUMENTS_DONE, tape[ARGUMENTS])


@breaks("part.stable", streams.text, "text.part_equals_item")
def a_part_that_becomes_a_refusal(tape: Tape) -> None:
    tape[PART_DONE]["part"] = {"type": "refusal", "refusal": "Hello, wörld"}


@breaks("part.done_before_item", streams.text)
def no_part_done(tape: Tape) -> None:
    # As a builder that opens a part for a message and never closes it.
    tape.drop(PART_DONE)


@breaks("part.done_before_item", streams.calls)
def no_arguments_done(tape: Tape) -> None:
    tape.drop(ARGUMENTS_DONE)


@breaks("text.deltas_equal_done", streams.text)
def a_delta_lost(tape: Tape) -> None:
    tape.drop(DELTA, 1)


@breaks("text.deltas_equal_done", streams.text)
def a_done_without_any_delta(tape: Tape) -> None:
    for _ in range(3):
        tape.drop(DELTA)


@breaks("text.deltas_equal_done", streams.calls)
def arguments_encoded_twice(tape: Tape) -> None:
    for holder, key in ((tape[ARGUMENTS_DONE], "arguments"), (tape[DONE]["item"], "arguments")):
        holder[key] = '"{}"'
    tape[COMPLETED]["response"]["output"][0]["arguments"] = '"{}"'


@breaks("text.done_equals_part", streams.text)
def another_text_in_the_part(tape: Tape) -> None:
    tape[PART_DONE]["part"]["text"] = "Goodbye"
    tape[DONE]["item"]["content"][0]["text"] = "Goodbye"
    tape[COMPLETED]["response"]["output"][0]["content"][0]["text"] = "Goodbye"


@breaks("text.done_equals_part", streams.refusal)
def another_refusal_in_the_part(tape: Tape) -> None:
    tape[PART_DONE]["part"]["refusal"] = "No."
    tape[DONE]["item"]["content"][0]["refusal"] = "No."
    tape[COMPLETED]["response"]["output"][0]["content"][0]["refusal"] = "No."


@breaks("text.part_equals_item", streams.text)
def another_text_in_the_item(tape: Tape) -> None:
    tape[DONE]["item"]["content"][0]["text"] = "Goodbye"
    tape[COMPLETED]["response"]["output"][0]["content"][0]["text"] = "Goodbye"


@breaks("text.part_equals_item", streams.calls)
def other_arguments_in_the_item(tape: Tape) -> None:
    tape[DONE]["item"]["arguments"] = "{}"
    tape[COMPLETED]["response"]["output"][0]["arguments"] = "{}"


@breaks("text.part_equals_item", streams.custom_call, options={"solicited": ["custom_tool_call"]})
def another_input_in_the_item(tape: Tape) -> None:
    tape[DONE]["item"]["input"] = "rm"
    tape[COMPLETED]["response"]["output"][0]["input"] = "rm"


@breaks("text.part_equals_item", streams.thinking)
def another_summary_in_the_item(tape: Tape) -> None:
    tape[DONE]["item"]["summary"] = []
    tape[COMPLETED]["response"]["output"][0]["summary"] = []


@breaks("text.part_equals_item", streams.text)
def a_message_that_comes_whole(tape: Tape) -> None:
    position = tape.where(PART)
    del tape.frames[position : tape.where(PART_DONE) + 1]


@breaks("text.no_empty_delta", streams.text)
def an_empty_delta(tape: Tape) -> None:
    tape.before(TEXT_DONE, tape[DELTA] | {"delta": ""})


@breaks("annotation.kept", streams.annotations)
def an_annotation_lost(tape: Tape) -> None:
    for holder in (
        tape[PART_DONE]["part"],
        tape[DONE]["item"]["content"][0],
        tape[COMPLETED]["response"]["output"][0]["content"][0],
    ):
        holder["annotations"].pop()


@breaks("annotation.announced", streams.annotations)
def an_annotation_out_of_nowhere(tape: Tape) -> None:
    tape.drop(NOTE, 1)
