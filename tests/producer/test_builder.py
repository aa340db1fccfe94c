"""The builder: every call gives well-formed events, and the defects of its model are gone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.producer import Handle, ResponseBuilder, StateError, is_estimated
from antiphon.spec.codec import Opaque, to_builtins
from antiphon.spec.errors import model_error
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, Reasoning
from antiphon.spec.request import Request
from antiphon.spec.response import Usage
from antiphon.stream.auditor import audit_sse
from antiphon.stream.deltas import TextDelta
from tests.producer.judging import assert_sound, assert_valid, types


def started(**options: Any) -> ResponseBuilder:
    builder = ResponseBuilder("my-agent", **options)
    builder.start()
    return builder


def test_a_message_from_start_to_done() -> None:
    builder = ResponseBuilder("my-agent")
    assert types(builder.start()) == ["created", "in_progress"]
    message = builder.add_message()
    added, part = builder.get_events()[-2:]
    assert types([added, part]) == ["output_item.added", "content_part.added"]
    assert to_builtins(part)["part"] == {"type": "output_text", "text": "", "annotations": []}
    builder.text_delta(message, "Hel")
    builder.text_delta(message, "lo")
    ending = builder.complete(Usage.of(3, 2))
    assert types(ending) == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    response = assert_sound(builder.get_events(), builder.response)
    assert_valid(response)
    assert response.usage == Usage.of(3, 2)
    assert [event.sequence_number for event in builder.get_events()] == list(range(10))


def test_everything_that_can_be_built() -> None:
    builder = started(request=Request(model="x", instructions="Be kind."), previous_response_id="resp_0")
    reasoning = builder.add_reasoning("hm")
    builder.reasoning_delta(reasoning, "m")
    call = builder.add_function_call("look", {"city": "Paris"}, "c1")
    builder.add_function_call_output(call, "18 degrees")
    slow = builder.add_function_call("slow")
    builder.arguments_delta(slow, '{"a":')
    builder.arguments_delta(slow, "1}")
    builder.add_function_call_output(slow, "done")
    search = builder.add_item("acme:search", {"query": "x"}, status="in_progress")
    builder.vendor_event("acme:progress", percent=50)
    builder.update_item(search, {"query": "x", "hits": 1})
    builder.end(search)
    builder.feed([TextDelta("words")])
    builder.add_message("final", phase="final_answer")
    builder.complete()
    response = assert_sound(builder.get_events(), builder.response)
    assert (response.previous_response_id, response.instructions) == ("resp_0", "Be kind.")
    thought, one, first, two, second, found, words, last = response.output
    assert isinstance(thought, Reasoning)
    assert thought.get_reasoning_text() == "hmm"
    assert isinstance(one, FunctionCall)
    assert (one.call_id, one.arguments) == ("c1", '{"city":"Paris"}')
    assert isinstance(first, FunctionCallOutput)
    assert first.call_id == "c1"
    assert isinstance(two, FunctionCall)
    assert isinstance(second, FunctionCallOutput)
    assert (two.arguments, two.call_id) == ('{"a":1}', second.call_id)
    assert isinstance(found, Opaque)
    assert (found.type, found.status, found.fields["data"]) == (
        "acme:search",
        "completed",
        {"query": "x", "hits": 1},
    )
    assert isinstance(words, Message)
    assert isinstance(last, Message)
    assert (words.get_text(), last.get_text(), last.phase) == ("words", "final", "final_answer")


def test_defect_b_two_equal_items_have_an_index_each() -> None:
    builder = started()
    one, other = builder.add_message(), builder.add_message()
    assert one != other
    builder.text_delta(other, "second")
    builder.text_delta(one, "first")
    builder.complete()
    response = assert_sound(builder.get_events())
    assert [item.get_text() for item in response.output if isinstance(item, Message)] == ["first", "second"]


def test_defect_c_a_message_without_text_has_its_part_done() -> None:
    builder = started()
    builder.add_message()
    builder.complete()
    assert types(builder.get_events()).count("content_part.done") == 1
    assert_sound(builder.get_events())


def test_defect_d_a_function_call_is_added_and_has_its_arguments_told() -> None:
    builder = started()
    builder.add_function_call("look", {})
    builder.complete()
    assert types(builder.get_events())[2:-1] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]


def test_defect_e_a_failure_closes_what_is_open() -> None:
    builder = started()
    builder.add_message("half")
    builder.fail(model_error("it broke"), Usage.of(1, 1))
    response = assert_sound(builder.get_events())
    assert [item.status for item in response.output if isinstance(item, Message)] == ["incomplete"]
    assert (response.status, builder.error) == ("failed", model_error("it broke"))


def test_defect_f_pending_events_are_given_once() -> None:
    builder = started()
    body = builder.get_pending_events_sse()
    message = builder.add_message("Hi")
    body += builder.get_pending_events_sse()
    assert builder.get_pending_events_sse() == ""
    builder.end(message)
    builder.complete()
    last = builder.get_last_event_sse()
    assert last.startswith("event: response.completed\ndata: {")
    body += builder.get_pending_events_sse() + builder.done()
    assert body.endswith("data: [DONE]\n\n")
    assert audit_sse(body.encode()) == []
    builder.clear_events()
    assert (builder.get_events(), builder.get_last_event(), builder.get_last_event_sse()) == ([], None, "")


def test_incomplete_has_a_reason() -> None:
    builder = started()
    builder.add_message("half")
    with pytest.raises(ValueError, match="'tired' is no reason"):
        builder.incomplete("tired")
    builder.incomplete("max_output_tokens")
    response = assert_sound(builder.get_events())
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_a_response_may_wait_in_a_queue() -> None:
    builder = ResponseBuilder("m")
    assert types(builder.start(queued=True)) == ["created", "queued"]
    assert types(builder.start()) == ["in_progress"]
    builder.complete()
    assert_sound(builder.get_events())


def test_call_ids_are_unique_and_fit() -> None:
    builder = started()
    calls = [builder.add_function_call("f", {}, id) for id in ("c1", "c1", "", "x" * 65)]
    for call in calls:
        builder.add_function_call_output(call, "ok")
    builder.complete()
    output = assert_sound(builder.get_events()).output
    assert [item.call_id for item in output if isinstance(item, FunctionCall)] == [c.call_id for c in calls]
    assert len({call.call_id for call in calls}) == 4


def test_what_comes_at_the_wrong_time_is_an_error_and_no_event() -> None:
    builder = ResponseBuilder("m")
    with pytest.raises(StateError, match="call start first"):
        builder.add_message()
    with pytest.raises(StateError, match="has not ended"):
        builder.done()
    builder.start()
    with pytest.raises(StateError, match="already"):
        builder.start()
    message = builder.add_message()
    with pytest.raises(StateError, match="a message, not a reasoning"):
        builder.reasoning_delta(message, "x")
    builder.end(message)
    with pytest.raises(StateError, match="is done"):
        builder.text_delta(message, "x")
    with pytest.raises(ValueError, match="no extension type"):
        builder.add_item("search")
    with pytest.raises(ValueError, match="no extension type"):
        builder.vendor_event("search")
    item = builder.add_item("acme:x")
    with pytest.raises(StateError, match="is done"):
        builder.update_item(item, {})
    builder.complete()
    for late in (builder.complete, builder.add_message, lambda: builder.fail(model_error("x"))):
        with pytest.raises(StateError, match="nothing can follow"):
            late()
    assert_sound(builder.get_events())


def test_hidden_items_leave_no_hole() -> None:
    builder = ResponseBuilder("m", shows=lambda kind: None if kind == "reasoning" else kind)
    builder.start()
    hidden = builder.add_reasoning("secret")
    builder.reasoning_delta(hidden, "more")
    builder.add_message("open")
    builder.complete()
    response = assert_sound(builder.get_events())
    assert len(response.output) == 1


def test_an_estimate_is_marked_as_one() -> None:
    builder = started(request=Request(input="12345678", instructions="1234"))
    builder.add_message("12345")
    builder.estimate_usage()
    builder.complete()
    response = assert_sound(builder.get_events())
    assert_valid(response)
    assert response.usage == Usage.of(3, 2)
    assert is_estimated(response)
    counted = started()
    counted.feed([])
    counted.complete(Usage.of(1, 1))
    assert counted.estimate_usage() == []
    assert not is_estimated(counted.response)


texts = st.text(max_size=5)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("add_message"), texts),
        st.tuples(st.just("add_reasoning"), texts),
        st.tuples(st.just("add_function_call"), st.sampled_from(["", "f"])),
        st.tuples(st.just("add_item"), st.sampled_from(["acme:a", "acme:b"])),
        st.tuples(st.just("say"), st.integers(0, 9), texts),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("output"), st.integers(0, 9), texts),
    ),
    max_size=25,
)


@given(actions, st.sampled_from(["complete", "incomplete", "fail"]))
def test_whatever_is_built_is_sound(actions: list[tuple[Any, ...]], ending: str) -> None:
    builder = started()
    handles: list[Handle] = []
    for name, *args in actions:
        try:
            if name in ("say", "end", "output"):
                if handles:
                    _act(builder, name, handles[args[0] % len(handles)], args[1:])
            elif name == "add_item":
                handles.append(builder.add_item(args[0], {}, status="in_progress"))
            else:
                handles.append(getattr(builder, name)(args[0]))
        except StateError:
            continue
    if ending == "fail":
        builder.fail(model_error("x"))
    elif ending == "incomplete":
        builder.incomplete("cancelled")
    else:
        builder.complete()
    assert_sound(builder.get_events(), builder.response)


def _act(builder: ResponseBuilder, name: str, handle: Handle, args: list[Any]) -> None:
    if name == "end":
        builder.end(handle)
    elif name == "output" and handle.kind == "function_call":
        builder.add_function_call_output(handle, args[0])
    elif name == "say" and handle.kind == "message":
        builder.text_delta(handle, args[0])
    elif name == "say" and handle.kind == "reasoning":
        builder.reasoning_delta(handle, args[0])
    elif name == "say" and handle.kind == "function_call":
        builder.arguments_delta(handle, args[0])
    elif name == "say":
        builder.update_item(handle, {"text": args[0]})


def test_a_receipt_tells_what_was_not_honoured() -> None:
    builder = ResponseBuilder("my-agent")
    builder.start()
    builder.add_receipt("temperature", "this agent always answers the same")
    builder.add_receipt("tools", "one was not called", action="suppressed", provider="policy")
    builder.complete()
    assert to_builtins(builder.response)["antiphon:receipts"] == [
        {
            "param": "temperature",
            "action": "dropped",
            "reason": "this agent always answers the same",
            "provider": "my-agent",
        },
        {"param": "tools", "action": "suppressed", "reason": "one was not called", "provider": "policy"},
    ]
