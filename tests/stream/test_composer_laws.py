"""The laws of the Composer over arbitrary deltas."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.codec import to_builtins
from antiphon.spec.errors import ResponseError, server_error
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import (
    AnyDelta,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
)
from antiphon.stream.reader import Reader
from antiphon.stream.resume_state import SentEvents
from tests.spec.validators import assert_valid_event
from tests.stream.composed import composer
from tests.stream.strategies import core_runs, runs


@given(core_runs, st.integers(1, 5))
def test_any_deltas_give_a_stream_without_violations(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]], batch: int
) -> None:
    body, ending, tail = run
    deltas = [*body, ending, *tail]
    machine = composer()
    events = [event for n in range(0, len(deltas), batch) for event in machine.feed(deltas[n : n + batch])]
    payloads = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads) == []
    for payload in payloads:
        assert_valid_event(payload)
    assert [event for event in events if event.is_terminal] == events[-1:]
    assert machine.feed(tail) == []


@given(core_runs)
def test_a_terminal_event_of_any_kind_can_be_withdrawn_and_the_response_fails(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, _ = run
    machine = composer()
    told = machine.feed([*body, ending])[:-1] + machine.overrule(server_error("not stored"))
    assert audit([msgspec.json.decode(event.to_json()) for event in told]) == []
    assert (machine.response.status, machine.finished) == ("failed", True)
    assert machine.response.error == ResponseError("server_error", "not stored")


_TEXTS = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=3)),
    st.builds(RefusalDelta, st.text(min_size=1, max_size=3)),
    st.builds(ReasoningDelta, st.text(min_size=1, max_size=3)),
    st.builds(SummaryDelta, st.text(min_size=1, max_size=3), st.integers(0, 2)),
)


@given(st.lists(_TEXTS, max_size=12))
def test_a_composer_that_goes_on_after_what_was_sent_says_what_the_first_would_have(
    deltas: list[AnyDelta],
) -> None:
    first, second, sent = composer(), composer(), SentEvents()
    for event in first.feed(deltas):
        sent.add(event)
        sent.next_number = event.sequence_number + 1
    second.resume(sent)
    broken = server_error("cut")
    assert second.fail(broken) == first.fail(broken)
    assert second.response == first.response


@given(runs)
def test_reader_gives_back_the_composers_response(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, tail = run
    machine = composer()
    reader = Reader()
    events = machine.feed([*body, ending, *tail])
    for event in events:
        reader.feed(event.to_json())
    assert to_builtins(reader.response) == to_builtins(machine.response)
    assert (
        audit(
            [msgspec.json.decode(event.to_json()) for event in events],
            extensions=True,
            solicited={"custom_tool_call"},
        )
        == []
    )


@given(runs)
def test_reader_rebuilds_the_output_from_the_stream_alone(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, _ = run
    machine = composer()
    reader = Reader()
    for event in machine.feed([*body, ending]):
        payload = msgspec.json.decode(event.to_json())
        if event.is_terminal:
            payload["response"]["output"] = []
        reader.feed(payload)
    assert to_builtins(reader.response.output) == to_builtins(machine.response.output)


@given(core_runs)
def test_a_fault_at_any_position_still_ends_the_stream_cleanly(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, _, _ = run
    for position in range(len(body) + 1):
        machine = composer()
        events = machine.feed(body[:position]) + machine.fail(server_error("cut"))
        assert audit([msgspec.json.decode(event.to_json()) for event in events]) == []
        assert machine.response.status == "failed"
