"""The rules of the Composer, one by one."""

import time
from collections.abc import Iterator

import pytest

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.content import LogProb, OutputText, UrlCitation
from antiphon.spec.errors import server_error
from antiphon.spec.items import (
    Compaction,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
)
from antiphon.spec.response import Receipt, Response, Usage
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemDelta,
    ItemEnd,
    MessageStart,
    PartEnd,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
    VendorDelta,
)
from tests.stream.composed import compose, composer, output, types

# --- words ------------------------------------------------------------------------------------------------


def test_text_follows_the_whole_lifecycle() -> None:
    events, response = compose(TextDelta("Hel"), TextDelta("lo"), UsageDelta(Usage.of(3, 2)), Finish())
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(10))
    assert response.output == [
        Message(id="msg_1", role="assistant", status="completed", content=[OutputText("Hello")])
    ]
    assert response.usage == Usage.of(3, 2)
    assert response.completed_at == 2


def test_no_empty_delta_goes_out() -> None:
    empty = (TextDelta(""), ReasoningDelta(""), RefusalDelta(""), SummaryDelta(""), SignatureDelta(""))
    assert types(compose(*empty, Finish())[0]) == ["created", "in_progress", "completed"]


def test_a_part_end_begins_a_second_part_of_the_same_message() -> None:
    (message,) = output(TextDelta("a"), PartEnd(), TextDelta("b"), Finish())
    assert isinstance(message, Message)
    assert message.content == [OutputText("a"), OutputText("b")]


def test_a_refusal_is_a_part_of_its_own() -> None:
    events, response = compose(TextDelta("a"), RefusalDelta("no"), Finish())
    assert types(events)[5:9] == [
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
    ]
    assert response.status == "completed"


def test_a_message_keeps_its_phase() -> None:
    messages = output(
        MessageStart("commentary"), TextDelta("a"), MessageStart("final_answer"), TextDelta("b"), Finish()
    )
    assert [m.phase for m in messages if isinstance(m, Message)] == ["commentary", "final_answer"]


def test_annotations_and_logprobs_stay_with_their_part() -> None:
    citation = UrlCitation("http://x", "x", 0, 1)
    (message,) = output(TextDelta("a"), AnnotationDelta(citation), PartEnd(), TextDelta("b"), Finish())
    assert isinstance(message, Message)
    assert message.content == [OutputText("a", [citation]), OutputText("b")]


def test_logprobs_without_text_are_kept_until_the_part_is_done() -> None:
    lone = LogProb("", -1.0, [], [])
    events, response = compose(TextDelta("a"), TextDelta("", [lone]), Finish())
    assert [e.logprobs for e in events if isinstance(e, ev.OutputTextDoneEvent)] == [[lone]]
    (message,) = response.output
    assert isinstance(message, Message)
    assert message.content == [OutputText("a", [], [lone])]


def test_reasoning_summary_parts_are_numbered() -> None:
    events, _ = compose(SummaryDelta("a", 0), SummaryDelta("b", 1), Finish())
    indexes = [e.summary_index for e in events if isinstance(e, ev.ReasoningSummaryTextDeltaEvent)]
    assert indexes == [0, 1]


def test_each_signature_belongs_to_its_own_reasoning_item() -> None:
    items = output(
        ReasoningDelta("a"),
        SignatureDelta("s1"),
        ItemEnd(),
        SignatureDelta("s2"),
        SignatureDelta("s3"),
        Finish(),
    )
    assert [i.encrypted_content for i in items if isinstance(i, Reasoning)] == ["s1", "s2", "s3"]


# --- calls ------------------------------------------------------------------------------------------------


def test_interleaved_calls_keep_their_arguments_apart() -> None:
    items = output(
        CallDelta(0, name="f", call_id="c1"),
        CallDelta(1, name="g", call_id="c2"),
        CallDelta(0, '{"a":'),
        CallDelta(1, '{"b":'),
        CallDelta(0, "1}"),
        CallDelta(1, "2}"),
        Finish("tool_calls"),
    )
    assert [(c.call_id, c.arguments) for c in items if isinstance(c, FunctionCall)] == [
        ("c1", '{"a":1}'),
        ("c2", '{"b":2}'),
    ]


def test_a_call_closes_when_the_next_one_starts_and_its_arguments_parse() -> None:
    machine = composer()
    machine.feed([CallDelta(0, "{}", name="f")])
    assert types(machine.feed([CallDelta(1, name="g")])) == [
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
    ]


def test_a_late_name_announces_the_call_with_its_buffered_arguments() -> None:
    machine = composer()
    machine.start()
    assert machine.feed([CallDelta(0, '{"a"'), CallDelta(0, ":1}", call_id="c9")]) == []
    events = machine.feed([CallDelta(0, name="f")])
    assert types(events) == ["output_item.added", "function_call_arguments.delta"]
    added = events[0]
    assert isinstance(added, ev.OutputItemAddedEvent)
    assert isinstance(added.item, FunctionCall)
    assert (added.item.call_id, added.item.arguments) == ("c9", "")


def test_a_name_that_never_comes_is_unknown_and_nothing_is_lost() -> None:
    (call,) = output(CallDelta(0, '{"a":1}'), Finish())
    assert isinstance(call, FunctionCall)
    assert (call.name, call.arguments) == ("unknown", '{"a":1}')


def test_calls_without_ids_get_one_each() -> None:
    calls = output(CallDelta(0, "{}", name="f"), CallDelta(1, "{}", name="f"), Finish())
    assert len({c.call_id for c in calls if isinstance(c, FunctionCall)}) == 2


def test_an_id_used_twice_or_too_long_is_replaced() -> None:
    calls = output(
        CallDelta(0, name="f", call_id="c"),
        CallDelta(1, name="f", call_id="c"),
        CallDelta(2, name="f", call_id="x" * 65),
        Finish(),
    )
    ids = [c.call_id for c in calls if isinstance(c, FunctionCall)]
    assert len(set(ids)) == 3
    assert max(map(len, ids)) <= 64


def test_the_same_key_with_another_id_is_another_call() -> None:
    calls = output(
        CallDelta(0, '{"a":1}', name="f", call_id="c1"),
        CallDelta(0, '{"b":2}', name="g", call_id="c2"),
        Finish(),
    )
    assert [c.name for c in calls if isinstance(c, FunctionCall)] == ["f", "g"]


def test_a_call_without_arguments_gets_an_empty_object_in_one_delta() -> None:
    events, _ = compose(CallDelta(0, name="f"), Finish("tool_calls"))
    deltas = [e.delta for e in events if isinstance(e, ev.FunctionCallArgumentsDeltaEvent)]
    assert deltas == ["{}"]


def test_a_custom_call_has_its_own_events_and_keeps_its_namespace() -> None:
    events, response = compose(
        CallDelta(0, "*** Begin", name="apply_patch", kind="custom", namespace="fs"),
        ItemEnd(0, "completed"),
        Finish(),
    )
    assert types(events)[3:5] == ["custom_tool_call_input.delta", "custom_tool_call_input.done"]
    assert response.output == [
        CustomToolCall(
            id="ctc_1",
            call_id="call_2",
            name="apply_patch",
            input="*** Begin",
            status="completed",
            namespace="fs",
        )
    ]


def test_kind_and_namespace_are_those_of_the_first_piece() -> None:
    (call,) = output(CallDelta(1, "abc", kind="custom", namespace="n"), CallDelta(1, name="x"), Finish())
    assert isinstance(call, CustomToolCall)
    assert (call.input, call.namespace) == ("abc", "n")


def test_a_hidden_custom_call_stays_hidden_whatever_its_later_pieces_say() -> None:
    for shown in (None, "vtcode:custom_tool_call"):
        _, response = compose(
            CallDelta(0, "secret", kind="custom"),
            CallDelta(0, "more", name="p"),
            Finish(),
            shows=lambda kind, shown=shown: shown if kind == "custom_tool_call" else kind,
        )
        assert response.output == []


def test_two_whole_calls_under_one_key_without_ids_are_two() -> None:
    calls = output(CallDelta(0, '{"a":1}', name="f"), CallDelta(0, '{"a":2}', name="f"), Finish())
    assert [c.arguments for c in calls if isinstance(c, FunctionCall)] == ['{"a":1}', '{"a":2}']


def test_many_calls_behind_an_open_one_take_linear_time() -> None:
    begun = time.process_time()
    calls: list[AnyDelta] = [CallDelta(n, "{" if n == 0 else "{}", name="f") for n in range(4000)]
    pieces: list[AnyDelta] = [CallDelta("late", "x") for _ in range(100_000)]
    machine = composer()
    machine.feed([*calls, *pieces, CallDelta("late", name="g")])
    assert time.process_time() - begun < 60


# --- cuts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "told"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter"), ("cancelled", "cancelled")],
)
def test_a_cut_makes_item_and_response_incomplete(reason: str, told: str) -> None:
    events, response = compose(TextDelta("par"), Finish(reason))  # type: ignore[arg-type]
    (message,) = response.output
    assert isinstance(message, Message)
    assert (message.status, response.status) == ("incomplete", "incomplete")
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == told
    assert types(events)[-1] == "incomplete"


def test_a_block_that_ends_before_a_length_stop_was_cut() -> None:
    (message,) = output(TextDelta("par"), ItemEnd(), Finish("length"))
    assert isinstance(message, Message)
    assert message.status == "incomplete"


def test_a_block_that_the_provider_calls_completed_stays_completed() -> None:
    (message,) = output(TextDelta("all"), ItemEnd(status="completed"), Failure(server_error("x")))
    assert isinstance(message, Message)
    assert message.status == "completed"


def test_on_a_cut_whole_calls_complete_until_one_is_not_whole() -> None:
    calls = output(
        CallDelta(0, "{}", name="a"),
        CallDelta(1, "{", name="b"),
        CallDelta(2, "{}", name="c"),
        CallDelta(3, "{}"),
        Finish("length"),
    )
    assert [(c.name, c.status) for c in calls if isinstance(c, FunctionCall)] == [
        ("a", "completed"),
        ("b", "incomplete"),
        ("c", "incomplete"),
    ]


def test_a_failure_tells_the_error_then_fails() -> None:
    events, response = compose(TextDelta("a"), Failure(server_error("broken").with_code("upstream_closed")))
    assert types(events)[-2:] == ["error", "failed"]
    assert response.error is not None
    assert (response.error.code, response.error.message) == ("upstream_closed", "broken")


def test_websocket_turns_fail_without_an_error_event() -> None:
    events, _ = compose(Failure(server_error("broken")), error_event=False)
    assert types(events) == ["created", "in_progress", "failed"]


def test_cancel_ends_the_response_incomplete() -> None:
    machine = composer()
    machine.feed([TextDelta("a")])
    assert types(machine.cancel())[-1] == "incomplete"


# --- whole items ------------------------------------------------------------------------------------------


def test_a_hosted_item_is_added_in_progress_and_done_byte_for_byte() -> None:
    raw = b'{"type":"web_search_call", "id":"ws_1","status":"completed","action":{"q":1}}'
    events, response = compose(ItemDelta(Opaque(raw)), Finish())
    added, done = (e.item for e in events if isinstance(e, ev.OutputItemAddedEvent | ev.OutputItemDoneEvent))
    assert isinstance(added, Opaque)
    assert isinstance(done, Opaque)
    assert added.status == "in_progress"
    assert done.raw == raw
    assert response.output == [done]


def test_a_hosted_item_can_progress_under_its_key() -> None:
    item = Opaque.make(type="acme:search", id="s1", status="in_progress")
    events, _ = compose(
        ItemDelta(item, "k"),
        VendorDelta("acme:progress", {"percent": 50}, "k"),
        ItemDelta(item.replace(status="failed"), "k"),
        Finish(),
    )
    assert types(events)[2:5] == ["output_item.added", "acme:progress", "output_item.done"]
    progress, done = events[3], events[4]
    assert isinstance(progress, ev.OtherEvent)
    assert progress.fields == {"percent": 50, "item_id": "s1", "output_index": 0}
    assert isinstance(done, ev.OutputItemDoneEvent)
    assert isinstance(done.item, Opaque)
    assert done.item.status == "failed"


def test_a_tool_output_has_no_deltas() -> None:
    events, _ = compose(ItemDelta(FunctionCallOutput(call_id="c1", output="42")), Finish())
    assert types(events)[2:4] == ["output_item.added", "output_item.done"]


def test_hidden_items_leave_no_hole() -> None:
    events, response = compose(
        ReasoningDelta("hm"),
        ItemDelta(Opaque.make(type="acme:x", status="completed")),
        VendorDelta("acme:progress", {}),
        SignatureDelta("s"),
        SummaryDelta("s"),
        CallDelta(0, "{}", name="f"),
        TextDelta("a"),
        Finish(),
        shows=lambda kind: kind if kind in ("message",) else None,
    )
    assert [type(item) for item in response.output] == [Message]
    assert {e.output_index for e in events if isinstance(e, ev.ItemEvent)} == {0}


def test_an_item_can_go_out_under_a_prefixed_type() -> None:
    _, response = compose(
        ItemDelta(Opaque.make(type="web_search_call")), Finish(), shows=lambda kind: f"antiphon:{kind}"
    )
    (item,) = response.output
    assert isinstance(item, Opaque)
    assert (item.type, item.status) == ("antiphon:web_search_call", "completed")


def test_an_incomplete_item_of_a_vendor_is_a_failed_one() -> None:
    events, response = compose(
        ItemDelta(Opaque.make(type="acme:x", id="a", status="incomplete")), TextDelta("hi"), Finish()
    )
    (item, _) = response.output
    assert isinstance(item, Opaque)
    assert item.status == "failed"
    assert audit(events, extensions=True) == []


def test_a_vendor_event_cannot_pass_for_one_of_ours() -> None:
    forged = VendorDelta("response.completed", {"response": {}})
    broken = VendorDelta("two\nlines", {})
    assert types(compose(forged, broken, Finish())[0]) == ["created", "in_progress", "completed"]


def test_outputs_and_compactions_get_ids_of_their_own_kind() -> None:
    items = output(
        ItemDelta(FunctionCallOutput(call_id="c1", output="42")),
        ItemDelta(Compaction(encrypted_content="x")),
        Finish(),
    )
    assert [item.id.rpartition("_")[0] for item in items] == ["fco", "cmp"]


# --- lifecycle --------------------------------------------------------------------------------------------


def test_queued_then_running() -> None:
    machine = composer()
    assert types(machine.start(queued=True)) == ["created", "queued"]
    assert types(machine.start()) == ["in_progress"]
    assert machine.start() == []


def test_a_queued_response_starts_running_with_its_first_delta() -> None:
    machine = composer()
    machine.start(queued=True)
    assert types(machine.feed([TextDelta("a")]))[0] == "in_progress"


def test_events_are_values_that_later_deltas_do_not_change() -> None:
    machine = composer()
    created = machine.start()[0].to_json()
    events = machine.feed([TextDelta("a")])
    before = [event.to_json() for event in events]
    machine.feed([TextDelta("b"), Finish()])
    assert [event.to_json() for event in events] == before
    assert b'"status":"in_progress"' in created


def test_a_source_that_breaks_does_not_repeat_a_number() -> None:
    class Breaking(list[AnyDelta]):
        def __iter__(self) -> Iterator[AnyDelta]:
            yield from super().__iter__()
            raise OSError

    machine = composer()
    told = machine.feed([TextDelta("start")])
    with pytest.raises(OSError):  # noqa: PT011
        machine.feed(Breaking([TextDelta("a"), TextDelta("b")]))
    told += machine.feed([Finish()])
    assert [event.sequence_number for event in told] == list(range(len(told)))


def test_a_delta_that_cannot_be_told_to_its_end_does_not_repeat_a_number() -> None:
    def lost(_: str) -> str:
        raise OSError

    machine = composer(seal=lost)
    told = machine.feed([TextDelta("start")])
    with pytest.raises(OSError):  # noqa: PT011
        machine.feed([SignatureDelta("s")])
    told += machine.fail(server_error("the key is lost"))
    assert any(isinstance(event, ev.OutputItemAddedEvent) and event.output_index == 1 for event in told)
    assert [event.sequence_number for event in told] == list(range(len(told)))


def test_a_terminal_event_that_was_not_sent_can_be_overruled() -> None:
    machine = composer()
    told = machine.feed([TextDelta("a"), Finish()])[:-1]
    told += machine.overrule(server_error("the disk is full"))
    assert audit(told) == []
    assert types(told)[-2:] == ["error", "failed"]
    unfinished = composer()
    told = unfinished.feed([TextDelta("a")]) + unfinished.overrule(server_error("x"))
    assert audit(told) == []


def test_receipts_told_at_the_start_are_those_of_the_start() -> None:
    response = Response.new("resp_1", "m", now=1)
    response.receipts = [Receipt("a", "dropped", "why", "p")]
    machine = Composer(response, clock=lambda: 2.0)
    created = machine.start()[0]
    before = created.to_json()
    response.receipts.append(Receipt("b", "dropped", "why", "p"))
    assert created.to_json() == before


def test_a_signature_after_the_end_of_its_block_still_belongs_to_it() -> None:
    items = output(ReasoningDelta("a"), ItemEnd(), SignatureDelta("s"), Finish())
    assert [i.encrypted_content for i in items if isinstance(i, Reasoning)] == ["s"]


def test_a_snapshot_is_the_response_so_far() -> None:
    machine = composer()
    machine.feed([TextDelta("so "), TextDelta("far")])
    (message,) = machine.snapshot().output
    assert isinstance(message, Message)
    assert (message.get_text(), message.status) == ("so far", "in_progress")
    assert machine.response.output == []


def test_the_first_sequence_number_can_be_chosen() -> None:
    events, _ = compose(Finish(), first_sequence_number=1)
    assert [event.sequence_number for event in events] == [1, 2, 3]
