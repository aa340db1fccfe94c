"""Streams with broken hosted tools: their items, and the events of their own."""

from functools import partial
from typing import Any

from tests.stream import streams
from tests.stream.mutations.tape import Tape, breaks

ADDED = "response.output_item.added"
DONE = "response.output_item.done"
BEGUN = "response.mcp_call.in_progress"
COMPLETED = "response.mcp_call.completed"
ARGUMENTS = "response.mcp_call_arguments.delta"
ARGUMENTS_DONE = "response.mcp_call_arguments.done"
ASKED: dict[str, Any] = {"solicited": ["mcp_call", "mcp_list_tools"]}


@breaks("hosted.item_keys", streams.remote, options=ASKED)
def a_call_of_no_server(tape: Tape) -> None:
    del tape[ADDED, 1]["item"]["server_label"]


@breaks("hosted.item_keys", streams.remote, options=ASKED)
def a_list_that_is_none(tape: Tape) -> None:
    tape[ADDED]["item"]["tools"] = None


@breaks("hosted.event_place", streams.remote, options=ASKED)
def an_event_of_an_item_that_is_not_there(tape: Tape) -> None:
    tape[BEGUN]["item_id"] = "mcp_9"


@breaks("hosted.event_place", streams.remote, "hosted.event_end", options=ASKED)
def an_event_after_its_item(tape: Tape) -> None:
    tape.move(COMPLETED, tape.where(DONE, 1))
    tape.renumber()


@breaks("hosted.event_order", streams.remote, options=ASKED)
def a_call_that_begins_twice(tape: Tape) -> None:
    tape.after(BEGUN, tape[BEGUN])
    tape.renumber()


@breaks("hosted.event_order", streams.remote, options=ASKED)
def a_call_that_ends_twice(tape: Tape) -> None:
    tape.after(COMPLETED, tape[COMPLETED])
    tape.renumber()


@breaks("hosted.event_end", streams.remote, options=ASKED)
def a_call_that_failed_after_all(tape: Tape) -> None:
    tape[DONE, 1]["item"]["status"] = "failed"
    tape["response.completed"]["response"]["output"][1]["status"] = "failed"


@breaks("hosted.text", streams.remote, options=ASKED)
def arguments_that_lost_a_piece(tape: Tape) -> None:
    tape.drop(ARGUMENTS)
    tape.renumber()


@breaks("hosted.text", streams.remote, options=ASKED)
def an_item_with_other_arguments(tape: Tape) -> None:
    tape[DONE, 1]["item"]["arguments"] = "{}"
    tape["response.completed"]["response"]["output"][1]["arguments"] = "{}"


@breaks("hosted.text", streams.remote, options=ASKED)
def arguments_after_their_end(tape: Tape) -> None:
    tape.after(ARGUMENTS_DONE, tape[ARGUMENTS])
    tape.renumber()


@breaks("hosted.event_end", streams.remote, options=ASKED)
def a_call_whose_events_do_not_end(tape: Tape) -> None:
    tape.drop(COMPLETED)


CODE = "response.code_interpreter_call_code"
of_code = partial(streams.ran_by_the_server, "code_interpreter_call")


@breaks("hosted.item_keys", of_code, options={"solicited": ["code_interpreter_call"]})
def code_in_no_container(tape: Tape) -> None:
    del tape[ADDED]["item"]["container_id"]


@breaks(
    "hosted.item_keys",
    partial(streams.ran_by_the_server, "file_search_call"),
    options={"solicited": ["file_search_call"]},
)
def a_search_of_files_for_nothing(tape: Tape) -> None:
    del tape[ADDED]["item"]["queries"]


@breaks("hosted.text", of_code, options={"solicited": ["code_interpreter_call"]})
def code_that_lost_a_piece(tape: Tape) -> None:
    tape.drop(f"{CODE}.delta")


@breaks("hosted.text", of_code, options={"solicited": ["code_interpreter_call"]})
def code_that_goes_on_after_its_end(tape: Tape) -> None:
    tape.after(f"{CODE}.done", tape[f"{CODE}.delta"])


def _of_every_kind(kind: str) -> None:
    """The events of a hosted call are held to the same order, whatever its kind."""
    begun, completed = f"response.{kind}.in_progress", f"response.{kind}.completed"

    def began_twice(tape: Tape) -> None:
        tape.after(begun, tape[begun])

    def ended_twice(tape: Tape) -> None:
        tape.after(completed, tape[completed])

    def did_not_end(tape: Tape) -> None:
        tape.drop(completed)

    def failed_after_all(tape: Tape) -> None:
        tape[DONE]["item"]["status"] = "failed"
        tape["response.completed"]["response"]["output"][0]["status"] = "failed"

    def told_before_its_item(tape: Tape) -> None:
        tape.move(begun, tape.where(ADDED))

    def told_after_its_item(tape: Tape) -> None:
        tape.move(completed, tape.where(DONE))

    def told_of_another_item(tape: Tape) -> None:
        tape[completed]["item_id"] = "hosted_9"

    def told_at_another_index(tape: Tape) -> None:
        tape[begun]["output_index"] = 1

    broken = {
        "hosted.event_order": (began_twice, ended_twice),
        "hosted.event_end": (did_not_end, failed_after_all),
        "hosted.event_place": (
            told_before_its_item,
            told_after_its_item,
            told_of_another_item,
            told_at_another_index,
        ),
    }
    for rule, changes in broken.items():
        for change in changes:
            also = ["hosted.event_end"] if change is told_after_its_item else []
            change.__name__ = f"{kind}_{change.__name__}"
            breaks(rule, partial(streams.ran_by_the_server, kind), *also, options={"solicited": [kind]})(
                change
            )


for kind in streams.HOSTED:
    _of_every_kind(kind)
